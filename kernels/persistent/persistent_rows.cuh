// The kernel of the persistent family: as many blocks as SMs, each with tiles of neighbouring jobs.
//
// A warp fetches a job, a few neighbouring queries with a group of heads, from the tile by a
// counter in shared memory. Each slot of its lanes works on a row of the job, chunk by chunk:
//
//   prepare  each lane loads the coordinates and weights of a group of 1, 2 or 4 points, makes
//            powers of logits where input is fused, locates the points, and stores a record of
//            each, 16 bytes (8 for fp16 sums), in shared memory; then one __syncwarp()
//   gather   all lanes of the slot read the records one after the other; each lane loads its 16
//            bytes of the four pixels and adds them to the sums of its channels, in registers
//
// Loads of the next chunk's inputs, or of the next job's, are sent off behind the last group of a
// chunk. A job whose sums are not finite is done again on the exact path (exact_row.cuh).
//
// 32 points of fp16 with D = 32 are 8,192 bytes of pixels. They take 80 wavefronts of L1 (gather
// 64, records 12, inputs 3, output 1) and 364 instructions: 76 for each of 4 records of 8 slots, 30
// to prepare, 30 for job and chunk.
//
// Read rows/layout.h, rows/warp_rows.cuh and rows/row_points.cuh first: they say how lanes and jobs
// are dealt, how a point becomes a record, and how it is summed. Below are the configuration, the
// shared memory, the queue of jobs, levels cached in shared memory, the gather, and the phases of a
// warp.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/persistent/exact_row.cuh"

namespace msda::persistent {

// ---- configuration and shared memory

// Whether a block may have more than 48 KB of shared memory without asking for it at run time: code
// for 9.0a may.
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kHasMuchSharedMemory = false;
#else
inline constexpr bool kHasMuchSharedMemory = true;
#endif

// The compute capability, times ten, that this code is compiled for. The host's is not used, but on
// the simulated device.
#if defined(__CUDA_ARCH__)
inline constexpr std::int32_t kCodeSm = __CUDA_ARCH__ / 10;
#elif defined(MSDA_SIMULATED_SM)
inline constexpr std::int32_t kCodeSm = MSDA_SIMULATED_SM;
#else
inline constexpr std::int32_t kCodeSm = 90;
#endif

// An instantiation of the kernel: what the engine knows (rows/warp_rows.cuh), threads, points in
// flight and tables of records.
template <RowsKind kKind>
struct PersistentConfig : RowsConfig<kKind> {
  using Base = RowsConfig<kKind>;
  static constexpr BlockKind kBlock = {.type = Base::kType,
                                       .channels = kKind.channels,
                                       .points = kKind.points,
                                       .spread = kKind.spread,
                                       .fused = Base::kFused,
                                       .aligned = Base::kAligned,
                                       .known = Base::kIsKnown};
  static constexpr int kThreads = threads_of(kBlock, kCodeSm);
  // The lanes of a slot whose points' loads are in flight, and the points of each. For rows in
  // lines nvcc puts the loads of a level together, for those of fused input half of them if told
  // so.
  static constexpr int kInFlight = !Base::kAligned || Base::kLaneByLane ? 1
                                   : Base::kInLines && Base::kFused
                                       ? Base::kPoints / 2
                                       : in_flight_of(Base::kLayout, kKind.spread, Base::kVecs);
  static_assert(!Base::kInLines || Base::kPoints % kInFlight == 0,
                "what is in flight of rows in lines is of one level");
  static constexpr int kTurnsInFlight = !Base::kAligned     ? 1
                                        : Base::kLaneByLane ? Base::kGroup
                                                            : turns_in_flight_of(Base::kGroup);
  // The points of a lane's group that it prepares before they are gathered, and tables of their
  // records: two in turn where it prepares one point at a time.
  static constexpr bool kAllTogether =
      Base::kFp16Sums || (Base::kPoints == 8 && kHasMuchSharedMemory);
  static constexpr int kTogether = Base::kGroup == kMaxGroup ? (kAllTogether ? 4 : 2)
                                   : Base::kLevelOfGroup     ? 1
                                                             : Base::kGroup;
  static constexpr int kTables = Base::kInLines ? 1 : kTogether == 1 ? 2 : kTogether;
  static_assert(Base::kGroup % kTogether == 0 && kTogether % kTurnsInFlight == 0);
  // Rows whose slots share the 16 points of a chunk sum the powers of the softmax while its values
  // travel.
  static constexpr bool kSumsPowersEarly =
      Base::kFused && slots_of(kKind.spread) == 4 && Base::kGroup == 1 && !Base::kFp16Sums;
  // Strides of levels are loaded once a chunk, kStrides of them.
  static constexpr bool kStridesOfChunk =
      Base::kInLines ||
      (Base::kLevelsOfSlot > 0 && Base::kLevelsOfSlot <= (Base::kIsKnown ? 4 : 2));
  static constexpr int kStrides = kStridesOfChunk && !Base::kInLines ? Base::kLevelsOfSlot : 1;
  static constexpr int kPlaces = Base::kPoints > 0 ? kInlineLevels : kMaxPoints;
};

// A warp's records lie in rows: those of the slots' first lanes one after the other, then those of
// the second ones, so that all slots read theirs at once. Rows are set off against each other, so
// that neighbouring lanes of a slot write to different banks.
template <class Config>
struct PointTable {
  static constexpr int kRecordBytes = sizeof(LocatedPointOf<Config>);
  static constexpr int kSlots = 32 / Config::kLanes;
  static constexpr int kOffset = Config::kInLines ? kRecordBytes
                                 : Config::kLanes == 1 || kSlots == 1
                                     ? 0
                                     : std::max(16, 128 / Config::kLanes);
  static constexpr int kRowBytes = kSlots * kRecordBytes + kOffset;  // of the slots' same lane
  static constexpr int kRows = Config::kInLines ? Config::kChunk : Config::kLanes;
  static constexpr int kBytes = kRows * kRowBytes;
};

}  // namespace msda::persistent

namespace msda::rows {

template <RowsKind kKind>
struct Storage<persistent::PersistentConfig<kKind>> {
  using Config = persistent::PersistentConfig<kKind>;
  alignas(16) char records[Config::kThreads / 32][Config::kTables]
                          [persistent::PointTable<Config>::kBytes];
  Place places[Config::kPlaces];
  std::uint8_t level_of[Config::kPlaces];
  std::uint32_t fetched[2];  // jobs; where levels are cached, of even and of odd tiles
  // Without cached levels: the first job of the block's tile in each round; behind them `jobs`.
  std::uint32_t round_begins[kMaxRounds + 1];
};

}  // namespace msda::rows

namespace msda::persistent {

// Fills the block's table of places: a level each where all have kPoints points, else a point
// each.
template <class Config>
__device__ void fill_places(Params const& p, ScheduleParams const& schedule,
                            Storage<Config>& shared) {
  int const count = Config::kPoints > 0 ? p.level_count : static_cast<int>(p.point_total);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += Config::kThreads) {
    int const l = level_of_place<Config>(p, i);
    shared.places[i] = schedule.places[l];
    shared.level_of[i] = static_cast<std::uint8_t>(l);
  }
}

// ---- the rows that a warp works on. A block has tiles, its warps fetch jobs from them by a count
// in shared memory. Where levels are cached, warps meet before each tile (struct Tile), and the
// other of two counts is cleared meanwhile. Else one count runs over the tiles of all rounds.

template <class Config>
class JobQueue {
 public:
  // Jobs are fetched from this tile until the next call of end_tile(), where levels are cached.
  __device__ void begin_tile(Tile const& tile) { tile_ = tile; }
  // Between begin_tile() and end_tile(), by one thread, when no warp fetches from the tile before.
  __device__ void clear_other_count(Storage<Config>& shared) const {
    shared.fetched[count_in_use_ ^ 1] = 0;
  }
  __device__ void end_tile() { count_in_use_ ^= 1; }

  __device__ Job fetch_job(Lane<Config> const& lane) const {
    std::uint32_t n = ptx::count_up_shared(
        shared_address(&lane.shared.fetched[Config::kCachesLevels ? count_in_use_ : 0]),
        lane.index);
    n = __shfl_sync(0xffffffffu, n, 0);
    std::uint32_t index;
    if constexpr (Config::kCachesLevels) {
      index = tile_.first + n;
      if (index >= tile_.end) return {0, 0, 0, false};
    } else {
      std::uint32_t const round = min(lane.schedule.tile_jobs.quotient(n), lane.schedule.rounds);
      index = lane.shared.round_begins[round] + (n - round * lane.schedule.tile_jobs.divisor);
      if (index >= lane.schedule.jobs) return {0, 0, 0, false};
    }
    std::uint32_t const item_group = lane.schedule.head_group_jobs.quotient(index);
    std::uint32_t item, group;
    if constexpr (Config::kIsKnown) {
      constexpr std::uint32_t kGroups = Config::kHeadCount / Config::kHeads;
      item = item_group / kGroups;
      group = item_group % kGroups;
    } else {
      item = lane.schedule.head_groups.quotient(item_group);
      group = item_group - item * lane.schedule.head_groups.divisor;
    }
    return {item, group,
            (index - item_group * lane.schedule.head_group_jobs.divisor) * Config::kQueries, true};
  }

 private:
  Tile tile_ = {};
  std::uint32_t count_in_use_ = 0;  // of the two counts of jobs fetched
};

// Fills the table of where the block's tile of each round begins.
template <class Config>
__device__ void fill_round_begins(ScheduleParams const& schedule, Storage<Config>& shared) {
  std::uint32_t const round = threadIdx.x;
  if (round > schedule.rounds) return;
  std::uint32_t const block = (blockIdx.x + round * schedule.rotation) % schedule.blocks;
  shared.round_begins[round] = round < schedule.rounds
                                   ? (round * schedule.blocks + block) * schedule.tile_jobs.divisor
                                   : schedule.jobs;
}

// ---- levels in shared memory: copied for each batch item and group of heads, and read there

// Copies the levels of one head group, numbered among those of all batch items; all threads of the
// block call it. When it returns, what the thread has copied is there.
template <class Config>
__device__ void copy_levels(Params const& p, ScheduleParams const& schedule, std::uint32_t group) {
  constexpr std::uint32_t kGroups = Config::kHeadCount / Config::kHeads;
  const char* const values = static_cast<const char*>(p.value) +
                             group / kGroups * schedule.item_bytes +
                             std::uint64_t{group % kGroups} * Config::kCachedPixelBytes;
#pragma unroll 1
  for (std::uint32_t left = schedule.cached_levels; left != 0; left &= left - 1) {
    int const l = __ffs(static_cast<int>(left)) - 1;
    const char* const from = values + p.near_levels[l].origin * Config::kPixelBytes;
    std::uint32_t const to = cache_begin() + schedule.places[l].origin * kVecBytes;
    for (std::uint32_t at = threadIdx.x * kVecBytes; at < schedule.cached_bytes[l];
         at += Config::kThreads * kVecBytes) {
      std::uint32_t const pixel = at / Config::kCachedPixelBytes;
      ptx::copy_async(to + at, from + std::uint64_t{pixel} * Config::kPixelBytes +
                                   at % Config::kCachedPixelBytes);
    }
  }
  ptx::wait_for_copies();
}

// ---- the gather of the fast path: for each record of a slot all its lanes load four pixels and
// add them up. Pixels that are not part of the result weigh nothing.

// Distances of a level, in vecs.
struct Strides {
  std::uint32_t column;  // from a pixel to the one on the right
  std::uint32_t row;     // to the one below
  std::uint32_t origin;  // from the first pixel of all to the level's; with fp16 sums
};

template <class Config>
class Gather {
 public:
  using LocatedPoint = LocatedPointOf<Config>;
  using Table = PointTable<Config>;
  using StridesOfChunk = Strides[Config::kStrides];

  std::uint32_t records;     // the slot's first one, in shared memory
  std::uint32_t buffer = 0;  // bytes from there to the table in use

  // Begins a row: where its values are.
  __device__ __forceinline__ void start(Lane<Config> const& lane, Row const& row) {
    std::uint32_t const last = lane.schedule.head_dim / Config::kChannels - 1;
#pragma unroll
    for (int n = 0; n < Config::kVecs; ++n) {
      std::uint32_t const vec = lane.j + n * Config::kLanes;
      // Vecs behind the last one repeat it: they cost no line and are not stored.
      values_[n] = row.values + (Config::kIsKnown ? vec : min(vec, last)) * Config::kVecBytes;
      ptx::pin(values_[n]);
    }
    if constexpr (Config::kCachesLevels) {
      cached_ = cache_begin() + lane.slot() % Config::kHeads * Config::kRowBytes +
                lane.j * Config::kVecBytes;
    }
  }
  // The lane's vec n of the first pixel of all.
  __device__ __forceinline__ const char* values(int n) const { return values_[n]; }

  // The strides of the level of point k.
  __device__ __forceinline__ static Strides strides_of(Lane<Config> const& lane, int k) {
    return strides_of_level(lane, lane.level_of(k));
  }
  // Loads the strides of the slot's points of the chunk at k0, whose first that the lane prepares
  // is `first`.
  __device__ __forceinline__ static void load_strides(Lane<Config> const& lane, int k0, int first,
                                                      StridesOfChunk& strides) {
    if constexpr (Config::kFew) {
      strides[0] = strides_of(lane, first);  // of the lane's own point
    } else if constexpr (Config::kStridesOfChunk) {
      int const own = k0 + static_cast<int>(lane.part) * Config::kOfSlot;
      int const l = (Config::kSpread == 1 ? k0 : min(own, lane.K - 1)) / Config::kPoints;
      strides[0] = strides_of_level(lane, l);
#pragma unroll
      for (int i = 1; i < Config::kStrides; ++i)
        strides[i] = strides_of_level(lane, min(l + i, kInlineLevels - 1));
    }
  }

  // Calls fn with whether the level of point k is cached.
  template <class Fn>
  __device__ __forceinline__ static void on_level(Lane<Config> const& lane, int k, Fn fn) {
    if constexpr (Config::kCachesLevels) {
      if (lane.is_cached(lane.level_of(min(k, lane.K - 1)))) return fn(std::true_type());
    }
    fn(std::false_type());
  }

  // Adds the points that the lanes have prepared: of the slot's first lane point k and the next,
  // `turns` in all. Behind the first `groups` of its lanes the row has ended.
  __device__ __forceinline__ void add_prepared(Lane<Config> const& lane, RowSums<Config>& sums,
                                               int k, int turns, int groups,
                                               StridesOfChunk const& strides) const {
#pragma unroll 1
    for (int t = 0; t < turns; t += Config::kTurnsInFlight) {
      std::uint32_t const table = records + buffer + static_cast<std::uint32_t>(t) * Table::kBytes;
      // A chunk on one level is gathered at once, other chunks in parts that are on one.
      constexpr int kOnLevel = Config::kLevelOfChunk ? Config::kLanes : Config::kInFlight;
#pragma unroll
      for (int j0 = 0; j0 < Config::kLanes; j0 += kOnLevel) {
        if (!Config::kWholeChunks && j0 > 0 && j0 >= groups) break;
        on_level(lane, k + j0 * Config::kGroup, [&](auto cached) {
#pragma unroll
          for (int j = j0; j < j0 + kOnLevel; j += Config::kInFlight) {
            if (!Config::kWholeChunks && j > j0 && j >= groups) break;
            // Rows of few points read none that is not there.
            if (Config::kFew && Config::kInFlight > 1 && j + 1 == groups) {
              add<1, cached.value>(lane, sums, j, k + t, table, strides);
            } else {
              add<Config::kInFlight, cached.value>(lane, sums, j, k + t, table, strides);
            }
          }
        });
      }
    }
  }

  // Adds point k of the slot's first lane and the next kTurnsInFlight - 1, and those of kCount
  // lanes from j0 on: all loads first, then the sums.
  template <int kCount, bool kCached>
  __device__ __forceinline__ void add(Lane<Config> const& lane, RowSums<Config>& sums, int j0,
                                      int k, std::uint32_t table,
                                      StridesOfChunk const& strides) const {
    constexpr int kAll = kCount * Config::kTurnsInFlight;
    LocatedPoint record[kAll];
    Corner value[kAll][4];
#pragma unroll
    for (int u = 0; u < kAll; ++u) {
      get_point(table + u / kCount * Table::kBytes + (j0 + u % kCount) * Table::kRowBytes,
                record[u]);
    }
#pragma unroll
    for (int u = 0; u < kAll; ++u) {
      int const j = j0 + u % kCount;
      int const of_row =
          j + (Config::kSpread == 1 ? 0 : static_cast<int>(lane.part) * Config::kLanes);
      load_corners<kCached>(lane, record[u],
                            Config::kFew ? strides_of_lane(strides[0], j)
                            : Config::kStridesOfChunk
                                ? strides[strides_index(j)]
                                : strides_of(lane, k + u / kCount + of_row * Config::kGroup),
                            value[u]);
    }
    if constexpr (Config::kFp16Sums) {
#pragma unroll
      for (int u = 0; u < kAll; u += 2)
        sums.add_fp16(record, value, u, u + 2 < kAll ? u + 2 : kAll);
    } else {
#pragma unroll
      for (int u = 0; u < kAll; ++u) sums.add(record[u], value[u]);
    }
  }

 private:
  using Corner = typename RowSums<Config>::Corner;

  template <bool kCached>
  __device__ __forceinline__ void load_corners(Lane<Config> const& lane, LocatedPoint const& record,
                                               Strides const& strides, Corner (&value)[4]) const {
    std::uint32_t first;
    std::uint32_t const pixel =
        kCached ? Config::kCachedPixelBytes / kVecBytes : lane.pixel_stride();
    std::uint32_t column = Config::kIsKnown ? pixel : strides.column;
    if constexpr (Config::kFp16Sums) {
      first = record.template number<Config::kByParity>() * pixel + strides.origin;
      column = Config::kByParity && record.is_turned() ? 0u - column : column;
    } else {
      first = record.first;
    }
    // A pixel's distance that is known is part of the instruction.
    constexpr int kColumn = Config::kByParity ? 0
                            : kCached         ? Config::kCachedPixelBytes
                                              : Config::kPixelBytes;
    // Added to the address, not to the offset, where conversions fill the pipe that multiplies.
    constexpr bool kAddsRow = kColumn > 0 && !Config::kFp16Sums;
    std::uint32_t const vecs[4] = {first, first + column, first + strides.row,
                                   first + strides.row + column};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int n = 0; n < Config::kVecs; ++n) {
        if constexpr (kCached) {
          ptx::load_shared(
              cached_ + vecs[kColumn > 0 ? i / 2 * 2 : i] * kVecBytes + i % 2 * kColumn,
              value[i][n].word);
          continue;
        }
        int const from = kColumn == 0 ? i : kAddsRow ? 0 : i / 2 * 2;
        const char* at = values_[n] + static_cast<std::uint64_t>(vecs[from]) * kVecBytes;
        if (kAddsRow && i / 2 == 1) {
          at = ptx::add_wide(at, std::uint64_t{strides.row} * kVecBytes);
        }
        value[i][n] = load_vec<Config>(at + i % 2 * kColumn);
      }
    }
  }

  __device__ __forceinline__ static Strides strides_of_level(Lane<Config> const& lane, int l) {
    ScheduleParams const& schedule = lane.schedule;
    return {schedule.column_stride[l], schedule.row_stride[l],
            Config::kFp16Sums ? schedule.places[l].origin : 0};
  }
  // The strides that lane j of the slot has.
  __device__ __forceinline__ static Strides strides_of_lane(Strides const& own, int j) {
    auto const of_lane = [&](std::uint32_t x) {
      return __shfl_sync(0xffffffffu, x, j, Config::kLanes);
    };
    return {Config::kIsKnown ? 0 : of_lane(own.column), of_lane(own.row), 0};
  }
  // The index of the strides of lane j.
  __device__ __forceinline__ static constexpr int strides_index(int j) {
    return Config::kStrides == 1 ? 0 : j * Config::kGroup / max(Config::kPoints, 1);
  }

  const char* values_[Config::kVecs];
  std::uint32_t cached_ = 0;  // the same, of levels in shared memory
};

// A warp's state: a part for each role.

template <class Config>
struct WarpState {
  using Table = PointTable<Config>;

  Lane<Config> lane;
  JobQueue<Config> jobs;
  RowSoftmax<Config> softmax[Config::kRowsOfLane];  // of each row that the lane prepares
  std::uint32_t own_record;  // where the lane stores its record, in shared memory
  Gather<Config> gather;
  RowSums<Config> sums;

  __device__ WarpState(Params const& p, ScheduleParams const& schedule, Storage<Config>& shared)
      : lane(p, schedule, shared) {
    auto const records = shared_address(&shared.records[threadIdx.x / 32][0][0]);
    gather.records = records + lane.slot() * Table::kRecordBytes;
    own_record = Config::kInLines
                     ? records + lane.prepared_slot(0) * Table::kRecordBytes +
                           static_cast<unsigned>(lane.first_point(0)) * Table::kRowBytes
                     : gather.records + lane.j * Table::kRowBytes;
    // A shuffle's result has to be held, the formula would be computed again for each access.
    own_record = __shfl_sync(0xffffffffu, own_record, lane.index);
    gather.records = __shfl_sync(0xffffffffu, gather.records, lane.index);
  }
};

// ---- the kernel

// A warp, from its jobs to their results.
template <class Config>
class Warp {
 public:
  __device__ Warp(Params const& p, ScheduleParams const& schedule, Storage<Config>& shared)
      : state_(p, schedule, shared) {}

  __device__ void run() {
    Lane<Config> const& lane = state_.lane;
    if constexpr (Config::kCachesLevels) return run_tiles();
    Job const job = state_.jobs.fetch_job(lane);
    if (!job.is_there) return;
    Row const row = row_of(lane, job);
    sum_rows(row, read_chunk(lane, row.row, row.query, 0));
  }

 private:
  using Table = PointTable<Config>;

  // Works tile by tile, where levels are cached. A tile's first inputs travel while its levels are
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
        Row const row = row_of(lane, job);
        ChunkInputs<Config> const inputs = read_chunk(lane, row.row, row.query, 0);
        __syncthreads();  // the levels before have been read
        if (tile.has_jobs()) copy_levels<Config>(lane.p, schedule, tile.head_group);
        if (threadIdx.x == 0) state_.jobs.clear_other_count(lane.shared);
        __syncthreads();
        if (job.is_there) sum_rows(row, inputs);
        state_.jobs.end_tile();
      }
    }
  }

  // Sums a warp's rows, beginning with one whose first inputs have been read.
  __device__ void sum_rows(Row row, ChunkInputs<Config> inputs) {
    Lane<Config> const& lane = state_.lane;
    while (true) {
      Job const next = state_.jobs.fetch_job(lane);
      Row const next_row = next.is_there ? row_of(lane, next) : row;
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
      state_.sums.add_parts();
      state_.sums.store(lane, row);
      if (!next.is_there) return;
      row = next_row;
    }
  }

  // Loads the inputs behind a chunk's: the row's next ones, or the first ones of the next row.
  // They travel while points are gathered.
  __device__ __forceinline__ ChunkInputs<Config> read_next(Row const& row, Row const& next_row,
                                                           int k0) const {
    Lane<Config> const& lane = state_.lane;
    bool const is_last = k0 + Config::kChunk >= lane.K;
    return read_chunk(lane, is_last ? next_row.row : row.row, is_last ? next_row.query : row.query,
                      is_last ? 0 : k0 + Config::kChunk);
  }

  // The fast path. Every lane prepares a group of points, one after the other; after each, all
  // lanes of a slot add those of the slot's lanes.
  __device__ __forceinline__ void sum_fast(Row const& row, Row const& next_row,
                                           ChunkInputs<Config>& inputs) {
    Lane<Config> const& lane = state_.lane;
    if constexpr (Config::kFused) start_softmax(inputs);
    [[maybe_unused]] float inverse = 1.0f;  // of the sum of powers so far
#pragma unroll 1
    for (int k0 = 0; k0 < lane.K; k0 += Config::kChunk) {
      PointGroup<Config::kGroup> points = to_points(
          inputs.points[0], lane.coord_dtype(), lane.weight_dtype(),
          vecs_are_swapped<Config::kGroup>(lane.inputs_are_wide(), lane.coord_dtype(), lane.index));
      int const first = lane.first_point(k0);
      int const groups = min(Config::kLanes, (lane.K - k0 + Config::kGroup - 1) /
                                                 Config::kGroup);  // of the first slot
      hide_points_behind_row(k0, first, points);
      if constexpr (Config::kFused) {
        state_.softmax[0].to_powers(points.weight, k0 == 0,
                                    [&](float factor) { state_.sums.multiply(factor); });
      }
      Place place;
      if constexpr (Config::kLevelOfGroup) {
        place = Config::kLevelOfChunk ? lane.schedule.places[k0 / Config::kPoints]
                                      : lane.shared.places[lane.place_of(min(first, lane.K - 1))];
        if constexpr (Config::kFused) {
          group_to_pixels(lane, frame_of(lane, inputs.reference[0], min(first, lane.K - 1)), place,
                          points);
        }
      }
      Strides strides[Config::kStrides];
      state_.gather.load_strides(lane, k0, first, strides);
      // Rows of fewer points than a lane prepares end early.
      int const turns = Config::kLevelOfGroup ? Config::kGroup : min(Config::kGroup, lane.K - k0);
      // Four of them would not fit the instruction cache.
      constexpr int kUnrolled = Config::kTogether == 1 ? Config::kGroup : 1;
#pragma unroll(kUnrolled)
      for (int t0 = 0; t0 < turns; t0 += Config::kTogether) {
        // The records before have been read.
        if constexpr (Config::kTables == Config::kTogether) __syncwarp();
#pragma unroll
        for (int i = 0; i < Config::kTogether; ++i) {
          float2 at = {points.x[i], points.y[i]};
          if constexpr (!Config::kLevelOfGroup) {
            int const k = min(first + t0 + i, lane.K - 1);
            place = lane.shared.places[lane.place_of(k)];
            at = to_pixels(lane, frame_of(lane, row, k), place.width, place.height, at.x, at.y);
          } else if constexpr (!Config::kFused) {
            at = to_pixels(lane, {}, place.width, place.height, at.x, at.y);
          }
          put_point(state_.own_record + state_.gather.buffer + i * Table::kBytes,
                    locate<Config>(place, at, points.weight[i], lane.slot(),
                                   pixel_stride_of(lane, Config::kLevelOfChunk ? k0 : first)));
        }
        if (t0 + Config::kTogether < turns) {
          points.template advance<Config::kTogether>();
        } else {
          inputs = read_next(row, next_row, k0);
        }
        __syncwarp();
        if constexpr (Config::kSumsPowersEarly) inverse = inverse_of_powers(state_);
        state_.gather.add_prepared(lane, state_.sums, k0 + t0, min(turns - t0, Config::kTogether),
                                   groups, strides);
        if constexpr (Config::kTables > Config::kTogether) {
          state_.gather.buffer = Config::kTogether * Table::kBytes - state_.gather.buffer;
        }
      }
    }
    if constexpr (Config::kFused) {
      state_.sums.multiply(Config::kSumsPowersEarly ? inverse : inverse_of_powers(state_));
    }
  }

  // Before a row's first chunk, whose inputs these are.
  __device__ __forceinline__ void start_softmax(ChunkInputs<Config> const& inputs) {
#pragma unroll
    for (int i = 0; i < Config::kRowsOfLane; ++i) {
      float logits[Config::kGroup];
      weights_of(inputs.points[i].weight, state_.lane.weight_dtype(), logits);
      state_.softmax[i].start(logits);
    }
  }

  // Lanes behind the row's last point prepare it again, and slots gather kInFlight records at a
  // time: such points weigh nothing.
  __device__ __forceinline__ void hide_points_behind_row(int k0, int first,
                                                         PointGroup<Config::kGroup>& points) const {
    Lane<Config> const& lane = state_.lane;
    if constexpr (Config::kWholeChunks) return;
    constexpr float kNoWeight = Config::kFused ? -INFINITY : 0.0f;  // before a softmax, without one
#pragma unroll
    for (int t = 0; t < Config::kGroup; ++t) {
      // It is written in two ways, and for f32 the first one leaves early: registers are short,
      // and each device and type spills with another's.
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
    if constexpr (Config::kFused) start_softmax(inputs);
#pragma unroll 1
    for (int k0 = 0; k0 < lane.K; k0 += Config::kChunk) {
      int const first = lane.first_point(k0);
      Place const place = lane.shared.places[lane.place_of(min(first, lane.K - 1))];
      __syncwarp();  // the records before have been read
#pragma unroll
      for (int i = 0; i < Config::kRowsOfLane; ++i) {
        PointGroup<Config::kGroup> points =
            to_points(inputs.points[i], lane.coord_dtype(), lane.weight_dtype(), false);
        if constexpr (Config::kFused) {
          hide_points_behind_row(k0, first, points);
          state_.softmax[i].to_powers(points.weight, k0 == 0,
                                      [&](float factor) { multiply_sums(state_, i, factor); });
          group_to_pixels(lane, frame_of(lane, inputs.reference[i], min(first, lane.K - 1)), place,
                          points);
        }
#pragma unroll
        for (int t = 0; t < Config::kGroup; ++t) {
          float2 at = {points.x[t], points.y[t]};
          if constexpr (!Config::kFused)
            at = to_pixels(lane, {}, place.width, place.height, at.x, at.y);
          // Levels have an even number of points.
          float const weight = Config::kFused || first < lane.K ? points.weight[t] : 0.0f;
          put_point(state_.own_record +
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
    if constexpr (Config::kFused) state_.sums.multiply(inverse_of_powers(state_));
  }

  WarpState<Config> state_;
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    persistent_rows(const __grid_constant__ Params p,
                    const __grid_constant__ ScheduleParams schedule) {
  MSDA_SHARED(Storage<Config>, shared);
  ptx::launch_dependents();
  fill_places<Config>(p, schedule, shared);
  if constexpr (!Config::kCachesLevels) fill_round_begins<Config>(schedule, shared);
  if (threadIdx.x < 2) shared.fetched[threadIdx.x] = 0;
  ptx::wait_for_previous_grid();
  __syncthreads();
  Warp<Config>(p, schedule, shared).run();
}

}  // namespace msda::persistent
