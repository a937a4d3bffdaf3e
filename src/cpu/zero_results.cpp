#include "cpu/zero_results.h"

#include "core/dtype.h"
#include "core/tensor_sizes.h"

#include <cstddef>
#include <cstring>

namespace msda {

void zero_output(Problem const& problem, Call const& call) {
  if (tensor_is_empty(problem, Tensor::kOutput)) return;
  std::int64_t const element = dtype_bytes(problem.output_dtype);
  auto* const output = static_cast<std::byte*>(call[Tensor::kOutput]);
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t q = 0; q < problem.query_count; ++q) {
      for (std::int64_t m = 0; m < problem.head_count; ++m) {
        std::int64_t const row =
            b * problem.output.batch + q * problem.output.row + m * problem.output.head;
        std::memset(output + row * element, 0,
                    static_cast<std::size_t>(problem.head_dim * element));
      }
    }
  }
}

void zero_gradients(Problem const& problem, Call const& call) {
  for (Tensor const tensor : {Tensor::kGradValue, Tensor::kGradCoord, Tensor::kGradWeight,
                              Tensor::kGradReference, Tensor::kGradOffset, Tensor::kGradLogit}) {
    auto const bytes = static_cast<std::size_t>(tensor_span_bytes(tensor_shape(problem, tensor)));
    if (call[tensor] != nullptr && bytes > 0) std::memset(call[tensor], 0, bytes);
  }
}

}  // namespace msda
