// Addresses of simulated device memory: pages of a reserved range that nothing else of the process
// uses. Around each allocation lie a page that nothing may touch and, within the pages of the
// allocation, bytes that are poisoned where there is an address sanitizer and compared with a
// pattern when it is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

namespace simt::cuda {

// Not locked: sim_memory.cpp does that.
class Arena {
 public:
  // Null where the reserved range is full.
  std::byte* allocate(std::size_t bytes);
  // Its addresses are not used again until much else has been freed, so that what still refers to
  // them is found.
  void free(std::byte* at, std::size_t bytes);
  // The bytes around that are not as they should be: the first one's distance from `at`, or 0.
  static std::ptrdiff_t first_changed(const std::byte* at, std::size_t bytes);

 private:
  struct Pages {
    std::byte* begin;
    std::size_t bytes;
  };
  static std::size_t page_bytes(std::size_t bytes);
  static Pages pages_of(std::byte* at, std::size_t bytes);
  bool reserve();
  void release_oldest();

  std::byte* begin_ = nullptr;
  std::byte* end_ = nullptr;
  std::byte* unused_ = nullptr;             // all from here on
  std::map<std::byte*, std::size_t> free_;  // pages that can be used again
  std::deque<Pages> quarantine_;
  std::size_t quarantined_bytes_ = 0;
};

// As memcpy and memset, unseen by sanitizers: what the device does is not what the host's code
// does.
void device_copy(void* to, const void* from, std::size_t bytes);
void device_fill(void* to, int byte, std::size_t bytes);

}  // namespace simt::cuda
