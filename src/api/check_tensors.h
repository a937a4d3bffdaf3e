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
#include <string_view>

namespace msda::api {

class CallRules {
 public:
  CallRules(Problem const& problem, std::size_t workspace_bytes, Device const& device);

  // The canonical form of a call, of which nothing has been touched; throws StatusError naming the
  // first bad buffer. May be called by several threads at a time.
  Call check(const msda_tensors* tensors, msda_stream stream) const;

 private:
  struct Rule {
    TensorInfo const* info;
    TensorShape shape;
    std::int64_t bytes;  // from the first to behind the last
    std::uintptr_t alignment;
  };
  struct Span;
  // On a GPU: the buffer that the driver was last asked about, and that may be used.
  using Accepted = std::atomic<const void*>;

  bool on_cpu() const { return ordinal_ < 0; }
  static Span span_from(std::string_view name, const void* pointer, std::uintptr_t bytes,
                        bool is_written);
  static Span span_of(Rule const& rule, const void* pointer);
  Span workspace_of(msda_tensors const& t) const;
  static bool take_turns(Span const& a, Span const& b);
  static void check_overlap(const Span* spans, std::size_t count);
  void check_memory(Span const& span, Accepted& accepted) const;

  std::array<Rule, kTensorCount> rules_;  // of the buffers that these calls have
  std::size_t count_ = 0;
  std::size_t workspace_bytes_;
  std::int32_t ordinal_;  // the device's
  bool reads_host_memory_;
  bool is_backward_;
  bool is_fused_;
  msda_dtype value_dtype_;
  mutable std::array<Accepted, kTensorCount + 1> accepted_{};
};

}  // namespace msda::api
