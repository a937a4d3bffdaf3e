// The persistent family: as many blocks as the device has SMs, each with tiles of neighbouring
// rows.

#include "kernels/persistent/persistent.h"

#include "core/cuda.h"
#include "core/dtype.h"
#include "core/family.h"
#include "kernels/common/device_array.h"
#include "kernels/common/elements.h"
#include "kernels/common/make_params.h"
#include "kernels/common/row_limits.h"
#include "kernels/common/work.h"
#include "kernels/persistent/cached_levels.h"
#include "kernels/persistent/entry.h"
#include "kernels/persistent/persistent_costs.h"
#include "kernels/persistent/query_order.h"
#include "kernels/persistent/schedule.h"

#include <algorithm>
#include <cmath>

namespace msda::persistent {

namespace {

constexpr VariantTable kTable({
#define MSDA_VARIANT(type, channels, points, spread, revision, sm, architecture, ...)           \
  VariantRow<Entry>{                                                                            \
      {.id = "persistent.sm" #sm "." #type "." #channels "." #points "." #spread "@" #revision, \
       .value_dtype = dtype_of(ValueType::type),                                                \
       .sm_min = sm,                                                                            \
       .sm_max = last_sm(#architecture, kLastSm) __VA_OPT__(, .__VA_ARGS__ = true)},            \
      {ValueType::type, channels, points, spread,                                               \
       load_kernels<ValueType::type, channels, points, spread>}},
#include "kernels/persistent/variants.inc"
#undef MSDA_VARIANT
});

// ---- reject

// Tokens, the bytes of a batch item's values and from one head to the next fit 32 bits; so do jobs
// and points of all items.
bool sizes_fit(Entry const& entry, Problem const& problem) {
  if (problem.token_count >= kMaxTokens || item_bytes(problem) / kVecBytes > kMaxItemVecs)
    return false;
  if (problem.value.head * element_bytes(problem) > kMaxHeadBytes) return false;
  if (problem.query_count * problem.head_count >= kMaxJobs) return false;
  std::int64_t const jobs = jobs_of(entry, problem).of_item;
  if (jobs > 0 && problem.batch > kMaxJobs / jobs) return false;
  std::int64_t const points = problem.query_count * problem.head_count * problem.point_total;
  return points == 0 || problem.batch <= kMaxPointsOfAll / points;
}

bool points_fit(Entry const& entry, Problem const& problem) {
  if (problem.point_total == 0) return false;
  if (entry.points > 0) return every_level_has(problem, entry.points);
  return problem.point_total <= (entry.points == pfew ? kFewPoints : kMaxPoints);
}

// Rows come in whole batches of a lane, so that inputs can be loaded in vectors.
bool batches_are_whole(Entry const& entry, Problem const& problem) {
  return problem.point_total % batch_of(layout_for(entry, problem), entry.points) == 0;
}

bool pixels_fit_fp16_records(Entry const& entry, Problem const& problem) {
  std::int64_t const most = max_pixels_of(layout_for(entry, problem));
  return std::ranges::all_of(problem.levels, [most](Level const& level) {
    return level.row_tokens * level.height <= most;
  });
}

bool batches_have_one_level(Problem const& problem) {
  return std::ranges::all_of(
      problem.levels, [](Level const& level) { return level.point_count % kMaxOfBatch == 0; });
}

bool levels_are_wide(Problem const& problem) {
  return std::ranges::all_of(
      problem.levels, [](Level const& level) { return level.width > 1 && level.height > 1; });
}

// The heads of the problem, where a kernel may know them: see Heads.
Heads known_heads(Entry const& entry, Problem const& problem) {
  bool const is_packed = problem.head_dim == entry.channels &&
                         problem.value.row == problem.head_count * problem.head_dim &&
                         problem.value.head == problem.head_dim;
  if (!is_packed || !levels_are_wide(problem)) return heads_any;
  return problem.head_count == heads_1   ? heads_1
         : problem.head_count == heads_8 ? heads_8
                                         : heads_any;
}

// Where levels are cached.
Reason reject_caching(Entry const& entry, Problem const& problem, Device const& device) {
  if (device.shared_bytes_per_block < kMaxCachedBytes) return Reason::kSharedMemory;
  if (problem.fused()) return Reason::kInputMode;
  if (problem.head_dim != entry.channels) return Reason::kHeadDim;
  if (problem.head_count != heads_1 && problem.head_count != heads_8) return Reason::kHeadCount;
  if (needs_exact_path(problem) || !levels_are_wide(problem)) return Reason::kLevels;
  if (known_heads(entry, problem) == heads_any ||
      !value_strides_are_multiples(problem, kVecBytes)) {
    return Reason::kStrides;
  }
  return choose_cached_levels(problem, group_bytes(entry, problem)).levels == 0 ? Reason::kLevels
                                                                                : Reason::kNone;
}

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  if (device.is_cpu()) return Reason::kDeviceIsCpu;
  if (!variant.runs_on(device)) return Reason::kComputeCapability;
  if (problem.value_dtype != variant.value_dtype) return Reason::kValueDtype;
  if (problem.backward()) return Reason::kOperation;
  if (problem.coord_dtype == MSDA_F64) return Reason::kCoordDtype;
  if (problem.weight_dtype == MSDA_F64) return Reason::kWeightDtype;
  std::int64_t const of_vec = channels_of_vec(element_bytes(problem));
  if (!head_dim_fits(problem.head_dim, entry.channels, std::max<std::int64_t>(of_vec, 8))) {
    return Reason::kHeadDim;
  }
  if (!levels_are_near(problem)) return Reason::kLevels;
  if (!points_fit(entry, problem)) return Reason::kPoints;
  if (has_fp16_sums(entry.spread)) {
    if (problem.math_mode != MSDA_MATH_FAST) return Reason::kMathMode;
    if (!pixels_fit_fp16_records(entry, problem)) return Reason::kLevels;
    if (!batches_have_one_level(problem)) return Reason::kPoints;
  }
  if (!rows_are_packed(problem)) return Reason::kStrides;
  if (caches_levels(entry.spread)) {
    if (Reason const reason = reject_caching(entry, problem, device); reason != Reason::kNone) {
      return reason;
    }
  }
  return sizes_fit(entry, problem) ? Reason::kNone : Reason::kTooLarge;
}

// ---- cost

// What the work of a class of kernels takes: see persistent_costs.inc.
struct Rates {
  double launch_us, wait_us, job_ns, turn_ns, gather_ns, few;
};

Rates rates_of(Costs const& c, Entry const& entry, Problem const& problem) {
  if (has_fp16_sums(entry.spread)) {
    return {c.fp16_sums_launch_us, c.fp16_sums_wait_us,
            c.fp16_sums_job_ns,    c.fp16_sums_turn_ns,
            c.fp16_sums_gather_ns, 1.0};  // none of them is for few points alone
  }
  if (element_bytes(problem) == 4) {
    return {c.f32_launch_us, c.f32_wait_us,   c.f32_job_ns,
            c.f32_turn_ns,   c.f32_gather_ns, c.f32_few};
  }
  return {c.b16_launch_us, c.b16_wait_us, c.b16_job_ns, c.b16_turn_ns, c.b16_gather_ns, c.b16_few};
}

// On the work of a job.
double factor_of(Costs const& costs, Entry const& entry, Problem const& problem) {
  double const conversion = element_bytes(problem) != 1   ? 1.0
                            : has_fp16_sums(entry.spread) ? costs.f8_fp16_sums_factor
                                                          : costs.f8_factor;
  double const points = entry.points == pfew   ? rates_of(costs, entry, problem).few
                        : entry.points == pany ? costs.any_points_factor
                                               : 1.0;
  return conversion * points * (needs_exact_path(problem) ? costs.exact_factor : 1.0);
}

// Loads of scattered points that miss L1, for an SM. A level of a group is in L1 as far as it is
// small beside L1; those that are cached never miss.
double misses_us(Costs const& costs, Entry const& entry, Problem const& problem,
                 Device const& device, CachedLevels const& cached) {
  auto const number = [](std::int64_t n) { return static_cast<double>(n); };
  double misses = 0;  // of a row
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    if ((cached.levels >> l & 1) != 0) continue;
    Level const& level = problem.levels[l];
    double const bytes = number(level.height * level.width * group_bytes(entry, problem));
    misses += number(level.point_count) * bytes / (bytes + costs.l1_bytes);
  }
  double const rows = number(problem.query_count * problem.head_count) * number(problem.batch);
  double const miss_ns = costs.miss_ns + costs.miss_byte_ns * number(std::int64_t{entry.channels} *
                                                                     element_bytes(problem));
  return 1e-3 * rows / device.sm_count * misses * miss_ns;
}

// What cached levels change for scattered points, beside the same kernel without: fewer misses,
// which overlap with the work, and copies of the levels.
struct CachedCost {
  double work_us, copies_us;
};

CachedCost cached_cost(Costs const& costs, Entry const& entry, Problem const& problem,
                       Device const& device, double work_us) {
  CachedLevels const cached = choose_cached_levels(problem, group_bytes(entry, problem));
  double const before = std::hypot(work_us, misses_us(costs, entry, problem, device, {}));
  double const after = std::hypot(work_us, misses_us(costs, entry, problem, device, cached));
  double const groups = static_cast<double>(problem.batch) *
                        static_cast<double>(problem.head_count) / layout_for(entry, problem).heads;
  double const copies = static_cast<double>(cached_rounds(problem)) + groups / device.sm_count;
  return {before > 0 ? work_us * after / before : 0, copies * costs.copy_us};
}

}  // namespace

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = kTable[variant];
  Rates const rates = rates_of(costs, entry, problem);
  Layout const layout = layout_for(entry, problem);
  std::int64_t const vecs = vecs_of_lane(entry.channels, element_bytes(problem), layout);
  std::int64_t const batch = batch_of(layout, entry.points),
                     in_flight = in_flight_of(layout, entry.spread, vecs);
  std::int64_t const chunk = batch * layout.lanes * layout.spread;
  std::int64_t chunks = 0, turns = 0, gathers = 0, waits = 0;  // of a job
  for (std::int64_t k = 0; k < problem.point_total; k += chunk) {
    std::int64_t const left = problem.point_total - k;
    std::int64_t const of_chunk = std::min(batch, left);
    std::int64_t const lanes = std::min<std::int64_t>(layout.lanes, (left + batch - 1) / batch);
    std::int64_t const batches = (lanes + in_flight - 1) / in_flight;
    ++chunks;
    turns += of_chunk;
    gathers += of_chunk * (entry.points == pfew ? lanes : batches * in_flight) * vecs;
    waits += of_chunk * batches;
  }
  std::int64_t const narrow = batches_are_whole(entry, problem) ? 0 : chunks * batch;
  auto const number = [](std::int64_t n) { return static_cast<double>(n); };
  double const job_ns = rates.job_ns + rates.turn_ns * number(turns) +
                        costs.narrow_ns * number(narrow) + rates.gather_ns * number(gathers);
  double const jobs = number(jobs_of(entry, problem).of_item) * number(problem.batch);
  double const work_us = 1e-3 * jobs / device.sm_count * job_ns * factor_of(costs, entry, problem);
  // Warps take a job each at a time. The last ones do not find work for all: of 1.1 jobs a warp
  // some take two, one after the other.
  double const warps = threads_of({.type = entry.type,
                                   .channels = entry.channels,
                                   .points = entry.points,
                                   .spread = entry.spread,
                                   .aligned = value_strides_are_multiples(problem, kVecBytes),
                                   .known = known_heads(entry, problem) != heads_any}) /
                       32;
  double const of_sm = jobs / device.sm_count;
  double const waves = std::max(std::ceil(std::ceil(of_sm) / warps), 1.0);
  double const idle = waves - std::max(of_sm / warps, 1.0);
  double const late = costs.late_waits * idle / std::max(waves - 1, 1.0);
  CachedCost const cost = problem.scattered() && caches_levels(entry.spread)
                              ? cached_cost(costs, entry, problem, device, work_us)
                              : CachedCost{work_us, 0};
  return rates.launch_us + rates.wait_us * number(waits) * (1 + late) + cost.copies_us +
         std::max(cost.work_us, forward_bytes(problem) / costs.bytes_per_us);
}

namespace {

double cost(Variant const& variant, Problem const& problem, Device const& device) {
  return predicted_us(Costs{}, variant, problem, device);
}

// ---- workspace, prepare, launch

void workspace(Variant const&, Problem const&, Device const&, Arena&) {}

}  // namespace

ScheduleParams schedule_of(Variant const& variant, Problem const& problem, QueryOrder const& order,
                           Device const& device) {
  Entry const& entry = kTable[variant];
  ScheduleParams schedule = make_schedule(entry, problem, order, device);
  if (caches_levels(entry.spread)) cache_levels_in(schedule, entry, problem);
  return schedule;
}

namespace {

struct PersistentPlan final : Prepared {
  PersistentPlan(Problem const& problem, QueryOrder const& query_order, Device const& device)
      : order(query_order.queries, device), params(make_params(problem, nullptr)) {}
  DeviceArray<std::int32_t> order;  // [Q] queries, or none
  Params params;                    // all but the buffers
  ScheduleParams schedule{};        // the same
  ScheduleParams
      exact_schedule{};  // of calls with values at odd addresses: no levels are cached then
  Kernels kernels{};
  bool has_aligned_strides = false;
  bool has_whole_batches = false;
  bool has_f32_inputs = false;
};

PreparedPtr prepare(Variant const& variant, Problem const& problem, Device const& device,
                    std::pmr::memory_resource* memory) {
  QueryOrder const order = query_order(problem);
  PreparedPtr prepared = make_prepared<PersistentPlan>(memory, problem, order, device);
  auto& plan = static_cast<PersistentPlan&>(*prepared);
  Entry const& entry = kTable[variant];
  plan.schedule = schedule_of(variant, problem, order, device);
  plan.exact_schedule = make_schedule(entry, problem, order, device);
  plan.schedule.order = plan.exact_schedule.order = plan.order.data();
  plan.kernels = entry.load({.fused = problem.fused(),
                             .grouped = is_grouped(entry, problem),
                             .heads = known_heads(entry, problem)});
  plan.has_aligned_strides = value_strides_are_multiples(problem, kVecBytes);
  plan.has_whole_batches = batches_are_whole(entry, problem);
  plan.has_f32_inputs = problem.coord_dtype == MSDA_F32 && problem.weight_dtype == MSDA_F32;
  return prepared;
}

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<PersistentPlan const&>(*launch.prepared);
  if (plan.schedule.jobs == 0) return;
  Params params = plan.params;
  set_buffers(params, launch.call);
  bool const aligned = plan.has_aligned_strides && is_aligned(params.value);
  ScheduleParams schedule = aligned ? plan.schedule : plan.exact_schedule;
  schedule.wide_inputs = plan.has_whole_batches && is_aligned(params.coord) &&
                         is_aligned(params.weight) && is_aligned(params.reference);
  schedule.aligned_output = is_aligned(params.output);
  bool const f32_inputs = plan.has_f32_inputs && schedule.wide_inputs;
  RowsKernel const& rows = plan.kernels[aligned][f32_inputs ? inputs_f32 : inputs_any];
  launch_kernel(rows.kernel,
                {.blocks = schedule.blocks,
                 .threads = rows.threads,
                 .shared_bytes = rows.caches_levels ? schedule.shared_bytes : 0},
                static_cast<cudaStream_t>(launch.call.stream), params, schedule);
}

}  // namespace

extern const Family kFamily;
const Family kFamily = {"persistent", kTable.variants(), reject, cost, workspace, prepare, launch};

}  // namespace msda::persistent
