// Declarations of shared memory: nvcc's words, for which the simulated device (tests/simt) has its
// own.
#pragma once

#ifndef MSDA_SIMULATED

// MSDA_SHARED(type, name[, extents]): one variable for each block.
#define MSDA_SHARED(type, name, ...) __shared__ type name __VA_ARGS__

// Bytes that the launch asks for.
#define MSDA_DYNAMIC_SHARED(name) extern __shared__ char name[]

#endif

#include <cstdint>

namespace msda {

// The address of a shared variable, as instructions take it.
template <typename T>
__device__ __forceinline__ std::uint32_t shared_address(const T* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

}  // namespace msda
