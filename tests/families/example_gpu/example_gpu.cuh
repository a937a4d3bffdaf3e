// A thread adds up one channel of a row's points after the other, with the rows engine's formula.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/common/ptx.cuh"
#include "kernels/rows/row_element.cuh"
#include "tests/families/example_gpu/example_gpu.h"

namespace msda::example_gpu {

template <ValueType kType>
__global__ void __launch_bounds__(kThreads) example_rows(const __grid_constant__ Params p) {
  ptx::wait_for_previous_grid();
  std::int64_t const M = p.head_count, D = p.head_dim;
  std::int64_t const elements = p.batch * p.query_count * M * D;
  std::int64_t const stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < elements; i += stride) {
    std::int64_t const bq = i / D / M;
    rows::Row<float> const row(p, bq / p.query_count, bq % p.query_count, i / D % M);
    store_element(p.output_dtype, p.output, p.output_strides.at(row.b, row.q, row.m) + i % D,
                  rows::forward_element<kType>(p, row, i % D));
  }
}

template <ValueType kType>
Kernel<Params> load_rows() {
  return load_kernel(example_rows<kType>);
}

}  // namespace msda::example_gpu

#define MSDA_INSTANTIATE(type, revision, sm) \
  template msda::Kernel<msda::Params> msda::example_gpu::load_rows<msda::ValueType::type>();
