// An H200 as cuda::open_device() describes it, for tests that plan for a GPU without one.
#pragma once

#include "core/device.h"

namespace msda::test {

inline Device h200() {
  Device device;
  device.ordinal = 0;
  device.sm = 90;
  device.sm_count = 132;
  device.shared_bytes_per_block = 227 << 10;
  device.shared_bytes_per_sm = 228 << 10;
  device.max_cluster_blocks = 8;
  device.has_async_copy = true;
  device.has_bulk_copy = true;
  return device;
}

}  // namespace msda::test
