// Counts the allocations of the whole process, and makes them fail. Works by standing in for
// malloc, or in a sanitized build, where that is taken, by the sanitizer's hooks: those can count
// but not fail.
#pragma once

#include <cstdint>

namespace msda::test {

// Counts from its construction on, on every thread.
class AllocationWatch {
 public:
  AllocationWatch();
  ~AllocationWatch();
  AllocationWatch(AllocationWatch const&) = delete;
  std::int64_t count() const;
  std::int64_t bytes() const;  // of all of them, freed or not
};

bool can_fail_allocations();

// The k-th allocation from here on fails, counted on this thread alone; k = 1 is the next one.
class AllocationFault {
 public:
  explicit AllocationFault(std::int64_t k);
  ~AllocationFault();
  AllocationFault(AllocationFault const&) = delete;
  bool happened() const;
};

// What this thread allocates meanwhile is neither counted nor made to fail.
class AllocationPause {
 public:
  AllocationPause();
  ~AllocationPause();
  AllocationPause(AllocationPause const&) = delete;
};

}  // namespace msda::test
