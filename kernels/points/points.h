// The gradients of points, those by coordinates and weights: sizes of slots and blocks, and what
// kernels are handed beside the problem. Host and device include it.
#pragma once

#include "kernels/common/params.h"

#include <bit>

namespace msda::points {

inline constexpr std::int32_t kChannelsOfLane = 8;  // 16 bytes of 16-bit elements
inline constexpr std::int32_t kMaxHeadDim = kWarp * kChannelsOfLane;
inline constexpr std::int32_t kPointThreads = 256;
inline constexpr std::int32_t kPointBlocks = 2;   // an SM
inline constexpr std::int32_t kPointsAtOnce = 4;  // points whose products lanes reduce at once
inline constexpr std::int32_t kReferenceThreads = 256;
inline constexpr std::int32_t kReferenceLanes = 8;  // of a query, or of one level of it
// A lane stages its points of a fused row in shared memory where they are at most so many, else in
// the workspace.
inline constexpr std::int32_t kStagedPoints = 16;

// The kinds of input that kernels are compiled for. Plain input, sampled or fused: coordinates are
// pairs of F32, and references lie at multiples of their bytes. Any: all others, point by point.
enum class Input { any, sampled, fused };
inline constexpr int kInputs = 3;

// The level of a point, as its gradients need it. Tokens of a head fit 32 bits.
struct alignas(16) PointLevel {
  std::int32_t width;  // pixels; 0: the map is empty
  std::int32_t height;
  std::int32_t origin;      // token of pixel (0, 0)
  std::int32_t row_tokens;  // 0 where there is one row
  std::int32_t index;       // of the level
  float box_scale;          // 1 / (2 P): an offset of 1 is so much of a box
};

// The gradients by the points of the rows of `queries` queries, beginning with `first_query` of all
// B Q.
struct PointParams {
  const PointLevel* point_levels;  // [K]
  float* by_pixel;  // where grad_reference is wanted: [queries][M][K][2], by a position in pixels
  float* staged;    // fused, of lanes with more than kStagedPoints: [2][queries][M][K]; else null
  std::int64_t first_query;
  std::int64_t queries;
  std::int32_t rows_of_block;    // a multiple of the block's slots
  std::uint32_t heads_together;  // divides M and the slots of a block
  std::uint32_t query_stride;    // from a row to the one as many as the block's slots behind it
  bool coord_pairs;              // x and y of a point lie at a multiple of their bytes
  bool grad_coord_pairs;         // so do those of the gradients
};

// The kernels that every family has beside its own, made by load_engine().
struct EngineKernels {
  Kernel<Params> clear_points;
  Kernel<Params, PointParams> sum_references;
  bool levels_apart = false;  // sum_references() takes each level of a query apart
};

// Whether every lane of a slot has channels: slots are powers of two of kChannelsOfLane each.
constexpr bool fills_lanes(std::int64_t head_dim) {
  return head_dim % kChannelsOfLane == 0 &&
         std::has_single_bit(static_cast<std::uint64_t>(head_dim / kChannelsOfLane));
}

}  // namespace msda::points
