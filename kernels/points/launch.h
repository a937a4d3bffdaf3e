// The launches that all families with gradients of points share: cleared gradients, and the sums of
// fused input's references.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/common/params.h"
#include "kernels/points/points.h"

#include <cstdint>

namespace msda::points {

// Nothing is done where `array` is null.
void clear(void* array, std::int64_t elements, msda_dtype dtype, cudaStream_t stream);
// kernel: clear_points().
void clear_point_gradients(Kernel<Params> kernel, Params const& p, cudaStream_t stream);

// Nothing is done where grad_reference is not wanted.
void sum_references(Kernel<Params, PointParams> kernel, Params const& p, PointParams const& points,
                    cudaStream_t stream);

}  // namespace msda::points
