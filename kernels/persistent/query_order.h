// In what order queries that are the pixels of grids are visited: in square tiles, so that those
// worked on at the same time look at the same pixels.
#pragma once

#include "core/device.h"
#include "core/problem.h"
#include "kernels/common/device_array.h"

#include <cstdint>

namespace msda::persistent {

class QueryOrder {
 public:
  // Without query grids, where the queries are not as many as the pixels either, there is none, and
  // data() is null. The device has to be the current one.
  QueryOrder(Problem const& problem, Device const& device);

  const std::int32_t* data() const { return order_.data(); }  // [Q] in device memory

 private:
  DeviceArray<std::int32_t> order_;
};

}  // namespace msda::persistent
