// What every role of a warp knows: the problem, the block's shared memory, and which of the warp's
// lanes this is.
#pragma once

#include "kernels/common/sampling.cuh"
#include "kernels/persistent/record.cuh"

namespace msda::persistent {

template <class Config>
struct Shared {
  alignas(16) char records[Config::kThreads / 32][Config::kTables][RecordTable<Config>::kBytes];
  Place places[Config::kPlaces];
  std::uint8_t level_of[Config::kPlaces];
  std::uint32_t fetched[2];             // jobs; where levels are cached, of even and of odd tiles
  std::uint32_t tiles[kMaxRounds + 1];  // the block's: the first job of each; behind them `jobs`
};

// A lane's row.
struct Row {
  std::uint32_t row;    // (b Q + q) M + m
  std::uint32_t query;  // b Q + q
  std::uint32_t m;
  const char* values;  // of the batch item and the head
};

template <class Config>
struct Lane {
  Params const& p;
  ScheduleParams const& schedule;
  Shared<Config>& shared;
  unsigned index;  // in the warp
  unsigned j;      // in the slot
  unsigned sub;    // of the slots that share a row
  int K;

  __device__ Lane(Params const& params, ScheduleParams const& schedule_params,
                  Shared<Config>& block)
      : p(params),
        schedule(schedule_params),
        shared(block),
        index(threadIdx.x % 32),
        j(index % Config::kLanes),
        sub(index / (Config::kLanes * Config::kHeads) % Config::kSpread),
        K(static_cast<int>(schedule.points)) {}

  __device__ __forceinline__ unsigned slot() const { return index / Config::kLanes; }

  // The first point that the lane prepares of the chunk at k0.
  __device__ int first_point(int k0) const {
    unsigned const preparing =
        Config::kInLines ? index % Config::kPreparing : sub * Config::kLanes + j;
    return k0 + static_cast<int>(preparing * Config::kBatch);
  }

  // The slot whose row is the lane's number i to prepare.
  __device__ unsigned prepared_slot(int i) const {
    return Config::kInLines
               ? static_cast<unsigned>(i) * (32 / Config::kPreparing) + index / Config::kPreparing
               : index / Config::kLanes;
  }

  // The number among all points of a row's first.
  __device__ std::uint32_t first_of(Row const& row) const { return row.row * schedule.points; }

  __device__ bool inputs_are_wide() const {
    return Config::kInputs == inputs_f32 || schedule.wide_inputs;
  }
  __device__ msda_dtype coord_dtype() const {
    return Config::kInputs == inputs_f32 ? MSDA_DTYPE_F32 : p.coord_dtype;
  }
  __device__ msda_dtype weight_dtype() const {
    return Config::kInputs == inputs_f32 ? MSDA_DTYPE_F32 : p.weight_dtype;
  }

  // Of point k: its entry in the block's table of places, and its level.
  __device__ int place_of(int k) const {
    constexpr unsigned kOfLevel = Config::kPoints > 0 ? Config::kPoints : 1;
    return Config::kPoints > 0 ? static_cast<int>(static_cast<unsigned>(k) / kOfLevel)
                               : min(k, K - 1);
  }
  __device__ int level_of(int k) const {
    return Config::kPoints > 0 ? place_of(k) : shared.level_of[place_of(k)];
  }
  __device__ __forceinline__ bool is_cached(int level) const {
    return (schedule.cached_levels >> level & 1) != 0;
  }

  // From a pixel to the next one, in vecs.
  __device__ __forceinline__ std::uint32_t pixel_stride() const {
    return Config::kIsKnown ? Config::kPixelBytes / kVecBytes : schedule.pixel_stride;
  }
};

// Calls fn with the distances over which a row's lanes are combined: first those of its slots.
template <class Config, class Fn>
__device__ __forceinline__ void for_subs(Fn fn) {
#pragma unroll
  for (int sub = Config::kSpread / 2; sub > 0; sub /= 2) fn(sub * Config::kHeads * Config::kLanes);
}
template <class Config, class Fn>
__device__ __forceinline__ void for_lanes_of_row(Fn fn) {
  for_subs<Config>(fn);
#pragma unroll
  for (int distance = Config::kLanes / 2; distance > 0; distance /= 2) fn(distance);
}

// The block's table of places: a level each where all have kPoints points, else a point each.
template <class Config>
__device__ void fill_places(Params const& p, ScheduleParams const& schedule,
                            Shared<Config>& shared) {
  int const count = Config::kPoints > 0 ? p.level_count : static_cast<int>(p.point_total);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += Config::kThreads) {
    int const l = level_of_place<Config>(p, i);
    shared.places[i] = schedule.places[l];
    shared.level_of[i] = static_cast<std::uint8_t>(l);
  }
}

}  // namespace msda::persistent
