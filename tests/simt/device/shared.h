// __shared__ variables, as kernels/common/ptx.cuh declares them for nvcc.
#pragma once

#include "runtime/device_calls.h"

// MSDA_SHARED(type, name[, extents]): one variable for each block.
#define MSDA_SHARED(type, name, ...)                                      \
  typedef type name##_type __VA_ARGS__;                                   \
  static char name##_tag;                                                 \
  name##_type& name = *static_cast<name##_type*>(::simt::shared_variable( \
      &name##_tag, sizeof(name##_type), alignof(name##_type), ::simt::Where::current()))

// Bytes that the launch asks for, aligned as little as they may be.
#define MSDA_DYNAMIC_SHARED(name) \
  char* const name = static_cast<char*>(::simt::dynamic_shared(::simt::Where::current()))

template <typename T>
std::uint32_t __cvta_generic_to_shared(const T* generic,
                                       simt::Where where = simt::Where::current()) {
  return simt::to_shared(generic, where);
}
