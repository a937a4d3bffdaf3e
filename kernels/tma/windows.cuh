// A window a level for each tile of queries, brought by a tensor map of the level to where the mean
// of some of the tile's points lies. Producer warps keep stages of windows ahead, consumer warps
// gather level by level with the sums of a row a slot in registers. Points outside the window read
// global memory at their turn, so that a row's bits do not depend on windows.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/tma/tensor_maps.h"
#include "kernels/tma/tma_rows.cuh"

namespace msda::tma {

struct WindowOrigin {
  std::int32_t x, y;
};

struct WindowShared {
  StageBarriers barriers;
  WindowOrigin origin[kMaxStages];  // of the window in each stage
};

// A tile of queries with one head of one batch item.
struct Unit {
  std::int64_t b, m;
  std::int32_t begin, end;  // places of its queries

  __device__ __forceinline__ Unit(Params const& p, WindowParams const& schedule,
                                  std::int32_t index) {
    std::int32_t const item_head = index / schedule.tiles,
                       tile = index - item_head * schedule.tiles;
    b = item_head / p.head_count;
    m = item_head - b * p.head_count;
    begin = __ldg(schedule.tile_begin + tile);
    end = __ldg(schedule.tile_begin + tile + 1);
  }
  __device__ __forceinline__ std::int64_t query_at(WindowParams const& schedule,
                                                   std::int32_t place) const {
    return schedule.order == nullptr ? place : __ldg(schedule.order + place);
  }
};

// A window of an entry: unit by unit, level by level.
struct WindowEntry {
  std::int32_t unit;
  std::int32_t i;  // of WindowParams::levels

  __device__ __forceinline__ void advance(WindowParams const& schedule, std::int32_t entries) {
    for (i += entries; i >= schedule.level_count; i -= schedule.level_count) {
      unit += static_cast<std::int32_t>(gridDim.x);
    }
  }
};

// A lane's point, of 32 that are spread over the unit's queries; in pixels, not far beside the map.
__device__ __forceinline__ float2 sample_point(Params const& p, WindowParams const& schedule,
                                               WindowEntry const& entry) {
  Unit const unit(p, schedule, entry.unit);
  std::int32_t const l = schedule.levels[entry.i].level;
  LevelParams const& level = p.near_levels[l];
  auto const lane = static_cast<std::int32_t>(threadIdx.x % kWarp);
  std::int32_t const place = unit.begin + lane * (unit.end - unit.begin) / kWarp;
  PointRow const row(p, unit.b, unit.query_at(schedule, place), unit.m);
  std::int64_t const k = level.point_start + lane % level.point_count;
  RawPoint const raw{load_narrow(p.coord_dtype, p.coord, row.coord + 2 * k),
                     load_narrow(p.coord_dtype, p.coord, row.coord + 2 * k + 1), 0.0f};
  Point<float> const at = position_of(p, row, level, l, raw);
  return {fminf(fmaxf(at.x, -1.0f), static_cast<float>(level.width)),
          fminf(fmaxf(at.y, -1.0f), static_cast<float>(level.height))};
}

// The origin of the window whose middle is the mean of the lanes' points: no further out than the
// points' pixels are, at an even column.
__device__ __forceinline__ WindowOrigin origin_around(float2 at, WindowLevel const& window,
                                                      LevelParams const& level) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    at.x += __shfl_xor_sync(0xffffffffu, at.x, distance);
    at.y += __shfl_xor_sync(0xffffffffu, at.y, distance);
  }
  auto const begin = [](float sum, std::int32_t side, std::int32_t least, std::int32_t most) {
    float const middle = sum * (1.0f / kWarp) - 0.5f * static_cast<float>(side - 1);
    return max(least, min(static_cast<std::int32_t>(rintf(middle)), most));
  };
  std::int32_t const x = begin(at.x, window.columns, -2, level.width + 2 - window.columns);
  return {x & ~1, begin(at.y, window.rows, -1, level.height + 1 - window.rows)};
}

__device__ __forceinline__ void produce_windows(Maps const& maps, Params const& p,
                                                WindowParams const& schedule, WindowShared& shared,
                                                std::int32_t producer) {
  StageRing const ring(shared.barriers.full[0], shared.barriers.empty[0]);
  StageCursor at(schedule.stages);
  at.advance(static_cast<std::uint32_t>(producer));
  WindowEntry entry{static_cast<std::int32_t>(blockIdx.x), 0};
  entry.advance(schedule, producer);
  if (entry.unit >= schedule.units) return;
  float2 sample = sample_point(p, schedule, entry);
#pragma unroll 1
  while (true) {
    WindowLevel const& window = schedule.levels[entry.i];
    LevelParams const& level = p.near_levels[window.level];
    WindowOrigin const origin = origin_around(sample, window, level);
    Unit const unit(p, schedule, entry.unit);
    // The next points travel while the stage is waited for.
    entry.advance(schedule, schedule.producers);
    bool const is_last = entry.unit >= schedule.units;
    if (!is_last) sample = sample_point(p, schedule, entry);
    if (threadIdx.x % kWarp == 0) {
      ring.wait_until_empty(at);
      shared.origin[at.stage()] = origin;
      ptx::arrive_and_expect(
          ring.full_of(at),
          static_cast<std::uint32_t>(window.columns * window.rows * schedule.pixel_bytes));
      ptx::tensor_load(
          stage_begin() + at.stage() * static_cast<std::uint32_t>(schedule.stage_bytes),
          &maps.level[window.level],
          {0, origin.x, origin.y, static_cast<std::int32_t>(unit.m),
           static_cast<std::int32_t>(unit.b)},
          ring.full_of(at));
    }
    __syncwarp();
    if (is_last) return;
    at.advance(static_cast<std::uint32_t>(schedule.producers));
  }
}

// The source of a row's points on one level: the window, or device memory outside it.
template <class Config>
struct LevelSource {
  LevelParams const& level;
  WindowOrigin origin;
  std::int32_t columns, rows;
  std::uint32_t window;  // the lane's vec of the window's first pixel, in shared memory
  std::uint32_t pixel_bytes;
  LaneValues<Config> const& values;
  bool turned;

  // In the window: the number of the even pixel of the upper row, below it whether the odd one lies
  // left of it. Outside: row and column, both from 1 on.
  __device__ __forceinline__ LocatedPoint record_at(Location const& at) const {
    std::int32_t const x = at.x - origin.x, y = at.y - origin.y;
    bool const is_in = x >= 0 && x + 1 < columns && y >= 0 && y + 1 < rows;
    std::uint32_t const odd_is_left = static_cast<std::uint32_t>(at.x) & 1u;
    auto const place = static_cast<std::uint32_t>(y * columns + x) + odd_is_left;
    if (!at.is_inside) return point_of<Config>(at, 0, false);
    if (is_in) return point_of<Config>(at, place << 1 | odd_is_left, false);
    return point_of<Config>(
        at, static_cast<std::uint32_t>(at.y + 1) << 16 | static_cast<std::uint32_t>(at.x + 1),
        true);
  }

  __device__ __forceinline__ void load_near(LocatedPoint const& record,
                                            msda::Vec<Config::kVecBytes> (&value)[4]) const {
    std::uint32_t const even = window + (record.place >> 1) * pixel_bytes;
    std::uint32_t const odd = (record.place & 1) != 0 ? even - pixel_bytes : even + pixel_bytes;
    std::uint32_t const first = turned ? odd : even, other = turned ? even : odd;
    std::uint32_t const below = static_cast<std::uint32_t>(columns) * pixel_bytes;
    ptx::load_shared(first, value[0].word);
    ptx::load_shared(other, value[1].word);
    ptx::load_shared(first + below, value[2].word);
    ptx::load_shared(other + below, value[3].word);
  }
  __device__ __forceinline__ void load_far(LocatedPoint const& record,
                                           msda::Vec<Config::kVecBytes> (&value)[4]) const {
    std::int32_t const x = static_cast<std::int32_t>(record.place & 0xffffu) - 1;
    std::int32_t const y = static_cast<std::int32_t>(record.place >> 16) - 1;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      value[i] =
          values.load(level, column_of<Config>(x, (i % 2 != 0) != turned ? 1 : 0), y + i / 2);
    }
  }

  // Points of each slot's row whose records begin at `records`.
  template <int kCount>
  __device__ __forceinline__ void add(std::uint32_t records, RowSums<Config>& sums) const {
    LocatedPoint record[kCount / 2][2];
    msda::Vec<Config::kVecBytes> value[kCount / 2][2][4];
    bool is_far = false;
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      record[u / 2][u % 2] = get_point(records + u * Config::kSlots * kRecordBytes);
      is_far = is_far || record[u / 2][u % 2].is_far();
    }
    if (__any_sync(0xffffffffu, is_far)) {
#pragma unroll
      for (int u = 0; u < kCount; ++u) {
        if (record[u / 2][u % 2].is_far()) {
          load_far(record[u / 2][u % 2], value[u / 2][u % 2]);
        } else {
          load_near(record[u / 2][u % 2], value[u / 2][u % 2]);
        }
      }
    } else {
#pragma unroll
      for (int u = 0; u < kCount; ++u) load_near(record[u / 2][u % 2], value[u / 2][u % 2]);
    }
#pragma unroll
    for (int u = 0; u < kCount / 2; ++u) {
      sums.add_pair(record[u], value[u], turned, [](int, int) { return true; });
    }
  }
};

// A consumer warp.
template <class Config>
class WindowConsumer {
 public:
  __device__ __forceinline__ WindowConsumer(Params const& p, WindowParams const& schedule,
                                            WindowShared& shared, std::int32_t consumer)
      : p_(p),
        schedule_(schedule),
        shared_(shared),
        ring_(shared.barriers.full[0], shared.barriers.empty[0]),
        at_(schedule.stages),
        lane_(threadIdx.x % kWarp),
        j_(lane_ % Config::kLanes),
        slot_(lane_ / Config::kLanes),
        first_row_(consumer * Config::kSlots),
        records_(stage_begin() + static_cast<std::uint32_t>(schedule.stages * schedule.stage_bytes +
                                                            consumer * Config::kWarpRecordBytes)) {}

  __device__ __forceinline__ void run() {
#pragma unroll 1
    for (auto u = static_cast<std::int32_t>(blockIdx.x); u < schedule_.units;
         u += static_cast<std::int32_t>(gridDim.x)) {
      Unit const unit(p_, schedule_, u);
      if (unit.begin + first_row_ < unit.end) {
        sum_unit(unit);
      } else {
        pass_unit();
      }
    }
  }

 private:
  static constexpr int kOfLane = Config::kChunk / Config::kLanes;

  // No row of the unit is this warp's: its windows are full all the same before it leaves them, so
  // that it does not arrive twice at one phase.
  __device__ __forceinline__ void pass_unit() {
#pragma unroll 1
    for (std::int32_t i = 0; i < schedule_.level_count; ++i) {
      ring_.wait_until_full(at_);
      leave_stage();
    }
  }
  __device__ __forceinline__ void leave_stage() {
    __syncwarp();
    if (lane_ == 0) ring_.leave(at_);
    at_.advance(1);
  }

  // The lane's points of a chunk of a level. Those of lanes behind its last point repeat that.
  __device__ __forceinline__ void load_points(PointRow const& points, LevelParams const& level,
                                              std::int64_t k0, RawPoint (&raw)[kOfLane]) const {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      if (i > 0 && k0 + i * Config::kLanes >= level.point_count) break;  // for all lanes
      std::int64_t const k = min(k0 + i * Config::kLanes + j_, level.point_count - 1);
      raw[i] = load_point(p_, points, level.point_start + k);
    }
  }

  __device__ __forceinline__ void sum_unit(Unit const& unit) {
    std::int32_t const place = unit.begin + first_row_ + static_cast<std::int32_t>(slot_);
    Row const row{unit.b, unit.query_at(schedule_, min(place, unit.end - 1)), unit.m,
                  place < unit.end};
    PointRow const points(p_, row.b, row.q, row.m);
    RowWeights<Config> const weights(p_, points, j_);
    LaneValues<Config> const values(p_, row, vec_of_lane(p_.head_dim, Config::kChannels, j_));
    RowSums<Config> sums;
    sums.clear();
    RawPoint raw[kOfLane];
    load_points(points, p_.near_levels[schedule_.levels[0].level], 0, raw);
#pragma unroll 1
    for (std::int32_t i = 0; i < schedule_.level_count; ++i) {
      add_level(i, points, weights, values, raw, sums);
      leave_stage();
    }
    if (__any_sync(0xffffffffu, !sums.is_finite())) {
      sum_exact(p_, row, points, weights, values, sums);
    }
    store_row(p_, row, j_, sums, schedule_.aligned_output);
  }

  // raw: the lane's first points of the level, then those of the next one.
  __device__ __forceinline__ void add_level(std::int32_t i, PointRow const& points,
                                            RowWeights<Config> const& weights,
                                            LaneValues<Config> const& values,
                                            RawPoint (&raw)[kOfLane], RowSums<Config>& sums) {
    WindowLevel const& window = schedule_.levels[i];
    LevelParams const& level = p_.near_levels[window.level];
    ring_.wait_until_full(at_);
    LevelSource<Config> const source{
        level,
        shared_.origin[at_.stage()],
        window.columns,
        window.rows,
        stage_begin() + at_.stage() * static_cast<std::uint32_t>(schedule_.stage_bytes) +
            vec_of_lane(p_.head_dim, Config::kChannels, j_) * kVecBytes,
        static_cast<std::uint32_t>(schedule_.pixel_bytes),
        values,
        Config::kTurns && (slot_ & 1) != 0};
#pragma unroll 1
    for (std::int64_t k0 = 0; k0 < level.point_count; k0 += Config::kChunk) {
      if (k0 > 0) load_points(points, level, k0, raw);
      __syncwarp();  // the records before have been read
      put_records(source, points, weights, window.level, k0, raw);
      if (k0 + Config::kChunk >= level.point_count && i + 1 < schedule_.level_count) {
        load_points(points, p_.near_levels[schedule_.levels[i + 1].level], 0, raw);
      }
      __syncwarp();
      auto const count =
          static_cast<int>(min(level.point_count - k0, std::int64_t{Config::kChunk}));
      std::uint32_t const own = records_ + slot_ * kRecordBytes;
#pragma unroll 1
      for (int n = 0; n < count; n += Config::kInFlight) {
        source.template add<Config::kInFlight>(
            own + static_cast<std::uint32_t>(n) * Config::kSlots * kRecordBytes, sums);
      }
    }
  }

  // Behind the level's last point are points that weigh nothing.
  __device__ __forceinline__ void put_records(LevelSource<Config> const& source,
                                              PointRow const& points,
                                              RowWeights<Config> const& weights, std::int32_t l,
                                              std::int64_t k0, RawPoint const (&raw)[kOfLane]) {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      if (i > 0 && k0 + i * Config::kLanes >= source.level.point_count) break;
      unsigned const n = static_cast<unsigned>(i) * Config::kLanes + j_;
      Location at{};
      if (k0 + n < source.level.point_count) {
        at = locate<Config>(position_of(p_, points, source.level, l, raw[i]),
                            weights(raw[i].weight), source.level);
      }
      put_point(records_ + (n * Config::kSlots + slot_) * kRecordBytes, source.record_at(at));
    }
  }

  Params const& p_;
  WindowParams const& schedule_;
  WindowShared& shared_;
  StageRing ring_;
  StageCursor at_;
  unsigned lane_, j_, slot_;
  std::int32_t first_row_;
  std::uint32_t records_;
};

template <class Config>
__global__ void __launch_bounds__(kWindowWarps* kWarp, 1)
    sum_windows(const __grid_constant__ Maps maps, const __grid_constant__ Params p,
                const __grid_constant__ WindowParams schedule) {
  MSDA_SHARED(WindowShared, shared, );
  if (threadIdx.x == 0) {
    init_stages(shared.barriers, schedule.stages, schedule.stages,
                static_cast<std::uint32_t>(kWindowWarps - schedule.producers));
  }
  __syncthreads();
  ptx::launch_dependents();
  ptx::wait_for_previous_grid();
  auto const warp = static_cast<std::int32_t>(threadIdx.x / kWarp);
  if (warp < schedule.producers) {
    produce_windows(maps, p, schedule, shared, warp);
  } else {
    WindowConsumer<Config>(p, schedule, shared, warp - schedule.producers).run();
  }
}

}  // namespace msda::tma
