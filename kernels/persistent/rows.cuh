// The kernel of the persistent family: sums of rows. README.md here has the schedule and its count.
#pragma once

#include "kernels/common/ptx_cluster.cuh"
#include "kernels/common/shared.cuh"
#include "kernels/persistent/exact.cuh"

namespace msda::persistent {

// A warp, from its jobs to their results.
template <class Config>
class Warp {
 public:
  __device__ Warp(Params const& p, ScheduleParams const& schedule, Shared<Config>& shared)
      : state_(p, schedule, shared) {}

  __device__ void run() {
    Lane<Config> const& lane = state_.lane;
    if constexpr (Config::kCachesLevels) return run_tiles();
    Job const job = state_.jobs.fetch_job(lane);
    if (!job.is_there) return;
    Row const row = state_.jobs.row_of(lane, job);
    sum_rows(row, read_chunk(lane, row.row, row.query, 0));
  }

 private:
  using Table = RecordTable<Config>;

  // Where levels are cached: tile by tile. A tile's first inputs travel while its levels are
  // copied.
  __device__ void run_tiles() {
    Lane<Config> const& lane = state_.lane;
    ScheduleParams const& schedule = lane.schedule;
    std::uint32_t const stride = schedule.blocks * schedule.grid_range;
#pragma unroll 1
    for (std::uint32_t begin = blockIdx.x * schedule.grid_range; begin < schedule.index_count;
         begin += stride) {
      std::uint32_t const end = min(begin + schedule.grid_range, schedule.index_count);
      Tile tile;
#pragma unroll 1
      for (std::uint32_t index = begin; index < end; index = tile.next) {
        tile = fetch_tile(schedule, index, end);
        state_.jobs.begin_tile(tile);
        Job const job = state_.jobs.fetch_job(lane);
        Row const row = state_.jobs.row_of(lane, job);
        ChunkInputs<Config> const inputs = read_chunk(lane, row.row, row.query, 0);
        __syncthreads();  // the levels before have been read
        if (tile.has_jobs()) copy_levels<Config>(lane.p, schedule, tile.group);
        if (threadIdx.x == 0) state_.jobs.clear_next_count(lane.shared);
        __syncthreads();
        if (job.is_there) sum_rows(row, inputs);
        state_.jobs.end_tile();
      }
    }
  }

  // A warp's rows, beginning with one whose first inputs have been read.
  __device__ void sum_rows(Row row, ChunkInputs<Config> inputs) {
    Lane<Config> const& lane = state_.lane;
    while (true) {
      Job const next = state_.jobs.fetch_job(lane);
      Row const next_row = next.is_there ? state_.jobs.row_of(lane, next) : row;
      state_.gather.start(lane, row);
      state_.sums.clear();
      if (Config::kAligned && !lane.schedule.exact_only) {
        if constexpr (Config::kInLines) {
          sum_in_lines(row, next_row, inputs);
        } else {
          sum_fast(row, next_row, inputs);
        }
      } else {
        inputs = read_chunk(lane, next_row.row, next_row.query, 0);
      }
      if (!Config::kAligned || lane.schedule.exact_only ||
          __any_sync(0xffffffffu, !state_.sums.is_finite())) {
        sum_exact(state_, row);
      }
      state_.sums.add_subs();
      state_.sums.store(lane, row);
      if (!next.is_there) return;
      row = next_row;
    }
  }

  // The next inputs of a chunk's: the row's next ones, or the first ones of the next row. They
  // travel while points are gathered.
  __device__ __forceinline__ ChunkInputs<Config> read_next(Row const& row, Row const& next_row,
                                                           int k0) const {
    Lane<Config> const& lane = state_.lane;
    bool const is_last = k0 + Config::kChunk >= lane.K;
    return read_chunk(lane, is_last ? next_row.row : row.row, is_last ? next_row.query : row.query,
                      is_last ? 0 : k0 + Config::kChunk);
  }

  // The fast path. Every lane prepares kBatch points, one after the other; after each, all lanes of
  // a slot add those of the slot's lanes.
  __device__ __forceinline__ void sum_fast(Row const& row, Row const& next_row,
                                           ChunkInputs<Config>& inputs) {
    Lane<Config> const& lane = state_.lane;
    if constexpr (Config::kFused) {
      float logits[Config::kBatch];
      weights_of(inputs.points[0].weight, lane.weight_dtype(), logits);
      state_.softmax.start(logits);
    }
#pragma unroll 1
    for (int k0 = 0; k0 < lane.K; k0 += Config::kChunk) {
      Batch<Config::kBatch> points = to_points(
          inputs.points[0], lane.coord_dtype(), lane.weight_dtype(),
          vecs_are_swapped<Config::kBatch>(lane.inputs_are_wide(), lane.coord_dtype(), lane.index));
      int const first = lane.first_point(k0);
      int const batches = min(Config::kLanes, (lane.K - k0 + Config::kBatch - 1) /
                                                  Config::kBatch);  // of the first slot
      hide_points_behind_row(k0, first, points);
      if constexpr (Config::kFused) {
        state_.softmax.to_powers(points.weight,
                                 [&](float factor) { state_.sums.multiply(factor); });
      }
      Place place;
      if constexpr (Config::kLevelOfBatch) {
        place = Config::kLevelOfChunk ? lane.schedule.places[k0 / Config::kPoints]
                                      : lane.shared.places[lane.place_of(min(first, lane.K - 1))];
        if constexpr (Config::kFused) {
          batch_to_pixels(lane, frame_of(lane, inputs.reference, min(first, lane.K - 1)), place,
                          points);
        }
      }
      Strides strides[Config::kStrides];
      state_.gather.load_strides(lane, k0, first, strides);
      // Rows of fewer points than a lane prepares end early.
      int const turns = Config::kLevelOfBatch ? Config::kBatch : min(Config::kBatch, lane.K - k0);
      // Four of them would not fit the instruction cache.
      constexpr int kUnrolled = Config::kTogether == 1 ? Config::kBatch : 1;
#pragma unroll(kUnrolled)
      for (int t0 = 0; t0 < turns; t0 += Config::kTogether) {
        // The records before have been read.
        if constexpr (Config::kTables == Config::kTogether) __syncwarp();
#pragma unroll
        for (int i = 0; i < Config::kTogether; ++i) {
          float2 at = {points.x[i], points.y[i]};
          if constexpr (!Config::kLevelOfBatch) {
            int const k = min(first + t0 + i, lane.K - 1);
            place = lane.shared.places[lane.place_of(k)];
            at = to_pixels(lane, frame_of(lane, row, k), place.width, place.height, at.x, at.y);
          } else if constexpr (!Config::kFused) {
            at = to_pixels(lane, {}, place.width, place.height, at.x, at.y);
          }
          put_record(state_.put + state_.gather.buffer + i * Table::kBytes,
                     locate<Config>(place, at, points.weight[i], lane.slot(),
                                    pixel_stride_of(lane, Config::kLevelOfChunk ? k0 : first)));
        }
        if (t0 + Config::kTogether < turns) {
          points.template advance<Config::kTogether>();
        } else {
          inputs = read_next(row, next_row, k0);
        }
        __syncwarp();
        state_.gather.add_prepared(lane, state_.sums, k0 + t0, min(turns - t0, Config::kTogether),
                                   batches, strides);
        if constexpr (Config::kTables > Config::kTogether) {
          state_.gather.buffer = Config::kTogether * Table::kBytes - state_.gather.buffer;
        }
      }
    }
    if constexpr (Config::kFused) state_.sums.multiply(state_.softmax.inverse_of_powers());
  }

  // Lanes behind the row's last point prepare it again, and slots gather kInFlight records at a
  // time: such points weigh nothing.
  __device__ __forceinline__ void hide_points_behind_row(int k0, int first,
                                                         Batch<Config::kBatch>& points) const {
    Lane<Config> const& lane = state_.lane;
    if constexpr (Config::kWholeChunks) return;
    constexpr float kNoWeight = Config::kFused ? -INFINITY : 0.0f;  // before a softmax, without one
#pragma unroll
    for (int t = 0; t < Config::kBatch; ++t) {
      // Two ways to write it, and of the first one that f32 leaves early: registers are short, and
      // each device and type spills with another's.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
      if (Config::kType == ValueType::f32 && Config::kPoints > 0 && k0 + Config::kChunk <= lane.K)
        break;
      points.weight[t] = first + t < lane.K ? points.weight[t] : kNoWeight;
#else
      if (first + t >= lane.K) points.weight[t] = kNoWeight;
#endif
    }
  }

  // The fast path where a lane prepares points of two rows. All of a chunk are located before they
  // are gathered.
  __device__ __forceinline__ void sum_in_lines(Row const& row, Row const& next_row,
                                               ChunkInputs<Config>& inputs) {
    Lane<Config> const& lane = state_.lane;
#pragma unroll 1
    for (int k0 = 0; k0 < lane.K; k0 += Config::kChunk) {
      int const first = lane.first_point(k0);
      Place const place = lane.shared.places[lane.place_of(min(first, lane.K - 1))];
      __syncwarp();  // the records before have been read
#pragma unroll
      for (int i = 0; i < Config::kRowsOfLane; ++i) {
        Batch<Config::kBatch> const points =
            to_points(inputs.points[i], lane.coord_dtype(), lane.weight_dtype(), false);
#pragma unroll
        for (int t = 0; t < Config::kBatch; ++t) {
          float2 const at =
              to_pixels(lane, {}, place.width, place.height, points.x[t], points.y[t]);
          // Levels have an even number of points.
          float const weight = first < lane.K ? points.weight[t] : 0.0f;
          put_record(state_.put +
                         (lane.prepared_slot(i) - lane.prepared_slot(0)) * Table::kRecordBytes +
                         t * Table::kRowBytes,
                     locate<Config>(place, at, weight, lane.prepared_slot(i), 0));
        }
      }
      inputs = read_next(row, next_row, k0);
      __syncwarp();
      int const count = min(Config::kChunk, lane.K - k0);
      std::uint32_t table = state_.gather.records;
      // Points of one level.
#pragma unroll 1
      for (int i = 0; i < count; i += Config::kPoints) {
        Strides const strides[1] = {state_.gather.strides_of(lane, k0 + i)};
        state_.gather.on_level(lane, k0 + i, [&](auto cached) {
#pragma unroll
          for (int j = 0; j < Config::kPoints; j += Config::kInFlight) {
            state_.gather.template add<Config::kInFlight, cached.value>(lane, state_.sums, j, 0,
                                                                        table, strides);
          }
        });
        table += Config::kPoints * Table::kRowBytes;
      }
    }
  }

  WarpState<Config> state_;
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    persistent_rows(const __grid_constant__ Params p,
                    const __grid_constant__ ScheduleParams schedule) {
  MSDA_SHARED(Shared<Config>, shared);
  ptx::launch_dependents();
  fill_places<Config>(p, schedule, shared);
  if constexpr (!Config::kCachesLevels) fill_tiles<Config>(schedule, shared);
  if (threadIdx.x < 2) shared.fetched[threadIdx.x] = 0;
  ptx::wait_for_previous_grid();
  __syncthreads();
  Warp<Config>(p, schedule, shared).run();
}

}  // namespace msda::persistent
