#include "support/allocation_watch.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

namespace {

std::atomic<bool> g_watching{false};
std::atomic<std::int64_t> g_count{0};
std::atomic<std::int64_t> g_bytes{0};
// Counts down to the allocation that fails; 0: none does.
thread_local std::int64_t t_until_fault = 0;
thread_local bool t_fault_happened = false;
thread_local int t_pauses = 0;

// Whether this allocation is to fail.
bool note_allocation(std::size_t bytes) {
  if (t_pauses > 0) return false;
  if (g_watching.load(std::memory_order_relaxed)) {
    g_count.fetch_add(1, std::memory_order_relaxed);
    g_bytes.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }
  if (t_until_fault == 0 || --t_until_fault > 0) return false;
  t_fault_happened = true;
  return true;
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MSDA_TEST_STANDS_IN_FOR_MALLOC 0

extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*,
                                                                  std::size_t),
                                                         void (*)(const volatile void*));
namespace {
void on_malloc(const volatile void*, std::size_t bytes) { note_allocation(bytes); }
void on_free(const volatile void*) {}
[[maybe_unused]] const int g_hooks = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}  // namespace

#else
#define MSDA_TEST_STANDS_IN_FOR_MALLOC 1

// glibc's own entry points behind the public names.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* pointer, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) noexcept {
  return note_allocation(bytes) ? nullptr : __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  return note_allocation(count * bytes) ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* pointer, std::size_t bytes) noexcept {
  return note_allocation(bytes) ? nullptr : __libc_realloc(pointer, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  return note_allocation(bytes) ? nullptr : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return note_allocation(bytes) ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) noexcept {
  if (note_allocation(bytes)) return ENOMEM;
  void* const pointer = __libc_memalign(alignment, bytes);
  if (pointer == nullptr) return ENOMEM;
  *out = pointer;
  return 0;
}
}
#endif

namespace msda::test {

AllocationWatch::AllocationWatch() {
  g_count = 0;
  g_bytes = 0;
  g_watching = true;
}
AllocationWatch::~AllocationWatch() { g_watching = false; }
std::int64_t AllocationWatch::count() const { return g_count; }
std::int64_t AllocationWatch::bytes() const { return g_bytes; }

bool can_fail_allocations() { return MSDA_TEST_STANDS_IN_FOR_MALLOC != 0; }

AllocationFault::AllocationFault(std::int64_t k) {
  t_fault_happened = false;
  t_until_fault = k;
}
AllocationFault::~AllocationFault() { t_until_fault = 0; }
bool AllocationFault::happened() const { return t_fault_happened; }

AllocationPause::AllocationPause() { ++t_pauses; }
AllocationPause::~AllocationPause() { --t_pauses; }

}  // namespace msda::test
