// The gradients of points, those by coordinates and weights: sizes of slots and blocks, and what
// kernels are handed beside the problem. Host and device include it.
#pragma once

#include "kernels/common/kernel_entry.h"
#include "kernels/common/params.h"

#include <bit>
#include <cstdint>

namespace msda::points {

inline constexpr std::int32_t kWarp = 32;
inline constexpr std::int32_t kChannelsOfLane = 8;  // 16 bytes of 16-bit elements
inline constexpr std::int32_t kMaxHeadDim = kWarp * kChannelsOfLane;
inline constexpr std::int32_t kPointThreads = 256;
inline constexpr std::int32_t kPointBlocks = 2;   // an SM
inline constexpr std::int32_t kPointsAtOnce = 4;  // points whose products lanes reduce at once
inline constexpr std::int32_t kFusedThreads = 256;
inline constexpr std::int32_t kSoftmaxLanes = 8;  // of a row

// The level of a point, as its gradients need it. Tokens of a head fit 32 bits.
struct alignas(16) PointLevel {
  std::int32_t width;  // pixels; 0: the map is empty
  std::int32_t height;
  std::int32_t origin;      // token of pixel (0, 0)
  std::int32_t row_tokens;  // 0 where there is one row
};

// The gradients by the points of the rows of `queries` queries, beginning with `first_query` of all
// B Q.
struct PointParams {
  const std::int32_t* level_of_point;  // [K]
  const PointLevel* point_levels;      // [K]
  float* weights;                      // fused: [queries][M][K], by softmax; else null
  float* raw;                          // fused: [queries][M][K][3] by x, by y, by weight; else null
  std::int64_t first_query;
  std::int64_t queries;
  std::int64_t rows_of_block;    // a multiple of the block's slots
  std::uint32_t heads_together;  // divides M and the slots of a block
  std::uint32_t query_stride;    // from a row to the one as many as the block's slots behind it
  bool coord_pairs;              // x and y of a point lie at a multiple of their bytes
  bool grad_coord_pairs;         // so do those of the gradients
};

// The rows whose weights a softmax computes, in their order.
struct SoftmaxParams {
  float* weights;  // [rows][K]
  std::int64_t first;
  std::int64_t rows;
  bool by_head;  // rows are [head][query], `first` a head; else [query][head], `first` a query
};

struct FusedKernels {
  Kernel<Params, SoftmaxParams> softmax;
  Kernel<Params, PointParams> finish;
};

// Whether every lane of a slot has channels: slots are powers of two of kChannelsOfLane each.
constexpr bool fills_lanes(std::int64_t head_dim) {
  return head_dim % kChannelsOfLane == 0 &&
         std::has_single_bit(static_cast<std::uint64_t>(head_dim / kChannelsOfLane));
}

}  // namespace msda::points
