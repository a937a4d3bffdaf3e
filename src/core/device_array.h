// An array that a plan keeps on its device.
#pragma once

#include "core/cuda.h"
#include "core/device.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace msda {

template <typename T>
class DeviceArray {
 public:
  // The device has to be the current one. Of nothing it is nothing.
  DeviceArray(std::vector<T> const& content, Device const& device) : DeviceArray(device) {
    if (content.empty()) return;
    bytes_ = content.size() * sizeof(T);
    data_ = static_cast<T*>(device.memory->allocate(bytes_, alignof(T)));
    cuda::copy_to_device(data_, content.data(), bytes_);  // if it fails, the destructor runs
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
  explicit DeviceArray(Device const& device) : device_(device) {}

  Device const& device_;
  T* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace msda
