// The records of a round of a tile, sorted by cell in shared memory, and the lists that slots of
// lanes add up.
//
//   rank    stably by cell, with counters of each warp
//   order   cells by the number of their records; a cell with many is cut into 2 to 32 lists, so
//           that no list is much longer than kListRecords, and neighbouring slots have lists of
//           nearly one length
//   place   weights of the corners and the query's row to the record's place
#pragma once

#include "kernels/sorted/channels.cuh"
#include "kernels/sorted/warps.cuh"

namespace msda::sorted {

// The list of a slot: one of 2^log_lists of its cell.
struct List {
  int cell;
  int log_lists;
  int index;  // among those of the cell
  bool is_there;
};

template <class Config>
struct SumStorage {
  float4 sums[kMaxTilePixels][Config::kQuads];              // of pixels: pixel_quads()
  float4 extra_sums[kExtraSums][4][Config::kQuads];         // of cells by corner
  float4 weights[kRound];                                   // of the corners
  std::uint32_t queries[kRound];                            // or where their rows are: GradRows
  alignas(4) std::uint16_t counters[kSumWarps][kMaxCells];  // records
  std::uint16_t places[kSumWarps][kMaxCells];               // where the first of them goes
  std::uint16_t first[kMaxCells + 1];                       // record of a cell
  std::uint16_t list_cells[kMaxLists];  // where a cell's first list is: log_lists << 8 | cell
  std::uint32_t list_starts[kMaxLists / kWarp];  // a bit where a cell's first list is
  std::uint16_t of_key[kWarp];                   // cells, then where the first list goes
  std::uint32_t list_count;
  std::uint32_t segment_starts[kRoundWords];  // segments.cuh

  // Of segments, until queries are stored there.
  __device__ __forceinline__ std::uint32_t* offsets() { return queries; }
  __device__ __forceinline__ const std::uint32_t* offsets() const { return queries; }
};

// Rows of pixels and of cells lie as far apart as in the largest tile.
inline constexpr int kCellsAcross = kMaxTileSide;
inline constexpr int kPixelsAcross = kMaxTileSide + 1;

// A pixel's quads change places with its parity, so that the four corners of a cell have the same
// channels in different banks.
template <class Config>
__device__ __forceinline__ int turn_of_pixel(int x, int y) {
  return ((x & 1) | (y & 1) << 1) & (Config::kLanes - 1);
}
template <class Config>
__device__ __forceinline__ float4 sum_of_pixel(SumStorage<Config> const& shared, int x, int y,
                                               int quad) {
  return shared.sums[y * kPixelsAcross + x][quad ^ turn_of_pixel<Config>(x, y)];
}

// Ranks the records of the round, a warp's one behind the other. Of each, the bits above the
// fractions become the cell, or all ones where there is no record, and the rank in the warp.
// `record_of`: where the lane's record of a warp of them is.
template <class Config, class RecordOf>
__device__ __forceinline__ void rank_records(SumStorage<Config>& shared, const Record* records,
                                             RecordOf record_of, int count,
                                             Record (&ranked)[kRoundOfThread]) {
  static_assert(kMaxCells == kCellsAcross * kCellsAcross &&
                kMaxTilePixels == kPixelsAcross * kPixelsAcross);
  static_assert(kMaxCells == 2 * kWarp && kRoundOfThread * kWarp <= 256);
  std::uint16_t* const counters = shared.counters[warp_of()];
  reinterpret_cast<std::uint32_t*>(counters)[lane_of()] = 0;
  __syncwarp();
  // Of a round that is not full every warp has as many.
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
      ranked[j] = *reinterpret_cast<const Record*>(
          ptx::row_at(at, record_of(first_word + j), sizeof(Record)));
    }
  }
#pragma unroll
  for (int j = 0; j < kRoundOfThread; ++j) {
    if (j >= of_thread) continue;
    Record& record = ranked[j];
    bool const is_there = first + j * kWarp < count;
    std::uint32_t const cell = is_there ? (record.y >> 24) * kCellsAcross + (record.x >> 24) : 0;
    std::uint32_t const rank = rank_in_warp(counters, is_there, cell);
    if (is_there) {
      record.x = (record.x & 0xffffffu) | cell << 24;
      record.y = (record.y & 0xffffffu) | rank << 24;
    }
  }
}

// A lane has two cells.
__device__ __forceinline__ int cell_of_lane(int i) { return lane_of() + i * kWarp; }

// Makes the lists of all cells.
__device__ __forceinline__ bool is_list_warp() { return warp_of() == kSumWarps - 1; }

// Where the warp's records of each cell go; by the list warp, where those of all warps begin.
template <class Config>
__device__ __forceinline__ void find_places(SumStorage<Config>& shared) {
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
    shared.places[warp_of()][cell] = static_cast<std::uint16_t>(at);
  }
  __syncwarp();
}

// Into how many lists a cell is cut, as a logarithm.
__device__ __forceinline__ int log_lists_of(std::uint32_t records) {
  return kWarp - __clz(static_cast<int>((records - 1) / kListRecords));
}

// Cells in this order have lists that begin at a multiple of their number, and nearly as long ones
// side by side: first those of most lists, then those with most records.
__device__ __forceinline__ std::uint32_t key_of(std::uint32_t records, int log_lists) {
  // 0 to 31 where the cell is one list, 0 to 15 where it is several: sixteen keys, or three.
  std::uint32_t const fewer = kListRecords - 1 - ((records - 1) >> log_lists);
  if (log_lists == 0) return 16 + fewer / 2;
  return static_cast<std::uint32_t>(kMaxLogLists - log_lists) * 3 + fewer * 11 / 64;
}

// By the list warp.
template <class Config>
__device__ __forceinline__ void make_lists(SumStorage<Config>& shared) {
  static_assert(kMaxLogLists * 3 <= 16 && kListRecords == 32 && kMaxCells <= 256);
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
  // A lane a key.
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

// List `i`. Those of a cell are in one word of starts: they begin at a multiple of their number.
template <class Config>
__device__ __forceinline__ List list_at(SumStorage<Config> const& shared, int i) {
  if (i >= static_cast<int>(shared.list_count)) return {};
  std::uint32_t const starts = shared.list_starts[i / kWarp] & kAllLanes >> (kWarp - 1 - i % kWarp);
  int const first = i / kWarp * kWarp + 31 - __clz(static_cast<int>(starts));
  std::uint32_t const cell = shared.list_cells[first];
  return {static_cast<int>(cell & 0xffu), static_cast<int>(cell >> 8), i - first, true};
}

__device__ __forceinline__ float4 corner_weights(Record const& record) {
  float const fx = static_cast<float>(record.x & 0xffffffu) * 0x1p-24f;
  float const fy = static_cast<float>(record.y & 0xffffffu) * 0x1p-24f;
  float const top = record.weight * (1.0f - fy);
  float const bottom = record.weight * fy;
  return make_float4(top * (1.0f - fx), top * fx, bottom * (1.0f - fx), bottom * fx);
}

template <class Config, class PlaceOf>
__device__ __forceinline__ void place_records(SumStorage<Config>& shared,
                                              Record const (&ranked)[kRoundOfThread],
                                              PlaceOf place_of) {
#pragma unroll
  for (int j = 0; j < kRoundOfThread; ++j) {
    Record const& record = ranked[j];
    if (record.x == ~0u) continue;
    std::uint32_t const at = shared.places[warp_of()][record.x >> 24] + (record.y >> 24);
    shared.weights[at] = corner_weights(record);
    shared.queries[at] = place_of(record.query);
  }
}

}  // namespace msda::sorted
