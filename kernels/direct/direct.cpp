// The direct family: the generic kernel, which takes every problem, and the row kernel, which takes
// most.

#include "kernels/direct/direct.h"

#include "core/cuda.h"
#include "core/dtype.h"
#include "core/family.h"
#include "kernels/common/elements.h"
#include "kernels/common/make_params.h"
#include "kernels/common/row_limits.h"
#include "kernels/direct/direct_model.h"

#include <algorithm>

namespace msda::direct {

namespace {

// Loads the kernels of each row of variants.inc.
constexpr Kernels (*kLoad[])(KernelOptions) = {
#define MSDA_VARIANT(type, channels, points, ...) load_kernels<ValueType::type, channels, points>,
#include "rows/direct.inc"
#undef MSDA_VARIANT
};

bool is_wide(Problem const& problem) {
  return problem.coord_dtype == MSDA_F64 || problem.weight_dtype == MSDA_F64;
}

// ---- workspace, prepare, launch

msda_dtype sum_dtype(Problem const& problem) {
  return problem.value_dtype == MSDA_F64 ? MSDA_F64 : MSDA_F32;
}

bool needs_sums(Problem const& problem) {
  return problem.backward() && problem.grad_value_dtype != sum_dtype(problem);
}

std::int64_t sum_bytes(Problem const& problem) {
  return problem.batch * problem.token_count * problem.head_count * problem.head_dim *
         dtype_bytes(sum_dtype(problem));
}

std::byte* take_sums(Problem const& problem, Arena& arena) {
  if (!needs_sums(problem)) return nullptr;
  return arena.take<std::byte>(static_cast<std::size_t>(sum_bytes(problem)));
}

void workspace(Variant const&, Problem const& problem, Device const&, Arena& arena) {
  take_sums(problem, arena);
}

// Blocks of one launch; the generic kernels walk over what is more in strides of the grid.
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 30;

struct DirectPlan final : Prepared {
  DirectPlan(Problem const& problem, Device const& device)
      : far_levels(problem, device), params(make_params(problem, far_levels.data())) {}
  FarLevels far_levels;
  Params params;  // all but the buffers
  Kernels kernels{};
  bool has_aligned_strides = false;
  std::int64_t forward_blocks = 0;
  std::int64_t max_blocks = kMaxBlocks;  // of gradients: no more SMs have work
};

std::int64_t divide_up(std::int64_t items, std::int64_t of_block) {
  return (items + of_block - 1) / of_block;
}

PreparedPtr prepare(Variant const& variant, Problem const& problem, Device const& device,
                    std::pmr::memory_resource* memory) {
  Entry const& entry = kTable[variant];
  PreparedPtr prepared = make_prepared<DirectPlan>(memory, problem, device);
  auto& plan = static_cast<DirectPlan&>(*prepared);
  plan.kernels = kLoad[kTable.index_of(variant)]({.backward = problem.backward(),
                                                  .fused = problem.fused(),
                                                  .wide = is_wide(problem),
                                                  .split = problem.head_count % 2 == 1});
  // 8-bit values are loaded 8 bytes at a time, all else 16.
  plan.has_aligned_strides =
      value_strides_are_multiples(problem, dtype_bytes(problem.value_dtype) == 1 ? 8 : 16);
  if (device.sm_count_limit != 0) plan.max_blocks = device.sm_count;
  if (problem.backward()) {
    // Of the values, of the points, and the rounding of sums.
    plan.launch_count = needs_sums(problem) ? 3 : 2;
    return prepared;
  }
  std::int64_t const rows = problem.batch * problem.query_count * problem.head_count;
  plan.forward_blocks =
      divide_up(entry.channels == dany ? rows * problem.head_dim : rows, plan.kernels.block_items);
  if (entry.channels == dany) plan.forward_blocks = std::min(plan.forward_blocks, plan.max_blocks);
  return prepared;
}

bool buffers_are_aligned(Params const& params) {
  std::uintptr_t bits = 0;
  for (const void* const pointer : {params.value, params.coord, params.weight, params.reference,
                                    static_cast<const void*>(params.output)}) {
    bits |= reinterpret_cast<std::uintptr_t>(pointer);
  }
  return bits % 16 == 0;
}

// Warps that share the tokens of all heads, about enough to fill any device.
constexpr std::int64_t kBandWarps = 8192;

Bands bands_of(Params const& p) {
  std::int64_t const heads = p.batch * p.head_count;
  std::int64_t const wanted = std::clamp<std::int64_t>(kBandWarps / heads, 1, p.token_count);
  std::int64_t const tokens = divide_up(p.token_count, wanted);
  return {tokens, divide_up(p.token_count, tokens)};
}

void launch_value_gradient(DirectPlan const& plan, Problem const& problem, Params const& p,
                           cudaStream_t stream) {
  std::int64_t const elements = p.batch * p.token_count * p.head_count * p.head_dim;
  if (p.grad_value == nullptr || elements == 0) return;
  void* const sums = p.sums != nullptr ? p.sums : p.grad_value;
  cuda::check(cudaMemsetAsync(sums, 0, static_cast<std::size_t>(sum_bytes(problem)), stream),
              "clearing grad_value");
  auto const blocks_of = [&plan](std::int64_t items, std::int64_t of_block) {
    return std::min(divide_up(items, of_block), plan.max_blocks);
  };
  if (p.query_count * p.point_total > 0) {
    Bands const bands = bands_of(p);
    launch_kernel(plan.kernels.of_values,
                  {.blocks = blocks_of(p.batch * p.head_count * bands.count, kWarpsPerBlock),
                   .threads = kThreads,
                   .overlaps_previous = true},
                  stream, p, bands);
  }
  if (p.sums == nullptr) return;
  launch_kernel(
      plan.kernels.store_sums,
      {.blocks = blocks_of(elements, kThreads), .threads = kThreads, .overlaps_previous = true},
      stream, p);
}

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<DirectPlan const&>(*launch.prepared);
  auto const stream = static_cast<cudaStream_t>(launch.call.stream);
  Params params = plan.params;
  set_buffers(params, launch.call);
  if (!launch.problem.backward()) {
    bool const aligned = plan.has_aligned_strides && buffers_are_aligned(params);
    launch_kernel(plan.kernels.forward[aligned],
                  {.blocks = plan.forward_blocks, .threads = kThreads, .overlaps_previous = true},
                  stream, params);
    return;
  }
  Arena arena(launch.call.workspace);
  params.sums = take_sums(launch.problem, arena);
  launch_value_gradient(plan, launch.problem, params, stream);
  if (params.grad_coord == nullptr && params.grad_weight == nullptr &&
      params.grad_reference == nullptr) {
    return;
  }
  std::int64_t const queries = params.batch * params.query_count;
  launch_kernel(plan.kernels.of_points,
                {.blocks = std::min(divide_up(queries, kWarpsPerBlock), plan.max_blocks),
                 .threads = kThreads,
                 .overlaps_previous = true},
                stream, params);
}

}  // namespace

extern const Family kFamily;
const Family kFamily = {"direct", kTable.variants(), reject, cost, workspace, prepare, launch};

}  // namespace msda::direct
