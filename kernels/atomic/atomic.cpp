// The atomic family: backward by atomic additions, for problems that ask for no determinism.

#include "kernels/atomic/atomic.h"

#include "core/cuda.h"
#include "core/dtype.h"
#include "core/family.h"
#include "kernels/atomic/atomic_costs.h"
#include "kernels/common/device_array.h"
#include "kernels/common/divide_up.h"
#include "kernels/common/elements.h"
#include "kernels/common/make_params.h"
#include "kernels/common/row_limits.h"

#include <algorithm>
#include <vector>
#include "kernels/sorted/tiles.h"

namespace msda::atomic {

namespace {

// What the id says.
struct Entry {
  Kernels (*load)(sorted::KernelOptions);
};
constexpr VariantTable kTable({
#define MSDA_VARIANT(type, revision, sm, architecture, ...)                                  \
  VariantRow<Entry>{{.id = "atomic.sm" #sm "." #type "@" #revision,                          \
                     .value_dtype = dtype_of(ValueType::type),                               \
                     .sm_min = sm,                                                           \
                     .sm_max = last_sm(#architecture, 0) __VA_OPT__(, .__VA_ARGS__ = true)}, \
                    {load_kernels<ValueType::type>}},
#include "rows/atomic.inc"
#undef MSDA_VARIANT
});

// ---- reject

constexpr std::int64_t kMaxIndex = INT32_MAX;

// Tokens, queries, and points of all rows are counted in 32 bits.
bool sizes_fit(Problem const& problem) {
  std::int64_t points = 1;
  for (std::int64_t const size :
       {problem.batch, problem.query_count, problem.head_count, problem.point_total}) {
    std::int64_t const at_least_one = std::max<std::int64_t>(size, 1);
    if (at_least_one > kMaxIndex / points) return false;
    points *= at_least_one;
  }
  return problem.token_count <= kMaxIndex;
}

bool levels_fit(Problem const& problem) {
  return std::ranges::all_of(problem.levels, [](Level const& level) {
    return level.height <= kLargestSide && level.width <= kLargestSide;
  });
}

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  if (device.is_cpu()) return Reason::kDeviceIsCpu;
  if (!variant.runs_on(device)) return Reason::kComputeCapability;
  if (problem.value_dtype != variant.value_dtype) return Reason::kValueDtype;
  if (!problem.backward()) return Reason::kOperation;
  if (problem.coord_dtype == MSDA_DTYPE_F64) return Reason::kCoordDtype;
  if (problem.weight_dtype == MSDA_DTYPE_F64) return Reason::kWeightDtype;
  if (device.sm_count_limit != 0) return Reason::kSmLimit;
  std::int64_t const D = problem.head_dim;
  if (D == 0 || D > sorted::kMaxHeadDim || D % sorted::kChannelsOfLane != 0) {
    return Reason::kHeadDim;
  }
  if (!levels_fit(problem)) return Reason::kLevels;
  return sizes_fit(problem) ? Reason::kNone : Reason::kTooLarge;
}

double cost(Variant const& variant, Problem const& problem, Device const& device) {
  return predicted_us(Costs{}, variant, problem, device);
}

// ---- workspace, prepare

std::int64_t value_elements(Problem const& problem) {
  return problem.batch * problem.token_count * problem.head_count * problem.head_dim;
}
std::int64_t row_count(Problem const& problem) {
  return problem.batch * problem.query_count * problem.head_count;
}

struct Workspace {
  float* sums = nullptr;     // [B][S][M][D], where grad_value is not of float32
  float* weights = nullptr;  // fused: [B][Q][M][K]
  float* raw = nullptr;      // fused: [B][Q][M][K][3]

  Workspace(Problem const& problem, Arena& arena) {
    if (problem.grad_value_dtype != MSDA_DTYPE_F32) {
      sums = arena.take<float>(static_cast<std::size_t>(value_elements(problem)));
    }
    if (!problem.fused()) return;
    auto const points = static_cast<std::size_t>(row_count(problem) * problem.point_total);
    weights = arena.take<float>(points);
    raw = arena.take<float>(3 * points);
  }
};

void workspace(Variant const&, Problem const& problem, Device const&, Arena& arena) {
  static_cast<void>(Workspace(problem, arena));
}

std::vector<std::int32_t> level_of_points(Problem const& problem) {
  std::vector<std::int32_t> levels;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    levels.insert(levels.end(), static_cast<std::size_t>(problem.levels[l].point_count),
                  static_cast<std::int32_t>(l));
  }
  return levels;
}

struct AtomicPlan final : Prepared {
  AtomicPlan(Problem const& problem, Device const& device)
      : far_levels(problem, device),
        level_of_point(level_of_points(problem), device),
        point_levels(sorted::make_point_levels(problem), device),
        params(make_params(problem, far_levels.data())) {}
  FarLevels far_levels;
  DeviceArray<std::int32_t> level_of_point;
  DeviceArray<sorted::PointLevel> point_levels;
  Params params;    // all but the buffers
  AddParams add{};  // all but the arrays
  Kernels kernels{};
  bool has_vectors = false;  // as far as strides say
};

// Points of a row that a slot takes: as few as give each SM its threads, and no fewer.
void share_points(AtomicPlan& plan, Problem const& problem, Device const& device) {
  std::int64_t const lanes = sorted::kPointThreads / plan.kernels.slots;
  std::int64_t const batches = divide_up(problem.point_total, plan.kernels.points);
  std::int64_t const threads = std::max<std::int64_t>(row_count(problem) * lanes, 1);
  std::int64_t const wanted = divide_up(kThreadsOfSm * device.sm_count, threads);
  std::int64_t const of_part =
      batches / std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(batches, 1));
  plan.add.part_points = std::max<std::int64_t>(of_part, 1) * plan.kernels.points;
  plan.add.parts = divide_up(problem.point_total, plan.add.part_points);
}

PreparedPtr prepare(Variant const& variant, Problem const& problem, Device const& device,
                    std::pmr::memory_resource* memory) {
  PreparedPtr prepared = make_prepared<AtomicPlan>(memory, problem, device);
  auto& plan = static_cast<AtomicPlan&>(*prepared);
  bool const same_types = problem.output_dtype == problem.value_dtype;
  plan.kernels = kTable[variant].load(
      {.head_dim = static_cast<std::int32_t>(problem.head_dim), .same_types = same_types});
  plan.has_vectors = same_types && value_strides_are_multiples(problem, 16) &&
                     row_stride_fits(problem.value, problem.value_dtype) &&
                     strides_are_multiples(problem.output, problem.output_dtype, 16);
  plan.add.points.level_of_point = plan.level_of_point.data();
  plan.add.points.point_levels = plan.point_levels.data();
  plan.add.points.queries = problem.batch * problem.query_count;
  plan.add.points.heads_together = static_cast<std::uint32_t>(problem.head_count);
  share_points(plan, problem, device);
  plan.launch_count =
      1 + (problem.grad_value_dtype != MSDA_DTYPE_F32 ? 1 : 0) + (problem.fused() ? 2 : 0);
  return prepared;
}

// ---- launch

bool is_aligned(const void* pointer, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) == 0;
}

void clear(void* array, std::int64_t elements, msda_dtype dtype, cudaStream_t stream) {
  if (array == nullptr || elements == 0) return;
  auto const bytes = static_cast<std::size_t>(elements * dtype_bytes(dtype));
  cuda::check(cudaMemsetAsync(array, 0, bytes, stream), "clearing a gradient");
}

void clear_all(Params const& p, cudaStream_t stream) {
  std::int64_t const queries = p.batch * p.query_count;
  std::int64_t const points = queries * p.head_count * p.point_total;
  clear(p.grad_value, p.batch * p.token_count * p.head_count * p.head_dim, p.grad_value_dtype,
        stream);
  clear(p.grad_coord, 2 * points, p.coord_dtype, stream);
  clear(p.grad_weight, points, p.weight_dtype, stream);
  clear(p.grad_reference, queries * p.level_count * p.reference_dim, p.coord_dtype, stream);
}

void add_points(AtomicPlan const& plan, Params const& p, AddParams const& add,
                cudaStream_t stream) {
  Kernels const& kernels = plan.kernels;
  std::int64_t const rows = add.points.queries * p.head_count;
  if (add.points.weights != nullptr) {
    launch_kernel(kernels.softmax,
                  {.blocks = divide_up(rows, sorted::kSmallThreads / sorted::kSoftmaxLanes),
                   .threads = sorted::kSmallThreads,
                   .overlaps_previous = true},
                  stream, p, sorted::SoftmaxParams{add.points.weights, 0, rows, false});
  }
  bool const vectors = plan.has_vectors && is_aligned(p.value, 16) && is_aligned(p.grad_output, 16);
  if (p.token_count > 0) {
    launch_kernel(kernels.add[vectors],
                  {.blocks = divide_up(rows * add.parts, kernels.slots),
                   .threads = sorted::kPointThreads,
                   .overlaps_previous = true},
                  stream, p, add);
  } else {  // as in the sorted family: softmax alone says what the gradients of logits are
    clear(add.points.raw, 3 * rows * p.point_total, MSDA_DTYPE_F32, stream);
  }
  if (add.points.raw == nullptr || !add.wants_points) return;
  launch_kernel(kernels.finish,
                {.blocks = divide_up(add.points.queries, sorted::kSmallThreads / sorted::kWarp),
                 .threads = sorted::kSmallThreads,
                 .overlaps_previous = true},
                stream, p, add.points);
}

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<AtomicPlan const&>(*launch.prepared);
  Problem const& problem = launch.problem;
  auto const stream = static_cast<cudaStream_t>(launch.call.stream);
  Params p = plan.params;
  set_buffers(p, launch.call);
  bool const has_points = row_count(problem) * problem.point_total > 0;
  if (!has_points || (problem.token_count == 0 && !problem.fused())) {
    clear_all(p, stream);
    return;
  }
  AddParams add = plan.add;
  add.wants_points =
      p.grad_coord != nullptr || p.grad_weight != nullptr || p.grad_reference != nullptr;
  if (p.grad_value == nullptr && !add.wants_points) return;
  Arena arena(launch.call.workspace);
  Workspace const space(problem, arena);
  add.points.weights = space.weights;
  add.points.raw = space.raw;
  std::int64_t const elements = value_elements(problem);
  if (p.grad_value != nullptr) {
    add.sums = space.sums != nullptr ? space.sums : static_cast<float*>(p.grad_value);
    add.vector_sums = is_aligned(add.sums, 16);
    clear(add.sums, elements, MSDA_DTYPE_F32, stream);
  }
  add_points(plan, p, add, stream);
  if (p.grad_value == nullptr || space.sums == nullptr) return;
  std::int64_t const quads = elements / kRoundChannels;
  bool const aligned = is_aligned(p.grad_value, kRoundChannels * dtype_bytes(p.grad_value_dtype));
  launch_kernel(plan.kernels.round,
                {.blocks = divide_up(quads, kRoundThreads * kRoundQuads),
                 .threads = kRoundThreads,
                 .overlaps_previous = true},
                stream, p, RoundParams{space.sums, quads, aligned});
}

}  // namespace

extern const Family kFamily;
const Family kFamily = {"atomic", kTable.variants(), reject, cost, workspace, prepare, launch};

}  // namespace msda::atomic
