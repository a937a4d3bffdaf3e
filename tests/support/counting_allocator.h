// A caller's allocator that keeps the books, and fails where it is told to.
#pragma once

#include <msda.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace msda::test {

class CountingAllocator {
 public:
  // Besides the host's it has memory of this device.
  explicit CountingAllocator(std::int32_t device = MSDA_DEVICE_CPU) : device_(device) {}

  // Sets the allocator's three fields.
  void install(msda_handle_options& options);

  // The k-th allocation from here on fails; 0: none.
  void fail_at(std::int64_t k);
  // Whether it did, and for which device then.
  bool has_failed() const;
  std::int32_t failed_device() const;
  std::int64_t calls() const;
  std::int64_t gpu_calls() const;  // those of them for a GPU's memory
  std::size_t live_blocks() const;
  // "" or the first misuse: a free of something else, or with another size.
  std::string complaint() const;

 private:
  static void* allocate(void* user, std::size_t bytes, std::size_t alignment, std::int32_t device);
  static void release(void* user, void* pointer, std::size_t bytes, std::int32_t device);

  mutable std::mutex mutex_;
  struct Block {
    std::size_t bytes;
    std::int32_t device;
  };

  std::int32_t device_;
  std::map<void*, Block> live_;
  std::int64_t calls_ = 0;
  std::int64_t gpu_calls_ = 0;
  bool has_failed_ = false;
  std::int32_t failed_device_ = MSDA_DEVICE_CPU;
  std::int64_t until_fault_ = 0;
  std::string complaint_;
};

}  // namespace msda::test
