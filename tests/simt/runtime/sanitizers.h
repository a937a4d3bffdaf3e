// What the runtime tells the sanitizers. The runtime itself is compiled without them, so that what
// they see is what kernels do; MSDA_SIMT_ASAN and MSDA_SIMT_TSAN say what the rest is built with.
#pragma once

#include <cstddef>
#include <cstdint>

#if MSDA_SIMT_ASAN
#include <sanitizer/asan_interface.h>
#endif
#if MSDA_SIMT_ASAN || MSDA_SIMT_TSAN
#include <sanitizer/common_interface_defs.h>
#endif

#if MSDA_SIMT_TSAN
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_set_fiber_name(void* fiber, const char* name);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_ignore_thread_begin(void);
void __tsan_ignore_thread_end(void);
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#endif

namespace simt {

inline void poison([[maybe_unused]] const void* at, [[maybe_unused]] std::size_t bytes) {
#if MSDA_SIMT_ASAN
  __asan_poison_memory_region(at, bytes);
#endif
}

inline void unpoison([[maybe_unused]] const void* at, [[maybe_unused]] std::size_t bytes) {
#if MSDA_SIMT_ASAN
  __asan_unpoison_memory_region(at, bytes);
#endif
}

inline bool is_poisoned([[maybe_unused]] const void* at, [[maybe_unused]] std::size_t bytes) {
#if MSDA_SIMT_ASAN
  return __asan_region_is_poisoned(const_cast<void*>(at), bytes) != nullptr;
#else
  return false;
#endif
}

// What one fiber did before release() happens before what another does after acquire().
inline void release([[maybe_unused]] void* sync) {
#if MSDA_SIMT_TSAN
  __tsan_release(sync);
#endif
}

inline void acquire([[maybe_unused]] void* sync) {
#if MSDA_SIMT_TSAN
  __tsan_acquire(sync);
#endif
}

// Whether anybody looks at release() and acquire().
#if MSDA_SIMT_TSAN
inline constexpr bool kSeesOrder = true;
#else
inline constexpr bool kSeesOrder = false;
#endif

// Accesses that the running fiber makes without an instrumented instruction.
inline void note_read([[maybe_unused]] const void* at, [[maybe_unused]] std::size_t bytes) {
#if MSDA_SIMT_TSAN
  __tsan_read_range(const_cast<void*>(at), bytes);
#endif
}

inline void note_write([[maybe_unused]] void* at, [[maybe_unused]] std::size_t bytes) {
#if MSDA_SIMT_TSAN
  __tsan_write_range(at, bytes);
#endif
}

// The runtime's own memory and locks are not the kernel's.
inline void begin_own_work() {
#if MSDA_SIMT_TSAN
  __tsan_ignore_thread_begin();
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
#endif
}

inline void end_own_work() {
#if MSDA_SIMT_TSAN
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  __tsan_ignore_thread_end();
#endif
}

class OwnWork {
 public:
  OwnWork() { begin_own_work(); }
  ~OwnWork() { end_own_work(); }
  OwnWork(OwnWork const&) = delete;
  OwnWork& operator=(OwnWork const&) = delete;
};

// A pair of addresses: phase n of whatever threads meet at uses the one of n's parity, so that who
// is late in one phase does not wait for what others do in the next.
struct PhaseSync {
  char of_parity[2] = {};
  void* at(std::uint64_t phase) { return &of_parity[phase & 1]; }
};

}  // namespace simt
