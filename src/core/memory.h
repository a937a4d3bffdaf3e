// The caller's allocator as a C++ memory resource. Everything a handle or plan keeps comes from it,
// on the host or on a device.
#pragma once

#include "core/cuda.h"
#include "core/status.h"

#include <msda.h>

#include <algorithm>
#include <cstdint>
#include <memory_resource>
#include <new>

namespace msda {

class CallerMemory final : public std::pmr::memory_resource {
 public:
  CallerMemory() = default;
  CallerMemory(msda_alloc_fn alloc_fn, msda_free_fn free_fn, void* user,
               std::int32_t device = MSDA_DEVICE_CPU)
      : alloc_fn_(alloc_fn), free_fn_(free_fn), user_(user), device_(device) {}

 private:
  // A line's: vectors that kernels load should not lie in two.
  static std::size_t raised(std::size_t alignment) { return std::max<std::size_t>(alignment, 64); }
  void* do_allocate(std::size_t bytes, std::size_t least_alignment) override {
    std::size_t const alignment = raised(least_alignment);
    if (alloc_fn_ == nullptr && device_ < 0) {
      return ::operator new(bytes, std::align_val_t{alignment});
    }
    void* const pointer =
        alloc_fn_ == nullptr ? cuda::allocate(bytes) : alloc_fn_(user_, bytes, alignment, device_);
    if (pointer != nullptr) return pointer;
    if (device_ < 0) throw std::bad_alloc();
    fail(MSDA_ERROR_OUT_OF_MEMORY, "{} bytes of memory of CUDA device {} could not be allocated",
         bytes, device_);
  }
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override {
    if (free_fn_ == nullptr && device_ >= 0) {
      cuda::deallocate(pointer);
    } else if (free_fn_ == nullptr) {
      ::operator delete(pointer, bytes, std::align_val_t{raised(alignment)});
    } else {
      free_fn_(user_, pointer, bytes, device_);
    }
  }
  bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
    return this == &other;
  }

  msda_alloc_fn alloc_fn_ = nullptr;
  msda_free_fn free_fn_ = nullptr;
  void* user_ = nullptr;
  std::int32_t device_ = MSDA_DEVICE_CPU;
};

}  // namespace msda
