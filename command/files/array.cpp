#include "command/files/array.h"

#include "command/files/input_error.h"
#include "command/files/parallel.h"
#include "core/join.h"

#include <fmt/core.h>

#include <atomic>

namespace msda::command {

std::string shape_text(Shape const& shape) { return fmt::format("[{}]", join(shape, ", ")); }

std::size_t byte_count(Shape const& shape, std::size_t element_bytes, std::string_view name) {
  if (std::ranges::any_of(shape, [](std::int64_t dimension) { return dimension < 0; })) {
    bad_input("{} has shape {}: no dimension can be negative", name, shape_text(shape));
  }
  // An empty array is empty, however large its other dimensions: look for zeros first.
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  auto bytes = static_cast<std::int64_t>(element_bytes);
  for (std::int64_t const dimension : shape) {
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) {
      bad_input("{} has shape {}: that is more than 2^63 bytes", name, shape_text(shape));
    }
  }
  return static_cast<std::size_t>(bytes);
}

Array::Array(msda_dtype element_type, Shape dimensions)
    : type(element_type),
      shape(std::move(dimensions)),
      bytes(byte_count(shape, type_bytes(type), "array")) {}

std::int64_t Array::element_count() const {
  return static_cast<std::int64_t>(bytes.size() / type_bytes(type));
}

std::span<double> float64_elements(Array& array) {
  return {reinterpret_cast<double*>(array.bytes.data()), array.bytes.size() / sizeof(double)};
}

std::span<const double> float64_elements(Array const& array) {
  return {reinterpret_cast<const double*>(array.bytes.data()), array.bytes.size() / sizeof(double)};
}

Array convert(Array array, msda_dtype type, std::int64_t* overflow_count,
              ChangeNumbers const& change) {
  if (array.type == type && !change) return array;
  Array converted(type, array.shape);
  // In chunks: the float64 in between would be much larger than either array.
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  std::size_t const from_bytes = type_bytes(array.type);
  std::size_t const to_bytes = type_bytes(type);
  std::atomic<std::int64_t> overflows = 0;
  for_chunks(
      static_cast<std::size_t>(array.element_count()), kChunk,
      [&](std::size_t, std::size_t start, std::size_t length) {
        auto values = decode_elements(
            array.type, std::span(array.bytes).subspan(start * from_bytes, length * from_bytes));
        if (change) change(start, values);
        overflows += encode_elements(
            type, values, std::span(converted.bytes).subspan(start * to_bytes, length * to_bytes));
      });
  if (overflow_count != nullptr) *overflow_count += overflows;
  return converted;
}

}  // namespace msda::command
