// What a forward of a variant of the persistent family asks of a GPU. README.md has the count of
// its usual case, docs/roofline.md what hardware counters say of it.

#include "kernels/common/row_limits.h"
#include "kernels/common/work.h"
#include "kernels/persistent/cached_levels.h"
#include "kernels/persistent/persistent_model.h"

#include <algorithm>

namespace msda::persistent {
namespace {

double number(std::int64_t n) { return static_cast<double>(n); }

constexpr double kWavefrontBytes = kLineBytes;
constexpr double kWarpLanes = 32;

double value_element_bytes(Problem const& problem) { return number(element_bytes(problem)); }

// Instructions of a warp: of a job, a chunk of it, and a turn in which each lane prepares a point.
// Fused input takes more for each. docs/roofline.md says which of these were counted in the code.
constexpr double kJobInstructions = 144, kChunkInstructions = 24, kTurnInstructions = 30;
constexpr double kFusedJobInstructions = 37, kFusedChunkInstructions = 19,
                 kFusedTurnInstructions = 11;

// Of a corner's vec: a multiply-add a channel, and a conversion where values are not float32; in
// fp16 sums a multiply-add for two. F8 is converted to float16 first, two at a time.
double vec_instructions(Entry const& entry) {
  bool const fp16_sums = has_fp16_sums(entry.spread);
  switch (entry.type) {
    case ValueType::f32:
      return 4;
    case ValueType::f8:
      return fp16_sums ? 8 + 8 : 8 + 16 + 16;
    default:
      return fp16_sums ? 4 : 8 + 8;
  }
}

// Of a record of each slot.
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
  CachedLevels const levels = choose_cached_levels(problem, group_bytes(entry, problem));
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

}  // namespace

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
  double const slots = kWarpLanes / layout.lanes;
  double const record_bytes = has_fp16_sums(entry.spread) ? 8 : 16;
  double const records = jobs * number(job.records), turns = jobs * number(job.turns);
  Counts counts = counts_of_tensors(problem);
  counts.row_bytes = number(problem.head_dim) * value_element_bytes(problem);
  counts.lines_of_load = std::max(slots, 4.0);
  counts.gather_loads = records * 4 * number(job.vecs);
  counts.gather_wavefronts = records * 4 * slots * counts.row_bytes / kWavefrontBytes;
  counts.gathered_bytes = counts.gather_wavefronts * kWavefrontBytes * (1 - cached.of_points);
  counts.copied_bytes = cached.bytes;
  counts.value_bytes = std::min(counts.value_bytes, counts.gathered_bytes + counts.copied_bytes);
  counts.copy_wavefronts = cached.bytes / kWavefrontBytes;
  // Written by each lane; read for all slots at once, which takes two wavefronts at least.
  counts.record_wavefronts = turns * kWarpLanes * record_bytes / kWavefrontBytes +
                             records * std::max(2.0, slots * record_bytes / kWavefrontBytes);
  counts.input_wavefronts = counts.input_bytes / kWavefrontBytes;
  counts.output_wavefronts = counts.output_bytes / kWavefrontBytes;
  counts.instructions = jobs * instructions_of_job(entry, problem, job);
  return counts;
}

}  // namespace msda::persistent
