// The row engine, seen from a warp: an instantiation (RowsConfig), a lane and its place in the
// warp, and the rows of a job. A job is a few neighbouring queries with a group of heads; each
// slot of lanes has a row of it.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/common/sampling.cuh"
#include "kernels/rows/layout.h"

namespace msda::rows {

// An instantiation: a row of variants.inc, and what the kernel takes for granted of a launch
// (KernelOptions).
struct RowsKind {
  ValueType type;
  Channels channels;  // the most
  Points points;      // of every level
  Spread spread;
  bool fused;
  bool grouped;
  bool aligned;  // values
  Heads heads;
  InputTypes inputs;
};

template <RowsKind kKind>
struct RowsConfig {
  static constexpr ValueType kType = kKind.type;
  static constexpr msda_dtype kDtype = dtype_of(kType);
  using Element = typename ValueTraits<kType>::Element;
  static constexpr int kElementBytes = sizeof(Element);
  static constexpr bool kFew = kKind.points == pfew;       // rows of at most 8 points
  static constexpr int kPoints = kFew ? 0 : kKind.points;  // of every level; 0: any number
  static constexpr bool kFused = kKind.fused;
  static constexpr bool kAligned = kKind.aligned;
  static constexpr bool kFp16Sums = has_fp16_sums(kKind.spread);  // of two points
  static constexpr int kVecBytes = msda::kVecBytes;
  static constexpr int kChannels = channels_of_vec(kElementBytes);
  static constexpr Layout kLayout =
      layout_of(kKind.channels, kElementBytes, kKind.spread, kKind.grouped);
  static constexpr int kLanes = kLayout.lanes;    // of a slot: they share the channels
  static constexpr int kHeads = kLayout.heads;    // neighbouring slots work on neighbouring heads
  static constexpr int kSpread = kLayout.spread;  // slots that share the points of a row
  static constexpr int kQueries = kLayout.queries;
  // Neighbouring slots share a row, and their banks by the parity of pixels.
  static constexpr bool kByParity = kLayout.by_parity;
  static constexpr int kVecs = vecs_of_lane(kKind.channels, kElementBytes, kLayout);
  static_assert(!kFp16Sums || (kVecs == 1 && kLanes > 1));
  // A known head count says that D is the most, too, and that every level has a pixel beside and
  // below another.
  static constexpr int kHeadCount = kKind.heads;
  static constexpr bool kIsKnown = kHeadCount > 0;
  // Levels in shared memory have the pixels of the heads of a group one after the other.
  static constexpr bool kCachesLevels = caches_levels(kKind.spread) && kIsKnown;
  static constexpr int kRowBytes = kKind.channels * kElementBytes;
  static constexpr int kCachedPixelBytes = kHeads * kRowBytes;
  // With cached levels and fp16 sums, rows of two lanes have all points of a lane in flight: those
  // of one level. Rows of four lanes are prepared by eight, 16 points of a row and then of another
  // one, so that loads of coordinates are of whole lines.
  static constexpr bool kLaneByLane = caches_levels(kKind.spread) && kFp16Sums && kLanes == 2;
  static constexpr bool kInLines = caches_levels(kKind.spread) && kFp16Sums && kLanes == 4;
  // Both add a row's points in their order, other kernels first those that the lanes prepare first.
  static constexpr bool kInOrder = kLaneByLane || kInLines;
  static constexpr int kRowsOfLane = kInLines ? 2 : 1;
  // A group: the points of a row that a lane prepares at a time.
  static constexpr int kGroup = group_of(kLayout, kKind.points);
  static constexpr int kPreparing = kLanes * kSpread * kRowsOfLane;  // lanes
  static constexpr int kChunk = kPreparing * kGroup;                 // points of a row
  static constexpr bool kWholeChunks = kPoints > 0 && kPoints % kChunk == 0;
  static constexpr InputTypes kInputs = kKind.inputs;
  static constexpr int kPixelBytes = kHeadCount * kRowBytes;
  // All points of a group lie on one level.
  static constexpr bool kLevelOfGroup =
      kFp16Sums || kGroup == 1 || (kPoints > 0 && kPoints % kGroup == 0);
  // The points of a chunk that a slot prepares, and the levels they lie on, if those are as many
  // in every chunk, else 0.
  static constexpr int kOfSlot = kLanes * kRowsOfLane * kGroup;
  static constexpr int kLevelsOfSlot = kPoints == 0             ? 0
                                       : kPoints % kOfSlot == 0 ? 1
                                       : kOfSlot % kPoints == 0 ? kOfSlot / kPoints
                                                                : 0;
  // All points of a chunk lie on one level, whatever the lane.
  static constexpr bool kLevelOfChunk = kLevelsOfSlot == 1 && kSpread == 1;
  // With rows in lines, lanes whose points lie on one level share its reference, since registers
  // are short: each holds one number of the four of a box, or two. Other lanes hold all.
  static constexpr int kLanesOfReference =
      kFused && kInLines && kPoints > 0 ? std::min(kPoints / kGroup, 4) : 1;
  static constexpr int kReferenceWords = 4 / kLanesOfReference;
};

// A block's shared memory. The engine reads `places`, whose entry of a point place_of() numbers,
// and `level_of`; each family defines the rest for its own Config.
template <class Config>
struct Storage;

// Levels cached in dynamic shared memory begin at a whole line, so that rows meet the banks that
// they are meant to.
__device__ __forceinline__ std::uint32_t cache_begin() {
  MSDA_DYNAMIC_SHARED(cache);
  auto const begin = shared_address(cache);
  return (begin + kLineBytes - 1) / kLineBytes * kLineBytes;
}

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
  Storage<Config>& shared;
  unsigned index;  // in the warp
  unsigned j;      // in the slot
  unsigned part;   // of the row's points: the slot's number among those that share it
  int K;

  __device__ Lane(Params const& params, ScheduleParams const& schedule_params,
                  Storage<Config>& block)
      : p(params),
        schedule(schedule_params),
        shared(block),
        index(threadIdx.x % 32),
        j(index % Config::kLanes),
        part(index / (Config::kLanes * Config::kHeads) % Config::kSpread),
        K(static_cast<int>(schedule.points)) {}

  __device__ __forceinline__ unsigned slot() const { return index / Config::kLanes; }

  // The first point that the lane prepares of the chunk at k0.
  __device__ int first_point(int k0) const {
    unsigned const preparing =
        Config::kInLines ? index % Config::kPreparing : part * Config::kLanes + j;
    return k0 + static_cast<int>(preparing * Config::kGroup);
  }

  // The slot whose row is the lane's number i to prepare.
  __device__ unsigned prepared_slot(int i) const {
    return Config::kInLines
               ? static_cast<unsigned>(i) * (32 / Config::kPreparing) + index / Config::kPreparing
               : index / Config::kLanes;
  }

  // The number that the slot of the lane's row number i to prepare has.
  __device__ __forceinline__ std::uint32_t of_prepared(int i, std::uint32_t of_slot) const {
    if constexpr (!Config::kInLines) return of_slot;
    return __shfl_sync(0xffffffffu, of_slot, static_cast<int>(prepared_slot(i)) * Config::kLanes);
  }
  // The number that the lanes that prepare the slot's row have for it, of those for their rows.
  __device__ __forceinline__ float of_slot(float const (&of_prepared)[Config::kRowsOfLane]) const {
    float number = of_prepared[0];
    if constexpr (Config::kInLines) {
      constexpr unsigned kSlots = 32 / Config::kPreparing;  // whose rows are prepared at a time
      int const from = static_cast<int>(slot() % kSlots) * Config::kPreparing;
#pragma unroll
      for (int i = 0; i < Config::kRowsOfLane; ++i) {
        float const other = __shfl_sync(0xffffffffu, of_prepared[i], from);
        number = slot() / kSlots == static_cast<unsigned>(i) ? other : number;
      }
    }
    return number;
  }

  // The number that a row's first point has among all points.
  __device__ std::uint32_t first_of(Row const& row) const { return row.row * schedule.points; }

  __device__ bool inputs_are_wide() const {
    return Config::kInputs != inputs_any || schedule.wide_inputs;
  }
  __device__ msda_dtype coord_dtype() const { return input_dtype(p.coord_dtype); }
  __device__ msda_dtype weight_dtype() const { return input_dtype(p.weight_dtype); }
  __device__ msda_dtype reference_dtype() const {
    return Config::kInputs == inputs_any ? p.reference_dtype : MSDA_DTYPE_F32;
  }

  // The type of coordinates or weights, where a launch says this one.
  __device__ msda_dtype input_dtype(msda_dtype of_launch) const {
    switch (Config::kInputs) {
      case inputs_f32:
        return MSDA_DTYPE_F32;
      case inputs_narrow:
        return Config::kDtype;
      default:
        return of_launch;
    }
  }

  // The entry that point k has in the block's table of places, and its level.
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

  // The distance from a pixel to the next one, in vecs.
  __device__ __forceinline__ std::uint32_t pixel_stride() const {
    return Config::kIsKnown ? Config::kPixelBytes / kVecBytes : schedule.pixel_stride;
  }
};

// Call fn with the distances over which lanes exchange what they have of a row: from slot to slot
// that share its points, then from lane to lane that prepares them, too.
template <class Config, class Fn>
__device__ __forceinline__ void for_parts_of_row(Fn fn) {
#pragma unroll
  for (int parts = Config::kSpread / 2; parts > 0; parts /= 2) {
    fn(parts * Config::kHeads * Config::kLanes);
  }
}
template <class Config, class Fn>
__device__ __forceinline__ void for_lanes_of_row(Fn fn) {
  for_parts_of_row<Config>(fn);
#pragma unroll
  for (int distance = Config::kLanes * Config::kRowsOfLane / 2; distance > 0; distance /= 2) {
    fn(distance);
  }
}

// A job: a few neighbouring queries with a group of heads, the work of a warp at a time.
struct Job {
  std::uint32_t item;  // batch item
  std::uint32_t head_group;
  std::uint32_t first;  // visit of a query that the warp's first slot works on
  bool is_there;
};

// A tile of a block that caches levels: neighbouring jobs of one batch item and head group. A
// block that caches none has a tile of tile_jobs jobs in each round and needs but its begin.
struct Tile {
  std::uint32_t first;
  std::uint32_t end;
  std::uint32_t head_group;  // of all items
  std::uint32_t next;        // tile index behind it

  __device__ bool has_jobs() const { return first < end; }
};

// Returns the tile at an index, at most to index `end`. A head group's first indices are for
// copying its levels, the others are jobs.
__device__ __forceinline__ Tile fetch_tile(ScheduleParams const& schedule, std::uint32_t index,
                                           std::uint32_t end) {
  std::uint32_t const group = schedule.head_group_indices.quotient(index);
  std::uint32_t const begin = group * schedule.head_group_indices.divisor;
  std::uint32_t const next = min(begin + schedule.head_group_indices.divisor, end);
  std::uint32_t const copying =
      schedule.head_group_indices.divisor - schedule.head_group_jobs.divisor;
  std::uint32_t const first_job = group * schedule.head_group_jobs.divisor;
  return {first_job + max(index - begin, copying) - copying,
          first_job + max(next - begin, copying) - copying, group, next};
}

template <class Config>
__device__ Row row_of(Lane<Config> const& lane, Job const& job) {
  unsigned const slot = lane.slot();
  std::uint32_t const wanted = job.first + slot / (Config::kHeads * Config::kSpread);
  // Behind the last query it is summed again, and not stored.
  std::uint32_t const visit = min(wanted, lane.schedule.visits - 1);
  std::uint32_t const m = job.head_group * Config::kHeads + slot % Config::kHeads;
  std::uint32_t const q =
      lane.schedule.order == nullptr ? visit : __ldg(lane.schedule.order + visit);
  std::uint32_t const query = job.item * lane.schedule.visits + q;
  std::uint32_t const heads = Config::kIsKnown ? Config::kHeadCount : lane.schedule.heads;
  std::uint64_t const first_value =
      job.item * lane.schedule.item_bytes + std::uint64_t{m} * lane.schedule.head_bytes;
  return {query * heads + m, query, m, static_cast<const char*>(lane.p.value) + first_value};
}

}  // namespace msda::rows
