// Which problems a variant of the persistent family takes, and in which time.

#include "kernels/persistent/persistent_model.h"

#include "kernels/common/row_limits.h"
#include "kernels/common/work.h"
#include "kernels/persistent/cached_levels.h"

#include <algorithm>
#include <cmath>

namespace msda::persistent {
namespace {

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

}  // namespace

bool batches_are_whole(Entry const& entry, Problem const& problem) {
  return problem.point_total % batch_of(layout_for(entry, problem), entry.points) == 0;
}

namespace {

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

}  // namespace

Heads known_heads(Entry const& entry, Problem const& problem) {
  bool const is_packed = problem.head_dim == entry.channels &&
                         problem.value.row == problem.head_count * problem.head_dim &&
                         problem.value.head == problem.head_dim;
  if (!is_packed || !levels_are_wide(problem)) return heads_any;
  return problem.head_count == heads_1   ? heads_1
         : problem.head_count == heads_8 ? heads_8
                                         : heads_any;
}

namespace {

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

}  // namespace

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  if (device.is_cpu()) return Reason::kDeviceIsCpu;
  if (!variant.runs_on(device)) return Reason::kComputeCapability;
  if (problem.value_dtype != variant.value_dtype) return Reason::kValueDtype;
  if (problem.backward()) return Reason::kOperation;
  if (problem.coord_dtype == MSDA_DTYPE_F64) return Reason::kCoordDtype;
  if (problem.weight_dtype == MSDA_DTYPE_F64) return Reason::kWeightDtype;
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

JobWork work_of_job(Entry const& entry, Problem const& problem) {
  Layout const layout = layout_for(entry, problem);
  JobWork job;
  job.vecs = vecs_of_lane(entry.channels, element_bytes(problem), layout);
  job.batch = batch_of(layout, entry.points);
  std::int64_t const in_flight = in_flight_of(layout, entry.spread, job.vecs);
  std::int64_t const chunk = job.batch * layout.lanes * layout.spread;
  for (std::int64_t k = 0; k < problem.point_total; k += chunk) {
    std::int64_t const left = problem.point_total - k;
    std::int64_t const of_chunk = std::min(job.batch, left);
    std::int64_t const lanes =
        std::min<std::int64_t>(layout.lanes, (left + job.batch - 1) / job.batch);
    std::int64_t const batches = (lanes + in_flight - 1) / in_flight;
    ++job.chunks;
    job.turns += of_chunk;
    job.records += of_chunk * (entry.points == pfew ? lanes : batches * in_flight);
    job.waits += of_chunk * batches;
  }
  return job;
}

namespace {

double number(std::int64_t n) { return static_cast<double>(n); }

// What the work of a class of kernels takes: see persistent_costs.inc.
struct Rates {
  double launch_us, wait_us, job_ns, turn_ns, gather_ns, few;
};

Rates rates_of(Costs const& c, Entry const& entry, Problem const& problem) {
  if (has_fp16_sums(entry.spread)) {
    double const factor = element_bytes(problem) == 1 ? c.f8_fp16_sums_factor : 1.0;
    return {c.fp16_sums_launch_us,          c.fp16_sums_wait_us * factor,
            c.fp16_sums_job_ns * factor,    c.fp16_sums_turn_ns * factor,
            c.fp16_sums_gather_ns * factor, 1.0};  // none of them is for few points alone
  }
  if (element_bytes(problem) == 1) {
    return {c.f8_launch_us, c.f8_wait_us, c.f8_job_ns, c.f8_turn_ns, c.f8_gather_ns, c.f8_few};
  }
  if (element_bytes(problem) == 4) {
    return {c.f32_launch_us, c.f32_wait_us,   c.f32_job_ns,
            c.f32_turn_ns,   c.f32_gather_ns, c.f32_few};
  }
  return {c.b16_launch_us, c.b16_wait_us, c.b16_job_ns, c.b16_turn_ns, c.b16_gather_ns, c.b16_few};
}

// On the work of a job.
double factor_of(Costs const& costs, Entry const& entry, Problem const& problem) {
  double const points = entry.points == pfew   ? rates_of(costs, entry, problem).few
                        : entry.points == pany ? costs.any_points_factor
                                               : 1.0;
  bool const is_spread_f8 = element_bytes(problem) == 1 && entry.spread == s4;
  return points * (is_spread_f8 ? costs.f8_spread_factor : 1.0) *
         (needs_exact_path(problem) ? costs.exact_factor : 1.0);
}

// Reference points that a lane loads for a job. A batch of a lane has one, where its points are
// known to be of one level.
std::int64_t references_of(Entry const& entry, Problem const& problem, JobWork const& job) {
  if (!problem.fused()) return 0;
  bool const of_one_level = entry.points > 0 || job.batch == 1 || has_fp16_sums(entry.spread);
  return of_one_level ? job.chunks : job.turns;
}

// Loads of scattered points that miss L1, for an SM. A level of a group is in L1 as far as it is
// small beside L1; those that are cached never miss.
double misses_us(Costs const& costs, Entry const& entry, Problem const& problem,
                 Device const& device, CachedLevels const& cached) {
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
  double const copies =
      static_cast<double>(cached_rounds(value_bytes(problem))) + groups / device.sm_count;
  return {before > 0 ? work_us * after / before : 0, copies * costs.copy_us};
}

}  // namespace

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = kTable[variant];
  Rates const rates = rates_of(costs, entry, problem);
  JobWork const job = work_of_job(entry, problem);
  std::int64_t const narrow = batches_are_whole(entry, problem) ? 0 : job.chunks * job.batch;
  double const slots = 32.0 / layout_for(entry, problem).lanes;
  double const gather_ns = std::max(rates.gather_ns, costs.slot_ns * slots);
  double const job_ns = rates.job_ns + rates.turn_ns * number(job.turns) +
                        costs.narrow_ns * number(narrow) +
                        costs.reference_ns * number(references_of(entry, problem, job)) +
                        gather_ns * number(job.records * job.vecs);
  double const jobs = number(jobs_of(entry, problem).of_item) * number(problem.batch);
  double const work_us = 1e-3 * jobs / device.sm_count * job_ns * factor_of(costs, entry, problem);
  // Warps take a job each at a time. The last ones do not find work for all: of 1.1 jobs a warp
  // some take two, one after the other.
  BlockKind const block = {.type = entry.type,
                           .channels = entry.channels,
                           .points = entry.points,
                           .spread = entry.spread,
                           .fused = problem.fused(),
                           .aligned = value_strides_are_multiples(problem, kVecBytes),
                           .known = known_heads(entry, problem) != heads_any};
  double const warps = threads_of(block, device.sm) / 32;
  double const of_sm = jobs / device.sm_count;
  double const waves = std::max(std::ceil(std::ceil(of_sm) / warps), 1.0);
  double const idle = waves - std::max(of_sm / warps, 1.0);
  double const late = costs.late_waits * idle / std::max(waves - 1, 1.0);
  CachedCost const cost = problem.scattered() && caches_levels(entry.spread)
                              ? cached_cost(costs, entry, problem, device, work_us)
                              : CachedCost{work_us, 0};
  double const waits_us =
      rates.wait_us * number(job.waits) + (problem.fused() ? costs.fused_wait_us : 0.0);
  double const busy_us = std::max(cost.work_us, forward_bytes(problem) / costs.bytes_per_us);
  return rates.launch_us + waits_us * (1 + late) + cost.copies_us + busy_us;
}

double cost(Variant const& variant, Problem const& problem, Device const& device) {
  return predicted_us(Costs{}, variant, problem, device);
}

extern const FamilyModel kModel;
const FamilyModel kModel = {"persistent", kTable.variants(), reject, cost, counts};

}  // namespace msda::persistent
