// The reference family: float64 throughout, every combination of the contract, no trick. It is what
// the other kernels are held against, so it is kept plain; its speed is whatever that gives.

#include "core/family.h"
#include "cpu/ref/ref_kernel.h"

namespace msda::ref {
namespace {

// Measured on one Zen 4 core at 2.6 GHz, fp32: nanoseconds for a corner's channel, for a point, and
// for a value whose gradient is zeroed, read again and stored.
constexpr double kForwardNsPerChannel = 1.6;
constexpr double kBackwardNsPerChannel = 6.0;
constexpr double kNsPerPoint = 40.0;
constexpr double kNsPerValue = 10.0;

const Variant kVariants[] = {
#define MSDA_VARIANT(target, revision) \
  {.id = "ref." #target "@" #revision, .value_dtype = MSDA_DTYPE_NONE, .last_resort = true},
#include "cpu/ref/variants.inc"
#undef MSDA_VARIANT
};

Reason reject(Variant const&, Problem const&, Device const& device) {
  return device.is_cpu() ? Reason::kNone : Reason::kDeviceIsCuda;
}

double predict(const double*, Variant const&, Problem const& problem, Device const& device) {
  double const points =
      static_cast<double>(problem.batch) * static_cast<double>(problem.query_count) *
      static_cast<double>(problem.head_count) * static_cast<double>(problem.point_total);
  double const channels = 4.0 * points * static_cast<double>(problem.head_dim);
  double const per_channel = problem.backward() ? kBackwardNsPerChannel : kForwardNsPerChannel;
  double const heads = static_cast<double>(problem.batch) * static_cast<double>(problem.head_count);
  double const values = problem.backward() ? heads * static_cast<double>(problem.token_count) *
                                                 static_cast<double>(problem.head_dim)
                                           : 0.0;
  double const ns = points * kNsPerPoint + channels * per_channel + values * kNsPerValue;
  return ns * 1e-3 / device.thread_count + 1.0;
}

void workspace(Variant const&, Problem const& problem, Device const&, Arena& arena) {
  take_scratch(problem, arena);
}

PreparedPtr prepare(Variant const&, Problem const&, Device const&, std::pmr::memory_resource*) {
  return nullptr;
}

void launch(Variant const&, Launch const& launch) {
  Arena arena(launch.call.workspace);
  Scratch const scratch = take_scratch(launch.problem, arena);
  if (launch.problem.backward()) {
    run_backward(launch.problem, launch.call, scratch, *launch.device.pool);
  } else {
    run_forward(launch.problem, launch.call, scratch, *launch.device.pool);
  }
}

}  // namespace

extern const FamilyModel kModel;
const FamilyModel kModel = {
    .name = "ref",
    .variants = kVariants,
    .reject = reject,
    .predict = predict,
    .workspace = workspace,
};
extern const FamilyCode kCode = {prepare, launch};

}  // namespace msda::ref
