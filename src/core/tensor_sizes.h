// The tensors of a problem as one table: name, shape, strides, dtype. Size checks, span checks and
// buffer checks all walk it.
#pragma once

#include "core/call.h"
#include "core/problem.h"

#include <cstdint>
#include <string_view>

namespace msda {

struct TensorShape {
  std::string_view name;
  std::int64_t batch;  // 1 where the tensor has no such dimension
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t inner;  // packed elements behind the head dimension
  Strides strides;
  msda_dtype dtype;

  bool is_empty() const { return batch == 0 || rows == 0 || heads == 0 || inner == 0; }
  bool is_packed() const;  // or empty, or of one row
};

// Every byte count and byte offset of a tensor is at most this.
inline constexpr std::int64_t kLargestByteCount = INT64_MAX / 4;

TensorShape tensor_shape(Problem const& problem, Tensor tensor);
// The member of a problem that has the tensor's strides, or null: it is packed.
Strides Problem::* tensor_strides(Tensor tensor);
// From the first byte of the tensor to behind its last, strides included; 0 when empty.
std::int64_t tensor_span_bytes(TensorShape const& shape);
inline bool tensor_is_empty(Problem const& problem, Tensor tensor) {
  return tensor_shape(problem, tensor).is_empty();
}

Strides packed_strides(std::int64_t rows, std::int64_t heads, std::int64_t inner);

// Throw MSDA_ERROR_INVALID_ARGUMENT where a tensor, packed or as strided, exceeds
// kLargestByteCount.
void check_packed_sizes(Problem const& problem);
void check_strided_sizes(Problem const& problem);

}  // namespace msda
