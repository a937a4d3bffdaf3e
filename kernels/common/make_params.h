// Makes what kernels are handed: parameters from the canonical problem and call, and arrays that a
// plan keeps on its device.
#pragma once

#include "core/call.h"
#include "core/cuda.h"
#include "core/device.h"
#include "core/problem.h"
#include "kernels/common/params.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace msda {

template <typename T>
class DeviceArray {
 public:
  // The device has to be the current one. Of nothing it is nothing.
  DeviceArray(std::vector<T> const& content, Device const& device) : device_(device) {
    if (content.empty()) return;
    bytes_ = content.size() * sizeof(T);
    data_ = static_cast<T*>(device.memory->allocate(bytes_, alignof(T)));
    try {
      cuda::copy_to_device(data_, content.data(), bytes_);
    } catch (...) {
      device.memory->deallocate(data_, bytes_, alignof(T));
      throw;
    }
  }
  ~DeviceArray() {
    if (data_ == nullptr) return;
    // A plan may be destroyed while another device is current.
    std::optional<cuda::CurrentDevice> current;
    try {
      current.emplace(device_);
    } catch (...) {
      // The device has failed. What a caller's allocator gave is given back all the same.
    }
    device_.memory->deallocate(data_, bytes_, alignof(T));
  }
  DeviceArray(DeviceArray const&) = delete;
  DeviceArray& operator=(DeviceArray const&) = delete;

  const T* data() const { return data_; }

 private:
  Device const& device_;
  T* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// The levels in device memory, for problems with more of them than Params holds; else nothing. Kept
// by a plan.
class FarLevels {
 public:
  // The device has to be the current one.
  FarLevels(Problem const& problem, Device const& device);

  const LevelParams* data() const { return levels_.data(); }

 private:
  DeviceArray<LevelParams> levels_;
};

// Everything but the buffers. far_levels: FarLevels::data().
Params make_params(Problem const& problem, const LevelParams* far_levels);
void set_buffers(Params& params, Call const& call);

inline bool is_aligned(const void* pointer, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) == 0;
}

}  // namespace msda
