// The gradients of reference points and boxes, to which all heads add: sums of what the points
// kernels have stored for each point, its gradient by the position in pixels. 8 bytes a point are
// read, of boxes the offset, too. Where grad_reference is not wanted nothing is stored and no
// kernel launched.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/points/locate.cuh"

namespace msda::points {

// kReferenceLanes lanes take a query, level after level: its points of all heads, in one order.
static __global__ void __launch_bounds__(kReferenceThreads, 4)
    sum_references(const __grid_constant__ Params p, const __grid_constant__ PointParams s) {
  ptx::wait_for_previous_grid();
  std::int64_t const i =
      (static_cast<std::int64_t>(blockIdx.x) * kReferenceThreads + threadIdx.x) / kReferenceLanes;
  bool const is_there = i < s.queries;
  std::int64_t const query = is_there ? i : s.queries - 1;  // of the pass
  auto const of_all = static_cast<std::uint32_t>(s.first_query + query);
  std::uint32_t const b = of_all / static_cast<std::uint32_t>(p.query_count);
  std::uint32_t const q = of_all - b * static_cast<std::uint32_t>(p.query_count);
  auto const* const rows =
      reinterpret_cast<const float2*>(s.by_pixel) + query * p.head_count * p.point_total;
  bool const is_box = p.reference_dim == 4;
  for (std::int32_t l = 0; l < p.level_count; ++l) {
    LevelParams const level = p.level(l);
    float sums[4] = {};  // by x, y; by width, height
    std::int64_t m = 0;
    std::int64_t k = lane_of() % kReferenceLanes;
    while (true) {
      for (; m < p.head_count && k >= level.point_count; ++m) k -= level.point_count;
      if (m >= p.head_count) break;
      std::int64_t const point = level.point_start + k;
      float2 const by_pixel = rows[m * p.point_total + point];
      sums[0] += by_pixel.x;
      sums[1] += by_pixel.y;
      if (is_box) {
        float2 const offset = load_pair(p.coord_dtype, p.coord,
                                        p.coord_strides.at(b, q, m) + 2 * point, s.coord_pairs);
        // A zero gradient stays zero where an offset is no number.
        if (by_pixel.x != 0.0f) sums[2] += by_pixel.x * offset.x;
        if (by_pixel.y != 0.0f) sums[3] += by_pixel.y * offset.y;
      }
      k += kReferenceLanes;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) sums[j] = sum_of_lanes(sums[j], kReferenceLanes);
    if (!is_there || lane_of() % kReferenceLanes != 0) continue;
    float const box_scale = 0.5f / static_cast<float>(level.point_count);
    std::int64_t const at = (of_all * std::int64_t{p.level_count} + l) * p.reference_dim;
    for (int j = 0; j < p.reference_dim; ++j) {
      auto const size = static_cast<float>(j % 2 == 0 ? level.width : level.height);
      float const gradient = sums[j] * (j < 2 ? size : size * box_scale);
      store_narrow(p.coord_dtype, p.grad_reference, at + j, sums[j] == 0.0f ? 0.0f : gradient);
    }
  }
}

}  // namespace msda::points
