// The launches that all families with gradients of points share: cleared gradients, and the sums of
// fused input's references.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/points/plan.h"

namespace msda::points {

inline void clear(void* array, std::int64_t elements, msda_dtype dtype, cudaStream_t stream) {
  msda::clear(array, elements * dtype_bytes(dtype), "clearing a gradient", stream);
}

inline void clear_point_gradients(EngineKernels const& kernels, Params const& p,
                                  cudaStream_t stream) {
  std::int64_t const queries = p.batch * p.query_count;
  std::int64_t const points = queries * p.head_count * p.point_total;
  if (points > 0 && (p.grad_coord != nullptr || p.grad_weight != nullptr)) {
    launch_overlapping(kernels.clear_points,
                       {.blocks = divide_up(points, kPointThreads), .threads = kPointThreads},
                       stream, p);
  }
  clear(p.grad_reference, queries * p.level_count * p.reference_dim, p.reference_dtype, stream);
}

// The buffers of a call say whether x and y lie in pairs, and whether anything reads by_pixel.
inline void look_at_buffers(PointParams& points, Params const& p) {
  points.coord_pairs = are_pairs(p.coord, p.coord_strides, p.coord_dtype);
  points.grad_coord_pairs = are_pairs(p.grad_coord, p.grad_coord_strides, p.coord_dtype);
  if (p.grad_reference == nullptr) points.by_pixel = nullptr;
}

// Nothing is done where grad_reference is not wanted.
inline void sum_references(EngineKernels const& kernels, Params const& p, PointParams const& points,
                           cudaStream_t stream) {
  if (p.grad_reference == nullptr) return;
  std::int64_t const groups = points.queries * (kernels.levels_apart ? p.level_count : 1);
  launch_overlapping(kernels.sum_references,
                     {.blocks = divide_up(groups, kReferenceThreads / kReferenceLanes),
                      .threads = kReferenceThreads},
                     stream, p, points);
}

}  // namespace msda::points
