// A point's way from memory to a record, which is a LocatedPoint in shared memory: a lane loads a
// group of points, converts them, locates each on its level, and stores what the lanes of the slot
// need to gather it. Then the sums of a row.
#pragma once

#include "kernels/common/vecs.cuh"
#include "kernels/rows/warp_rows.cuh"

namespace msda::rows {

// ---- inputs: streamed past L1, which the values need, and converted when they are used, not when
// they are loaded

// A lane's group of points as it lies in memory; those of 16 bits lie in the first words.
template <int kGroup>
struct Inputs {
  std::uint32_t coord[2 * kGroup];
  std::uint32_t weight[kGroup];
};

// A lane loads the inputs of a chunk before it works on it: the points that it prepares, and for
// fused input what their coordinates are relative to, if that is one level's.
template <class Config>
struct ChunkInputs {
  Inputs<Config::kGroup> points[Config::kRowsOfLane];
  std::uint32_t reference[Config::kFused ? Config::kRowsOfLane : 1][Config::kReferenceWords];
};

// A lane's group of points as numbers.
template <int kGroup>
struct PointGroup {
  float x[kGroup];
  float y[kGroup];
  float weight[kGroup];

  // Moves the points behind the first kCount to the front.
  template <int kCount>
  __device__ __forceinline__ void advance() {
#pragma unroll
    for (int i = kCount; i < kGroup; ++i) {
      x[i - kCount] = x[i];
      y[i - kCount] = y[i];
      weight[i - kCount] = weight[i];
    }
  }
};

// Loads two elements, each by itself.
template <int kElementBytes>
__device__ __forceinline__ void stream_pair(const char* at, std::uint32_t* to) {
  std::uint32_t second;
  ptx::stream_global<kElementBytes>(at, to);
  ptx::stream_global<kElementBytes>(at + kElementBytes, &second);
  if constexpr (kElementBytes == 4) {
    to[1] = second;
  } else {
    to[0] |= second << 16;
  }
}

// Loads element by element, for tensors or rows that are not aligned. What is behind the row
// repeats its last point.
template <int kGroup>
__device__ __forceinline__ void read_narrow(Params const& p, std::uint32_t row_start, int k,
                                            Inputs<kGroup>& inputs) {
  auto const bits16 = [](const void* array, std::int64_t index) -> std::uint32_t {
    return __ldg(static_cast<const std::uint16_t*>(array) + index);
  };
  auto const bits32 = [](const void* array, std::int64_t index) -> std::uint32_t {
    return __ldg(static_cast<const std::uint32_t*>(array) + index);
  };
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    std::int64_t const at =
        row_start + static_cast<std::uint32_t>(min(k + i, static_cast<int>(p.point_total) - 1));
    if (p.coord_dtype == MSDA_DTYPE_F32) {
      inputs.coord[2 * i] = bits32(p.coord, 2 * at);
      inputs.coord[2 * i + 1] = bits32(p.coord, 2 * at + 1);
    } else {
      inputs.coord[i] = bits16(p.coord, 2 * at) | bits16(p.coord, 2 * at + 1) << 16;
    }
    if (p.weight_dtype == MSDA_DTYPE_F32) {
      inputs.weight[i] = bits32(p.weight, at);
    } else {
      std::uint32_t const bits = bits16(p.weight, at) << (i % 2 * 16);
      inputs.weight[i / 2] = i % 2 == 0 ? bits : inputs.weight[i / 2] | bits;
    }
  }
}

// A lane has the two vecs of its 32 bytes of coordinates swapped if its bit 2 is set: the lanes of
// a quarter warp begin with different vecs, so that they meet different banks.
template <int kGroup>
__device__ __forceinline__ bool vecs_are_swapped(bool wide_inputs, msda_dtype coord_dtype,
                                                 unsigned lane) {
  return kGroup == 4 && wide_inputs && coord_dtype == MSDA_DTYPE_F32 && (lane & 4) != 0;
}

// Loads points k to k + kGroup - 1 of the row whose first point is number row_start of all.
template <int kGroup, InputTypes kTypes>
__device__ __forceinline__ Inputs<kGroup> read_inputs(Params const& p,
                                                      ScheduleParams const& schedule,
                                                      std::uint32_t row_start, int k,
                                                      unsigned lane) {
  Inputs<kGroup> inputs;
  if (kTypes == inputs_any && !schedule.wide_inputs) {
    read_narrow(p, row_start, k, inputs);
    return inputs;
  }
  // Wide inputs come in whole groups.
  std::uint32_t const first =
      row_start + static_cast<std::uint32_t>(min(k, static_cast<int>(p.point_total) - kGroup));
  auto const is_narrow = [](msda_dtype dtype) {
    return kTypes == inputs_narrow || (kTypes == inputs_any && dtype != MSDA_DTYPE_F32);
  };
  const char* const coord = static_cast<const char*>(p.coord);
  if (is_narrow(p.coord_dtype)) {
    ptx::stream_global<4 * kGroup>(coord + std::uint64_t{first} * 4, inputs.coord);
  } else if constexpr (kGroup == 4) {
    std::uint32_t const vec = first / 2 + (lane & 4) / 4;  // of two points, at an even place
    ptx::stream_global<16>(coord + std::uint64_t{vec} * 16, inputs.coord);
    ptx::stream_global<16>(coord + std::uint64_t{vec ^ 1} * 16, inputs.coord + 4);
  } else {
    ptx::stream_global<8 * kGroup>(coord + std::uint64_t{first} * 8, inputs.coord);
  }
  const char* const weight = static_cast<const char*>(p.weight);
  if (is_narrow(p.weight_dtype)) {
    ptx::stream_global<2 * kGroup>(weight + std::uint64_t{first} * 2, inputs.weight);
  } else {
    ptx::stream_global<4 * kGroup>(weight + std::uint64_t{first} * 4, inputs.weight);
  }
  return inputs;
}

template <int kGroup>
__device__ __forceinline__ void weights_of(std::uint32_t const (&words)[kGroup], msda_dtype dtype,
                                           float (&weight)[kGroup]) {
  if (dtype == MSDA_DTYPE_F32) {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) weight[i] = __uint_as_float(words[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      float2 const pair = pair_of(dtype, words[i / 2]);
      weight[i] = i % 2 == 0 ? pair.x : pair.y;
    }
  }
}

template <int kGroup>
__device__ __forceinline__ PointGroup<kGroup> to_points(Inputs<kGroup> const& inputs,
                                                        msda_dtype coord_dtype,
                                                        msda_dtype weight_dtype, bool swapped) {
  PointGroup<kGroup> points;
  if (coord_dtype == MSDA_DTYPE_F32) {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      int const other = (i + kGroup / 2) % kGroup;
      points.x[i] = __uint_as_float(swapped ? inputs.coord[2 * other] : inputs.coord[2 * i]);
      points.y[i] =
          __uint_as_float(swapped ? inputs.coord[2 * other + 1] : inputs.coord[2 * i + 1]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      float2 const xy = pair_of(coord_dtype, inputs.coord[i]);
      points.x[i] = xy.x;
      points.y[i] = xy.y;
    }
  }
  weights_of(inputs.weight, weight_dtype, points.weight);
  return points;
}

// The number that the reference of a query on the level of point k has among all references.
// All points are fewer than 2^32; references can be more only where levels have no points.
template <class Config>
__device__ auto reference_number(Lane<Config> const& lane, std::uint32_t query, int k) {
  using Number = std::conditional_t<(Config::kPoints > 0), std::uint32_t, std::uint64_t>;
  return Number{query} * static_cast<std::uint32_t>(lane.p.level_count) +
         static_cast<std::uint32_t>(lane.level_of(k));
}

// The point and the box are two loads: of two loads that may write the same register the second
// would wait for the first.
template <class Config, int kElementBytes>
__device__ __forceinline__ void stream_reference(Lane<Config> const& lane, const char* at,
                                                 bool is_box, std::uint32_t (&to)[4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (i > 0 && !is_box) continue;
    if (lane.inputs_are_wide()) {
      ptx::stream_global<2 * kElementBytes>(at + i * 2 * kElementBytes, to + i * kElementBytes / 2);
    } else {
      stream_pair<kElementBytes>(at + i * 2 * kElementBytes, to + i * kElementBytes / 2);
    }
  }
}

// Loads the lane's numbers of a shared reference: element i is word i / kLanesOfReference of lane
// i % kLanesOfReference.
template <class Config, int kElementBytes>
__device__ __forceinline__ void stream_shared_reference(
    Lane<Config> const& lane, const char* at, bool is_box,
    std::uint32_t (&to)[Config::kReferenceWords]) {
#pragma unroll
  for (int i = 0; i < Config::kReferenceWords; ++i) {
    unsigned const element = lane.index % Config::kLanesOfReference + i * Config::kLanesOfReference;
    if (element >= 2 && !is_box) continue;
    ptx::stream_global<kElementBytes>(at + element * kElementBytes, to + i);
  }
}

// Loads the reference of a query on the level of point k, as it lies in memory.
template <class Config>
__device__ __forceinline__ void read_reference(Lane<Config> const& lane, std::uint32_t query, int k,
                                               std::uint32_t (&to)[Config::kReferenceWords]) {
  bool const is_box = lane.p.reference_dim == 4;
  bool const is_float32 = lane.reference_dtype() == MSDA_DTYPE_F32;
  std::uint32_t const bytes =
      static_cast<std::uint32_t>(lane.p.reference_dim) * (is_float32 ? 4 : 2);
  const char* const at = static_cast<const char*>(lane.p.reference) +
                         std::uint64_t{reference_number(lane, query, k)} * bytes;
  if constexpr (Config::kLanesOfReference > 1) {
    if (is_float32) {
      stream_shared_reference<Config, 4>(lane, at, is_box, to);
    } else {
      stream_shared_reference<Config, 2>(lane, at, is_box, to);
    }
  } else if (is_float32) {
    stream_reference<Config, 4>(lane, at, is_box, to);
  } else {
    stream_reference<Config, 2>(lane, at, is_box, to);
  }
}

// Loads the inputs of a chunk of a row. The row is given by its numbers: which of two rows is
// asked for may not be known when compiled.
template <class Config>
__device__ __forceinline__ ChunkInputs<Config> read_chunk(Lane<Config> const& lane,
                                                          std::uint32_t row, std::uint32_t query,
                                                          int k0) {
  std::uint32_t first = row * lane.schedule.points;
  // Pinned, or the addresses of all ways to read would be held while other points are gathered.
  ptx::pin(first);
  ChunkInputs<Config> inputs;
#pragma unroll
  for (int i = 0; i < Config::kRowsOfLane; ++i) {
    inputs.points[i] = read_inputs<Config::kGroup, Config::kInputs>(
        lane.p, lane.schedule, lane.of_prepared(i, first), lane.first_point(k0), lane.index);
    if constexpr (Config::kFused && Config::kLevelOfGroup) {
      read_reference(lane, lane.of_prepared(i, query),
                     Config::kLevelOfChunk ? k0 : min(lane.first_point(k0), lane.K - 1),
                     inputs.reference[i]);
    }
  }
  return inputs;
}

// ---- located points, and their way through shared memory

// A located point: two neighbouring pixels of a row, and the two below.
struct alignas(16) LocatedPoint {
  std::uint32_t first;  // the first pixel of the upper row, in vecs
  float fraction;       // of the second
  float upper;          // attention weight times the fraction of the upper row
  float lower;
};

// A located point in 8 bytes, for fp16 sums. A fraction is not negative: its sign is the last bit
// of what is above.
struct alignas(8) Fp16LocatedPoint {
  std::uint32_t
      pixel;           // the first one's number in its level; below: fraction, float16 but its sign
  std::uint32_t rows;  // upper and lower, float16

  static constexpr int kFractionBits = 15;

  // With kByParity that bit says that the second pixel is to the left of the first one.
  template <bool kByParity>
  __device__ __forceinline__ static Fp16LocatedPoint of(std::uint32_t number, bool turned,
                                                        float fraction, float upper, float lower) {
    std::uint32_t const above = kByParity ? 2 * number + (turned ? 1 : 0) : number;
    // It is converted as one of a pair: a conversion to a single float16 is slow.
    return {(above << kFractionBits) + bits_of(__floats2half2_rn(fraction, 0.0f)),
            bits_of(__floats2half2_rn(upper, lower))};
  }
  template <bool kByParity>
  __device__ __forceinline__ std::uint32_t number() const {
    return pixel >> (kByParity ? kFractionBits + 1 : kFractionBits);
  }
  __device__ __forceinline__ bool is_turned() const { return (pixel & 1u << kFractionBits) != 0; }
  __device__ __forceinline__ __half2 fraction() const {
    return __habs2(__low2half2(half2_of(pixel)));
  }
};

template <class Config>
using LocatedPointOf = std::conditional_t<Config::kFp16Sums, Fp16LocatedPoint, LocatedPoint>;

// A record is a located point in shared memory; `at` is its address there.
__device__ __forceinline__ void put_point(std::uint32_t at, LocatedPoint const& record) {
  ptx::store_shared(at, record.first, __float_as_uint(record.fraction),
                    __float_as_uint(record.upper), __float_as_uint(record.lower));
}
__device__ __forceinline__ void put_point(std::uint32_t at, Fp16LocatedPoint const& record) {
  ptx::store_shared(at, record.pixel, record.rows);
}
__device__ __forceinline__ void get_point(std::uint32_t at, Fp16LocatedPoint& record) {
  std::uint32_t words[2];
  ptx::load_shared(at, words);
  record = {words[0], words[1]};
}
__device__ __forceinline__ void get_point(std::uint32_t at, LocatedPoint& record) {
  std::uint32_t words[4];
  ptx::load_shared(at, words);
  record = {words[0], __uint_as_float(words[1]), __uint_as_float(words[2]),
            __uint_as_float(words[3])};
}

// The weights of a point's four pixels, in float16.
struct Fp16Weights {
  __half2 first;  // of a row: the upper and the lower one's
  __half2 second;

  __device__ __forceinline__ Fp16Weights(__half2 rows, __half2 fraction)
      : first(rows), second(__hmul2_rn(rows, fraction)) {
    first = __hsub2_rn(rows, second);
  }
  __device__ __forceinline__ Fp16Weights(__half2 rows, __half2 of_first, __half2 of_second)
      : first(__hmul2_rn(rows, of_first)), second(__hmul2_rn(rows, of_second)) {}
  __device__ __forceinline__ __half2 of(int corner) const {
    __half2 const row = corner % 2 == 0 ? first : second;
    return corner / 2 == 0 ? __low2half2(row) : __high2half2(row);
  }
};

// A fraction in units of 2^-11: float16 holds it, and what it leaves of 1, exactly.
__device__ __forceinline__ float in_fp16_units(float fraction) {
  return __fsub_rn(__fadd_rn(fraction, 4096.0f), 4096.0f);
}

// A point on an axis of n pixels, between pixels `base` and base + 1, both of which are there where
// n is 2 or more; where n is 1 the second is taken to be the first, and weighs nothing. Where the
// point is beside the map, or half so, the weights say it.
struct Between {
  std::int32_t base;
  float from_base;  // the point's distance from it: below 0 and from 1 on it is beside the two
  float fraction;   // of pixel base + 1
  float inside;     // what is left of the weight; 0 also where x is no number
};

// Locates x on an axis of n pixels; kTwo says that n is 2 or more. Both are in units of 2^22
// pixels. 2^-127 of that is the least number for each pixel, and a multiple of the least number
// has the bits of an integer: rounding down, the way to integers and back cost an instruction less
// each. A number below 0 is a negative integer, what is no number one of either sign.
template <bool kTwo = false>
__device__ __forceinline__ Between between(float x, float n) {
  constexpr float kToBits = 0x1p-127f, kFromBits = 0x1p127f, kPixels = 1.0f / kPixel;
  std::int32_t const last = __float_as_int(fmaf(n, kToBits, -2.0f * kPixel * kToBits));
  std::int32_t const base = __vimin_s32_relu(__float_as_int(__fmul_rd(x, kToBits)), last);
  float const distance = fmaf(__int_as_float(base), -kFromBits, x);
  float fraction = __saturatef(distance * kPixels);
  if constexpr (!kTwo) fraction = fminf(fraction, fmaf(n, kPixels, -1.0f));
  return {base, distance * kPixels, fraction,
          __saturatef(1.0f - fabsf(fmaf(distance, kPixels, -fraction)))};
}

// ---- from coordinates to a located point. Operations are written out: fast path and exact path
// are of the same numbers.

// A frame of fused input: a reference point, and how far an offset of 1 moves a point of a box.
struct Frame {
  float x, y, x_scale, y_scale;
  float check;  // no number where the reference has none
};

// An offset is in units of half the size of a box, divided by the points of the level.
template <class Config>
__device__ float box_scale(Lane<Config> const& lane, int k) {
  if constexpr (Config::kPoints > 0) return 0.5f / Config::kPoints;
  return 0.5f / static_cast<float>(lane.p.near_levels[lane.level_of(k)].point_count);
}

// The frame, for fused input, of a query's coordinates on the level of point k.
template <class Config>
__device__ __forceinline__ Frame frame_of(Lane<Config> const& lane, Row const& row, int k) {
  if constexpr (!Config::kFused) return {};
  Reference<float> const reference(
      lane.p,
      static_cast<std::int64_t>(reference_number(lane, row.query, k)) * lane.p.reference_dim);
  float const scale = box_scale(lane, k);
  return {reference.x, reference.y, reference.width * scale, reference.height * scale,
          reference.check};
}
// The frame of a reference that has been read; the check is not made. All lanes of the warp.
template <class Config>
__device__ __forceinline__ Frame frame_of(Lane<Config> const& lane,
                                          std::uint32_t const (&reference)[Config::kReferenceWords],
                                          int k) {
  auto const element = [&](int i) {
    if constexpr (Config::kLanesOfReference > 1) {
      std::uint32_t const word =
          __shfl_sync(0xffffffffu, reference[i / Config::kLanesOfReference],
                      i % Config::kLanesOfReference, Config::kLanesOfReference);
      if (lane.reference_dtype() == MSDA_DTYPE_F32) return __uint_as_float(word);
      return pair_of(lane.reference_dtype(), word).x;
    }
    if (lane.reference_dtype() == MSDA_DTYPE_F32) return __uint_as_float(reference[i]);
    float2 const pair = pair_of(lane.reference_dtype(), reference[i / 2]);
    return i % 2 == 0 ? pair.x : pair.y;
  };
  // Nothing reads the scale where the reference is a point.
  float const scale = box_scale(lane, k);
  return {element(0), element(1), element(2) * scale, element(3) * scale, 0.0f};
}

template <bool kBox>
__device__ __forceinline__ float2 fused_to_pixels(Frame const& frame, float width, float height,
                                                  float x, float y) {
  if constexpr (kBox) {
    return {fmaf(fmaf(x, frame.x_scale, frame.x), width, -0.5f * kPixel),
            fmaf(fmaf(y, frame.y_scale, frame.y), height, -0.5f * kPixel)};
  } else {
    return {fmaf(x, kPixel, fmaf(frame.x, width, -0.5f * kPixel)),
            fmaf(y, kPixel, fmaf(frame.y, height, -0.5f * kPixel))};
  }
}
// Converts a point to pixels of its level; sizes and places are in units of 2^22 pixels.
template <class Config>
__device__ __forceinline__ float2 to_pixels(Lane<Config> const& lane, Frame const& frame,
                                            float width, float height, float x, float y) {
  if constexpr (!Config::kFused) {
    return {fmaf(x, width, -0.5f * kPixel), fmaf(y, height, -0.5f * kPixel)};
  } else {
    return lane.p.reference_dim == 2 ? fused_to_pixels<false>(frame, width, height, x, y)
                                     : fused_to_pixels<true>(frame, width, height, x, y);
  }
}
// Converts a group of points that lie on one level.
template <class Config>
__device__ __forceinline__ void group_to_pixels(Lane<Config> const& lane, Frame const& frame,
                                                Place const& place,
                                                PointGroup<Config::kGroup>& points) {
  auto const convert = [&](auto is_box) {
#pragma unroll
    for (int t = 0; t < Config::kGroup; ++t) {
      float2 const at = fused_to_pixels<decltype(is_box)::value>(frame, place.width, place.height,
                                                                 points.x[t], points.y[t]);
      points.x[t] = at.x;
      points.y[t] = at.y;
    }
  };
  if (lane.p.reference_dim == 2) {
    convert(std::false_type());
  } else {
    convert(std::true_type());
  }
}

// Locates a point of the slot's row; pixel_stride is in vecs.
template <class Config>
__device__ __forceinline__ LocatedPointOf<Config> locate(Place const& place, float2 const& at,
                                                         float weight, unsigned slot,
                                                         std::uint32_t pixel_stride) {
  Between const bx = between<Config::kIsKnown>(at.x, place.width);
  Between const by = between<Config::kIsKnown>(at.y, place.height);
  std::uint32_t pixel =
      static_cast<std::uint32_t>(by.base) * place.row_tokens + static_cast<std::uint32_t>(bx.base);
  float fraction = bx.fraction;
  bool turned = false;
  if constexpr (Config::kByParity) {
    // Pixels are 64 bytes: parity says which half of a line they are. Of two neighbouring slots
    // one reads the even pixels of a row first, the other the odd ones.
    turned = (pixel & 1) != (slot & 1);
    pixel += turned && (Config::kIsKnown || place.width > kPixel) ? 1 : 0;
    fraction = in_fp16_units(fraction);
    fraction = turned ? 1.0f - fraction : fraction;
  }
  float const total = weight * bx.inside * by.inside;
  float const lower = __fmul_rn(total, by.fraction), upper = __fsub_rn(total, lower);
  if constexpr (Config::kFp16Sums) {
    return Fp16LocatedPoint::of<Config::kByParity>(pixel, turned, fraction, upper, lower);
  } else {
    return {pixel * pixel_stride + place.origin, fraction, upper, lower};
  }
}

// The distance from a pixel to the next one on the level of point k, in vecs, where the level is
// read.
template <class Config>
__device__ __forceinline__ std::uint32_t pixel_stride_of(Lane<Config> const& lane, int k) {
  if constexpr (Config::kCachesLevels) {
    if (lane.is_cached(lane.level_of(min(k, lane.K - 1))))
      return Config::kCachedPixelBytes / kVecBytes;
  }
  return lane.pixel_stride();
}

// ---- the sums of a row: what a lane has of its channels

template <class Config>
class RowSums {
 public:
  using Corner = Vec<Config::kVecBytes>[Config::kVecs];  // a pixel
  // With kByParity even and odd pixels have sums of their own, whichever the slot reads first:
  // added to one another the bits are the same.
  static constexpr int kColumnSums = Config::kByParity ? 2 : 1;
  using Fp16Sums = __half2[kColumnSums][Config::kChannels / 2];

  __device__ __forceinline__ void clear() {
    for_channels([](float& sum) { sum = 0.0f; });
  }
  __device__ __forceinline__ static void clear(Fp16Sums& sums) {
#pragma unroll
    for (auto& column : sums) {
#pragma unroll
      for (__half2& pair : column) pair = __half2half2(__half(0.0f));
    }
  }

  __device__ __forceinline__ void multiply(float factor) {
    for_channels([factor](float& sum) { sum = __fmul_rn(sum, factor); });
  }

  // False if a pixel that is not part of the result, infinite or no number, may have spoilt a sum
  // although it was weighed with zero.
  __device__ __forceinline__ bool is_finite() {
    float check = 0.0f;
    for_channels([&](float& sum) { check = fmaf(sum, 0.0f, check); });
    return check == check;
  }

  __device__ __forceinline__ void add(float weight, Vec<Config::kVecBytes> const& value, int n) {
    multiply_add<Config>(sum_[n], weight, value);
  }
  // Adds a point's sample, which is the sum of its corners alone.
  __device__ void add_sample(float weight, RowSums const& sample) {
#pragma unroll
    for (int n = 0; n < Config::kVecs; ++n) {
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) {
        sum_[n][c] = fmaf(weight, sample.sum_[n][c], sum_[n][c]);
      }
    }
  }
  // Adds a point outside the map: nothing but its weight, which may be no number, is part of the
  // result.
  __device__ __forceinline__ void add_outside(float weight) {
    for_channels([weight](float& sum) { sum += weight * 0.0f; });
  }

  __device__ __forceinline__ void add(LocatedPoint const& record, Corner const (&value)[4]) {
    // As written, not contracted: the exact path has to form the same numbers.
    float const second_upper = __fmul_rn(record.upper, record.fraction);
    float const second_lower = __fmul_rn(record.lower, record.fraction);
#pragma unroll
    for (int n = 0; n < Config::kVecs; ++n) {
      add(__fsub_rn(record.upper, second_upper), value[0][n], n);
      add(second_upper, value[1][n], n);
      add(__fsub_rn(record.lower, second_lower), value[2][n], n);
      add(second_lower, value[3][n], n);
    }
  }

  // Adds the points from `begin` to `end`, at most two: 8 pixels in float16, then to the sums.
  template <int kCount>
  __device__ __forceinline__ void add_fp16(Fp16LocatedPoint const (&record)[kCount],
                                           Corner const (&value)[kCount][4], int begin, int end) {
    Fp16Sums sums;
    clear(sums);
#pragma unroll
    for (int u = begin; u < end; ++u) {
      Fp16Weights const weights = fp16_weights(half2_of(record[u].rows), record[u].fraction());
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        multiply_add_fp16<Config>(sums[i % kColumnSums], weights.of(i), value[u][i][0]);
      }
    }
    flush(sums);
  }

  __device__ __forceinline__ static Fp16Weights fp16_weights(__half2 rows, __half2 fraction) {
    if constexpr (!Config::kByParity) return Fp16Weights(rows, fraction);
    // Either fraction may be the first one.
    return Fp16Weights(rows, __hsub2_rn(__float2half2_rn(1.0f), fraction), fraction);
  }

  __device__ __forceinline__ void flush(Fp16Sums const& sums) {
#pragma unroll
    for (int w = 0; w < Config::kChannels / 2; ++w) {
      __half2 sum = sums[0][w];
      if constexpr (Config::kByParity) sum = __hadd2_rn(sum, sums[1][w]);
      float2 const pair = __half22float2(sum);
      sum_[0][2 * w] += pair.x;
      sum_[0][2 * w + 1] += pair.y;
    }
  }

  // Adds the sums of the slots that share a row, each of which has those of its points.
  __device__ void add_parts() {
    for_parts_of_row<Config>([&](int distance) {
      for_channels([distance](float& sum) { sum += __shfl_xor_sync(0xffffffffu, sum, distance); });
    });
  }

  // Stores the row's channels; all lanes of the warp call it.
  __device__ void store(Lane<Config> const& lane, Row const& row) const {
    if (repeats_last_query(lane, row) || lane.part != 0) return;
    Params const& p = lane.p;
#pragma unroll
    for (int n = 0; n < Config::kVecs; ++n) {
      std::uint32_t const channel = (lane.j + n * Config::kLanes) * Config::kChannels;
      if (!Config::kIsKnown && channel >= lane.schedule.head_dim) continue;
      float scaled[Config::kChannels];
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) {
        scaled[c] = kIsScaled<Config::kType> ? sum_[n][c] * p.scale_of(row.m) : sum_[n][c];
      }
      store_vec<Config>(
          p.output_dtype, p.output,
          static_cast<std::int64_t>(std::uint64_t{row.row} * lane.schedule.head_dim + channel),
          scaled, lane.schedule.aligned_output);
    }
  }

 private:
  // Slots behind the last query have the row of the slots before, which store it.
  __device__ __forceinline__ static bool repeats_last_query(Lane<Config> const& lane,
                                                            Row const& row) {
    if constexpr (Config::kQueries == 1) return false;
    constexpr unsigned kLanesOfQuery = 32 / Config::kQueries;
    std::uint32_t const before = __shfl_up_sync(0xffffffffu, row.row, kLanesOfQuery);
    return lane.index >= kLanesOfQuery && before == row.row;
  }

  template <class Fn>
  __device__ __forceinline__ void for_channels(Fn fn) {
#pragma unroll
    for (int n = 0; n < Config::kVecs; ++n) {
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) fn(sum_[n][c]);
    }
  }

  float sum_[Config::kVecs][Config::kChannels];
};

}  // namespace msda::rows
