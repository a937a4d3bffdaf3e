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
  // Sets the allocator's three fields.
  void install(msda_handle_options& options);

  // The k-th allocation from here on fails; 0: none.
  void fail_at(std::int64_t k);
  std::int64_t calls() const;
  std::size_t live_blocks() const;
  // "" or the first misuse: a free of something else, or with another size.
  std::string complaint() const;

 private:
  static void* allocate(void* user, std::size_t bytes, std::size_t alignment, std::int32_t device);
  static void release(void* user, void* pointer, std::size_t bytes, std::int32_t device);

  mutable std::mutex mutex_;
  std::map<void*, std::size_t> live_;
  std::int64_t calls_ = 0;
  std::int64_t until_fault_ = 0;
  std::string complaint_;
};

}  // namespace msda::test
