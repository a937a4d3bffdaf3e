// Which rows a warp works on. A block has tiles, its warps fetch jobs from them.
#pragma once

#include "kernels/persistent/lane.cuh"

namespace msda::persistent {

// What a warp works on at a time: a few neighbouring queries with a group of heads.
struct Job {
  std::uint32_t item;   // batch item
  std::uint32_t group;  // of heads
  std::uint32_t first;  // visit of a query that the warp's first slot works on
  bool is_there;
};

// Where levels are cached: neighbouring jobs of one batch item and group of heads.
struct Tile {
  std::uint32_t first;
  std::uint32_t end;
  std::uint32_t group;  // of all items
  std::uint32_t next;   // tile index behind it

  __device__ bool has_jobs() const { return first < end; }
};

// At a tile index, at most to index `end`. A group's first indices are for copying its levels, the
// others are jobs.
__device__ __forceinline__ Tile fetch_tile(ScheduleParams const& schedule, std::uint32_t index,
                                           std::uint32_t end) {
  std::uint32_t const group = schedule.group_indices.quotient(index);
  std::uint32_t const begin = group * schedule.group_indices.divisor;
  std::uint32_t const next = min(begin + schedule.group_indices.divisor, end);
  std::uint32_t const copying = schedule.group_indices.divisor - schedule.group_jobs.divisor;
  std::uint32_t const first_job = group * schedule.group_jobs.divisor;
  return {first_job + max(index - begin, copying) - copying,
          first_job + max(next - begin, copying) - copying, group, next};
}

template <class Config>
class JobQueue {
 public:
  // Where levels are cached: what jobs are fetched from until the next call of end_tile().
  __device__ void begin_tile(Tile const& tile) { tile_ = tile; }
  // Between begin_tile() and end_tile(), by one thread, when no warp fetches from the tile before.
  __device__ void clear_next_count(Shared<Config>& shared) const { shared.fetched[turn_ ^ 1] = 0; }
  __device__ void end_tile() { turn_ ^= 1; }

  __device__ Job fetch_job(Lane<Config> const& lane) const {
    std::uint32_t n = ptx::count_up_shared(
        static_cast<std::uint32_t>(
            __cvta_generic_to_shared(&lane.shared.fetched[Config::kCachesLevels ? turn_ : 0])),
        lane.index);
    n = __shfl_sync(0xffffffffu, n, 0);
    std::uint32_t index;
    if constexpr (Config::kCachesLevels) {
      index = tile_.first + n;
      if (index >= tile_.end) return {0, 0, 0, false};
    } else {
      std::uint32_t const round = min(lane.schedule.tile_jobs.quotient(n), lane.schedule.rounds);
      index = lane.shared.tiles[round] + (n - round * lane.schedule.tile_jobs.divisor);
      if (index >= lane.schedule.jobs) return {0, 0, 0, false};
    }
    std::uint32_t const item_group = lane.schedule.group_jobs.quotient(index);
    std::uint32_t item, group;
    if constexpr (Config::kIsKnown) {
      constexpr std::uint32_t kGroups = Config::kHeadCount / Config::kHeads;
      item = item_group / kGroups;
      group = item_group % kGroups;
    } else {
      item = lane.schedule.groups.quotient(item_group);
      group = item_group - item * lane.schedule.groups.divisor;
    }
    return {item, group, (index - item_group * lane.schedule.group_jobs.divisor) * Config::kQueries,
            true};
  }

  __device__ static Row row_of(Lane<Config> const& lane, Job const& job) {
    unsigned const slot = lane.slot();
    std::uint32_t const wanted = job.first + slot / (Config::kHeads * Config::kSpread);
    // Behind the last query it is summed again, and not stored.
    std::uint32_t const visit = min(wanted, lane.schedule.visits - 1);
    std::uint32_t const m = job.group * Config::kHeads + slot % Config::kHeads;
    std::uint32_t const q =
        lane.schedule.order == nullptr ? visit : __ldg(lane.schedule.order + visit);
    std::uint32_t const query = job.item * lane.schedule.visits + q;
    std::uint32_t const heads = Config::kIsKnown ? Config::kHeadCount : lane.schedule.heads;
    std::uint64_t const first_value =
        job.item * lane.schedule.item_bytes + std::uint64_t{m} * lane.schedule.head_bytes;
    return {query * heads + m, query, m, static_cast<const char*>(lane.p.value) + first_value};
  }

 private:
  Tile tile_ = {};
  std::uint32_t turn_ = 0;  // of the two counts of jobs fetched
};

// Where the block's tiles begin.
template <class Config>
__device__ void fill_tiles(ScheduleParams const& schedule, Shared<Config>& shared) {
  std::uint32_t const round = threadIdx.x;
  if (round > schedule.rounds) return;
  std::uint32_t const block = (blockIdx.x + round * schedule.rotation) % schedule.blocks;
  shared.tiles[round] = round < schedule.rounds
                            ? (round * schedule.blocks + block) * schedule.tile_jobs.divisor
                            : schedule.jobs;
}

}  // namespace msda::persistent
