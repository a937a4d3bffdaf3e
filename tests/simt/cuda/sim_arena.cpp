#include "cuda/sim_arena.h"

#include "cuda/sim_sanitizers.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace simt::cuda {
namespace {

constexpr std::size_t kPage = 4096;
// cudaMalloc() promises addresses that are multiples of 256, and these are of nothing more.
constexpr std::size_t kMargin = 256;
constexpr std::byte kPattern{0xC9};
constexpr std::size_t kReserved = std::size_t{256} << 30;
constexpr std::size_t kQuarantine = std::size_t{64} << 20;

}  // namespace

// ThreadSanitizer and AddressSanitizer replace memcpy and memset everywhere in the process.
void device_copy(void* to, const void* from, std::size_t bytes) {
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  auto* const target = static_cast<volatile std::byte*>(to);
  for (std::size_t i = 0; i < bytes; ++i) target[i] = static_cast<const std::byte*>(from)[i];
#endif
}

void device_fill(void* to, int byte, std::size_t bytes) {
#if defined(__x86_64__)
  asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(byte) : "memory");
#else
  auto* const target = static_cast<volatile std::byte*>(to);
  for (std::size_t i = 0; i < bytes; ++i) target[i] = static_cast<std::byte>(byte);
#endif
}

std::size_t Arena::page_bytes(std::size_t bytes) {
  return (kMargin + bytes + kMargin + kPage - 1) / kPage * kPage;
}

Arena::Pages Arena::pages_of(std::byte* at, std::size_t bytes) {
  return {at - kMargin, page_bytes(bytes)};
}

bool Arena::reserve() {
  if (begin_ != nullptr) return true;
  void* const range =
      mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return false;
  begin_ = unused_ = static_cast<std::byte*>(range);
  end_ = begin_ + kReserved;
  return true;
}

std::byte* Arena::allocate(std::size_t bytes) {
  if (bytes > kReserved || !reserve()) return nullptr;
  std::size_t const wanted = page_bytes(bytes);
  std::byte* pages = nullptr;
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < wanted + kPage) continue;
    pages = it->first;
    std::size_t const left = it->second - wanted - kPage;
    free_.erase(it);
    if (left > 0) free_[pages + wanted + kPage] = left;
    break;
  }
  if (pages == nullptr) {
    if (static_cast<std::size_t>(end_ - unused_) < wanted + 2 * kPage) return nullptr;
    pages = unused_ + kPage;  // one in front of the first allocation, one behind each
    unused_ += wanted + kPage;
  }
  if (mprotect(pages, wanted, PROT_READ | PROT_WRITE) != 0) return nullptr;
  unpoison(pages, wanted);
  device_fill(pages, std::to_integer<int>(kPattern), kMargin);
  device_fill(pages + kMargin + bytes, std::to_integer<int>(kPattern), wanted - kMargin - bytes);
  poison(pages, wanted);
  return pages + kMargin;
}

void Arena::free(std::byte* at, std::size_t bytes) {
  Pages const pages = pages_of(at, bytes);
  madvise(pages.begin, pages.bytes, MADV_DONTNEED);
  mprotect(pages.begin, pages.bytes, PROT_NONE);
  poison(pages.begin, pages.bytes);
  quarantine_.push_back(pages);
  quarantined_bytes_ += pages.bytes;
  while (quarantined_bytes_ > kQuarantine) release_oldest();
}

void Arena::release_oldest() {
  Pages const pages = quarantine_.front();
  quarantine_.pop_front();
  quarantined_bytes_ -= pages.bytes;
  auto it = free_.emplace(pages.begin, pages.bytes + kPage).first;
  if (auto const next = std::next(it);
      next != free_.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it == free_.begin()) return;
  if (auto const before = std::prev(it); before->first + before->second == it->first) {
    before->second += it->second;
    free_.erase(it);
  }
}

std::ptrdiff_t Arena::first_changed(const std::byte* at, std::size_t bytes) {
  Pages const pages = pages_of(const_cast<std::byte*>(at), bytes);
  std::byte margin[kPage];
  device_copy(margin, pages.begin, kMargin);
  for (std::size_t i = 0; i < kMargin; ++i) {
    if (margin[i] != kPattern) return static_cast<std::ptrdiff_t>(i) - std::ptrdiff_t{kMargin};
  }
  std::size_t const behind = pages.bytes - kMargin - bytes;  // less than a page and a margin
  for (std::size_t first = 0; first < behind; first += kPage) {
    std::size_t const count = std::min(kPage, behind - first);
    device_copy(margin, at + bytes + first, count);
    auto const* const changed =
        std::find_if(margin, margin + count, [](std::byte b) { return b != kPattern; });
    if (changed != margin + count) {
      return static_cast<std::ptrdiff_t>(bytes + first) + (changed - margin);
    }
  }
  return 0;
}

}  // namespace simt::cuda
