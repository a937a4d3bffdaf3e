// The kernel of the cluster family: sums of rows, with levels spread over the blocks of a cluster.
// README.md here has the schedule and its count.
#pragma once

#include "kernels/cluster/kept_exact.cuh"
#include "kernels/cluster/tile_walk.cuh"

namespace msda::cluster {

using persistent::Batch;
using persistent::ChunkInputs;

// A warp, from its jobs to their results. kRank: the block's, where clusters are pairs: which rows
// are its own is known when compiled then, and no load is issued for either case.
template <class Config, int kRank>
class Warp {
 public:
  __device__ Warp(Params const& p, ScheduleParams const& schedule, KeptParams const& kept,
                  persistent::Shared<Config>& shared)
      : lane_(p, schedule, kept, shared),
        records_(Table::place(static_cast<std::uint32_t>(
                                  __cvta_generic_to_shared(&shared.records[threadIdx.x / 32][0])),
                              lane_.slot())) {}

  // Tile by tile. All blocks of a cluster have the same tiles and meet twice for each, or once
  // where there are two buffers: when the tile's levels are there, and before another tile's take
  // their place.
  __device__ void run() {
    TileWalk walk(lane_.schedule, blockIdx.x >> lane_.size_shift());
    Tile tile, next;
    bool is_there = walk.fetch(tile);
    if (is_there) copy(tile, 0);
    bool const alternates = lane_.kept.buffers == 2;
#pragma unroll 1
    for (std::uint32_t turn = 0; is_there; ++turn) {
      queue_.begin_tile(lane_, tile, turn);
      persistent::Job const job = queue_.fetch_job(lane_);
      Row const row = persistent::JobQueue<Config>::row_of(lane_, job);
      // They travel while levels are copied.
      ChunkInputs<Config> const inputs = read_chunk(lane_, row.row, row.query, 0);
      if (!alternates && turn > 0) {
        ptx::wait_cluster();  // the levels before have been read
        copy(tile, 0);
      }
      buffer_ = alternates ? turn % 2 : 0;
      wait_for_levels(alternates ? turn / 2 : turn);
      ptx::sync_cluster();  // the levels are there in all blocks
      queue_.clear_count(lane_, turn);
      bool const has_next = walk.fetch(next);
      if (alternates && has_next) copy(next, (turn + 1) % 2);
      if (job.is_there) sum_rows(row, inputs);
      if (!alternates && has_next) ptx::arrive_cluster();
      tile = next;
      is_there = has_next;
    }
    ptx::sync_cluster();  // no block ends while its levels are read
  }

 private:
  using Table = KeptRecords<Config>;
  using Records = RecordOf<Config>[Config::kInFlight];
  using Corners = typename RowSums<Config>::Corner[Config::kInFlight][4];

  // By one warp of the block.
  __device__ void copy(Tile const& tile, std::uint32_t buffer) const {
    if constexpr (!Config::kAligned) return;
    if (threadIdx.x < 32) copy_levels<Config>(lane_, tile, buffer);
  }
  // Until the buffer has been filled as often.
  __device__ void wait_for_levels(std::uint32_t fills_before) const {
    if constexpr (!Config::kAligned) return;
    ptx::wait_parity_in_block(
        static_cast<std::uint32_t>(__cvta_generic_to_shared(&lane_.shared.full[buffer_])),
        fills_before % 2);
  }

  // A warp's rows, beginning with one whose first inputs have been read.
  __device__ void sum_rows(Row row, ChunkInputs<Config> inputs) {
    while (true) {
      persistent::Job const next = queue_.fetch_job(lane_);
      Row const next_row = next.is_there ? persistent::JobQueue<Config>::row_of(lane_, next) : row;
      gather_.start(lane_, row, buffer_);
      sums_.clear();
      if constexpr (Config::kAligned) sum_fast(row, next_row, inputs);
      if (!Config::kAligned || __any_sync(0xffffffffu, !sums_.is_finite())) {
        ExactRow<Config>(lane_, row, gather_.values()).sum(sums_);
      }
      sums_.store(lane_, row);
      if (!next.is_there) return;
      row = next_row;
    }
  }

  // The fast path. Every lane prepares kBatch points, kTogether at a time; then all lanes of a slot
  // add those of the slot's lanes.
  __device__ __forceinline__ void sum_fast(Row const& row, Row const& next_row,
                                           ChunkInputs<Config>& inputs) {
#pragma unroll 1
    for (int k0 = 0; k0 < lane_.K; k0 += Config::kChunk) {
      Batch<Config::kBatch> points =
          to_points(inputs.points[0], lane_.coord_dtype(), lane_.weight_dtype(),
                    persistent::vecs_are_swapped<Config::kBatch>(lane_.inputs_are_wide(),
                                                                 lane_.coord_dtype(), lane_.index));
      int const first = lane_.first_point(k0);
      // Lanes behind the row's last point prepare it again: it weighs nothing then.
#pragma unroll
      for (int t = 0; t < Config::kBatch; ++t) {
        if (!Config::kWholeChunks && first + t >= lane_.K) points.weight[t] = 0.0f;
      }
#pragma unroll 1
      for (int t0 = 0; t0 < Config::kBatch; t0 += Config::kTogether) {
        __syncwarp();  // the records before have been read
        put_records(points, k0, first + t0);
        if (t0 + Config::kTogether < Config::kBatch) {
          points.template advance<Config::kTogether>();
        } else {
          bool const is_last = k0 + Config::kChunk >= lane_.K;
          inputs =
              read_chunk(lane_, is_last ? next_row.row : row.row,
                         is_last ? next_row.query : row.query, is_last ? 0 : k0 + Config::kChunk);
        }
        __syncwarp();
        add_records(k0, t0);
      }
    }
  }

  // Of the lane's next kTogether points, of which the first is k, in the chunk at k0.
  __device__ __forceinline__ void put_records(Batch<Config::kBatch> const& points, int k0,
                                              int k) const {
    if constexpr (Config::kLevelOfChunk) {
      int const level = k0 / Config::kPoints;
      Place const& place = lane_.schedule.places[level];
      if (lane_.is_split(level)) {
#pragma unroll
        for (int i = 0; i < Config::kTogether; ++i) put_record(points, i, level, place, true);
      } else {
#pragma unroll
        for (int i = 0; i < Config::kTogether; ++i) put_record(points, i, level, place, false);
      }
    } else {
#pragma unroll
      for (int i = 0; i < Config::kTogether; ++i) {
        int const level = lane_.level_of(k + i);
        put_record(points, i, level, lane_.shared.places[level], lane_.is_split(level));
      }
    }
  }

  __device__ __forceinline__ void put_record(Batch<Config::kBatch> const& points, int i, int level,
                                             Place const& place, bool is_split) const {
    float2 const at = persistent::to_pixels(static_cast<persistent::Lane<Config> const&>(lane_), {},
                                            place.width, place.height, points.x[i], points.y[i]);
    std::uint32_t const pixel_vecs = lane_.is_kept(level)
                                         ? lane_.kept_pixel_bytes() / persistent::kVecBytes
                                         : lane_.pixel_stride();
    auto const j = static_cast<int>(lane_.j);
    persistent::put_record(Table::at(records_, i * Config::kLanes + j, j),
                           locate(lane_, place, is_split, pixel_vecs, at, points.weight[i]));
  }

  // What the lanes have prepared of a chunk, from point t0 of each lane on.
  __device__ __forceinline__ void add_records(int k0, int t0) {
    if constexpr (Config::kLevelOfChunk) {
      int const level = k0 / Config::kPoints;
      LevelVecs const vecs = level_vecs(lane_, level);
      with_home(lane_, level, [&](auto home) {
        for_records(k0, t0, [&](Records const& record, int) { add<home.value>(record, vecs); });
      });
    } else {
      for_records(k0, t0, [&](Records const& record, int k) { add(record, k); });
    }
  }

  // Calls fn with kInFlight records at once and the first one's point.
  template <class Fn>
  __device__ __forceinline__ void for_records(int k0, int t0, Fn fn) {
#pragma unroll 1
    for (int i = 0; i < Config::kTogether; ++i) {
      std::uint32_t const at =
          records_ + static_cast<std::uint32_t>(i * Config::kLanes * Table::kRowBytes);
#pragma unroll
      for (int j0 = 0; j0 < Config::kLanes; j0 += Config::kInFlight) {
        if (!Config::kWholeChunks && j0 > 0 && k0 + j0 * Config::kBatch >= lane_.K) break;
        Records record;
#pragma unroll
        for (int u = 0; u < Config::kInFlight; ++u) {
          persistent::get_record(Table::at(at, j0 + u, j0 + u), record[u]);
        }
        fn(record, k0 + j0 * Config::kBatch + t0 + i);
      }
    }
  }

  // Records of points k, k + kBatch and so on.
  __device__ __forceinline__ void add(Records const& record, int k) {
    if constexpr (Config::kOneLevelInFlight) {
      int const level = lane_.level_of(k);
      LevelVecs const vecs = level_vecs(lane_, level);
      with_home(lane_, level, [&](auto home) { add<home.value>(record, vecs); });
    } else {
      Corners value;
#pragma unroll
      for (int u = 0; u < Config::kInFlight; ++u) {
        int const level = lane_.level_of(k + u * Config::kBatch);
        LevelVecs const vecs = level_vecs(lane_, level);
        with_home(lane_, level, [&](auto home) {
          gather_.template load<home.value, kRank>(lane_, vecs, record[u], value[u]);
        });
      }
      sum(record, value);
    }
  }

  // Of one level: all loads first, then the sums.
  template <Home kHome>
  __device__ __forceinline__ void add(Records const& record, LevelVecs const& vecs) {
    Corners value;
#pragma unroll
    for (int u = 0; u < Config::kInFlight; ++u) {
      gather_.template load<kHome, kRank>(lane_, vecs, record[u], value[u]);
    }
    sum(record, value);
  }

  __device__ __forceinline__ void sum(Records const& record, Corners const& value) {
    if constexpr (Config::kFp16Sums) {
#pragma unroll
      for (int u = 0; u < Config::kInFlight; u += 2) sums_.add_fp16(record, value, u, u + 2);
    } else {
#pragma unroll
      for (int u = 0; u < Config::kInFlight; ++u) sums_.add(record[u], value[u]);
    }
  }

  Lane<Config> lane_;
  JobQueue<Config> queue_;
  std::uint32_t records_;  // the slot's, in shared memory
  std::uint32_t buffer_ = 0;
  KeptGather<Config> gather_;
  RowSums<Config> sums_;
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    cluster_rows(const __grid_constant__ Params p, const __grid_constant__ ScheduleParams schedule,
                 const __grid_constant__ KeptParams kept) {
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1000)
  __trap();  // reject() keeps these devices away
#else
  MSDA_SHARED(persistent::Shared<Config>, shared);
  fill_tables(Lane<Config>(p, schedule, kept, shared));
  if (threadIdx.x == 0) {
    for (std::uint32_t& count : shared.fetched) count = 0;
    for (std::uint64_t& full : shared.full) {
      ptx::init_mbarrier(static_cast<std::uint32_t>(__cvta_generic_to_shared(&full)), 1);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  ptx::wait_for_previous_grid();
  ptx::launch_dependents();
  if constexpr (Config::kPair) {
    if (ptx::cluster_rank() == 1) return Warp<Config, 1>(p, schedule, kept, shared).run();
  }
  Warp<Config, 0>(p, schedule, kept, shared).run();
#endif
}

}  // namespace msda::cluster
