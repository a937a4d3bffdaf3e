// The kernel of the cluster family: sums of rows, with levels spread over the shared memory of a
// cluster's blocks.
//
// A cluster takes tiles of neighbouring queries with one head group. For each tile one warp a
// block copies its part of the coarse levels by bulk copies (TMA): whole levels, or every size-th
// row of a level that fits the cluster but not a block. Warps fetch jobs and prepare points as in
// `persistent`; a record says in which block the two rows of a point are. Lanes then gather from
// device memory, their own block's shared memory, or that of another block (distributed shared
// memory).
//
// A point of fp16 with D = 32 is 4 pixels of 64 bytes. In a pair half of the rows of a split level
// are the other block's: 2 of the 4 loads of such a point are remote.
//
// Each lane of four prepares a stretch of the row: where it has four levels, points of all of them
// are gathered in turn, one of four from device memory. A warp's 4 loads of 8 rows take 32 lines of
// L1, those of 14 warps 56 KB. L1 has 60 KB beside 195 KB of shared memory.
#pragma once

#include "kernels/cluster/cluster_points.cuh"
#include "kernels/common/launch.h"

namespace msda::cluster {

// ---- the rows that a warp works on. A cluster has tiles, its blocks have jobs of a tile in turn,
// and a block's warps fetch them.

// The tiles of a cluster, as rows/layout.h deals them to blocks that cache levels.
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
        tile = fetch_tile(schedule_, index_, end_);
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
                                             std::uint32_t tile_number) {
    tile_ = tile;
    item_ = lane.schedule.head_groups.quotient(tile.head_group);
    group_ = tile.head_group - item_ * lane.schedule.head_groups.divisor;
    count_ = shared_address(&lane.shared.fetched[tile_number % kFetchedCounts]);
  }

  // Clears a count when all threads of the block have begun the tile: no warp fetches from the one
  // before.
  __device__ __forceinline__ void clear_count(Lane<Config> const& lane,
                                              std::uint32_t tile_number) const {
    if (threadIdx.x == 0) lane.shared.fetched[(tile_number + 2) % kFetchedCounts] = 0;
  }

  __device__ __forceinline__ Job fetch_job(Lane<Config> const& lane) const {
    std::uint32_t n = ptx::count_up_shared(count_, lane.index);
    n = __shfl_sync(0xffffffffu, n, 0);
    std::uint32_t const index = tile_.first + (n << lane.size_shift()) + lane.rank;
    std::uint32_t const in_group = index - tile_.head_group * lane.schedule.head_group_jobs.divisor;
    return {item_, group_, in_group * Config::kQueries, index < tile_.end};
  }

 private:
  Tile tile_ = {};
  std::uint32_t item_ = 0, group_ = 0;
  std::uint32_t count_ = 0;  // of the block's jobs of the tile, in shared memory
};

// ---- levels in the shared memory of a cluster's blocks: copied for each tile, and read there

// Copies the block's part of a tile's levels into a buffer; the lanes of one warp call it. The
// buffer's mbarrier has one arrival, and the bytes.
template <class Config>
__device__ void copy_levels(Lane<Config> const& lane, Tile const& tile, std::uint32_t buffer) {
  CacheParams const& cache = lane.cache;
  std::uint32_t const item = lane.schedule.head_groups.quotient(tile.head_group);
  std::uint32_t const group = tile.head_group - item * lane.schedule.head_groups.divisor;
  const char* const values = static_cast<const char*>(lane.p.value) +
                             item * lane.schedule.item_bytes +
                             std::uint64_t{group} * Config::kHeads * lane.schedule.head_bytes;
  auto const barrier = shared_address(&lane.shared.full[buffer]);
  std::uint32_t const to = cache_begin() + buffer * cache.buffer_bytes;
  // A level's rows in this block: y is first, first + stride, ...
  auto const rows_of = [&](int l, std::uint32_t& first, std::uint32_t& stride) -> std::uint32_t {
    bool const is_split = lane.is_split(l);
    first = is_split ? lane.rank : 0;
    stride = is_split ? lane.size_mask() + 1 : 1;
    auto const height = static_cast<std::uint32_t>(lane.p.near_levels[l].height);
    return height > first ? (height - first + stride - 1) / stride : 0;
  };
  std::uint32_t first, stride, bytes = 0;
#pragma unroll 1
  for (std::uint32_t left = cache.cached_levels; left != 0; left &= left - 1) {
    int const l = __ffs(static_cast<int>(left)) - 1;
    bytes += rows_of(l, first, stride) * static_cast<std::uint32_t>(lane.p.near_levels[l].width) *
             cache.pixel_bytes;
  }
  if (lane.index == 0) ptx::arrive_and_expect(barrier, bytes);
  __syncwarp();
  std::uint64_t const token_bytes = std::uint64_t{lane.schedule.pixel_stride} * kVecBytes;
#pragma unroll 1
  for (std::uint32_t left = cache.cached_levels; left != 0; left &= left - 1) {
    int const l = __ffs(static_cast<int>(left)) - 1;
    std::uint32_t const rows = rows_of(l, first, stride);
    auto const width = static_cast<std::uint32_t>(lane.p.near_levels[l].width);
    std::uint32_t const of_row = cache.copies_rows ? 1 : width;
    std::uint32_t const copy_bytes =
        cache.copies_rows ? width * cache.pixel_bytes : cache.pixel_bytes;
    std::uint32_t const level_to = to + cache.begin[l];
    std::uint64_t const origin = static_cast<std::uint64_t>(lane.p.near_levels[l].origin);
    std::uint64_t const row_tokens = static_cast<std::uint64_t>(lane.p.near_levels[l].row_tokens);
#pragma unroll 1
    for (std::uint32_t i = lane.index; i < rows * of_row; i += 32) {
      std::uint32_t const row = i / of_row, x = i - row * of_row;
      std::uint64_t const token = origin + (first + std::uint64_t{row} * stride) * row_tokens + x;
      ptx::bulk_load(level_to + (row * cache.row_pixels[l] + x) * cache.pixel_bytes,
                     values + token * token_bytes, copy_bytes, barrier);
    }
  }
}

// The home of a level: device memory, every block, or the cluster with its rows spread over the
// blocks.
enum class Home { kMemory, kBlock, kCluster };
template <Home kHome>
using HomeConstant = std::integral_constant<Home, kHome>;

// Calls fn with the home of a level. All threads of a warp ask for the same one.
template <class Config, class Fn>
__device__ __forceinline__ void with_home(Lane<Config> const& lane, int level, Fn fn) {
  if (lane.is_split(level)) {
    fn(HomeConstant<Home::kCluster>());
  } else if (lane.is_cached(level)) {
    fn(HomeConstant<Home::kBlock>());
  } else {
    fn(HomeConstant<Home::kMemory>());
  }
}

// Distances of a level, in vecs.
struct LevelVecs {
  std::uint32_t row;     // from a pixel to the one below, of a split level in the same block
  std::uint32_t column;  // 0: the level is one pixel wide
  std::uint32_t origin;  // of the first pixel; with fp16 sums
};

template <class Config>
__device__ __forceinline__ LevelVecs level_vecs(Lane<Config> const& lane, int level) {
  ScheduleParams const& schedule = lane.schedule;
  return {schedule.row_stride[level], Config::kIsKnown ? 1 : schedule.column_stride[level],
          Config::kFp16Sums ? schedule.places[level].origin : 0};
}

// The four loads of a corner: for each record of a slot all its lanes load four pixels. Pixels
// that are not part of the result weigh nothing.
template <class Config>
class CornerLoads {
 public:
  using Record = LocatedPointOf<Config>;
  using Corner = typename RowSums<Config>::Corner;

  // Begins a row: where its values are in memory and in the cache.
  __device__ __forceinline__ void start(Lane<Config> const& lane, Row const& row,
                                        std::uint32_t buffer) {
    std::uint32_t const last = lane.schedule.head_dim / Config::kChannels - 1;
    std::uint32_t const vec = (Config::kIsKnown ? lane.j : min(lane.j, last)) * Config::kVecBytes;
    values_ = row.values + vec;
    ptx::pin(values_);
    std::uint32_t const head_bytes = lane.cached_pixel_bytes() / Config::kHeads;
    own_ = cache_begin() + buffer * lane.cache.buffer_bytes +
           lane.slot() % Config::kHeads * head_bytes + vec;
    if constexpr (Config::kPair) to_other_ = ptx::map_shared(own_, lane.rank ^ 1) - own_;
  }
  // The lane's vec of the first pixel of all.
  __device__ __forceinline__ const char* values() const { return values_; }

  // Loads a point's corners. kRank is the block's rank where clusters are pairs; else nothing asks
  // for it.
  template <Home kHome, int kRank>
  __device__ __forceinline__ void load(Lane<Config> const& lane, LevelVecs const& level,
                                       Record const& record, Corner (&value)[4]) const {
    std::uint32_t const number = number_of(record);
    if constexpr (kHome == Home::kMemory) {
      std::uint32_t const column = column_of(level, record, lane.pixel_stride());
      std::uint32_t const first =
          Config::kFp16Sums ? number * lane.pixel_stride() + level.origin : number;
      std::uint32_t const at[4] = {first, first + column, first + level.row,
                                   first + level.row + column};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        value[i][0] = load_vec<Config>(values_ + std::uint64_t{at[i]} * Config::kVecBytes);
      }
    } else {
      std::uint32_t const first = own_first(
          lane, level, kHome == Home::kCluster ? SplitBits<Config>::first(number) : number);
      std::uint32_t const second = first + column_of(level, record, lane.cached_pixel_bytes());
      std::uint32_t const row = level.row * Config::kVecBytes;
      if constexpr (kHome == Home::kCluster) {
        load_split<kRank>(lane, number, first, second, row, value);
      } else {
        ptx::load_shared(first, value[0][0].word);
        ptx::load_shared(second, value[1][0].word);
        ptx::load_shared(first + row, value[2][0].word);
        ptx::load_shared(second + row, value[3][0].word);
      }
    }
  }

 private:
  __device__ __forceinline__ static std::uint32_t number_of(Record const& record) {
    if constexpr (Config::kFp16Sums) {
      return record.template number<Config::kByParity>();
    } else {
      return record.first;
    }
  }

  // The distance from a record's first pixel to its second one, which are `pixel` apart.
  __device__ __forceinline__ static std::uint32_t column_of(LevelVecs const& level,
                                                            Record const& record,
                                                            std::uint32_t pixel) {
    std::uint32_t const column = level.column != 0 ? pixel : 0;
    if constexpr (Config::kByParity) return record.is_turned() ? 0u - column : column;
    return column;
  }

  // The address of the first pixel in the block's shared memory. `number`: its number, or vecs
  // where sums are in float32.
  __device__ __forceinline__ std::uint32_t own_first(Lane<Config> const& lane,
                                                     LevelVecs const& level,
                                                     std::uint32_t number) const {
    if constexpr (Config::kFp16Sums) {
      return own_ + level.origin * Config::kVecBytes + number * lane.cached_pixel_bytes();
    } else {
      return own_ + number * Config::kVecBytes;
    }
  }

  // Loads a point of a split level. The first row is the even one; `first` and `second`: where its
  // pixels would be in this block.
  template <int kRank>
  __device__ __forceinline__ void load_split(Lane<Config> const& lane, std::uint32_t bits,
                                             std::uint32_t first, std::uint32_t second,
                                             std::uint32_t row, Corner (&value)[4]) const {
    using Bits = SplitBits<Config>;
    bool const is_lower = Bits::is_lower(bits);
    if constexpr (Config::kPair) {
      // The odd row has the even one's number in its block, or the one before. What comes from the
      // other block takes longer and is asked for first.
      std::uint32_t const back = is_lower ? row : 0;
      if constexpr (kRank == 0) {
        ptx::load_cluster(first + to_other_ - back, value[2][0].word);
        ptx::load_cluster(second + to_other_ - back, value[3][0].word);
        ptx::load_shared(first, value[0][0].word);
        ptx::load_shared(second, value[1][0].word);
      } else {
        ptx::load_cluster(first + to_other_, value[0][0].word);
        ptx::load_cluster(second + to_other_, value[1][0].word);
        ptx::load_shared(first - back, value[2][0].word);
        ptx::load_shared(second - back, value[3][0].word);
      }
    } else {
      std::uint32_t const rank = Bits::rank(bits);
      std::uint32_t const odd_rank = (is_lower ? rank - 1 : rank + 1) & lane.size_mask();
      std::uint32_t const back = is_lower && rank == 0 ? row : 0;
      std::uint32_t const to_even = ptx::map_shared(own_, rank) - own_;
      std::uint32_t const to_odd = ptx::map_shared(own_, odd_rank) - own_ - back;
      ptx::load_cluster(first + to_even, value[0][0].word);
      ptx::load_cluster(second + to_even, value[1][0].word);
      ptx::load_cluster(first + to_odd, value[2][0].word);
      ptx::load_cluster(second + to_odd, value[3][0].word);
    }
  }

  const char* values_;
  std::uint32_t own_;           // of cached levels, in the block's shared memory
  std::uint32_t to_other_ = 0;  // from there to the same in the other one of two blocks
};

// ---- the kernel

// A warp, from its jobs to their results. kRank is the block's rank where clusters are pairs:
// which rows are its own is known when compiled then, and no load is issued for either case.
template <class Config, int kRank>
class Warp {
 public:
  __device__ Warp(Params const& p, ScheduleParams const& schedule, CacheParams const& cache,
                  Storage<Config>& shared)
      : lane_(p, schedule, cache, shared),
        records_(Table::place(shared_address(&shared.records[threadIdx.x / 32][0]), lane_.slot())) {
  }

  // Tile by tile. All blocks of a cluster have the same tiles and meet twice for each, or once
  // where there are two buffers: when the tile's levels are there, and before another tile's take
  // their place.
  __device__ void run() {
    TileWalk walk(lane_.schedule, blockIdx.x >> lane_.size_shift());
    Tile tile, next;
    bool is_there = walk.fetch(tile);
    if (is_there) copy(tile, 0);
    bool const alternates = lane_.cache.buffers == 2;
#pragma unroll 1
    for (std::uint32_t tile_number = 0; is_there; ++tile_number) {
      queue_.begin_tile(lane_, tile, tile_number);
      Job const job = queue_.fetch_job(lane_);
      Row const row = row_of(lane_, job);
      // They travel while levels are copied.
      RowInputs const inputs = read(row, 0);
      if (!alternates && tile_number > 0) {
        ptx::wait_cluster();  // the levels before have been read
        copy(tile, 0);
      }
      buffer_ = alternates ? tile_number % 2 : 0;
      wait_for_levels(alternates ? tile_number / 2 : tile_number);
      ptx::sync_cluster();  // the levels are there in all blocks
      queue_.clear_count(lane_, tile_number);
      bool const has_next = walk.fetch(next);
      if (alternates && has_next) copy(next, (tile_number + 1) % 2);
      if (job.is_there) sum_rows(row, inputs);
      if (!alternates && has_next) ptx::arrive_cluster();
      tile = next;
      is_there = has_next;
    }
    ptx::sync_cluster();  // no block ends while its levels are read
  }

 private:
  using Table = PointTable<Config>;
  using RowInputs = Inputs<Config::kGroup>;

  // Copies a tile's levels; one warp of the block does it.
  __device__ void copy(Tile const& tile, std::uint32_t buffer) const {
    if constexpr (!Config::kAligned) return;
    if (uniform_warp() == 0) copy_levels<Config>(lane_, tile, buffer);
  }
  // Waits until the buffer has been filled once more than `fills_before`.
  __device__ void wait_for_levels(std::uint32_t fills_before) const {
    if constexpr (!Config::kAligned) return;
    ptx::wait_parity_in_block(shared_address(&lane_.shared.full[buffer_]), fills_before % 2);
  }

  // Sums a warp's rows, beginning with one whose first inputs have been read.
  __device__ void sum_rows(Row row, RowInputs inputs) {
    while (true) {
      Job const next = queue_.fetch_job(lane_);
      Row const next_row = next.is_there ? row_of(lane_, next) : row;
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

  // Loads the inputs of a chunk of a row.
  __device__ __forceinline__ RowInputs read(Row const& row, int chunk) const {
    std::uint32_t first = lane_.first_of(row);
    // Pinned, or the addresses of all ways to read would be held while other points are gathered.
    ptx::pin(first);
    return read_inputs<Config::kGroup, Config::kInputs>(
        lane_.p, lane_.schedule, first, lane_.first_point(chunk, own_lane()), lane_.index);
  }

  __device__ __forceinline__ int own_lane() const { return static_cast<int>(lane_.j); }

  // The fast path. Every lane prepares kGroup points, kTogether at a time; then all lanes of a slot
  // add those of the slot's lanes.
  __device__ __forceinline__ void sum_fast(Row const& row, Row const& next_row, RowInputs& inputs) {
#pragma unroll 1
    for (int chunk = 0; chunk < lane_.chunks(); ++chunk) {
      PointGroup<Config::kGroup> points =
          to_points(inputs, lane_.coord_dtype(), lane_.weight_dtype(),
                    vecs_are_swapped<Config::kGroup>(lane_.inputs_are_wide(), lane_.coord_dtype(),
                                                     lane_.index));
      int const first = lane_.first_point(chunk, own_lane());
      // Lanes behind the row's last point prepare it again: it weighs nothing then.
#pragma unroll
      for (int t = 0; t < Config::kGroup; ++t) {
        if (!Config::kIsPyramid && first + t >= lane_.K) points.weight[t] = 0.0f;
      }
      int level = lane_.level_of(first, own_lane());
      Place place = lane_.shared.places[level];
#pragma unroll(Config::kUnrolled)
      for (int t0 = 0; t0 < Config::kGroup; t0 += Config::kTogether) {
        __syncwarp();  // the records before have been read
#pragma unroll
        for (int i = 0; i < Config::kTogether; ++i) {
          if constexpr (!Config::kLevelOfGroup) {
            level = lane_.level_of(first + t0 + i);
            place = lane_.shared.places[level];
          }
          put_located(points, i, level, place);
        }
        if (t0 + Config::kTogether < Config::kGroup) {
          points.template advance<Config::kTogether>();
        } else {
          bool const is_last = chunk + 1 == lane_.chunks();
          inputs = read(is_last ? next_row : row, is_last ? 0 : chunk + 1);
        }
        __syncwarp();
        add_records(chunk, t0);
      }
    }
  }

  // Stores the record of the lane's point i.
  __device__ __forceinline__ void put_located(PointGroup<Config::kGroup> const& points, int i,
                                              int level, Place const& place) const {
    float2 const at = to_pixels(static_cast<rows::Lane<Config> const&>(lane_), {}, place.width,
                                place.height, points.x[i], points.y[i]);
    std::uint32_t const pixel_vecs =
        lane_.is_cached(level) ? lane_.cached_pixel_bytes() / kVecBytes : lane_.pixel_stride();
    put_point(Table::at(records_, i * Config::kLanes + own_lane(), own_lane()),
              locate(lane_, place, lane_.is_split(level), pixel_vecs, at, points.weight[i]));
  }

  // Adds what the lanes have prepared of a chunk, from point t0 of each lane on: the loads of
  // kInFlight points first, the slowest before the others, then the sums, the slowest last.
  __device__ __forceinline__ void add_records(int chunk, int t0) {
#pragma unroll(Config::kUnrolled)
    for (int i = 0; i < Config::kTogether; ++i) {
      std::uint32_t const at =
          records_ + static_cast<std::uint32_t>(i * Config::kLanes * Table::kRowBytes);
#pragma unroll
      for (int j0 = 0; j0 < Config::kLanes; j0 += Config::kInFlight) {
        LocatedPointOf<Config> record[Config::kInFlight];
        typename RowSums<Config>::Corner value[Config::kInFlight][4];
#pragma unroll
        for (int u = Config::kInFlight - 1; u >= 0; --u) {
          get_point(Table::at(at, j0 + u, j0 + u), record[u]);
        }
#pragma unroll
        for (int u = Config::kInFlight - 1; u >= 0; --u) {
          load(lane_.first_point(chunk, j0 + u) + t0 + i, j0 + u, record[u], value[u]);
        }
        if constexpr (Config::kFp16Sums) {
#pragma unroll
          for (int u = 0; u < Config::kInFlight; u += 2) sums_.add_fp16(record, value, u, u + 2);
        } else {
#pragma unroll
          for (int u = 0; u < Config::kInFlight; ++u) sums_.add(record[u], value[u]);
        }
      }
    }
  }

  // Loads the corners of point k, which lane j has prepared.
  __device__ __forceinline__ void load(int k, int j, LocatedPointOf<Config> const& record,
                                       typename RowSums<Config>::Corner (&value)[4]) const {
    if (!Config::kIsPyramid && k >= lane_.K) {  // it weighs nothing
#pragma unroll
      for (auto& corner : value) corner[0] = {};
      return;
    }
    int const level = lane_.level_of(k, j);
    LevelVecs const vecs = level_vecs(lane_, level);
    with_home(lane_, level, [&](auto home) {
      gather_.template load<home.value, kRank>(lane_, vecs, record, value);
    });
  }

  Lane<Config> lane_;
  JobQueue<Config> queue_;
  std::uint32_t records_;  // the slot's, in shared memory
  std::uint32_t buffer_ = 0;
  CornerLoads<Config> gather_;
  RowSums<Config> sums_;
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    cluster_rows(const __grid_constant__ Params p, const __grid_constant__ ScheduleParams schedule,
                 const __grid_constant__ CacheParams cache) {
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1000)
  __trap();  // reject() keeps these devices away
#else
  MSDA_SHARED(Storage<Config>, shared);
  fill_tables(Lane<Config>(p, schedule, cache, shared));
  if (threadIdx.x == 0) {
    for (std::uint32_t& count : shared.fetched) count = 0;
    for (std::uint64_t& full : shared.full) {
      ptx::init_mbarrier(shared_address(&full), 1);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  ptx::wait_for_previous_grid();
  ptx::launch_dependents();
  if constexpr (Config::kPair) {
    if (ptx::cluster_rank() == 1) return Warp<Config, 1>(p, schedule, cache, shared).run();
  }
  Warp<Config, 0>(p, schedule, cache, shared).run();
#endif
}

// ---- a row of variants.inc as its kernels: CUDA files go on with MSDA_INSTANTIATE for each of
// theirs

// Calls fn with the ClusterConfig for what is known at run time.
template <ValueType kType, Channels kMax, Points kPoints, Spread kSpread, class Fn>
void with_config(KernelOptions const& options, bool is_aligned, Fn fn) {
  // One head of float16 and clusters of two: what pays. All else is told at run time.
  if constexpr (kMax == d32 && kType == ValueType::f16) {
    constexpr RowsKind kOne = {kType, kMax, kPoints, kSpread,   false,
                               false, true, heads_1, inputs_f32};
    if (options.is_pyramid && options.f32_inputs && is_aligned) {
      return fn(ClusterConfig<ClusterKind{kOne, true, true}>());
    }
    if constexpr (kPoints > 0) {
      if (options.is_one && options.is_pair && options.f32_inputs && is_aligned) {
        return fn(ClusterConfig<ClusterKind{kOne, true}>());
      }
    }
  }
  constexpr bool kCanGroup = heads_of_line(kMax, sizeof(typename ValueTraits<kType>::Element)) > 1;
  with_bool(is_aligned, [&](auto aligned) {
    with_bool(options.grouped, [&](auto grouped) {
      fn(ClusterConfig<ClusterKind{RowsKind{kType, kMax, kPoints, kSpread, false,
                                            grouped && kCanGroup, aligned, heads_any, inputs_any},
                                   false}>());
    });
  });
}

template <ValueType kType, Channels kMax, Points kPoints, Spread kSpread>
Kernels load_kernels(KernelOptions options) {
  Kernels kernels;
  // The most that any plan asks for: what a kernel may ask for is a property of the process.
  std::int64_t const max_shared_bytes = kMaxCachedBytes + kLineBytes;
  for (bool const aligned : {false, true}) {
    for (bool const f32_inputs : {false, true}) {
      options.f32_inputs = f32_inputs;
      with_config<kType, kMax, kPoints, kSpread>(options, aligned, [&](auto config) {
        auto* const kernel = cluster_rows<decltype(config)>;
        kernels.rows[aligned][f32_inputs] = load_kernel(kernel, max_shared_bytes);
        kernels.max_clusters = max_active_clusters(kernel, {.threads = kThreads,
                                                            .shared_bytes = options.shared_bytes,
                                                            .cluster_blocks = options.size});
      });
    }
  }
  return kernels;
}

}  // namespace msda::cluster

#define MSDA_INSTANTIATE(type, channels, points, spread, sizes, revision, sm)               \
  template msda::cluster::Kernels msda::cluster::load_kernels<                              \
      msda::ValueType::type, msda::rows::channels, msda::rows::points, msda::rows::spread>( \
      msda::cluster::KernelOptions);
