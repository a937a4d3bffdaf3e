// Which rows a warp works on. A cluster has tiles, its blocks have jobs of a tile in turn, and a
// block's warps fetch them.
#pragma once

#include "kernels/cluster/cluster_lane.cuh"
#include "kernels/persistent/schedule.cuh"

namespace msda::cluster {

using persistent::Job;
using persistent::Tile;

// The tiles of a cluster, as the persistent family deals them to blocks that cache levels.
class TileWalk {
 public:
  __device__ TileWalk(ScheduleParams const& schedule, std::uint32_t cluster)
      : schedule_(schedule), begin_(cluster * schedule.grid_range), index_(begin_), end_(0) {
    end_ = min(begin_ + schedule.grid_range, schedule.index_count);
  }

  // The next tile that has jobs, if there is one.
  __device__ bool fetch(Tile& tile) {
    while (begin_ < schedule_.index_count) {
      while (index_ < end_) {
        tile = persistent::fetch_tile(schedule_, index_, end_);
        index_ = tile.next;
        if (tile.has_jobs()) return true;
      }
      begin_ += schedule_.blocks * schedule_.grid_range;
      index_ = begin_;
      end_ = min(begin_ + schedule_.grid_range, schedule_.index_count);
    }
    return false;
  }

 private:
  ScheduleParams const& schedule_;
  std::uint32_t begin_, index_, end_;
};

template <class Config>
class JobQueue {
 public:
  __device__ __forceinline__ void begin_tile(Lane<Config> const& lane, Tile const& tile,
                                             std::uint32_t turn) {
    tile_ = tile;
    item_ = lane.schedule.groups.quotient(tile.group);
    group_ = tile.group - item_ * lane.schedule.groups.divisor;
    count_ = static_cast<std::uint32_t>(
        __cvta_generic_to_shared(&lane.shared.fetched[turn % kFetchedCounts]));
  }

  // When all threads of the block have begun the tile: no warp fetches from the one before.
  __device__ __forceinline__ void clear_count(Lane<Config> const& lane, std::uint32_t turn) const {
    if (threadIdx.x == 0) lane.shared.fetched[(turn + 2) % kFetchedCounts] = 0;
  }

  __device__ __forceinline__ Job fetch_job(Lane<Config> const& lane) const {
    std::uint32_t n = ptx::count_up_shared(count_, lane.index);
    n = __shfl_sync(0xffffffffu, n, 0);
    std::uint32_t const index = tile_.first + (n << lane.size_shift()) + lane.rank;
    std::uint32_t const in_group = index - tile_.group * lane.schedule.group_jobs.divisor;
    return {item_, group_, in_group * Config::kQueries, index < tile_.end};
  }

 private:
  Tile tile_ = {};
  std::uint32_t item_ = 0, group_ = 0;
  std::uint32_t count_ = 0;  // of the block's jobs of the tile, in shared memory
};

}  // namespace msda::cluster
