#include "support/guarded_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

namespace msda::test {
namespace {

constexpr std::byte kSurroundings{0xA7};

std::size_t page_bytes() {
  static std::size_t const bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t bytes, std::size_t alignment, Against against,
                             std::size_t shift_bytes)
    : bytes_(bytes) {
  std::size_t const inner = round_up(bytes + shift_bytes + alignment, page_bytes());
  mapping_bytes_ = inner + 2 * page_bytes();
  void* const mapping =
      mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::byte*>(mapping);
  if (mprotect(inner_begin(), inner, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  if (against == Against::kLowPage) {
    data_ = inner_begin() + round_up(shift_bytes, alignment);
  } else {
    data_ = inner_end() - shift_bytes - bytes;
    data_ -= reinterpret_cast<std::uintptr_t>(data_) % alignment;
  }
  std::fill(inner_begin(), data_, kSurroundings);
  std::fill(data_ + bytes_, inner_end(), kSurroundings);
}

GuardedBuffer::~GuardedBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

std::byte* GuardedBuffer::inner_begin() const { return mapping_ + page_bytes(); }
std::byte* GuardedBuffer::inner_end() const { return mapping_ + mapping_bytes_ - page_bytes(); }

void GuardedBuffer::set_read_only(bool read_only) {
  if (mapping_ == nullptr) return;
  auto const bytes = static_cast<std::size_t>(inner_end() - inner_begin());
  if (mprotect(inner_begin(), bytes, read_only ? PROT_READ : PROT_READ | PROT_WRITE) != 0) {
    throw std::bad_alloc();
  }
}

bool GuardedBuffer::surroundings_intact() const {
  if (mapping_ == nullptr) return true;
  auto const intact = [](std::byte byte) { return byte == kSurroundings; };
  return std::all_of(inner_begin(), data_, intact) &&
         std::all_of(data_ + bytes_, inner_end(), intact);
}

}  // namespace msda::test
