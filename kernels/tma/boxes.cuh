// A box of 2 x 2 pixels for each point, brought by a tensor map of its level. A producer warp
// locates a point a lane and gives 32 boxes to a stage, for a consumer warp that has the rows'
// sums in registers. A box of D = 32 float16 is 256 bytes; the copy engine makes one in about 7
// cycles of an SM, which is this design's bound.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/tma/tensor_maps.h"
#include "kernels/tma/tma_rows.cuh"

namespace msda::tma {

// The jobs of a producer's consumers, every so often one for each. Of the last jobs there may be
// fewer than consumers: then the first ones have them.
struct JobRound {
  std::int64_t first;  // job, of the producer's first consumer
  std::int32_t count;

  __device__ __forceinline__ JobRound(BoxParams const& schedule, std::int64_t round,
                                      std::int32_t producer) {
    std::int32_t const consumers = kBoxWarps - schedule.producers;
    first = (round * gridDim.x + blockIdx.x) * consumers + producer;
    count = 0;
    for (std::int32_t i = producer; i < consumers; i += schedule.producers) {
      if (first + (i - producer) < schedule.jobs) ++count;
    }
  }
  __device__ __forceinline__ std::int64_t job_of(BoxParams const& schedule, std::int32_t i) const {
    return first + std::int64_t{i} * schedule.producers;
  }
};

// A producer's stages in shared memory.
struct BoxStages {
  std::uint32_t boxes;    // 32 of each stage
  std::uint32_t records;  // the same
  std::uint32_t box_bytes;

  __device__ __forceinline__ BoxStages(BoxParams const& schedule, std::int32_t producer)
      : box_bytes(static_cast<std::uint32_t>(schedule.box_bytes)) {
    auto const stages = static_cast<std::uint32_t>(schedule.stages);
    auto const all = static_cast<std::uint32_t>(schedule.producers) * stages;
    std::uint32_t const first = static_cast<std::uint32_t>(producer) * stages;
    std::uint32_t const begin = stage_begin();
    boxes = begin + first * kWarp * box_bytes;
    records = begin + (all * box_bytes + first * kRecordBytes) * kWarp;
  }
  __device__ __forceinline__ std::uint32_t box(std::uint32_t stage, unsigned i) const {
    return boxes + (stage * kWarp + i) * box_bytes;
  }
  __device__ __forceinline__ std::uint32_t record(std::uint32_t stage, unsigned i) const {
    return records + (stage * kWarp + i) * kRecordBytes;
  }
};

__device__ __forceinline__ std::int32_t level_of_point(Params const& p, std::int64_t k) {
  std::int32_t l = 0;
  while (k >= p.near_levels[l].point_start + p.near_levels[l].point_count) ++l;
  return l;
}

// A point of each lane.
template <class Config>
__device__ __forceinline__ void fill_boxes(Maps const& maps, Params const& p,
                                           BoxParams const& schedule, std::int64_t job,
                                           std::int64_t k0, BoxStages const& stages,
                                           std::uint32_t stage, std::uint32_t full) {
  unsigned const lane = threadIdx.x % kWarp, j = lane % Config::kLanes;
  Row const row = row_at(p, job * Config::kSlots + lane / Config::kLanes, schedule.rows);
  PointRow const points(p, row.b, row.q, row.m);
  RowWeights<Config> const weights(p, points, j);
  std::int64_t const k = k0 + j;
  Location at{};
  std::int32_t l = 0;
  if (k < p.point_total) {
    l = level_of_point(p, k);
    LevelParams const& level = p.near_levels[l];
    RawPoint const raw = load_point(p, points, k);
    at = locate<Config>(position_of(p, points, level, l, raw), weights(raw.weight), level);
  }
  put_point(stages.record(stage, lane), point_of<Config>(at, 0));
  unsigned const boxes = __ballot_sync(0xffffffffu, at.is_inside);
  // Behind the ballot the records of all lanes are stored, but not yet seen by others.
  __syncwarp();
  if (lane == 0) {
    ptx::arrive_and_expect(full,
                           static_cast<std::uint32_t>(__popc(boxes) * 4 * schedule.pixel_bytes));
  }
  __syncwarp();
  if (!at.is_inside) return;
  ptx::tensor_load(
      stages.box(stage, lane), &maps.level[l],
      {0, at.x, at.y, static_cast<std::int32_t>(row.m), static_cast<std::int32_t>(row.b)}, full);
}

template <class Config>
__device__ __forceinline__ void produce_boxes(Maps const& maps, Params const& p,
                                              BoxParams const& schedule, StageRing const& ring,
                                              std::int32_t producer) {
  BoxStages const stages(schedule, producer);
  StageCursor at(schedule.stages), turn(schedule.stages);  // turn: of a consumer's own entries
#pragma unroll 1
  for (std::int64_t n = 0;; ++n) {
    JobRound const round(schedule, n, producer);
    if (round.count == 0) return;
#pragma unroll 1
    for (std::int64_t k0 = 0; k0 < p.point_total; k0 += Config::kLanes) {
#pragma unroll 1
      for (std::int32_t i = 0; i < round.count; ++i) {
        ring.wait_until_empty(at);
        auto const consumer = static_cast<std::uint32_t>(producer + i * schedule.producers);
        fill_boxes<Config>(maps, p, schedule, round.job_of(schedule, i), k0, stages, at.stage(),
                           ring.full_of(turn) + consumer * kMaxStages * 8);
        at.advance(1);
      }
      turn.advance(1);
    }
  }
}

// Adds the boxes of a stage.
template <class Config>
__device__ __forceinline__ void add_boxes(BoxParams const& schedule, BoxStages const& stages,
                                          std::uint32_t stage, unsigned vec,
                                          RowSums<Config>& sums) {
  unsigned const lane = threadIdx.x % kWarp, slot = lane / Config::kLanes;
  bool const turned = Config::kTurns && (slot & 1) != 0;
  auto const pixel_bytes = static_cast<std::uint32_t>(schedule.pixel_bytes);
  std::uint32_t const other = turned ? 0u - pixel_bytes : pixel_bytes;
  std::uint32_t const first = vec * kVecBytes + (turned ? pixel_bytes : 0);
#pragma unroll
  for (int i = 0; i < Config::kLanes; i += 2) {
    LocatedPoint record[2];
    msda::Vec<Config::kVecBytes> value[2][4];
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      unsigned const n = slot * Config::kLanes + static_cast<unsigned>(i + u);
      record[u] = get_point(stages.record(stage, n));
      std::uint32_t const at = stages.box(stage, n) + first;
#pragma unroll
      for (int corner = 0; corner < 4; ++corner) {
        ptx::load_shared(at + (corner / 2 * 2) * pixel_bytes + (corner % 2 == 0 ? 0 : other),
                         value[u][corner].word);
      }
    }
    sums.add_one(record[0], value[0], turned);
    sums.add_one(record[1], value[1], turned);
  }
}

template <class Config>
__device__ __forceinline__ void consume_boxes(Params const& p, BoxParams const& schedule,
                                              StageRing const& ring, std::int32_t consumer) {
  std::int32_t const producer = consumer % schedule.producers, own = consumer / schedule.producers;
  unsigned const lane = threadIdx.x % kWarp, j = lane % Config::kLanes;
  unsigned const vec = vec_of_lane(p.head_dim, Config::kChannels, j);
  BoxStages const stages(schedule, producer);
  StageCursor at(schedule.stages), turn(schedule.stages);
  at.advance(static_cast<std::uint32_t>(own));
#pragma unroll 1
  for (std::int64_t n = 0;; ++n) {
    JobRound const round(schedule, n, producer);
    if (own >= round.count) return;
    RowSums<Config> sums;
    sums.clear();
#pragma unroll 1
    for (std::int64_t k0 = 0; k0 < p.point_total; k0 += Config::kLanes) {
      ring.wait_until_full(turn);
      add_boxes<Config>(schedule, stages, at.stage(), vec, sums);
      __syncwarp();
      if (lane == 0) ring.leave(at);
      at.advance(static_cast<std::uint32_t>(round.count));
      turn.advance(1);
    }
    Row const row = row_at(p, round.job_of(schedule, own) * Config::kSlots + lane / Config::kLanes,
                           schedule.rows);
    if (__any_sync(0xffffffffu, !sums.is_finite())) {
      PointRow const points(p, row.b, row.q, row.m);
      RowWeights<Config> const weights(p, points, j);
      sum_exact(p, row, points, weights, LaneValues<Config>(p, row, vec), sums);
    }
    store_row(p, row, j, sums, schedule.aligned_output);
  }
}

template <class Config>
__global__ void __launch_bounds__(kBoxWarps* kWarp, 2)
    sum_boxes(const __grid_constant__ Maps maps, const __grid_constant__ Params p,
              const __grid_constant__ BoxParams schedule) {
  MSDA_SHARED(StageBarriers, barriers, );
  if (threadIdx.x == 0) {
    std::int32_t const full = (kBoxWarps - schedule.producers) * kMaxStages;
    std::int32_t const empty = schedule.producers * schedule.stages;
    for (std::int32_t i = 0; i < full; ++i) {
      ptx::init_mbarrier(shared_address(&barriers.full[i]), 1);
    }
    for (std::int32_t i = 0; i < empty; ++i) {
      ptx::init_mbarrier(shared_address(&barriers.empty[i]), 1);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  ptx::launch_dependents();
  ptx::wait_for_previous_grid();
  auto const warp = static_cast<std::int32_t>(threadIdx.x / kWarp);
  bool const is_producer = warp < schedule.producers;
  std::int32_t const consumer = warp - schedule.producers;
  std::int32_t const producer = is_producer ? warp : consumer % schedule.producers;
  StageRing const ring(barriers.full[is_producer ? 0 : consumer * kMaxStages],
                       barriers.empty[producer * schedule.stages]);
  if (is_producer) {
    produce_boxes<Config>(maps, p, schedule, ring, warp);
  } else {
    consume_boxes<Config>(p, schedule, ring, consumer);
  }
}

}  // namespace msda::tma
