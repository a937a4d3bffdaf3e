// The records of a tile, a round of them at a time, sorted by cell in shared memory, and the lists
// that slots of lanes add up. Two lists are told apart: a tile's list (TileList, sorted.h) is its
// records in global memory, segment by segment; a cell list (CellList) is up to kListRecords
// records of one cell in shared memory, which a slot adds up.
//
//   map     find the records of the round in the segments of the tile's list
//   rank    stably by cell, with counters of each warp
//   order   cells by the number of their records; a cell with many is cut into 2 to 32 cell lists,
//           so that neighbouring slots have lists of nearly one length
//   store   corner weights and query of a record, 20 bytes, where its cell list wants them
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/sorted/tiles.cuh"

namespace msda::sorted {

// ---- what a block sums

// A block's head and slice of channels, and its number among the blocks of these: parts of long
// tiles come first, then tiles in the order of sums, so that the longest work begins first.
struct SumBlock {
  std::int32_t head;  // of the pass
  std::int32_t slice;
  std::int32_t index;

  __device__ explicit SumBlock(ValueParams const& s) : slice(0) {
    auto const blocks = static_cast<std::uint32_t>(s.max_parts + s.sum_blocks);
    auto const slices = static_cast<std::uint32_t>(s.slices);
    index = static_cast<std::int32_t>(blockIdx.x % blocks);
    std::uint32_t const rest = blockIdx.x / blocks;
    head = static_cast<std::int32_t>(rest);
    if (slices != 1) {
      slice = static_cast<std::int32_t>(rest % slices);
      head = static_cast<std::int32_t>(rest / slices);
    }
  }
};

// The work of a block or a warp: a tile, or a part of a long one, and 32 channels of a head.
struct TilePart {
  std::int32_t head;  // of the pass
  std::int32_t slice;
  std::int32_t tile;
  std::uint32_t begin;  // records of the tile's list
  std::uint32_t end;
  std::uint32_t segment_count;  // of the tile
  std::int32_t index;           // among the parts of the head, or -1: the whole tile
  bool is_there;

  // Takes a tile, if it has no parts.
  __device__ __forceinline__ void set_tile(ValueParams const& s, SumBlock const& block,
                                           std::int32_t of_head) {
    tile = of_head;
    TileList const list = set_list(s, block);
    index = -1;
    is_there = list.parts == 0;
    begin = 0;
    end = list.records;
  }
  // Takes the part of the block's number.
  __device__ __forceinline__ void set_part(ValueParams const& s, SumBlock const& block) {
    index = block.index;
    is_there = static_cast<std::uint32_t>(index) < s.part_counts[block.head];
    if (!is_there) return;
    tile = s.part_tiles[std::int64_t{block.head} * s.max_parts + index];
    TileList const list = set_list(s, block);
    begin = (static_cast<std::uint32_t>(index) - list.first_part) * s.part_records;
    end = min(list.records, begin + s.part_records);
  }
  // The segments of the tile.
  __device__ __forceinline__ const Segment* segments(ValueParams const& s) const {
    return s.segments + (std::int64_t{head} * s.tiles + tile) * s.chunks;
  }
  // The records of the head.
  __device__ __forceinline__ const TileRecord* records(ValueParams const& s) const {
    return s.records + std::int64_t{head} * s.points;
  }

 private:
  __device__ __forceinline__ TileList set_list(ValueParams const& s, SumBlock const& block) {
    head = block.head;
    slice = block.slice;
    TileList const list = s.lists[std::int64_t{head} * s.tiles + tile];
    segment_count = list.segments;
    return list;
  }
};

// The cell list of a slot: one of 2^log_lists of its cell.
struct CellList {
  int cell;
  int log_lists;
  int index;  // among those of the cell
  bool is_there;
};

template <class Config>
struct SumStorage {
  float4 sums[kMaxTilePixels][Config::kQuads];              // of pixels: sum_of_pixel()
  float4 extra_sums[kExtraSums][4][Config::kQuads];         // of cells by corner
  float4 weights[kRound];                                   // of the corners
  std::uint32_t queries[kRound];                            // or as GradRows::row_of() has them
  alignas(4) std::uint16_t counters[kSumWarps][kMaxCells];  // records
  std::uint16_t record_starts[kSumWarps][kMaxCells];        // where the first of them goes
  std::uint16_t first[kMaxCells + 1];                       // record of a cell
  std::uint16_t list_cells[kMaxLists];  // where a cell's first list is: log_lists << 8 | cell
  std::uint32_t list_starts[kMaxLists / kWarp];  // a bit where a cell's first list is
  std::uint16_t of_key[kWarp];  // of each key: its cells, then where its first list goes
  std::uint32_t list_count;
  std::uint32_t segment_starts[kRoundWords];  // a bit where a segment begins or goes on

  // A record's number in the head's list, less that in the round: where a segment begins. They lie
  // here until queries are stored.
  __device__ __forceinline__ std::uint32_t* head_less_round() { return queries; }
  __device__ __forceinline__ const std::uint32_t* head_less_round() const { return queries; }
};

// Rows of pixels and of cells lie as far apart as in the largest tile.
inline constexpr int kCellsAcross = kMaxTileSide;
inline constexpr int kPixelsAcross = kMaxTileSide + 1;

// A pixel's quads change places with its parity, so that the four corners of a cell have the same
// channels in different banks.
template <class Config>
__device__ __forceinline__ int swizzle_of_pixel(int x, int y) {
  return ((x & 1) | (y & 1) << 1) & (Config::kLanes - 1);
}
template <class Config>
__device__ __forceinline__ float4 sum_of_pixel(SumStorage<Config> const& shared, int x, int y,
                                               int quad) {
  return shared.sums[y * kPixelsAcross + x][quad ^ swizzle_of_pixel<Config>(x, y)];
}

// ---- where the records of a tile are

// Clears the map, before the first round and once the records of a round have been found.
template <class Config>
__device__ __forceinline__ void clear_segments(SumStorage<Config>& shared) {
  if (threadIdx.x < kRoundWords) shared.segment_starts[threadIdx.x] = 0;
}

// Maps `count` records of the tile's list, from `base` on: a bit and head_less_round() are set
// where a segment begins, and where it goes on in the next word of bits. All threads of the block.
template <class Config>
__device__ __forceinline__ void map_segments(ValueParams const& s, SumStorage<Config>& shared,
                                             TilePart const& part, std::uint32_t base, int count) {
  const Segment* const segments = part.segments(s);
  for (std::uint32_t i = threadIdx.x; i < part.segment_count; i += kSumThreads) {
    Segment const segment = segments[i];
    std::uint32_t const begin = i == 0 ? 0 : segments[i - 1].end;
    if (segment.end <= base || begin >= base + static_cast<std::uint32_t>(count)) continue;
    std::uint32_t const end = min(segment.end - base, static_cast<std::uint32_t>(count));
    for (std::uint32_t at = max(begin, base) - base; at < end; at = (at | (kWarp - 1)) + 1) {
      shared.head_less_round()[at] = segment.head_less_tile + base;
      atomicOr(&shared.segment_starts[at / kWarp], 1u << at % kWarp);
    }
  }
}

// The index in the head's list of the round's record that is the lane's of `word`.
template <class Config>
__device__ __forceinline__ std::uint32_t record_of_round(SumStorage<Config> const& shared,
                                                         int word) {
  std::uint32_t const starts = shared.segment_starts[word] & lanes_until();
  int const last = 31 - __clz(static_cast<int>(starts));
  return shared.head_less_round()[word * kWarp + last] +
         static_cast<std::uint32_t>(word * kWarp + lane_of());
}

// Walks over the records of a tile with one warp, 32 at a time from the first on.
class SegmentWalk {
 public:
  __device__ __forceinline__ SegmentWalk(ValueParams const& s, TilePart const& part)
      : at_(part.segments(s)), left_(static_cast<int>(part.segment_count)) {}
  // The index in the head's list of the tile's record `base + lane`, if there is one. All lanes.
  __device__ __forceinline__ std::uint32_t next(std::uint32_t base) {
    Segment segment{};
    if (lane_of() < left_) segment = at_[lane_of()];
    // Segments end at different records, the first of these behind `base`.
    std::uint32_t const last = segment.end - 1 - base;
    std::uint32_t const ends =
        __reduce_or_sync(kAllLanes, lane_of() < left_ && last < kWarp ? 1u << last : 0u);
    int const index = __popc(ends & lanes_before());
    int const passed = __popc(ends);
    at_ += passed;
    left_ -= passed;
    return __shfl_sync(kAllLanes, segment.head_less_tile, index) + base +
           static_cast<std::uint32_t>(lane_of());
  }

 private:
  const Segment* at_;
  int left_;
};

// ---- rank, order, store

// The items of the warp before this one that have the same key, in rounds of 32: `counters` are the
// warp's own, one a key. Items that are not `there` have no rank.
__device__ __forceinline__ std::uint32_t rank_in_warp(std::uint16_t* counters, bool there,
                                                      std::uint32_t key) {
  std::uint32_t const same = __match_any_sync(kAllLanes, there ? key : ~0u);
  std::uint32_t const before = __popc(same & lanes_before());
  std::uint32_t const earlier = there ? counters[key] : 0;
  __syncwarp();
  if (there && before == 0) {
    counters[key] = static_cast<std::uint16_t>(earlier + __popc(same));
  }
  __syncwarp();
  return earlier + before;
}

// Ranks the records of the round, a warp's one behind the other. The bits above a record's
// fractions become its cell, or all ones where there is no record, and its rank in the warp.
// `record_of` says which of the head's records is the lane's of a word of them.
template <class Config, class RecordOf>
__device__ __forceinline__ void rank_records(SumStorage<Config>& shared, const TileRecord* records,
                                             RecordOf record_of, int count,
                                             TileRecord (&ranked)[kRoundOfThread]) {
  static_assert(
      kMaxCells == kCellsAcross * kCellsAcross && kMaxTilePixels == kPixelsAcross * kPixelsAcross,
      "the largest tile is a square");
  static_assert(kMaxCells == 2 * kWarp, "a lane orders two cells");
  static_assert(kRoundOfThread * kWarp <= 256, "a rank in a warp fits 8 bits");
  std::uint16_t* const counters = shared.counters[warp_of()];
  reinterpret_cast<std::uint32_t*>(counters)[lane_of()] = 0;
  __syncwarp();
  // In a round that is not full every warp has as many, too.
  int const of_thread = (count + kSumThreads - 1) / kSumThreads;
  int const first_word = warp_of() * of_thread;
  int const first = first_word * kWarp + lane_of();
  const char* at = reinterpret_cast<const char*>(records);
  ptx::pin(at);
#pragma unroll
  for (int j = 0; j < kRoundOfThread; ++j) {
    int const i = first + j * kWarp;
    ranked[j].x = ~0u;
    if (j < of_thread && i < count) {
      ranked[j] = *reinterpret_cast<const TileRecord*>(
          ptx::row_at(at, record_of(first_word + j), sizeof(TileRecord)));
    }
  }
#pragma unroll
  for (int j = 0; j < kRoundOfThread; ++j) {
    if (j >= of_thread) continue;
    TileRecord& record = ranked[j];
    bool const is_there = first + j * kWarp < count;
    std::uint32_t const cell = is_there ? (record.y >> 24) * kCellsAcross + (record.x >> 24) : 0;
    std::uint32_t const rank = rank_in_warp(counters, is_there, cell);
    if (is_there) {
      record.x = (record.x & 0xffffffu) | cell << 24;
      record.y = (record.y & 0xffffffu) | rank << 24;
    }
  }
}

// A lane orders two cells.
__device__ __forceinline__ int cell_of_lane(int i) { return lane_of() + i * kWarp; }

// One warp makes the cell lists of all cells.
__device__ __forceinline__ bool is_list_warp() { return warp_of() == kSumWarps - 1; }

// Finds where the warp's records of each cell go; the list warp stores where each cell's begin.
template <class Config>
__device__ __forceinline__ void find_record_starts(SumStorage<Config>& shared) {
  std::uint32_t counts[2][kSumWarps];
  std::uint32_t records[2] = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int w = 0; w < kSumWarps; ++w) {
      counts[i][w] = shared.counters[w][cell_of_lane(i)];
      records[i] += counts[i][w];
    }
  }
  // Both sums in one: neither reaches 2^16.
  std::uint32_t const until = running_sum(records[1] << 16 | records[0]);
  std::uint32_t const in_lower = __shfl_sync(kAllLanes, until, kWarp - 1) & 0xffffu;
  std::uint32_t const first[2] = {(until & 0xffffu) - records[0],
                                  in_lower + (until >> 16) - records[1]};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    int const cell = cell_of_lane(i);
    std::uint32_t at = first[i];
    if (is_list_warp()) {
      shared.first[cell] = static_cast<std::uint16_t>(at);
      if (cell == kMaxCells - 1) {
        shared.first[kMaxCells] = static_cast<std::uint16_t>(at + records[i]);
      }
    }
#pragma unroll
    for (int w = 0; w < kSumWarps - 1; ++w) at += w < warp_of() ? counts[i][w] : 0;
    shared.record_starts[warp_of()][cell] = static_cast<std::uint16_t>(at);
  }
  __syncwarp();
}

// Into how many lists a cell is cut, as a logarithm.
__device__ __forceinline__ int log_lists_of(std::uint32_t records) {
  return kWarp - __clz(static_cast<int>((records - 1) / kListRecords));
}

// The key that orders cells: those of most lists first, then those of most records. So the lists of
// a cell begin at a multiple of their number, and lists of nearly one length lie side by side.
__device__ __forceinline__ std::uint32_t key_of(std::uint32_t records, int log_lists) {
  // 0 to 31 where the cell is one list, 0 to 15 where it is several: sixteen keys, or three.
  std::uint32_t const fewer = kListRecords - 1 - ((records - 1) >> log_lists);
  if (log_lists == 0) return 16 + fewer / 2;
  return static_cast<std::uint32_t>(kMaxLogLists - log_lists) * 3 + fewer * 11 / 64;
}

// Makes the cell lists, by the list warp.
template <class Config>
__device__ __forceinline__ void make_cell_lists(SumStorage<Config>& shared) {
  static_assert(kMaxLogLists * 3 <= 16 && kListRecords == 32, "a warp has a lane for each key");
  static_assert(kMaxCells <= 256, "a cell fits the 8 bits below log_lists");
  std::uint32_t records[2], keys[2], ranks[2];
  int logs[2];
  shared.of_key[lane_of()] = 0;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    int const cell = cell_of_lane(i);
    records[i] = shared.first[cell + 1] - std::uint32_t{shared.first[cell]};
    logs[i] = log_lists_of(records[i]);
    keys[i] = key_of(records[i], logs[i]);
    ranks[i] = rank_in_warp(shared.of_key, records[i] > 0, keys[i]);
  }
  // A lane takes a key.
  int const log = lane_of() < 16 ? max(kMaxLogLists - lane_of() / 3, 0) : 0;
  std::uint32_t const lists = static_cast<std::uint32_t>(shared.of_key[lane_of()]) << log;
  std::uint32_t const until = running_sum(lists);
  __syncwarp();
  shared.of_key[lane_of()] = static_cast<std::uint16_t>(until - lists);
  __syncwarp();
  std::uint32_t const all = __shfl_sync(kAllLanes, until, kWarp - 1);
  if (lane_of() == 0) shared.list_count = all;
  std::uint32_t first[2] = {~0u, ~0u};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (records[i] == 0) continue;
    first[i] = shared.of_key[keys[i]] + (ranks[i] << logs[i]);
    shared.list_cells[first[i]] = static_cast<std::uint16_t>(logs[i] << 8 | cell_of_lane(i));
  }
  for (std::uint32_t word = 0; word * kWarp < all; ++word) {
    std::uint32_t starts = first[0] / kWarp == word ? 1u << first[0] % kWarp : 0;
    starts |= first[1] / kWarp == word ? 1u << first[1] % kWarp : 0;
    starts = __reduce_or_sync(kAllLanes, starts);
    if (lane_of() == 0) shared.list_starts[word] = starts;
  }
}

// Cell list `i`. The lists of a cell are in one word of starts: they begin at a multiple of their
// number.
template <class Config>
__device__ __forceinline__ CellList cell_list_at(SumStorage<Config> const& shared, int i) {
  if (i >= static_cast<int>(shared.list_count)) return {};
  std::uint32_t const starts = shared.list_starts[i / kWarp] & kAllLanes >> (kWarp - 1 - i % kWarp);
  int const first = i / kWarp * kWarp + 31 - __clz(static_cast<int>(starts));
  std::uint32_t const cell = shared.list_cells[first];
  return {static_cast<int>(cell & 0xffu), static_cast<int>(cell >> 8), i - first, true};
}

__device__ __forceinline__ float4 corner_weights(TileRecord const& record) {
  float const fx = static_cast<float>(record.x & 0xffffffu) * 0x1p-24f;
  float const fy = static_cast<float>(record.y & 0xffffffu) * 0x1p-24f;
  float const top = record.weight * (1.0f - fy);
  float const bottom = record.weight * fy;
  return make_float4(top * (1.0f - fx), top * fx, bottom * (1.0f - fx), bottom * fx);
}

// Stores the ranked records; `row_of` says what is stored of a query.
template <class Config, class RowOf>
__device__ __forceinline__ void store_records(SumStorage<Config>& shared,
                                              TileRecord const (&ranked)[kRoundOfThread],
                                              RowOf row_of) {
#pragma unroll
  for (int j = 0; j < kRoundOfThread; ++j) {
    TileRecord const& record = ranked[j];
    if (record.x == ~0u) continue;
    std::uint32_t const at = shared.record_starts[warp_of()][record.x >> 24] + (record.y >> 24);
    shared.weights[at] = corner_weights(record);
    shared.queries[at] = row_of(record.query);
  }
}

}  // namespace msda::sorted
