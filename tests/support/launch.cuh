// Launches of the tests' own kernels, without <<<>>>, which nvcc alone reads.
#pragma once

#include "kernels/common/params.h"

#include <cuda_runtime.h>

#include <type_traits>

namespace msda::test {

template <typename... Parameters>
cudaError_t launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
                   cudaStream_t stream, std::type_identity_t<Parameters> const&... parameters) {
  void* pointers[] = {const_cast<Parameters*>(&parameters)...};
  return cudaLaunchKernel(kernel_entry(kernel), dim3(blocks), dim3(threads), pointers, 0, stream);
}

}  // namespace msda::test
