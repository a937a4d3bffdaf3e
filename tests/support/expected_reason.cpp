#include "support/expected_reason.h"

#include "support/kernel_limits.h"

namespace msda::test {

#define MSDA_FAMILY(name)            \
  namespace name {                   \
  extern const KernelLimits kLimits; \
  }
#define MSDA_CPU_FAMILY(name) MSDA_FAMILY(name)
#include MSDA_FAMILIES
#undef MSDA_FAMILY

namespace {

const KernelLimits* const kAllLimits[] = {
#define MSDA_FAMILY(name) &name::kLimits,
#include MSDA_FAMILIES
#undef MSDA_FAMILY
#undef MSDA_CPU_FAMILY
};

// An id of no family, which tests ask for too, has no limits.
KernelLimits const& limits_of(KernelId const& id) {
  for (const KernelLimits* const limits : kAllLimits) {
    if (id.family() == limits->family) return *limits;
  }
  static constexpr KernelLimits kNone{
      "", [](KernelId const&, ProblemShape const&) { return std::string(); }};
  return kNone;
}

constexpr const char* kClusterReason =
    "needs clusters of more blocks than the device has multiprocessors";

}  // namespace

bool is_for_gpu(std::string const& kernel_id) { return KernelId(kernel_id).is_for_gpu(); }

bool does_forward(std::string const& kernel_id) {
  KernelId const id(kernel_id);
  return limits_of(id).does_forward(id);
}

bool does_backward(std::string const& kernel_id) {
  KernelId const id(kernel_id);
  return limits_of(id).does_backward(id);
}

bool is_deterministic(std::string const& kernel_id) {
  return limits_of(KernelId(kernel_id)).is_deterministic;
}

bool keeps_sm_limit(std::string const& kernel_id, std::int64_t limit) {
  if (kernel_id.empty()) return true;
  KernelId const id(kernel_id);
  return limits_of(id).keeps_sm_limit(id, limit);
}

bool multiplies_corners(std::string const& kernel_id) { return is_for_gpu(kernel_id); }

bool caches_levels(std::string const& kernel_id) {
  KernelId const id(kernel_id);
  return limits_of(id).caches_levels(id);
}

std::string expected_reason(bool on_gpu, std::string const& kernel_id, ProblemShape const& shape) {
  KernelId const id(kernel_id);
  if (id.is_for_gpu() != on_gpu) {
    return on_gpu ? "runs on the CPU, the handle's device is a GPU"
                  : "runs on a GPU, the handle's device is the CPU";
  }
  return limits_of(id).reason(id, shape);
}

std::string expected_reason(TestHandle const& handle, std::string const& kernel_id,
                            ProblemShape const& shape) {
  std::string const reason = expected_reason(handle.on_gpu(), kernel_id, shape);
  KernelId const id(kernel_id);
  bool const fits = !handle.on_gpu() || limits_of(id).cluster_blocks(id) <= handle.sm_count();
  // The operation and types are looked at before the device, sizes behind it.
  for (const char* const earlier : {"operation", "sampling_mode", "value_dtype", "coord_dtype",
                                    "reference_dtype", "weight_dtype"}) {
    if (fits || reason.ends_with(earlier)) return reason;
  }
  return kClusterReason;
}

command::Arithmetic arithmetic_of(std::string const& kernel_id) {
  KernelId const id(kernel_id);
  KernelLimits const& limits = limits_of(id);
  if (limits.sums_in_float64 || id.value_dtype() == MSDA_DTYPE_F64) return Arithmetic::kFloat64;
  return limits.sums_in_float16(id) ? Arithmetic::kFloat16Sums : Arithmetic::kFloat32;
}

}  // namespace msda::test
