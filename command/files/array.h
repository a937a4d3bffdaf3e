// One array in memory, as the files hold it.
#pragma once

#include "command/files/element_type.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msda::command {

// Bytes that begin a cache line: a call on the CPU is the fastest on such memory (msda_tensors).
template <typename T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  LineAllocator() = default;
  template <typename U>
  LineAllocator(LineAllocator<U> const&) {}  // NOLINT: implicit, as containers need it
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), kLine));
  }
  void deallocate(T* data, std::size_t) noexcept { ::operator delete(data, kLine); }
  bool operator==(LineAllocator const&) const = default;
};

using Bytes = std::vector<std::byte, LineAllocator<std::byte>>;

using Shape = std::vector<std::int64_t>;

// "[2, 226, 8, 32]"
std::string shape_text(Shape const& shape);

// The product of the dimensions times the element size. `name` is for the message when that is
// negative or overflows.
std::size_t byte_count(Shape const& shape, std::size_t element_bytes, std::string_view name);

struct Array {
  Array() = default;
  Array(msda_dtype type, Shape shape);  // zeros
  Array(msda_dtype element_type, Shape dimensions, Bytes content)
      : type(element_type), shape(std::move(dimensions)), bytes(std::move(content)) {}

  std::int64_t element_count() const;
  std::vector<double> decode() const { return decode_elements(type, bytes); }

  msda_dtype type = MSDA_DTYPE_NONE;
  Shape shape;
  Bytes bytes;
};

// The elements of an array that is of float64.
std::span<double> float64_elements(Array& array);
std::span<const double> float64_elements(Array const& array);

using NamedArray = std::pair<std::string, Array>;

// Changes numbers of an array, of which `first` is the first one's index.
using ChangeNumbers = std::function<void(std::size_t first, std::span<double> numbers)>;

// The array in another type, with its numbers changed, rounded once; adds to `overflow_count` how
// many did not fit. A call that changes nothing leaves an array of that type as it is.
Array convert(Array array, msda_dtype type, std::int64_t* overflow_count = nullptr,
              ChangeNumbers const& change = nullptr);

}  // namespace msda::command
