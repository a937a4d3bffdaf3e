// Levels in the shared memory of a cluster's blocks: copied for each tile, and read there.
#pragma once

#include "kernels/cluster/kept_record.cuh"
#include "kernels/persistent/cached_levels.cuh"
#include "kernels/persistent/schedule.cuh"

namespace msda::cluster {

using persistent::RowSums;
using persistent::Tile;

// The block's part of the levels of a tile, into a buffer; by the lanes of one warp. The buffer's
// mbarrier has one arrival, and the bytes.
template <class Config>
__device__ void copy_levels(Lane<Config> const& lane, Tile const& tile, std::uint32_t buffer) {
  KeptParams const& kept = lane.kept;
  std::uint32_t const item = lane.schedule.groups.quotient(tile.group);
  std::uint32_t const group = tile.group - item * lane.schedule.groups.divisor;
  const char* const values = static_cast<const char*>(lane.p.value) +
                             item * lane.schedule.item_bytes +
                             std::uint64_t{group} * Config::kHeads * lane.schedule.head_bytes;
  auto const barrier =
      static_cast<std::uint32_t>(__cvta_generic_to_shared(&lane.shared.full[buffer]));
  std::uint32_t const to = persistent::cache_begin() + buffer * kept.buffer_bytes;
  // A level's rows in this block: y is first, first + step, ...
  auto const rows_of = [&](int l, std::uint32_t& first, std::uint32_t& step) -> std::uint32_t {
    bool const is_split = lane.is_split(l);
    first = is_split ? lane.rank : 0;
    step = is_split ? lane.size_mask() + 1 : 1;
    auto const height = static_cast<std::uint32_t>(lane.p.near_levels[l].height);
    return height > first ? (height - first + step - 1) / step : 0;
  };
  std::uint32_t first, step, bytes = 0;
#pragma unroll 1
  for (std::uint32_t left = kept.kept_levels; left != 0; left &= left - 1) {
    int const l = __ffs(static_cast<int>(left)) - 1;
    bytes += rows_of(l, first, step) * static_cast<std::uint32_t>(lane.p.near_levels[l].width) *
             kept.pixel_bytes;
  }
  if (lane.index == 0) ptx::arrive_and_expect(barrier, bytes);
  __syncwarp();
  std::uint64_t const token_bytes =
      std::uint64_t{lane.schedule.pixel_stride} * persistent::kVecBytes;
#pragma unroll 1
  for (std::uint32_t left = kept.kept_levels; left != 0; left &= left - 1) {
    int const l = __ffs(static_cast<int>(left)) - 1;
    std::uint32_t const rows = rows_of(l, first, step);
    auto const width = static_cast<std::uint32_t>(lane.p.near_levels[l].width);
    std::uint32_t const of_row = kept.copies_rows ? 1 : width;
    std::uint32_t const copy_bytes = kept.copies_rows ? width * kept.pixel_bytes : kept.pixel_bytes;
    std::uint32_t const level_to = to + kept.begin[l];
    std::uint64_t const origin = static_cast<std::uint64_t>(lane.p.near_levels[l].origin);
    std::uint64_t const row_tokens = static_cast<std::uint64_t>(lane.p.near_levels[l].row_tokens);
#pragma unroll 1
    for (std::uint32_t i = lane.index; i < rows * of_row; i += 32) {
      std::uint32_t const row = i / of_row, x = i - row * of_row;
      std::uint64_t const token = origin + (first + std::uint64_t{row} * step) * row_tokens + x;
      ptx::bulk_load(level_to + (row * kept.row_pixels[l] + x) * kept.pixel_bytes,
                     values + token * token_bytes, copy_bytes, barrier);
    }
  }
}

// Where a level is: in memory, whole in every block, or with its rows spread over the blocks.
enum class Home { kMemory, kBlock, kCluster };
template <Home kHome>
using HomeConstant = std::integral_constant<Home, kHome>;

// Calls fn with the home of a level. All threads of a warp ask for the same one.
template <class Config, class Fn>
__device__ __forceinline__ void with_home(Lane<Config> const& lane, int level, Fn fn) {
  if (lane.is_split(level)) {
    fn(HomeConstant<Home::kCluster>());
  } else if (lane.is_kept(level)) {
    fn(HomeConstant<Home::kBlock>());
  } else {
    fn(HomeConstant<Home::kMemory>());
  }
}

// Of a level, in vecs.
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

// For each record of a slot all its lanes load four pixels. Pixels that are not part of the result
// weigh nothing.
template <class Config>
class KeptGather {
 public:
  using Record = RecordOf<Config>;
  using Corner = typename RowSums<Config>::Corner;

  // Where a row's values are: in memory, and those of kept levels.
  __device__ __forceinline__ void start(Lane<Config> const& lane, persistent::Row const& row,
                                        std::uint32_t buffer) {
    std::uint32_t const last = lane.schedule.head_dim / Config::kChannels - 1;
    std::uint32_t const vec = (Config::kIsKnown ? lane.j : min(lane.j, last)) * Config::kVecBytes;
    values_ = row.values + vec;
    ptx::pin(values_);
    std::uint32_t const head_bytes = lane.kept_pixel_bytes() / Config::kHeads;
    own_ = persistent::cache_begin() + buffer * lane.kept.buffer_bytes +
           lane.slot() % Config::kHeads * head_bytes + vec;
    if constexpr (Config::kPair) to_other_ = ptx::map_shared(own_, lane.rank ^ 1) - own_;
  }
  // The lane's vec of the first pixel of all.
  __device__ __forceinline__ const char* values() const { return values_; }

  // kRank: the block's, where clusters are pairs; else nothing asks for it.
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
      std::uint32_t const second = first + column_of(level, record, lane.kept_pixel_bytes());
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

  // From a record's first pixel to its second one, which are `pixel` apart.
  __device__ __forceinline__ static std::uint32_t column_of(LevelVecs const& level,
                                                            Record const& record,
                                                            std::uint32_t pixel) {
    std::uint32_t const column = level.column != 0 ? pixel : 0;
    if constexpr (Config::kByParity) return record.is_turned() ? 0u - column : column;
    return column;
  }

  // Where the first pixel is in the block's shared memory. `number`: its number, or vecs where sums
  // are in float32.
  __device__ __forceinline__ std::uint32_t own_first(Lane<Config> const& lane,
                                                     LevelVecs const& level,
                                                     std::uint32_t number) const {
    if constexpr (Config::kFp16Sums) {
      return own_ + level.origin * Config::kVecBytes + number * lane.kept_pixel_bytes();
    } else {
      return own_ + number * Config::kVecBytes;
    }
  }

  // The first row is the even one; `first` and `second`: where its pixels would be in this block.
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
  std::uint32_t own_;           // of kept levels, in the block's shared memory
  std::uint32_t to_other_ = 0;  // from there to the same in the other one of two blocks
};

}  // namespace msda::cluster
