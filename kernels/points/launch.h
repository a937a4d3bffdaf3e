// The launches that all families with gradients of points share: cleared gradients, and the softmax
// and the finish of fused input.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/common/params.h"
#include "kernels/points/points.h"

#include <cstdint>

namespace msda::points {

// Nothing is done where `array` is null.
void clear(void* array, std::int64_t elements, msda_dtype dtype, cudaStream_t stream);
void clear_point_gradients(Params const& p, cudaStream_t stream);

void compute_weights(FusedKernels const& kernels, Params const& p, SoftmaxParams const& softmax,
                     cudaStream_t stream);
void finish_gradients(FusedKernels const& kernels, Params const& p, PointParams const& points,
                      cudaStream_t stream);

}  // namespace msda::points
