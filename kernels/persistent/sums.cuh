// The sums of a row: what a lane has of its channels.
#pragma once

#include "kernels/common/vecs.cuh"
#include "kernels/persistent/lane.cuh"

namespace msda::persistent {

template <class Config>
class RowSums {
 public:
  using Corner = Vec<Config::kVecBytes>[Config::kVecs];  // a pixel
  // By parity, those of even and those of odd pixels, whichever the slot reads first: added to one
  // another the bits are the same.
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

  // Where a pixel that is not part of the result was infinite or no number, it may have spoilt a
  // sum although it was weighed with zero: then the sum is not finite.
  __device__ __forceinline__ bool is_finite() {
    float check = 0.0f;
    for_channels([&](float& sum) { check = fmaf(sum, 0.0f, check); });
    return check == check;
  }

  __device__ __forceinline__ void add(float weight, Vec<Config::kVecBytes> const& value, int n) {
    multiply_add<Config>(sum_[n], weight, value);
  }
  // A point's sample, which is the sum of its corners alone.
  __device__ void add_sample(float weight, RowSums const& sample) {
#pragma unroll
    for (int n = 0; n < Config::kVecs; ++n) {
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) {
        sum_[n][c] = fmaf(weight, sample.sum_[n][c], sum_[n][c]);
      }
    }
  }
  // What is no part of the result but for its weight, which may be no number.
  __device__ __forceinline__ void add_outside(float weight) {
    for_channels([weight](float& sum) { sum += weight * 0.0f; });
  }

  __device__ __forceinline__ void add(Record const& record, Corner const (&value)[4]) {
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

  // Points from `begin` to `end`, at most two: 8 pixels in float16, then to the sums.
  template <int kCount>
  __device__ __forceinline__ void add_fp16(Fp16Record const (&record)[kCount],
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

  // The slots of a row each have the sum of their points.
  __device__ void add_subs() {
    for_subs<Config>([&](int distance) {
      for_channels([distance](float& sum) { sum += __shfl_xor_sync(0xffffffffu, sum, distance); });
    });
  }

  // By all lanes of the warp.
  __device__ void store(Lane<Config> const& lane, Row const& row) const {
    if (repeats_last_query(lane, row) || lane.sub != 0) return;
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

}  // namespace msda::persistent
