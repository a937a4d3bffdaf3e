// Bytes that begin a cache line: a call on the CPU is the fastest on such memory (msda_tensors).
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace msda::command {

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

}  // namespace msda::command
