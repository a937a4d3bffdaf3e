// All that kernels may know of the device a handle stands for.
#pragma once

#include "core/clock.h"

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <string_view>

namespace msda {

class ThreadPool;

struct Device {
  std::int32_t ordinal = -1;              // CUDA ordinal, or MSDA_DEVICE_CPU
  bool has_others = false;                // CUDA: the process sees more devices than this one
  std::int32_t sm = 0;                    // compute capability times ten; 0: CPU
  std::int32_t sm_count = 0;              // 0: CPU
  std::int32_t sm_count_limit = 0;        // a plan's: what it was told to keep to; 0: no limit
  std::size_t workspace_limit_bytes = 0;  // a plan's, as well
  std::int32_t thread_count = 1;  // CPU: threads that work on one call, the caller's included
  ThreadPool* pool = nullptr;     // CPU: never null there
  std::string_view vector_unit;   // CPU: the instruction set that its SIMD kernels use, "AVX3"
  std::pmr::memory_resource* memory = nullptr;  // CUDA: what plans keep on the device
  bool reads_host_memory = false;               // a GPU that shares the host's page tables
  std::int64_t shared_bytes_per_block = 0;      // CUDA: of shared memory, for kernels that ask
  std::int64_t shared_bytes_per_sm = 0;         // CUDA: the same of all blocks
  std::int32_t max_cluster_blocks = 0;          // CUDA: of any kernel; 0: there are no clusters
  bool has_async_copy = false;                  // CUDA: cp.async
  bool has_bulk_copy = false;                   // CUDA: cp.async.bulk, tensor maps too (TMA)
  std::string_view name;    // signature that plans and tuning records are bound to
  Clock clock = steady_us;  // the host's, by which the tuner keeps to its budget

  bool is_cpu() const { return ordinal < 0; }
  Device limited_to(std::int32_t limit, std::size_t workspace_bytes = 0) const {
    Device device = *this;
    device.workspace_limit_bytes = workspace_bytes;
    device.sm_count_limit = limit;
    if (limit > 0 && limit < sm_count) device.sm_count = limit;
    return device;
  }
};

}  // namespace msda
