// One allocation routine, run twice: over no memory it counts, over the workspace it hands out.
// A kernel's size query and its real layout are therefore the same code and cannot disagree.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msda {

class Arena {
 public:
  // The workspace and every block taken from it begin at multiples of this.
  static constexpr std::size_t kAlignment = 256;

  Arena() = default;                                // counting mode
  explicit Arena(std::byte* base) : base_(base) {}  // over real memory

  // Returns the next block of `count` T, or null in counting mode.
  template <typename T>
  T* take(std::size_t count) {
    std::size_t const offset = used_;
    used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + offset);
  }

  std::size_t used_bytes() const { return used_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t used_ = 0;
};

// The most of `count`, at least one, of which `bytes` says that they fit a limit; 0: no limit.
template <class Bytes>
std::int64_t most_that_fit(std::int64_t count, std::size_t limit, Bytes bytes) {
  if (limit == 0 || bytes(count) <= limit) return count;
  std::int64_t fits = 1;
  std::int64_t too_many = count;
  while (too_many - fits > 1) {
    std::int64_t const middle = fits + (too_many - fits) / 2;
    (bytes(middle) <= limit ? fits : too_many) = middle;
  }
  return fits;
}

}  // namespace msda
