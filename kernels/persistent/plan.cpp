// Which problems a variant of the persistent family takes, how their rows are dealt, the time that
// this is predicted to take, and what a forward asks of a GPU: README.md has the count of its usual
// case, docs/roofline.md what hardware counters say of it.

#include "kernels/persistent/plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace msda::persistent {

namespace {

#define MSDA_COSTS "kernels/persistent/variants.inc"
#include "core/costs.inc"

// Reasons that only kernels with cached levels have.
Reason reject_caching(Entry const& entry, Problem const& problem, Device const& device) {
  if (device.shared_bytes_per_block < kMaxCachedBytes) return Reason::kSharedMemory;
  if (problem.fused() != is_for_fused(entry.spread)) return Reason::kInputMode;
  if (problem.head_dim != entry.channels) return Reason::kHeadDim;
  if (problem.head_count != heads_1 && problem.head_count != heads_8) return Reason::kHeadCount;
  if (needs_exact_path(problem) || !levels_are_wide(problem)) return Reason::kLevels;
  if (known_heads(entry, problem) == heads_any ||
      !value_strides_are_multiples(problem, kVecBytes)) {
    return Reason::kStrides;
  }
  return choose_cached_levels(problem, head_group_bytes(entry, problem)).levels == 0
             ? Reason::kLevels
             : Reason::kNone;
}

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  Reason const reason = reject_forward(variant, problem, device);
  if (reason != Reason::kNone) return reason;
  if (Reason const wrong = reject_rows(entry, problem); wrong != Reason::kNone) return wrong;
  bool const groups_have_one_level = std::ranges::all_of(
      problem.levels, [](Level const& level) { return level.point_count % kMaxGroup == 0; });
  if (has_fp16_sums(entry.spread) && !groups_have_one_level) return Reason::kPoints;
  if (!rows_are_packed(problem)) return Reason::kStrides;
  if (caches_levels(entry.spread)) {
    if (Reason const wrong = reject_caching(entry, problem, device); wrong != Reason::kNone) {
      return wrong;
    }
  }
  return sizes_fit(entry, problem) ? Reason::kNone : Reason::kTooLarge;
}

// ---- cached levels

// Changes a schedule of make_schedule() to one with cached levels.
void cache_levels_in(ScheduleParams& schedule, Entry const& entry, Problem const& problem) {
  std::int64_t const pixel_bytes = head_group_bytes(entry, problem);
  CachedLevels const cached = choose_cached_levels(problem, pixel_bytes);
  schedule.cached_levels = cached.levels;
  schedule.shared_bytes = u32(cached.shared_bytes());
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    if ((cached.levels >> l & 1) == 0) continue;
    schedule.cached_bytes[l] = u32(cached.bytes[l]);
    schedule.places[l].origin = u32(cached.begin[l] / kVecBytes);
    schedule.row_stride[l] = u32(problem.levels[l].row_tokens * pixel_bytes / kVecBytes);
  }
  deal_grid_ranges(schedule, problem);
}

// ---- cost

// A warp's work for a job, padding included.
struct JobWork {
  std::int64_t vecs;            // of a row, of each lane
  std::int64_t group;           // points that a lane prepares before they are gathered
  std::int64_t chunks = 0;      // for which lanes prepare points, and then gather them
  std::int64_t turns = 0;       // in which every lane prepares a point
  std::int64_t records = 0;     // of each slot, that its lanes read and load the corners of
  std::int64_t waits = 0;       // for loads in flight
  std::int64_t references = 0;  // reference points that a lane loads
};

JobWork work_of_job(Entry const& entry, Problem const& problem) {
  Layout const layout = layout_for(entry, problem);
  JobWork job;
  job.vecs = vecs_of_lane(entry.channels, element_bytes(problem), layout);
  job.group = group_of(layout, entry.points);
  std::int64_t const in_flight = in_flight_of(layout, entry.spread, job.vecs);
  std::int64_t const chunk = job.group * layout.lanes * layout.spread;
  auto const add_chunks = [&](std::int64_t count, std::int64_t left) {
    std::int64_t const of_chunk = std::min(job.group, left);
    std::int64_t const lanes = std::min<std::int64_t>(layout.lanes, divide_up(left, job.group));
    std::int64_t const loads = divide_up(lanes, in_flight);
    job.chunks += count;
    job.turns += count * of_chunk;
    job.records += count * of_chunk * (entry.points == pfew ? lanes : loads * in_flight);
    job.waits += count * of_chunk * loads;
  };
  std::int64_t const left = problem.point_total % chunk;
  add_chunks(problem.point_total / chunk, chunk);
  if (left > 0) add_chunks(1, left);
  // A lane's group has one reference point, where its points are known to be of one level.
  bool const of_one_level = entry.points > 0 || job.group == 1 || has_fp16_sums(entry.spread);
  if (problem.fused()) job.references = of_one_level ? job.chunks : job.turns;
  return job;
}

// The constants of a class of kernels: see variants.inc.
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

// A factor on the work of a job.
double factor_of(Costs const& costs, Entry const& entry, Problem const& problem) {
  double const points = entry.points == pfew   ? rates_of(costs, entry, problem).few
                        : entry.points == pany ? costs.any_points_factor
                                               : 1.0;
  bool const is_spread_f8 = element_bytes(problem) == 1 && entry.spread == s4;
  return points * (is_spread_f8 ? costs.f8_spread_factor : 1.0) *
         (needs_exact_path(problem) ? costs.exact_factor : 1.0);
}

// Loads of scattered points that miss L1, for an SM. A level of a group is in L1 as far as it is
// small beside L1; those that are cached never miss.
double misses_us(Costs const& costs, Entry const& entry, Problem const& problem,
                 Device const& device, CachedLevels const& cached) {
  double misses = 0;  // of a row
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    if ((cached.levels >> l & 1) != 0) continue;
    Level const& level = problem.levels[l];
    double const bytes = number(level.height * level.width * head_group_bytes(entry, problem));
    misses += number(level.point_count) * bytes / (bytes + costs.l1_bytes);
  }
  double const miss_ns = costs.miss_ns + costs.miss_byte_ns * number(std::int64_t{entry.channels} *
                                                                     element_bytes(problem));
  return 1e-3 * rows_of(problem) / device.sm_count * misses * miss_ns;
}

// Cached levels change the time of scattered points, beside the same kernel without them: fewer
// misses, which overlap with the work, and copies of the levels.
struct CachedCost {
  double work_us, copies_us;
};

CachedCost cached_cost(Costs const& costs, Entry const& entry, Problem const& problem,
                       Device const& device, double work_us) {
  CachedLevels const cached = choose_cached_levels(problem, head_group_bytes(entry, problem));
  double const before = std::hypot(work_us, misses_us(costs, entry, problem, device, {}));
  double const after = std::hypot(work_us, misses_us(costs, entry, problem, device, cached));
  double const groups =
      number(problem.batch) * number(problem.head_count) / layout_for(entry, problem).heads;
  double const copies = number(cached_rounds(value_bytes(problem))) + groups / device.sm_count;
  return {before > 0 ? work_us * after / before : 0, copies * costs.copy_us};
}

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = kTable[variant];
  Rates const rates = rates_of(costs, entry, problem);
  JobWork const job = work_of_job(entry, problem);
  std::int64_t const narrow = groups_are_whole(entry, problem) ? 0 : job.chunks * job.group;
  double const slots = number(kWarp / layout_for(entry, problem).lanes);
  double const gather_ns = std::max(rates.gather_ns, costs.slot_ns * slots);
  double const job_ns =
      rates.job_ns + rates.turn_ns * number(job.turns) + costs.narrow_ns * number(narrow) +
      costs.reference_ns * number(job.references) + gather_ns * number(job.records * job.vecs);
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
  double const warps = threads_of(block, device.sm) / kWarp;
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

// ---- counts

// Instructions of a warp: of a job, a chunk of it, and a turn in which each lane prepares a point.
// Fused input takes more for each. docs/roofline.md says which of these were counted in the code.
constexpr double kJobInstructions = 144, kChunkInstructions = 24, kTurnInstructions = 30;
constexpr double kFusedJobInstructions = 37, kFusedChunkInstructions = 19,
                 kFusedTurnInstructions = 11;

// A corner's vec takes a multiply-add a channel, and a conversion where values are not float32; in
// fp16 sums a multiply-add for two. F8 is converted to float16 first, two at a time.
double vec_instructions(Entry const& entry) {
  bool const fp16_sums = has_fp16_sums(entry.spread);
  if (entry.type == ValueType::f32) return 4;
  if (entry.type == ValueType::f8) return fp16_sums ? 8 + 8 : 8 + 16 + 16;
  return fp16_sums ? 4 : 8 + 8;
}

// Instructions for a record of each slot.
double record_instructions(Entry const& entry, Layout const& layout, double vecs) {
  bool const fp16_sums = has_fp16_sums(entry.spread);
  // Four weights and three addresses; from a record of 8 bytes six and five, and by parity eight
  // more for the side, its addresses and the second set of sums.
  double const point = fp16_sums ? 6 + 5 + (layout.by_parity ? 8 : 0) : 4 + 3 * vecs;
  // Sums in float16 are converted and added to float32 behind every second record.
  double const flush = fp16_sums ? channels_of_vec(entry.type == ValueType::f8 ? 1 : 2) : 0;
  return 1 + 4 * vecs * (1 + vec_instructions(entry)) + point + flush;
}

double instructions_of_job(Entry const& entry, Problem const& problem, JobWork const& job) {
  Layout const layout = layout_for(entry, problem);
  bool const fused = problem.fused();
  double instructions = kJobInstructions + (fused ? kFusedJobInstructions : 0);
  instructions += number(job.chunks) * (kChunkInstructions + (fused ? kFusedChunkInstructions : 0));
  instructions += number(job.turns) * (kTurnInstructions + (fused ? kFusedTurnInstructions : 0));
  instructions += number(job.records) * record_instructions(entry, layout, number(job.vecs));
  // Slots that share a row add their sums, half of them with the other half: a shuffle and an
  // addition a channel.
  for (std::int32_t slots = layout.spread; slots > 1; slots /= 2) {
    instructions += 2 * number(job.vecs) * channels_of_vec(element_bytes(problem));
  }
  return instructions;
}

// The part of a row's points that lie on levels cached in shared memory, and the bytes that all
// blocks copy there.
struct Cached {
  double of_points = 0;
  double bytes = 0;
};

Cached cached_of(Entry const& entry, Problem const& problem, Device const& device) {
  if (!caches_levels(entry.spread)) return {};
  CachedLevels const levels = choose_cached_levels(problem, head_group_bytes(entry, problem));
  Jobs const jobs = jobs_of(entry, problem);
  std::int64_t const groups =
      jobs.of_item / std::max<std::int64_t>(jobs.of_group, 1) * problem.batch;
  std::int64_t const blocks = std::min<std::int64_t>(device.sm_count, jobs.of_item * problem.batch);
  GridRanges const ranges = grid_ranges_of(jobs.of_group, groups, std::max<std::int64_t>(blocks, 1),
                                           value_bytes(problem));
  Cached cached;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    if ((levels.levels >> l & 1) == 0) continue;
    cached.of_points += number(problem.levels[l].point_count) / number(problem.point_total);
    cached.bytes += number(levels.bytes[l]) * number(ranges.tile_count(groups));
  }
  return cached;
}

std::optional<Counts> counts(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  // The exact path, which these take, was not counted.
  if (needs_exact_path(problem) || !value_strides_are_multiples(problem, kVecBytes)) {
    return std::nullopt;
  }
  Layout const layout = layout_for(entry, problem);
  JobWork const job = work_of_job(entry, problem);
  Cached const cached = cached_of(entry, problem, device);
  double const jobs = number(jobs_of(entry, problem).of_item) * number(problem.batch);
  double const slots = number(kWarp / layout.lanes);
  double const record_bytes = has_fp16_sums(entry.spread) ? 8 : 16;
  double const records = jobs * number(job.records), turns = jobs * number(job.turns);
  Counts counts = counts_of_tensors(problem);
  counts.row_bytes = number(problem.head_dim) * number(element_bytes(problem));
  counts.lines_of_load = std::max(slots, 4.0);
  counts.gather_loads = records * 4 * number(job.vecs);
  counts.gather_wavefronts = records * 4 * slots * counts.row_bytes / kWavefrontBytes;
  counts.gathered_bytes = counts.gather_wavefronts * kWavefrontBytes * (1 - cached.of_points);
  counts.copied_bytes = cached.bytes;
  counts.value_bytes = std::min(counts.value_bytes, counts.gathered_bytes + counts.copied_bytes);
  counts.copy_wavefronts = cached.bytes / kWavefrontBytes;
  // Written by each lane; read for all slots at once, which takes two wavefronts at least.
  counts.record_wavefronts = turns * kWarp * record_bytes / kWavefrontBytes +
                             records * std::max(2.0, slots * record_bytes / kWavefrontBytes);
  counts.input_wavefronts = counts.input_bytes / kWavefrontBytes;
  counts.output_wavefronts = counts.output_bytes / kWavefrontBytes;
  counts.instructions = jobs * instructions_of_job(entry, problem, job);
  return counts;
}

}  // namespace

// ---- what plan.h declares

Heads known_heads(Entry const& entry, Problem const& problem) {
  bool const is_packed = problem.head_dim == entry.channels &&
                         problem.value.row == problem.head_count * problem.head_dim &&
                         problem.value.head == problem.head_dim;
  if (!is_packed || !levels_are_wide(problem)) return heads_any;
  return problem.head_count == heads_1   ? heads_1
         : problem.head_count == heads_8 ? heads_8
                                         : heads_any;
}

CachedLevels choose_cached_levels(Problem const& problem, std::int64_t pixel_bytes) {
  std::array<std::size_t, kInlineLevels> numbers;
  auto const order = std::span(numbers).first(problem.levels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // From the first pixel to the last one; borders lie between them.
  auto const bytes_of = [&](std::size_t l) {
    Level const& level = problem.levels[l];
    return ((level.height - 1) * level.row_tokens + level.width) * pixel_bytes;
  };
  std::ranges::stable_sort(order, {}, bytes_of);
  CachedLevels cached;
  for (std::size_t const l : order) {
    std::int64_t const lines = divide_up(bytes_of(l), kLineBytes);
    if (cached.shared_bytes() + lines * kLineBytes > kMaxCachedBytes) break;
    cached.levels |= std::uint32_t{1} << l;
    cached.begin[l] = cached.end;
    cached.bytes[l] = bytes_of(l);
    cached.end += lines * kLineBytes;
  }
  return cached;
}

ScheduleParams schedule_of(Variant const& variant, Problem const& problem, QueryOrder const& order,
                           Device const& device) {
  Entry const& entry = kTable[variant];
  ScheduleParams schedule = make_schedule(entry, problem, order, device);
  if (caches_levels(entry.spread)) cache_levels_in(schedule, entry, problem);
  return schedule;
}

extern const FamilyModel kModel = {
    .name = "persistent",
    .variants = kTable.variants(),
    .reject = reject,
    .predict = predict<Costs, predicted_us>,
    .constants = kConstants,
    .counts = counts,
};

}  // namespace msda::persistent
