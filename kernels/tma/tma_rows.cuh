// Stages and rows of the tma family, which boxes and windows share: stages of shared memory; a
// row's points, as they lie in memory, where they lie in a level and what they weigh; records of
// located points; the sums of a row; the exact path; and the kernel for values at addresses that no
// tensor map takes. One set of functions serves the warps that estimate, locate and repeat, so that
// all have the same numbers.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/common/sampling.cuh"
#include "kernels/common/vecs.cuh"
#include "kernels/tma/tma.h"

namespace msda::tma {

// ---- stages
//
// Stages of shared memory between producer and consumer warps. Both sides count the same entries;
// entry i is in stage i modulo the stages, of which a barrier says that it is empty. Another one
// says that an entry is full. Nobody may wait for a phase before the one before it is over:
// parities would be taken for those of other phases. So where each entry is for one consumer alone,
// the barriers that say full are its own.

struct StageBarriers {
  std::uint64_t full[kBoxWarps * kMaxStages];
  std::uint64_t empty[kMaxProducers * kMaxStages];
};

// A cursor of one side: a stage, and the parity of how often it has been there.
class StageCursor {
 public:
  __device__ __forceinline__ explicit StageCursor(std::int32_t stages)
      : stages_(static_cast<std::uint32_t>(stages)) {}

  __device__ __forceinline__ std::uint32_t stage() const { return stage_; }
  __device__ __forceinline__ std::uint32_t parity() const { return parity_; }
  // Advances by at most as many entries as there are stages, again and again.
  __device__ __forceinline__ void advance(std::uint32_t entries) {
    for (; entries >= stages_; entries -= stages_) parity_ ^= 1;
    stage_ += entries;
    if (stage_ < stages_) return;
    stage_ -= stages_;
    parity_ ^= 1;
  }

 private:
  std::uint32_t stages_;
  std::uint32_t stage_ = 0;
  std::uint32_t parity_ = 0;
};

// Barriers from `full` and `empty` on.
struct StageRing {
  std::uint32_t full, empty;  // addresses in shared memory

  __device__ __forceinline__ StageRing(std::uint64_t& first_full, std::uint64_t& first_empty)
      : full(shared_address(&first_full)), empty(shared_address(&first_empty)) {}

  __device__ __forceinline__ std::uint32_t full_of(StageCursor const& at) const {
    return full + at.stage() * 8;
  }
  // A producer waits until all consumers have left the entry that was in the stage before, if any.
  __device__ __forceinline__ void wait_until_empty(StageCursor const& at) const {
    ptx::wait_parity(empty + at.stage() * 8, at.parity() ^ 1);
  }
  // A consumer waits until the entry is there.
  __device__ __forceinline__ void wait_until_full(StageCursor const& at) const {
    ptx::wait_parity(full_of(at), at.parity());
  }
  // One lane of a consumer leaves the stage, when all of its warp have read it.
  __device__ __forceinline__ void leave(StageCursor const& at) const {
    ptx::arrive_mbarrier(empty + at.stage() * 8);
  }
};

// The first whole line of dynamic shared memory.
__device__ __forceinline__ std::uint32_t stage_begin() {
  MSDA_DYNAMIC_SHARED(stages);
  auto const begin = shared_address(stages);
  return (begin + kLineBytes - 1) / kLineBytes * kLineBytes;
}

// ---- a row's points

// An instantiation. kAligned says that values lie where tensor maps can have them.
template <ValueType kTypeOfRow, Channels kMax, Shape kShapeOfRow, Sums kSums, bool kIsAligned>
struct TmaConfig {
  static constexpr ValueType kType = kTypeOfRow;
  using Element = typename ValueTraits<kType>::Element;
  static constexpr int kElementBytes = sizeof(Element);
  static constexpr int kVecBytes = msda::kVecBytes;
  static constexpr int kChannels = kVecBytes / kElementBytes;  // of a vec
  static constexpr bool kAligned = kIsAligned;
  static constexpr int kLanes = lanes_of(kMax, kElementBytes);
  static constexpr int kSlots = kWarp / kLanes;
  static constexpr bool kFp16Sums = kSums == h;
  // The two columns of a point: the even and the odd one of the level, or the left and the right.
  static constexpr bool kByParity = kShapeOfRow == win;
  // Two rows of 64 bytes that a quarter warp loads meet the same banks where both are first columns
  // of their points, so every other slot begins with the second column.
  static constexpr bool kTurns = kLanes == 4;
};

struct Row {
  std::int64_t b, q, m;
  bool is_there;
};

// A point as it lies in memory; its weight may be a logit.
struct RawPoint {
  float x, y, weight;
};

__device__ __forceinline__ RawPoint load_point(Params const& p, PointRow const& row,
                                               std::int64_t k) {
  return {load_narrow(p.coord_dtype, p.coord, row.coord + 2 * k),
          load_narrow(p.coord_dtype, p.coord, row.coord + 2 * k + 1),
          load_narrow(p.weight_dtype, p.weight, row.weight + k)};
}

// Fused input: what coordinates of level l are relative to.
__device__ __forceinline__ Reference<float> reference_of(Params const& p, PointRow const& row,
                                                         std::int32_t l) {
  return {p, row.reference + static_cast<std::int64_t>(l) * p.reference_dim};
}

// Fused input, in pixels; as point_at() of kernels/common/sampling.cuh.
__device__ __forceinline__ Point<float> position_of(Params const& p,
                                                    Reference<float> const& reference,
                                                    LevelParams const& level,
                                                    RawPoint const& point) {
  auto const width = static_cast<float>(level.width), height = static_cast<float>(level.height);
  float const check = zero_if_number(point.x) + zero_if_number(point.y) + reference.check;
  if (p.reference_dim == 2) {
    return {to_pixel(reference.x + point.x / width, width),
            to_pixel(reference.y + point.y / height, height), check == check};
  }
  float const scale = 0.5f / static_cast<float>(level.point_count);
  return {to_pixel(product_sum(reference.x, point.x, reference.width, scale), width),
          to_pixel(product_sum(reference.y, point.y, reference.height, scale), height),
          check == check};
}

// In pixels of level l.
__device__ __forceinline__ Point<float> position_of(Params const& p, PointRow const& row,
                                                    LevelParams const& level, std::int32_t l,
                                                    RawPoint const& point) {
  if (p.reference_dim != 0) return position_of(p, reference_of(p, row, l), level, point);
  float const check = zero_if_number(point.x) + zero_if_number(point.y);
  return {to_pixel(point.x, static_cast<float>(level.width)),
          to_pixel(point.y, static_cast<float>(level.height)), check == check};
}

// Fused input: the softmax of a row, by its slot's lanes.
template <class Config>
class RowWeights {
 public:
  // All lanes of the warp call it; j is the lane's number in its slot.
  __device__ __forceinline__ RowWeights(Params const& p, PointRow const& row, unsigned j) {
    if (p.reference_dim == 0) return;
    is_fused_ = true;
    auto const K = static_cast<int>(p.point_total);
    auto const logit = [&](int k) { return load_narrow(p.weight_dtype, p.weight, row.weight + k); };
    for (auto k = static_cast<int>(j); k < K; k += Config::kLanes) {
      largest_ = fmaxf(largest_, logit(k));
    }
    over_slot([&](float x) { largest_ = fmaxf(largest_, x); }, largest_);
    for (auto k = static_cast<int>(j); k < K; k += Config::kLanes)
      sum_ += expf(logit(k) - largest_);
    over_slot([&](float x) { sum_ = __fadd_rn(sum_, x); }, sum_);
  }
  __device__ __forceinline__ float operator()(float weight) const {
    return is_fused_ ? expf(weight - largest_) / sum_ : weight;
  }

 private:
  template <class Fn>
  __device__ __forceinline__ static void over_slot(Fn combine, float const& x) {
#pragma unroll
    for (int distance = Config::kLanes / 2; distance > 0; distance /= 2) {
      combine(__shfl_xor_sync(0xffffffffu, x, distance));
    }
  }

  bool is_fused_ = false;
  float largest_ = -INFINITY;
  float sum_ = 0.0f;
};

// A point between two columns and two rows of pixels. Where it is beside the map, or no number,
// its weights say so and no pixel is of it.
struct Location {
  std::int32_t x, y;  // left column, upper row: from -1 on
  float second;       // fraction of the second column
  float upper, lower;
  bool is_inside;
};

// A fraction in units of which there is a whole number in 1: what it leaves of 1 is exact, so that
// it makes no difference which of two columns is the first. float16 holds 2^-11, float32 2^-23.
template <bool kFp16>
__device__ __forceinline__ float in_units(float fraction) {
  constexpr float kRoundTo = kFp16 ? 4096.0f : 1.0f;
  return __fsub_rn(__fadd_rn(fraction, kRoundTo), kRoundTo);
}

// kFp16: its weights are to be products in float16.
template <class Config, bool kFp16 = Config::kFp16Sums>
__device__ __forceinline__ Location locate(Point<float> const& at, float weight,
                                           LevelParams const& level) {
  if (!at.is_number) return {0, 0, 0.0f, 0.0f, 0.0f, false};
  bool const is_inside = at.x >= -1.0f && at.x < static_cast<float>(level.width) && at.y >= -1.0f &&
                         at.y < static_cast<float>(level.height);
  // A weight that is no number makes the result none, whatever it weighs.
  if (!is_inside) return {0, 0, 0.0f, weight * 0.0f, weight * 0.0f, false};
  float const left = floorf(at.x), top = floorf(at.y);
  auto const x = static_cast<std::int32_t>(left);
  float second = at.x - left;
  if constexpr (Config::kByParity) {
    second = in_units<kFp16>(second);
    if ((x & 1) != 0) second = 1.0f - second;
  }
  float const lower = __fmul_rn(weight, at.y - top);
  return {x, static_cast<std::int32_t>(top), second, __fsub_rn(weight, lower), lower, true};
}

// From a pixel's column to the level's first and second column of the point.
template <class Config>
__device__ __forceinline__ std::int32_t column_of(std::int32_t x, int column) {
  if constexpr (!Config::kByParity) return x + column;
  std::int32_t const even = x + (x & 1);
  return column == 0 ? even : 2 * x + 1 - even;
}

// ---- records of located points, and the sums of a row. A row's points are added in their order,
// each column of them apart: the bits depend neither on where a pixel is read from nor on the slot.

// A point that one lane has located, as the slot's lanes read it from shared memory.
struct alignas(16) LocatedPoint {
  std::uint32_t place;   // of its pixels; what it says is the kernel's
  std::uint32_t second;  // fraction of the second column: float32, or with fp16 sums float16 twice
  std::uint32_t upper;   // float32; with fp16 sums two float16, upper and lower
  std::uint32_t lower;   // float32
};
static_assert(sizeof(LocatedPoint) == kRecordBytes);

template <class Config>
__device__ __forceinline__ LocatedPoint point_of(Location const& point, std::uint32_t place) {
  if constexpr (Config::kFp16Sums) {
    return {place, bits_of(__float2half2_rn(point.second)),
            bits_of(__floats2half2_rn(point.upper, point.lower)), 0};
  } else {
    return {place, __float_as_uint(point.second), __float_as_uint(point.upper),
            __float_as_uint(point.lower)};
  }
}

__device__ __forceinline__ void put_point(std::uint32_t at, LocatedPoint const& record) {
  ptx::store_shared(at, record.place, record.second, record.upper, record.lower);
}
__device__ __forceinline__ LocatedPoint get_point(std::uint32_t at) {
  std::uint32_t words[4];
  ptx::load_shared(at, words);
  return {words[0], words[1], words[2], words[3]};
}

// Weights of a point's pixels in float16: of the column that is read first and of the other one,
// each the upper and the lower pixel's.
struct Fp16Weights {
  __half2 first, other;

  __device__ __forceinline__ Fp16Weights(__half2 rows, __half2 other_fraction)
      : first(__hfma2(__hneg2(rows), other_fraction, rows)),
        other(__hmul2_rn(rows, other_fraction)) {}
  __device__ __forceinline__ __half2 of(int corner) const {
    __half2 const column = corner % 2 == 0 ? first : other;
    return corner / 2 == 0 ? __low2half2(column) : __high2half2(column);
  }
};

// Sums in float16 of kFp16Points points, of each column for itself.
inline constexpr int kFp16Points = 4;

template <class Config>
struct Fp16ColumnSums {
  __half2 sum[2][Config::kChannels / 2];

  __device__ __forceinline__ Fp16ColumnSums() { clear(); }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int w = 0; w < Config::kChannels / 2; ++w) sum[0][w] = sum[1][w] = __float2half2_rn(0.0f);
  }
  // Adds the pixels of a point that `has` has.
  template <class Has>
  __device__ __forceinline__ void add(Fp16Weights const& weights,
                                      Vec<Config::kVecBytes> const (&value)[4], Has has) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (has(i)) multiply_add_fp16<Config>(sum[i % 2], weights.of(i), value[i]);
    }
  }
};

template <class Config>
class RowSums {
 public:
  using Vec = msda::Vec<Config::kVecBytes>;

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int c = 0; c < Config::kChannels; ++c) sum_[0][c] = sum_[1][c] = 0.0f;
  }

  // Adds a point in float32: the upper pixel of the column that is read first, of the other one,
  // then the lower ones. turned: the second column is read first.
  __device__ __forceinline__ void add_one(LocatedPoint const& record, Vec const (&value)[4],
                                          bool turned) {
    static_assert(!Config::kFp16Sums, "records of fp16 sums have no float32");
    add_weighted(__uint_as_float(record.second), __uint_as_float(record.upper),
                 __uint_as_float(record.lower), value, turned, [](int) { return true; });
  }
  // Pixels that `has` leaves out are no part of the result.
  template <class Has>
  __device__ __forceinline__ void add_weighted(float second, float upper, float lower,
                                               Vec const (&value)[4], bool turned, Has has) {
    float const upper_second = __fmul_rn(upper, second), lower_second = __fmul_rn(lower, second);
    // Parity has to make no difference, whichever of the columns is the second: see in_units().
    float const upper_first =
        Config::kByParity ? fmaf(-upper, second, upper) : __fsub_rn(upper, upper_second);
    float const lower_first =
        Config::kByParity ? fmaf(-lower, second, lower) : __fsub_rn(lower, lower_second);
    float const weight[4] = {
        turned ? upper_second : upper_first, turned ? upper_first : upper_second,
        turned ? lower_second : lower_first, turned ? lower_first : lower_second};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (has(i)) multiply_add<Config>(sum_[i % 2], weight[i], value[i]);
    }
  }

  // A point's sample, which is the sum of its corners alone.
  __device__ __forceinline__ void add_sample(float weight, RowSums const& sample) {
    float of_corners[Config::kChannels];
    sample.total(of_corners);
#pragma unroll
    for (int c = 0; c < Config::kChannels; ++c) {
      sum_[0][c] = fmaf(weight, of_corners[c], sum_[0][c]);
    }
  }
  // Adds a point beside the map: nothing but its weight, which may be no number, is part of the
  // result.
  __device__ __forceinline__ void add_outside(float weight) {
#pragma unroll
    for (int c = 0; c < Config::kChannels; ++c) sum_[0][c] += weight * 0.0f;
  }

  __device__ __forceinline__ void total(float (&sum)[Config::kChannels]) const {
#pragma unroll
    for (int c = 0; c < Config::kChannels; ++c) sum[c] = __fadd_rn(sum_[0][c], sum_[1][c]);
  }
  __device__ __forceinline__ bool is_finite() const {
    float sum[Config::kChannels], check = 0.0f;
    total(sum);
#pragma unroll
    for (int c = 0; c < Config::kChannels; ++c) check = fmaf(sum[c], 0.0f, check);
    return check == check;
  }

  // Adds points that have been added in float16.
  __device__ __forceinline__ void add(Fp16ColumnSums<Config> const& of) {
#pragma unroll
    for (int w = 0; w < Config::kChannels / 2; ++w) {
      float2 const first = __half22float2(of.sum[0][w]), other = __half22float2(of.sum[1][w]);
      sum_[0][2 * w] += __fadd_rn(first.x, other.x);
      sum_[0][2 * w + 1] += __fadd_rn(first.y, other.y);
    }
  }

 private:
  // Fp16 sums of both columns are added to the first alone; the second stays 0.
  float sum_[2][Config::kChannels];
};

// A lane's vec of the pixels of a batch item and head. Lanes behind the row's last vec repeat that
// one, and do not store it.
template <class Config>
struct LaneValues {
  const char* begin;
  std::int64_t pixel_bytes;

  __device__ __forceinline__ LaneValues(Params const& p, Row const& row, unsigned vec)
      : begin(static_cast<const char*>(p.value) +
              (row.b * p.value_strides.batch + row.m * p.value_strides.head) *
                  Config::kElementBytes +
              vec * Config::kVecBytes),
        pixel_bytes(p.value_strides.row * Config::kElementBytes) {}

  __device__ __forceinline__ static bool is_in(LevelParams const& level, std::int32_t x,
                                               std::int32_t y) {
    return x >= 0 && x < level.width && y >= 0 && y < level.height;
  }
  __device__ __forceinline__ const char* at(LevelParams const& level, std::int32_t x,
                                            std::int32_t y) const {
    return begin + (level.origin + y * level.row_tokens + x) * pixel_bytes;
  }
  // Zeros beside the map.
  __device__ __forceinline__ msda::Vec<Config::kVecBytes> load(LevelParams const& level,
                                                               std::int32_t x,
                                                               std::int32_t y) const {
    if (!is_in(level, x, y)) return {};
    return load_vec<Config>(at(level, x, y));
  }
};

__device__ __forceinline__ unsigned vec_of_lane(std::int64_t head_dim, int channels, unsigned j) {
  return min(j, static_cast<unsigned>(head_dim / channels) - 1);
}

// The exact path: a row's points in the same order as on the fast path, but nothing is read that is
// not part of the result. A slot's lanes all locate every point. kFp16: as the variant has it.
template <class Config, bool kFp16>
__device__ void add_exact(Params const& p, Row const& row, PointRow const& points,
                          RowWeights<Config> const& weights, LaneValues<Config> const& values,
                          RowSums<Config>& sums) {
#pragma unroll 1
  for (std::int32_t l = 0; l < p.level_count; ++l) {
    LevelParams const& level = p.near_levels[l];
    Fp16ColumnSums<Config> columns;
#pragma unroll 1
    for (std::int64_t i = 0; i < level.point_count; ++i) {
      RawPoint const raw = load_point(p, points, level.point_start + i);
      float const weight = weights(raw.weight);
      bool const of_sample = !kFp16 && is_infinite(weight);
      Location at = locate<Config, kFp16>(position_of(p, points, level, l, raw), weight, level);
      if (!at.is_inside) {
        sums.add_outside(at.upper);
      } else {
        if (of_sample) {
          at = locate<Config, kFp16>(position_of(p, points, level, l, raw), 1.0f, level);
        }
        msda::Vec<Config::kVecBytes> pixel[4];
        unsigned is_in = 0;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          std::int32_t const x = column_of<Config>(at.x, n % 2), y = at.y + n / 2;
          is_in |= (LaneValues<Config>::is_in(level, x, y) ? 1u : 0u) << n;
          pixel[n] = values.load(level, x, y);
        }
        auto const has_pixel = [is_in](int n) { return (is_in >> n & 1) != 0; };
        if constexpr (kFp16) {
          LocatedPoint const record = point_of<Config>(at, 0);
          columns.add(Fp16Weights(half2_of(record.upper), half2_of(record.second)), pixel,
                      has_pixel);
        } else if (of_sample) {
          RowSums<Config> sample;
          sample.clear();
          sample.add_weighted(at.second, at.upper, at.lower, pixel, false, has_pixel);
          sums.add_sample(weight, sample);
        } else {
          sums.add_weighted(at.second, at.upper, at.lower, pixel, false, has_pixel);
        }
      }
      if (kFp16 && i % kFp16Points == kFp16Points - 1) {
        sums.add(columns);
        columns.clear();
      }
    }
    if constexpr (kFp16) sums.add(columns);
  }
}

// Sums exactly, where a sum of one of the warp's rows is not finite; all lanes call it. What
// float16 cannot hold is formed in float32.
template <class Config>
__device__ void sum_exact(Params const& p, Row const& row, PointRow const& points,
                          RowWeights<Config> const& weights, LaneValues<Config> const& values,
                          RowSums<Config>& sums) {
  sums.clear();
  add_exact<Config, Config::kFp16Sums>(p, row, points, weights, values, sums);
  if (!Config::kFp16Sums) return;
  // A row's lanes agree: each of its channels is formed in the same way.
  bool is_finite = sums.is_finite();
#pragma unroll
  for (int distance = Config::kLanes / 2; distance > 0; distance /= 2) {
    is_finite = __shfl_xor_sync(0xffffffffu, is_finite ? 1 : 0, distance) != 0 && is_finite;
  }
  if (is_finite) return;
  sums.clear();
  add_exact<Config, false>(p, row, points, weights, values, sums);
}

// Stores a row; all lanes of the warp call it.
template <class Config>
__device__ __forceinline__ void store_row(Params const& p, Row const& row, unsigned j,
                                          RowSums<Config> const& sums, bool aligned_output) {
  std::int64_t const channel = std::int64_t{j} * Config::kChannels;
  if (!row.is_there || channel >= p.head_dim) return;
  float total[Config::kChannels];
  sums.total(total);
  store_vec<Config>(p.output_dtype, p.output, p.output_strides.at(row.b, row.q, row.m) + channel,
                    total, aligned_output);
}

// ---- rows on the exact path alone: for values at addresses that no tensor map takes. The bits are
// those of the kernel whose place it takes.

__device__ __forceinline__ Row row_at(Params const& p, std::int64_t index, std::int64_t rows) {
  std::int64_t const row = min(index, rows - 1), query = row / p.head_count;
  std::int64_t const b = query / p.query_count;
  return {b, query - b * p.query_count, row - query * p.head_count, index < rows};
}

template <class Config>
__global__ void __launch_bounds__(kBoxWarps* kWarp, 2)
    sum_rows(const __grid_constant__ Params p, const __grid_constant__ RowParams schedule) {
  ptx::launch_dependents();
  ptx::wait_for_previous_grid();
  unsigned const lane = threadIdx.x % kWarp, j = lane % Config::kLanes;
  std::int64_t const stride = std::int64_t{gridDim.x} * kBoxWarps * Config::kSlots;
#pragma unroll 1
  for (std::int64_t first =
           (std::int64_t{blockIdx.x} * kBoxWarps + threadIdx.x / kWarp) * Config::kSlots;
       first < schedule.rows; first += stride) {
    Row const row = row_at(p, first + lane / Config::kLanes, schedule.rows);
    PointRow const points(p, row.b, row.q, row.m);
    RowWeights<Config> const weights(p, points, j);
    LaneValues<Config> const values(p, row, vec_of_lane(p.head_dim, Config::kChannels, j));
    RowSums<Config> sums;
    sum_exact(p, row, points, weights, values, sums);
    store_row(p, row, j, sums, schedule.aligned_output);
  }
}

}  // namespace msda::tma
