// The direct family: the generic kernel, which takes every problem, and the row kernel, which takes
// most.

#include "kernels/direct/direct.h"

#include "core/cuda.h"
#include "core/dtype.h"
#include "core/family.h"
#include "kernels/common/elements.h"
#include "kernels/common/make_params.h"
#include "kernels/common/row_limits.h"
#include "kernels/common/work.h"
#include "kernels/direct/direct_costs.h"

#include <algorithm>

namespace msda::direct {

namespace {

// What the id says.
struct Entry {
  Channels channels;
  Points points;
  Kernels (*load)(KernelOptions);
};
constexpr VariantTable kTable({
#define MSDA_VARIANT(type, channels, points, revision, sm, architecture, ...)                 \
  VariantRow<Entry>{{.id = "direct.sm" #sm "." #type "." #channels "." #points "@" #revision, \
                     .value_dtype = dtype_of(ValueType::type),                                \
                     .sm_min = sm,                                                            \
                     .sm_max = last_sm(#architecture, 0) __VA_OPT__(, .__VA_ARGS__ = true)},  \
                    {channels, points, load_kernels<ValueType::type, channels, points>}},
#include "kernels/direct/variants.inc"
#undef MSDA_VARIANT
});

bool is_wide(Problem const& problem) {
  return problem.coord_dtype == MSDA_F64 || problem.weight_dtype == MSDA_F64;
}

// ---- reject

bool sizes_fit(Problem const& problem) {
  std::int64_t const bytes = problem.value.row * dtype_bytes(problem.value_dtype);
  if (problem.token_count >= kMaxTokens || bytes > kMaxBytes) return false;
  if (problem.head_count > INT32_MAX) return false;
  return std::all_of(problem.levels.begin(), problem.levels.end(), [&](Level const& level) {
    return bytes == 0 || level.row_tokens <= kMaxBytes / bytes;
  });
}

bool points_fit(Entry const& entry, Problem const& problem) {
  if (entry.points == pany) return problem.point_total <= kMaxPoints;
  return every_level_has(problem, entry.points);
}

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  if (device.is_cpu()) return Reason::kDeviceIsCpu;
  if (!variant.runs_on(device)) return Reason::kComputeCapability;
  if (problem.value_dtype != variant.value_dtype) return Reason::kValueDtype;
  if (entry.channels == dany) return Reason::kNone;
  if (problem.backward()) return Reason::kOperation;
  if (problem.coord_dtype == MSDA_F64) return Reason::kCoordDtype;
  if (problem.weight_dtype == MSDA_F64) return Reason::kWeightDtype;
  if (device.sm_count_limit != 0) return Reason::kSmLimit;
  if (!head_dim_fits(problem.head_dim, entry.channels, 8)) return Reason::kHeadDim;
  if (!levels_are_near(problem)) return Reason::kLevels;
  if (!points_fit(entry, problem)) return Reason::kPoints;
  if (!rows_are_packed(problem)) return Reason::kStrides;
  return sizes_fit(problem) ? Reason::kNone : Reason::kTooLarge;
}

// ---- cost

constexpr std::int64_t kWideHead = 64;  // channels from which work and waits go together

double work_ns(Costs const& costs, Entry const& entry, Problem const& problem) {
  auto const D = static_cast<double>(problem.head_dim);
  if (entry.channels == dany) {
    return points_of(problem) * D * costs.generic_ns *
           (problem.backward() ? costs.generic_backward_factor : 1.0);
  }
  auto const bytes = static_cast<std::int32_t>(dtype_bytes(problem.value_dtype));
  double const lanes = std::max(1.0, D / channels_of_vec(bytes));
  double const points = points_of(problem) * std::max(costs.point_ns, costs.point_lane_ns * lanes);
  double const conversion = bytes == 1 ? costs.f8_factor : 1.0;
  return conversion * (points * (entry.points == pany ? costs.any_points_factor : 1.0) +
                       rows_of(problem) * (costs.row_ns + costs.row_lane_ns * lanes));
}

}  // namespace

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = kTable[variant];
  double const work_us = 1e-3 * work_ns(costs, entry, problem) / device.sm_count;
  double const waits = static_cast<double>(problem.point_total) *
                       (entry.channels == dany ? costs.generic_waits : 1.0);
  double const waits_us = costs.wait_us * waits;
  double const busy_us = std::max(work_us, forward_bytes(problem) / costs.bytes_per_us);
  double const both_us = entry.channels != dany && problem.head_dim >= kWideHead
                             ? costs.work_in_waits * waits_us
                             : 0.0;
  return costs.launch_us + std::max(waits_us, waits_us + busy_us - both_us);
}

namespace {

double cost(Variant const& variant, Problem const& problem, Device const& device) {
  return predicted_us(Costs{}, variant, problem, device);
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
  plan.kernels = entry.load({.backward = problem.backward(),
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
                   .threads = kThreads},
                  stream, p, bands);
  }
  if (p.sums == nullptr) return;
  launch_kernel(plan.kernels.store_sums,
                {.blocks = blocks_of(elements, kThreads), .threads = kThreads}, stream, p);
}

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<DirectPlan const&>(*launch.prepared);
  auto const stream = static_cast<cudaStream_t>(launch.call.stream);
  Params params = plan.params;
  set_buffers(params, launch.call);
  if (!launch.problem.backward()) {
    bool const aligned = plan.has_aligned_strides && buffers_are_aligned(params);
    launch_kernel(plan.kernels.forward[aligned],
                  {.blocks = plan.forward_blocks, .threads = kThreads}, stream, params);
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
                 .threads = kThreads},
                stream, params);
}

}  // namespace

extern const Family kFamily;
const Family kFamily = {"direct", kTable.variants(), reject, cost, workspace, prepare, launch};

}  // namespace msda::direct
