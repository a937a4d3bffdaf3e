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
  PipelinePlan(Variant const& variant, Problem const& problem, Device const& device)
      : params(make_params(problem)),
        loaded(kLoad[kTable.index_of(variant)]()),
        attention(attention::prepare(problem, device, *this)),
        blocks(divide_up(row_count(problem), loaded.block_rows)),
        has_aligned_strides(value_strides_are_multiples(problem, kVecBytes)) {}
  Params params;  // all but the buffers
  Loaded loaded;
  attention::Writer attention;
  std::int64_t blocks;
  bool has_aligned_strides;
};

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<PipelinePlan const&>(*launch.prepared);
  Params const params = with_buffers(plan.params, launch.call);
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

extern const FamilyCode kCode = {prepare<PipelinePlan>, launch};

}  // namespace msda::pipeline
