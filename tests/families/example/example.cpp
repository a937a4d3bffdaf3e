// The smallest family that takes every problem: the reference's sums under another name. What a new
// family begins with.

#include "core/family.h"
#include "cpu/ref/ref_kernel.h"

namespace msda::example {
namespace {

const Variant kVariants[] = {
#define MSDA_VARIANT(target, sums, revision) \
  {.id = "example." #target "." #sums "@" #revision, .value_dtype = MSDA_DTYPE_NONE},
#include "variants.inc"
#undef MSDA_VARIANT
};

Reason reject(Variant const&, Problem const&, Device const& device) {
  return device.is_cpu() ? Reason::kNone : Reason::kDeviceIsCuda;
}

double predict(const double*, Variant const&, Problem const&, Device const&) { return 1e9; }

void workspace(Variant const&, Problem const& problem, Device const&, Arena& arena) {
  ref::take_scratch(problem, arena);
}

// What the calls of a plan run.
struct ExamplePlan final : Prepared {
  explicit ExamplePlan(bool backward) : run(backward ? ref::run_backward : ref::run_forward) {}
  void (*run)(Problem const&, Call const&, ref::Scratch const&, ThreadPool&);
};

PreparedPtr prepare(Variant const&, Problem const& problem, Device const&,
                    std::pmr::memory_resource* memory) {
  return make_prepared<ExamplePlan>(memory, problem.backward());
}

void launch(Variant const&, Launch const& launch) {
  Arena arena(launch.call.workspace);
  ref::Scratch const scratch = ref::take_scratch(launch.problem, arena);
  auto const& plan = static_cast<ExamplePlan const&>(*launch.prepared);
  plan.run(launch.problem, launch.call, scratch, *launch.device.pool);
}

}  // namespace

extern const FamilyModel kModel;
const FamilyModel kModel = {
    .name = "example",
    .variants = kVariants,
    .reject = reject,
    .predict = predict,
    .workspace = workspace,
};
extern const FamilyCode kCode = {prepare, launch};

}  // namespace msda::example
