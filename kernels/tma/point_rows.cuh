// A row's points: as they lie in memory, where they lie in a level, and what they weigh. One set of
// functions for the warps that estimate, locate and repeat, so that all have the same numbers.
#pragma once

#include "kernels/common/sampling.cuh"
#include "kernels/common/vecs.cuh"
#include "kernels/tma/tma.h"

namespace msda::tma {

// What an instantiation knows when compiled. kAligned: values lie where tensor maps can have them.
template <ValueType kTypeOfRow, Channels kMax, Shape kShapeOfRow, Sums kSums, bool kIsAligned>
struct TmaConfig {
  static constexpr ValueType kType = kTypeOfRow;
  using Element = typename ValueTraits<kType>::Element;
  static constexpr int kElementBytes = sizeof(Element);
  static constexpr int kVecBytes = tma::kVecBytes;
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
  static constexpr int kChunk = chunk_of(kLanes);
  static constexpr int kWarpRecordBytes = warp_record_bytes(kLanes);
  static constexpr int kInFlight = 2;  // points of a row whose loads are in flight: 4 spill
  static_assert(kLanes % kInFlight == 0, "points in flight have been prepared at once");
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

// In pixels of level l; as point_at() of kernels/common/sampling.cuh.
__device__ __forceinline__ Point<float> position_of(Params const& p, PointRow const& row,
                                                    LevelParams const& level, std::int32_t l,
                                                    RawPoint const& point) {
  auto const width = static_cast<float>(level.width), height = static_cast<float>(level.height);
  float check = zero_if_number(point.x) + zero_if_number(point.y);
  if (p.reference_dim == 0) {
    return {to_pixel(point.x, width), to_pixel(point.y, height), check == check};
  }
  Reference<float> const reference(p,
                                   row.reference + static_cast<std::int64_t>(l) * p.reference_dim);
  check += reference.check;
  if (p.reference_dim == 2) {
    return {to_pixel(reference.x + point.x / width, width),
            to_pixel(reference.y + point.y / height, height), check == check};
  }
  float const scale = 0.5f / static_cast<float>(level.point_count);
  return {to_pixel(product_sum(reference.x, point.x, reference.width, scale), width),
          to_pixel(product_sum(reference.y, point.y, reference.height, scale), height),
          check == check};
}

// Fused input: the softmax of a row, by its slot's lanes.
template <class Config>
class RowWeights {
 public:
  // By all lanes of the warp; j: of the lane in its slot.
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
struct Located {
  std::int32_t x, y;  // left column, upper row: from -1 on
  float second;       // fraction of the second column
  float upper, lower;
  bool is_inside;
};

template <class Config>
__device__ __forceinline__ Located locate(Point<float> const& at, float weight,
                                          LevelParams const& level) {
  if (!at.is_number) return {0, 0, 0.0f, 0.0f, 0.0f, false};
  bool const is_inside = at.x >= -1.0f && at.x < static_cast<float>(level.width) && at.y >= -1.0f &&
                         at.y < static_cast<float>(level.height);
  // A weight that is no number makes the result none, whatever it weighs.
  if (!is_inside) return {0, 0, 0.0f, weight * 0.0f, weight * 0.0f, false};
  float const left = floorf(at.x), top = floorf(at.y);
  auto const x = static_cast<std::int32_t>(left);
  float second = at.x - left;
  if constexpr (Config::kFp16Sums) second = __fsub_rn(__fadd_rn(second, 4096.0f), 4096.0f);
  if (Config::kByParity && (x & 1) != 0) second = 1.0f - second;
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

}  // namespace msda::tma
