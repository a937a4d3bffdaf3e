#include "core/tensor_sizes.h"

#include "core/dtype.h"
#include "core/status.h"

#include <utility>

namespace msda {
namespace {

[[noreturn]] void too_large(TensorShape const& shape) {
  invalid("problem: {} of {} x {} x {} x {} elements exceeds the {} bytes that can be addressed",
          shape.name, shape.batch, shape.rows, shape.heads, shape.inner, kLargestByteCount);
}

// a * b, or a refusal where it exceeds kLargestByteCount. Neither is negative.
std::int64_t checked_product(std::int64_t a, std::int64_t b, TensorShape const& shape) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kLargestByteCount) too_large(shape);
  return product;
}

template <typename Check>
void for_each_tensor(Problem const& problem, Check check) {
  for (int i = 0; i < kTensorCount; ++i) check(tensor_shape(problem, static_cast<Tensor>(i)));
}

}  // namespace

Strides packed_strides(std::int64_t rows, std::int64_t heads, std::int64_t inner) {
  // Unsigned: sizes that overflow are refused by check_packed_sizes(), which meets these strides
  // first.
  auto const product = [](std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  };
  return {product(rows, product(heads, inner)), product(heads, inner), inner};
}

TensorShape tensor_shape(Problem const& p, Tensor tensor) {
  std::int64_t const levels = static_cast<std::int64_t>(p.levels.size());
  std::int64_t const S = p.token_count, Q = p.query_count, M = p.head_count, D = p.head_dim;
  std::int64_t const K = p.point_total, R = p.reference_dim;
  auto packed = [&](std::string_view name, std::int64_t rows, std::int64_t heads,
                    std::int64_t inner, msda_dtype dtype) {
    return TensorShape{name, p.batch, rows, heads, inner, packed_strides(rows, heads, inner),
                       dtype};
  };
  auto strided = [&](std::string_view name, std::int64_t rows, std::int64_t inner,
                     Strides const& strides, msda_dtype dtype) {
    return TensorShape{name, p.batch, rows, M, inner, strides, dtype};
  };
  switch (tensor) {
    case Tensor::kValue:
      return strided("value", S, D, p.value, p.value_dtype);
    case Tensor::kCoord:
      return strided("coord", Q, 2 * K, p.coord, p.coord_dtype);
    case Tensor::kWeight:
      return strided("weight", Q, K, p.weight, p.weight_dtype);
    case Tensor::kReference:
      return packed("reference", Q, levels, R, p.coord_dtype);
    case Tensor::kOffset:
      return strided("offset", Q, 2 * K, p.coord, p.coord_dtype);
    case Tensor::kLogit:
      return strided("logit", Q, K, p.weight, p.weight_dtype);
    case Tensor::kValueScale:
      return {"value_scale", 1, 1, 1, M, {}, MSDA_DTYPE_F32};
    case Tensor::kOutput:
      return strided("output", Q, D, p.output, p.output_dtype);
    case Tensor::kGradOutput:
      return strided("grad_output", Q, D, p.output, p.output_dtype);
    case Tensor::kGradValue:
      return packed("grad_value", S, M, D, p.grad_value_dtype);
    case Tensor::kGradCoord:
      return packed("grad_coord", Q, M, 2 * K, p.coord_dtype);
    case Tensor::kGradWeight:
      return packed("grad_weight", Q, M, K, p.weight_dtype);
    case Tensor::kGradReference:
      return packed("grad_reference", Q, levels, R, p.coord_dtype);
    case Tensor::kGradOffset:
      return packed("grad_offset", Q, M, 2 * K, p.coord_dtype);
    case Tensor::kGradLogit:
      return packed("grad_logit", Q, M, K, p.weight_dtype);
  }
  fail(MSDA_ERROR_INTERNAL, "no tensor {}", static_cast<int>(tensor));
}

bool tensor_is_empty(Problem const& problem, Tensor tensor) {
  return tensor_shape(problem, tensor).is_empty();
}

std::int64_t tensor_span_bytes(TensorShape const& shape) {
  if (shape.is_empty()) return 0;
  std::int64_t elements = shape.inner;
  for (auto const& [count, stride] :
       {std::pair{shape.batch, shape.strides.batch}, std::pair{shape.rows, shape.strides.row},
        std::pair{shape.heads, shape.strides.head}}) {
    elements += checked_product(count - 1, stride, shape);
    if (elements > kLargestByteCount) too_large(shape);
  }
  return checked_product(elements, dtype_bytes(shape.dtype), shape);
}

void check_packed_sizes(Problem const& problem) {
  for_each_tensor(problem, [](TensorShape const& shape) {
    // 8 bytes an element whatever the dtype, so working copies in float64 can be addressed; a zero
    // counts as one, so that no product of a problem's sizes can overflow anywhere behind this
    // line.
    auto const at_least_one = [](std::int64_t count) { return count == 0 ? 1 : count; };
    std::int64_t elements = at_least_one(shape.batch);
    for (std::int64_t const count : {shape.rows, shape.heads, shape.inner, std::int64_t{8}}) {
      elements = checked_product(elements, at_least_one(count), shape);
    }
  });
}

void check_strided_sizes(Problem const& problem) {
  for_each_tensor(problem, [](TensorShape const& shape) { tensor_span_bytes(shape); });
}

}  // namespace msda
