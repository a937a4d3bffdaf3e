#include "core/tensor_sizes.h"

#include "core/dtype.h"
#include "core/status.h"

#include <algorithm>
#include <array>
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

std::int64_t axis_size(Problem const& problem, char axis) {
  constexpr std::string_view kAxes = "BSQMDLKR2";
  std::array<std::int64_t, kAxes.size()> const sizes = {
      problem.batch,       problem.token_count,   problem.query_count,
      problem.head_count,  problem.head_dim,      static_cast<std::int64_t>(problem.levels.size()),
      problem.point_total, problem.reference_dim, 2};
  return sizes.at(kAxes.find(axis));
}

struct Columns {
  msda_dtype Problem::* dtype;  // null: float32
  Strides Problem::* strides;   // null: packed
};
using P = TensorColumns<Problem>;
constexpr auto kColumns = std::to_array<Columns>({
#define MSDA_TENSOR(name, id, axes, dtype, strides, modes, role) \
  {member_or_null(&P::dtype), member_or_null(&P::strides)},
#include "core/tensors.inc"
#undef MSDA_TENSOR
});

}  // namespace

Strides packed_strides(std::int64_t rows, std::int64_t heads, std::int64_t inner) {
  // Unsigned: sizes that overflow are refused by check_packed_sizes(), which meets these strides
  // first.
  auto const product = [](std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  };
  return {product(rows, product(heads, inner)), product(heads, inner), inner};
}

TensorShape tensor_shape(Problem const& problem, Tensor tensor) {
  TensorInfo const& info = tensor_info(tensor);
  auto const [dtype, strides] = kColumns[static_cast<std::size_t>(tensor)];
  // Batch, rows and heads; what is behind the heads, or all of a tensor of one axis, is packed.
  std::array<std::int64_t, 4> sizes = {1, 1, 1, 1};
  std::size_t const first = info.axes.size() == 1 ? 3 : 0;
  for (std::size_t i = 0; i < info.axes.size(); ++i) {
    sizes[std::min(first + i, std::size_t{3})] *= axis_size(problem, info.axes[i]);
  }
  auto const [batch, rows, heads, inner] = sizes;
  return {info.name,
          batch,
          rows,
          heads,
          inner,
          strides == nullptr ? packed_strides(rows, heads, inner) : problem.*strides,
          dtype == nullptr ? MSDA_DTYPE_F32 : problem.*dtype};
}

bool TensorShape::is_packed() const {
  Strides const packed = packed_strides(rows, heads, inner);
  return is_empty() ||
         ((batch == 1 || strides.batch == packed.batch) &&
          (rows == 1 || strides.row == packed.row) && (heads == 1 || strides.head == packed.head));
}

Strides Problem::* tensor_strides(Tensor tensor) {
  return kColumns[static_cast<std::size_t>(tensor)].strides;
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
  for (TensorInfo const& info : kTensors) {
    TensorShape const shape = tensor_shape(problem, info.id);
    // 8 bytes an element whatever the dtype, so working copies in float64 can be addressed; a zero
    // counts as one, so that no product of a problem's sizes can overflow anywhere behind this
    // line.
    auto const at_least_one = [](std::int64_t count) { return count == 0 ? 1 : count; };
    std::int64_t elements = at_least_one(shape.batch);
    for (std::int64_t const count : {shape.rows, shape.heads, shape.inner, std::int64_t{8}}) {
      elements = checked_product(elements, at_least_one(count), shape);
    }
  }
}

void check_strided_sizes(Problem const& problem) {
  for (TensorInfo const& info : kTensors) tensor_span_bytes(tensor_shape(problem, info.id));
}

}  // namespace msda
