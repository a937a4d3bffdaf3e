#include "support/counting_allocator.h"

#include "support/gpu_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

namespace msda::test {

void CountingAllocator::install(msda_handle_options& options) {
  options.alloc_fn = allocate;
  options.free_fn = release;
  options.alloc_user = this;
}

void CountingAllocator::fail_at(std::int64_t k) {
  std::scoped_lock const lock(mutex_);
  until_fault_ = k;
  has_failed_ = false;
}

bool CountingAllocator::has_failed() const {
  std::scoped_lock const lock(mutex_);
  return has_failed_;
}

std::int32_t CountingAllocator::failed_device() const {
  std::scoped_lock const lock(mutex_);
  return failed_device_;
}

std::int64_t CountingAllocator::calls() const {
  std::scoped_lock const lock(mutex_);
  return calls_;
}

std::int64_t CountingAllocator::gpu_calls() const {
  std::scoped_lock const lock(mutex_);
  return gpu_calls_;
}

std::size_t CountingAllocator::live_blocks() const {
  std::scoped_lock const lock(mutex_);
  return live_.size();
}

std::string CountingAllocator::complaint() const {
  std::scoped_lock const lock(mutex_);
  return complaint_;
}

void* CountingAllocator::allocate(void* user, std::size_t bytes, std::size_t alignment,
                                  std::int32_t device) {
  auto& self = *static_cast<CountingAllocator*>(user);
  std::scoped_lock const lock(self.mutex_);
  ++self.calls_;
  if (device != MSDA_DEVICE_CPU) ++self.gpu_calls_;
  if (bytes == 0 || alignment == 0 || (alignment & (alignment - 1)) != 0 ||
      (device != MSDA_DEVICE_CPU && device != self.device_)) {
    self.complaint_ =
        fmt::format("asked for {} bytes aligned to {} on device {}", bytes, alignment, device);
  }
  if (self.until_fault_ > 0 && --self.until_fault_ == 0) {
    self.has_failed_ = true;
    self.failed_device_ = device;
    return nullptr;
  }
  void* pointer = nullptr;
  if (device != MSDA_DEVICE_CPU) {
    pointer = allocate_on_gpu(bytes, device);
  } else if (posix_memalign(&pointer, std::max(alignment, sizeof(void*)), bytes) != 0) {
    pointer = nullptr;
  }
  if (pointer != nullptr) self.live_[pointer] = {bytes, device};
  return pointer;
}

void CountingAllocator::release(void* user, void* pointer, std::size_t bytes, std::int32_t device) {
  auto& self = *static_cast<CountingAllocator*>(user);
  std::scoped_lock const lock(self.mutex_);
  auto const found = self.live_.find(pointer);
  if (found == self.live_.end() || found->second.bytes != bytes || found->second.device != device) {
    self.complaint_ = fmt::format("freed {} of {} bytes on device {}", pointer, bytes, device);
    return;
  }
  self.live_.erase(found);
  if (device != MSDA_DEVICE_CPU) return free_on_gpu(pointer, device);
  std::free(pointer);
}

}  // namespace msda::test
