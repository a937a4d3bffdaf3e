// A plan is prepared for a device here, and launched.

#include "kernels/common/launch.h"
#include "core/device_array.h"
#include "tests/families/example_gpu/plan.h"

#include <algorithm>

namespace msda::example_gpu {
namespace {

constexpr Kernel<Params> (*kLoad[])() = {
#define MSDA_VARIANT(type, ...) load_rows<ValueType::type>,
#include "rows/example_gpu.inc"
#undef MSDA_VARIANT
};

constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 30;  // the kernel strides over what is more

struct ExamplePlan final : Prepared {
  ExamplePlan(Variant const& variant, Problem const& problem, Device const& device)
      : far_levels(far_levels_of(problem), device),
        params(make_params(problem, far_levels.data())),
        kernel(kLoad[kTable.index_of(variant)]()) {}
  DeviceArray<LevelParams> far_levels;
  Params params;  // all but the buffers
  Kernel<Params> kernel;
};

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<ExamplePlan const&>(*launch.prepared);
  Params const params = with_buffers(plan.params, launch.call);
  std::int64_t const elements =
      params.batch * params.query_count * params.head_count * params.head_dim;
  launch_kernel(plan.kernel,
                {.blocks = std::min(divide_up(elements, kThreads), kMaxBlocks),
                 .threads = kThreads,
                 .overlaps_previous = true},
                static_cast<cudaStream_t>(launch.call.stream), params);
}

}  // namespace

extern const FamilyCode kCode = {prepare<ExamplePlan>, launch};

}  // namespace msda::example_gpu
