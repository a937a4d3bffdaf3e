// Coordinates and weights on their way from memory to registers: streamed past L1, which the values
// need, and converted when they are used, not when they are loaded.
#pragma once

#include "kernels/persistent/lane.cuh"

namespace msda::persistent {

// kBatch points as they lie in memory; those of 16 bits in the first words.
template <int kBatch>
struct Inputs {
  std::uint32_t coord[2 * kBatch];
  std::uint32_t weight[kBatch];
};

// What a lane has of a row before it works on a chunk: the points that it prepares. Fused: also
// what their coordinates are relative to, if that is one level's.
template <class Config>
struct ChunkInputs {
  Inputs<Config::kBatch> points[Config::kRowsOfLane];
  std::uint32_t reference[4];
};

// kBatch points as numbers.
template <int kBatch>
struct Batch {
  float x[kBatch];
  float y[kBatch];
  float weight[kBatch];

  // Those behind the first kCount to the front.
  template <int kCount>
  __device__ __forceinline__ void advance() {
#pragma unroll
    for (int i = kCount; i < kBatch; ++i) {
      x[i - kCount] = x[i];
      y[i - kCount] = y[i];
      weight[i - kCount] = weight[i];
    }
  }
};

// Two elements, each by itself.
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

// Element by element, for tensors or rows that are not aligned. What is behind the row repeats its
// last point.
template <int kBatch>
__device__ __forceinline__ void read_narrow(Params const& p, std::uint32_t row_start, int k,
                                            Inputs<kBatch>& inputs) {
  auto const bits16 = [](const void* array, std::int64_t index) -> std::uint32_t {
    return __ldg(static_cast<const std::uint16_t*>(array) + index);
  };
  auto const bits32 = [](const void* array, std::int64_t index) -> std::uint32_t {
    return __ldg(static_cast<const std::uint32_t*>(array) + index);
  };
#pragma unroll
  for (int i = 0; i < kBatch; ++i) {
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

// Whether a lane has the two vecs of its 32 bytes of coordinates in turn: the lanes of a quarter
// warp begin with different ones, so that they meet different banks.
template <int kBatch>
__device__ __forceinline__ bool vecs_are_swapped(bool wide_inputs, msda_dtype coord_dtype,
                                                 unsigned lane) {
  return kBatch == 4 && wide_inputs && coord_dtype == MSDA_DTYPE_F32 && (lane & 4) != 0;
}

// Points k to k + kBatch - 1 of the row whose first point is number row_start of all.
template <int kBatch, InputTypes kTypes>
__device__ __forceinline__ Inputs<kBatch> read_inputs(Params const& p,
                                                      ScheduleParams const& schedule,
                                                      std::uint32_t row_start, int k,
                                                      unsigned lane) {
  Inputs<kBatch> inputs;
  if (kTypes == inputs_any && !schedule.wide_inputs) {
    read_narrow(p, row_start, k, inputs);
    return inputs;
  }
  // Wide inputs come in whole batches.
  std::uint32_t const first =
      row_start + static_cast<std::uint32_t>(min(k, static_cast<int>(p.point_total) - kBatch));
  const char* const coord = static_cast<const char*>(p.coord);
  if (kTypes == inputs_any && p.coord_dtype != MSDA_DTYPE_F32) {
    ptx::stream_global<4 * kBatch>(coord + std::uint64_t{first} * 4, inputs.coord);
  } else if constexpr (kBatch == 4) {
    std::uint32_t const vec = first / 2 + (lane & 4) / 4;  // of two points, at an even place
    ptx::stream_global<16>(coord + std::uint64_t{vec} * 16, inputs.coord);
    ptx::stream_global<16>(coord + std::uint64_t{vec ^ 1} * 16, inputs.coord + 4);
  } else {
    ptx::stream_global<8 * kBatch>(coord + std::uint64_t{first} * 8, inputs.coord);
  }
  const char* const weight = static_cast<const char*>(p.weight);
  if (kTypes == inputs_f32 || p.weight_dtype == MSDA_DTYPE_F32) {
    ptx::stream_global<4 * kBatch>(weight + std::uint64_t{first} * 4, inputs.weight);
  } else {
    ptx::stream_global<2 * kBatch>(weight + std::uint64_t{first} * 2, inputs.weight);
  }
  return inputs;
}

__device__ __forceinline__ float2 pair_of(msda_dtype dtype, std::uint32_t word) {
  if (dtype == MSDA_DTYPE_BF16) {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  }
  return __half22float2(half2_of(word));
}

template <int kBatch>
__device__ __forceinline__ void weights_of(std::uint32_t const (&words)[kBatch], msda_dtype dtype,
                                           float (&weight)[kBatch]) {
  if (dtype == MSDA_DTYPE_F32) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) weight[i] = __uint_as_float(words[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      float2 const pair = pair_of(dtype, words[i / 2]);
      weight[i] = i % 2 == 0 ? pair.x : pair.y;
    }
  }
}

template <int kBatch>
__device__ __forceinline__ Batch<kBatch> to_points(Inputs<kBatch> const& inputs,
                                                   msda_dtype coord_dtype, msda_dtype weight_dtype,
                                                   bool swapped) {
  Batch<kBatch> points;
  if (coord_dtype == MSDA_DTYPE_F32) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      int const other = (i + kBatch / 2) % kBatch;
      points.x[i] = __uint_as_float(swapped ? inputs.coord[2 * other] : inputs.coord[2 * i]);
      points.y[i] =
          __uint_as_float(swapped ? inputs.coord[2 * other + 1] : inputs.coord[2 * i + 1]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      float2 const xy = pair_of(coord_dtype, inputs.coord[i]);
      points.x[i] = xy.x;
      points.y[i] = xy.y;
    }
  }
  weights_of(inputs.weight, weight_dtype, points.weight);
  return points;
}

// The number among all references, of a query and the level of point k. Levels without points may
// be more than points are, of which there are fewer than 2^32.
template <class Config>
__device__ auto reference_number(Lane<Config> const& lane, std::uint32_t query, int k) {
  using Number = std::conditional_t<(Config::kPoints > 0), std::uint32_t, std::uint64_t>;
  return Number{query} * static_cast<std::uint32_t>(lane.p.level_count) +
         static_cast<std::uint32_t>(lane.level_of(k));
}

// A load for the point and one for the box: of two that may write the same register the second
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

// The reference of a query on the level of point k, as it lies in memory.
template <class Config>
__device__ __forceinline__ void read_reference(Lane<Config> const& lane, std::uint32_t query, int k,
                                               std::uint32_t (&to)[4]) {
  bool const is_box = lane.p.reference_dim == 4;
  bool const is_float32 = lane.coord_dtype() == MSDA_DTYPE_F32;
  std::uint32_t const bytes =
      static_cast<std::uint32_t>(lane.p.reference_dim) * (is_float32 ? 4 : 2);
  const char* const at = static_cast<const char*>(lane.p.reference) +
                         std::uint64_t{reference_number(lane, query, k)} * bytes;
  if (is_float32) {
    stream_reference<Config, 4>(lane, at, is_box, to);
  } else {
    stream_reference<Config, 2>(lane, at, is_box, to);
  }
}

// By numbers: which of two rows is asked for may not be known when compiled.
template <class Config>
__device__ __forceinline__ ChunkInputs<Config> read_chunk(Lane<Config> const& lane,
                                                          std::uint32_t row, std::uint32_t query,
                                                          int k0) {
  std::uint32_t first = row * lane.schedule.points;
  // Or the addresses of all ways to read would be held while others are gathered.
  ptx::pin(first);
  ChunkInputs<Config> inputs;
#pragma unroll
  for (int i = 0; i < Config::kRowsOfLane; ++i) {
    std::uint32_t const prepared =
        Config::kInLines ? __shfl_sync(0xffffffffu, first,
                                       static_cast<int>(lane.prepared_slot(i)) * Config::kLanes)
                         : first;
    inputs.points[i] = read_inputs<Config::kBatch, Config::kInputs>(
        lane.p, lane.schedule, prepared, lane.first_point(k0), lane.index);
  }
  if constexpr (Config::kFused && Config::kLevelOfBatch) {
    read_reference(lane, query, Config::kLevelOfChunk ? k0 : min(lane.first_point(k0), lane.K - 1),
                   inputs.reference);
  }
  return inputs;
}

}  // namespace msda::persistent
