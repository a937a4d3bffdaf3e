#include "cpu/zero_results.h"

#include "core/dtype.h"
#include "core/tensor_sizes.h"

#include <cstddef>
#include <cstring>

namespace msda {

namespace {

// Leaves what lies between rows alone.
void zero_rows(Problem const& problem, Call const& call, Tensor tensor) {
  TensorShape const shape = tensor_shape(problem, tensor);
  auto* const array = static_cast<std::byte*>(call[tensor]);
  if (array == nullptr || shape.is_empty()) return;
  if (shape.is_packed()) {
    std::memset(array, 0, static_cast<std::size_t>(tensor_span_bytes(shape)));
    return;
  }
  std::int64_t const element = dtype_bytes(shape.dtype);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t q = 0; q < shape.rows; ++q) {
      for (std::int64_t m = 0; m < shape.heads; ++m) {
        std::memset(array + shape.strides.at(b, q, m) * element, 0,
                    static_cast<std::size_t>(shape.inner * element));
      }
    }
  }
}

}  // namespace

void zero_results(Problem const& problem, Call const& call) {
  for (TensorInfo const& info : kTensors) {
    if (info.is_result() && info.belongs_to(problem.backward(), problem.fused())) {
      zero_rows(problem, call, info.id);
    }
  }
}

}  // namespace msda
