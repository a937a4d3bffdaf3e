// The rules for the buffers of a plan's calls: worked out with the plan, so that a call has
// little left to do.
#pragma once

#include "core/call.h"
#include "core/device.h"
#include "core/problem.h"
#include "core/tensor_sizes.h"

#include <msda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace msda::api {

// The rule for one buffer of a call.
struct BufferRule {
  TensorInfo const* info;
  TensorShape shape;
  std::int64_t bytes;  // from the first to behind the last
  std::uintptr_t alignment;
};

class CallRules {
 public:
  CallRules(Problem const& problem, std::size_t workspace_bytes, Device const& device);

  // The canonical form of a call, of which nothing has been touched; throws StatusError naming the
  // first bad buffer. May be called by several threads at a time.
  Call check(const msda_tensors* tensors, msda_stream stream) const;

 private:
  std::array<BufferRule, kTensorCount> rules_;  // of the buffers that these calls have
  std::size_t count_ = 0;
  std::size_t workspace_bytes_;
  std::int32_t ordinal_;  // the device's
  bool reads_host_memory_;
  bool is_backward_;
  bool is_fused_;
  msda_dtype value_dtype_;
  // On a GPU: the buffers that the driver was last asked about, and that may be used.
  mutable std::array<std::atomic<const void*>, kTensorCount + 1> accepted_{};
};

}  // namespace msda::api
