// The pipeline family on a device: what a plan prepares, and its launch.

#include "kernels/attention/launch.h"
#include "kernels/pipeline/plan.h"

namespace msda::pipeline {
namespace {

// Loads the kernel of each row of variants.inc.
constexpr Loaded (*kLoad[])() = {
#define MSDA_VARIANT(type, channels, stages, ...) load_kernels<ValueType::type, channels, stages>,
#include "rows/pipeline.inc"
#undef MSDA_VARIANT
};

struct PipelinePlan final : Prepared {
  explicit PipelinePlan(Problem const& problem) : params(make_params(problem)) {}
  Params params;  // all but the buffers
  Loaded loaded{};
  attention::Writer attention;
  std::int64_t blocks = 0;
  bool has_aligned_strides = false;
};

PreparedPtr prepare(Variant const& variant, Problem const& problem, Device const& device,
                    std::pmr::memory_resource* memory) {
  PreparedPtr prepared = make_prepared<PipelinePlan>(memory, problem);
  auto& plan = static_cast<PipelinePlan&>(*prepared);
  plan.loaded = kLoad[kTable.index_of(variant)]();
  plan.has_aligned_strides = value_strides_are_multiples(problem, kVecBytes);
  plan.blocks = divide_up(row_count(problem), plan.loaded.block_rows);
  plan.attention = attention::prepare(problem, device, plan);
  return prepared;
}

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<PipelinePlan const&>(*launch.prepared);
  Params params = plan.params;
  set_buffers(params, launch.call);
  auto* const stream = static_cast<cudaStream_t>(launch.call.stream);
  attention::launch(plan.attention, params, stream);
  Alignment const alignment = {
      .values = plan.has_aligned_strides && is_aligned(params.value, kVecBytes),
      .inputs = is_aligned(params.coord, kVecBytes) && is_aligned(params.weight, kVecBytes),
      .output = is_aligned(params.output, kVecBytes),
  };
  launch_overlapping(
      plan.loaded.rows,
      {.blocks = plan.blocks, .threads = kThreads, .shared_bytes = plan.loaded.shared_bytes},
      stream, params, alignment);
}

}  // namespace

extern const FamilyCode kCode = {prepare, launch};

}  // namespace msda::pipeline
