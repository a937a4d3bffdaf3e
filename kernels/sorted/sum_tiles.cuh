// Sums over a tile's records: what the head's gradient of the values gets from each of its cells.
//
// A block takes a tile, or a piece of a long one, and 32 channels. It works in rounds of kRound
// records:
//
//   rank      stably by cell, with ballots and counters of each warp
//   lists     a cell's records, cut where there are more than kListRecords, longest lists first, so
//             that the slots of a warp have equally much to do
//   add       a slot of lanes a list: rows of grad_output times the four corner weights, in float32
//             registers; then to shared memory
//   pixels    each sums its lists in the order of cells and records
//
// A step adds a record: LDS.128 and LDS for weights and query, 16 bytes of grad_output, 8
// conversions and 32 multiply-adds: 57 instructions for 8 records of D = 32. NaN reaches a point's
// corners alone. Pixels that tiles share, and sums of pieces, go to join_edges.cuh.
#pragma once

#include "kernels/common/shared.cuh"
#include "kernels/sorted/channels.cuh"
#include "kernels/sorted/tile_pixels.cuh"
#include "kernels/sorted/warps.cuh"

namespace msda::sorted {

template <ValueType kRowType, bool kIsVectors, int kSlotLanes>
struct SumConfig {
  static constexpr ValueType kType = kRowType;
  static constexpr bool kVectors = kIsVectors;
  static constexpr int kLanes = kSlotLanes;
  static constexpr int kSlots = kSumThreads / kLanes;
  static constexpr int kQuads = kLanes * kChannelsOfLane / 4;
  // Rows of grad_output that a slot has in flight.
  using Row = Channels<kType, kVectors ? Loads::vectors : Loads::any>;
  static constexpr int kInFlight = Row::kNarrow ? 4 : 2;
  static_assert(kLanes <= kMaxSliceLanes && (kLanes & (kLanes - 1)) == 0);
};

struct List {
  std::uint16_t first;  // record
  std::uint16_t count;
};

template <class Config>
struct SumStorage {
  float4 weights[kRound];  // of the corners
  float4 sums[kMaxLists][4][Config::kQuads];
  float4 pixels[kMaxTilePixels][Config::kQuads];
  std::uint32_t queries[kRound];
  List lists[kMaxLists];
  std::uint32_t list_count;
  std::uint32_t of_length[kListRecords + 1];     // lists, then where the next of them goes
  std::uint16_t order[kMaxLists];                // of lists, longest first
  std::uint16_t first_list[kMaxCells + 1];       // of each cell
  std::uint16_t counters[kSumWarps][kMaxCells];  // records, then where the next of them goes
};
static_assert(sizeof(SumStorage<SumConfig<ValueType::f32, true, kMaxSliceLanes>>) <=
              kLeastSharedBytes);

// What a block sums.
struct Piece {
  std::int64_t head;  // of the run
  std::int32_t slice;
  std::int32_t tile;
  std::uint32_t begin;  // records of the head's list
  std::uint32_t end;
  std::int64_t extra;  // index among the pieces of the head, or -1: the tile is one piece
  bool is_there;

  __device__ Piece(ValueParams const& s) {
    auto const units = static_cast<std::uint32_t>(s.tiles + s.max_pieces);
    auto const slices = static_cast<std::uint32_t>(s.slices);
    auto const unit = static_cast<std::int32_t>(blockIdx.x % units);
    slice = static_cast<std::int32_t>(blockIdx.x / units % slices);
    head = blockIdx.x / units / slices;
    const std::uint32_t* const pieces = s.pieces + head * (s.tiles + 1);
    extra = unit - s.tiles;
    is_there = extra < static_cast<std::int64_t>(pieces[s.tiles]);
    tile = unit;
    if (!is_there) return;
    if (extra >= 0) tile = tile_of(pieces, s.tiles, static_cast<std::uint32_t>(extra));
    if (extra < 0) is_there = pieces[tile + 1] == pieces[tile];
    const std::uint32_t* const starts = s.starts + head * (s.tiles + 1) + tile;
    begin = starts[0];
    end = starts[1];
    if (extra >= 0) {
      begin += (static_cast<std::uint32_t>(extra) - pieces[tile]) * s.piece_records;
      end = min(end, begin + s.piece_records);
    } else {
      extra = -1;
    }
  }

 private:
  // The tile that a piece is of: the last that begins with it or before.
  __device__ static std::int32_t tile_of(const std::uint32_t* pieces, std::int32_t tiles,
                                         std::uint32_t piece) {
    std::int32_t low = 0;
    std::int32_t high = tiles;
    while (high - low > 1) {
      std::int32_t const middle = low + (high - low) / 2;
      if (pieces[middle] <= piece) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

// ---- one round

// Records of the round that a thread ranks, a warp's one behind the other.
struct Ranked {
  Record record;
  std::uint32_t cell;
  std::uint32_t rank;  // in the warp
};

template <class Config>
__device__ __forceinline__ void rank_records(SumStorage<Config>& shared, const Record* records,
                                             int count, int tile_width,
                                             Ranked (&ranked)[kRoundOfThread]) {
  constexpr int kCellBits = 6;
  static_assert(kMaxCells <= 1 << kCellBits);
  // Of a round that is not full every warp has as many.
  int const of_thread = (count + kSumThreads - 1) / kSumThreads;
  int const first = warp_of() * of_thread * kWarp + lane_of();
#pragma unroll
  for (int j = 0; j < kRoundOfThread; ++j) {
    int const i = first + j * kWarp;
    if (j < of_thread && i < count) ranked[j].record = records[i];
  }
#pragma unroll
  for (int j = 0; j < kRoundOfThread; ++j) {
    int const i = first + j * kWarp;
    Ranked& mine = ranked[j];
    mine.rank = ~0u;
    if (j >= of_thread) continue;
    mine.cell = 0;
    if (i < count) {
      mine.cell =
          (mine.record.y >> 24) * static_cast<std::uint32_t>(tile_width) + (mine.record.x >> 24);
    }
    mine.rank = rank_in_warp(shared.counters[warp_of()], i < count, mine.cell, kCellBits);
    if (i >= count) mine.rank = ~0u;
  }
}

// By one warp: where each cell's and each warp's records go, and the lists.
template <class Config>
__device__ __forceinline__ void make_lists(SumStorage<Config>& shared, int cells) {
  std::uint32_t record = 0;
  std::uint32_t list = 0;
  for (int base = 0; base < cells; base += kWarp) {
    int const cell = base + lane_of();
    std::uint32_t count = 0;
    for (int w = 0; w < kSumWarps && cell < cells; ++w) count += shared.counters[w][cell];
    std::uint32_t const lists = (count + kListRecords - 1) / kListRecords;
    // Both sums in one: neither reaches 2^16.
    std::uint32_t const until = running_sum(lists << 16 | count);
    std::uint32_t at = record + (until & 0xffffu) - count;
    std::uint32_t const first_list = list + (until >> 16) - lists;
    if (cell < cells) {
      shared.first_list[cell] = static_cast<std::uint16_t>(first_list);
      for (std::uint32_t i = 0; i < lists; ++i) {
        std::uint32_t const left = min(count - i * kListRecords, std::uint32_t{kListRecords});
        shared.lists[first_list + i] = {static_cast<std::uint16_t>(at + i * kListRecords),
                                        static_cast<std::uint16_t>(left)};
        atomicAdd(&shared.of_length[left], 1u);
      }
      for (int w = 0; w < kSumWarps; ++w) {
        std::uint32_t const of_warp = shared.counters[w][cell];
        shared.counters[w][cell] = static_cast<std::uint16_t>(at);
        at += of_warp;
      }
    }
    std::uint32_t const all = __shfl_sync(kAllLanes, until, kWarp - 1);
    record += all & 0xffffu;
    list += all >> 16;
  }
  if (lane_of() == 0) {
    shared.first_list[cells] = static_cast<std::uint16_t>(list);
    shared.list_count = list;
  }
  __syncwarp();
  // Longest first: the lanes have the lengths in that order.
  int const length = kListRecords - lane_of();
  std::uint32_t const count = length > 0 ? shared.of_length[length] : 0;
  std::uint32_t const before = running_sum(count) - count;
  __syncwarp();
  if (length > 0) shared.of_length[length] = before;
}

template <class Config>
__device__ __forceinline__ void place_records(SumStorage<Config>& shared,
                                              Ranked const (&ranked)[kRoundOfThread]) {
#pragma unroll
  for (int j = 0; j < kRoundOfThread; ++j) {
    Ranked const& mine = ranked[j];
    if (mine.rank == ~0u) continue;
    std::uint32_t const at = shared.counters[warp_of()][mine.cell] + mine.rank;
    float const fx = static_cast<float>(mine.record.x & 0xffffffu) * 0x1p-24f;
    float const fy = static_cast<float>(mine.record.y & 0xffffffu) * 0x1p-24f;
    float const top = mine.record.weight * (1.0f - fy);
    float const bottom = mine.record.weight * fy;
    shared.weights[at] =
        make_float4(top * (1.0f - fx), top * fx, bottom * (1.0f - fx), bottom * fx);
    shared.queries[at] = mine.record.query;
  }
  // The order among lists of the same length is open; no sum depends on it.
  for (std::uint32_t i = threadIdx.x; i < shared.list_count; i += kSumThreads) {
    std::uint32_t const at = atomicAdd(&shared.of_length[shared.lists[i].count], 1u);
    shared.order[at] = static_cast<std::uint16_t>(i);
  }
}

// The rows of grad_output of one head, from the lane's first channel on.
struct GradRows {
  const void* array;
  msda_dtype dtype;
  std::int64_t first;  // element
  std::int64_t row_stride;
  bool has_channels;
};

template <class Config>
__device__ __forceinline__ void add_record(float (&sums)[4][kChannelsOfLane], float4 const& weights,
                                           typename Config::Row const& row) {
#pragma unroll
  for (int c = 0; c < kChannelsOfLane; ++c) {
    float const g = row[c];
    sums[0][c] = fmaf(weights.x, g, sums[0][c]);
    sums[1][c] = fmaf(weights.y, g, sums[1][c]);
    sums[2][c] = fmaf(weights.z, g, sums[2][c]);
    sums[3][c] = fmaf(weights.w, g, sums[3][c]);
  }
}

template <class Config>
__device__ __forceinline__ void add_lists(SumStorage<Config>& shared, GradRows const& rows) {
  using Row = typename Config::Row;
  int const lane = static_cast<int>(threadIdx.x % Config::kLanes);
  int const slot = static_cast<int>(threadIdx.x / Config::kLanes);
  if (!rows.has_channels) return;
  for (std::uint32_t i = slot; i < shared.list_count; i += Config::kSlots) {
    int const list = shared.order[i];
    int const first = shared.lists[list].first;
    int const end = first + shared.lists[list].count;
    float sums[4][kChannelsOfLane] = {};
    for (int r = first; r < end; r += Config::kInFlight) {
      Row row[Config::kInFlight];
#pragma unroll
      for (int j = 0; j < Config::kInFlight; ++j) {
        // Behind the end it is the last one again, which is not added.
        std::uint32_t const query = shared.queries[min(r + j, end - 1)];
        row[j] = Row::load(rows.dtype, rows.array, rows.first + query * rows.row_stride);
      }
#pragma unroll
      for (int j = 0; j < Config::kInFlight; ++j) {
        if (r + j < end) add_record<Config>(sums, shared.weights[r + j], row[j]);
      }
    }
    // Neighbouring lanes store neighbouring quads; of two slots one begins with the lower channels
    // and one with the upper, so that they meet different banks.
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) {
      float const(&x)[kChannelsOfLane] = sums[corner];
      float4 const lower = make_float4(x[0], x[1], x[2], x[3]);
      float4 const upper = make_float4(x[4], x[5], x[6], x[7]);
      bool const turn = slot % 2 != 0;
      float4* const to = shared.sums[list][corner];
      to[lane + (turn ? Config::kLanes : 0)] = turn ? upper : lower;
      to[lane + (turn ? 0 : Config::kLanes)] = turn ? lower : upper;
    }
  }
}

// The first of the four channels that are quad `i` of shared memory, from the slice's first on.
template <class Config>
__device__ __forceinline__ int channel_of_quad(int i) {
  return i % Config::kLanes * kChannelsOfLane + i / Config::kLanes * 4;
}

// A pixel of a tile, and four of its channels.
template <class Config>
struct PixelQuad {
  int quad, pixel, x, y;

  __device__ __forceinline__ PixelQuad(TileLevel const& level, int i)
      : quad(i % Config::kQuads), pixel(i / Config::kQuads) {
    y = static_cast<int>(__umulhi(static_cast<std::uint32_t>(pixel), level.by_pixels));
    x = pixel - y * (level.tile_width + 1);
  }
  __device__ __forceinline__ static int count(TileLevel const& level) {
    return (level.tile_width + 1) * (level.tile_height + 1) * Config::kQuads;
  }
};

template <class Config>
__device__ __forceinline__ void add_to_pixels(SumStorage<Config>& shared, TileLevel const& level) {
  int const items = PixelQuad<Config>::count(level);
  for (int i = static_cast<int>(threadIdx.x); i < items; i += kSumThreads) {
    auto const [quad, pixel, x, y] = PixelQuad<Config>(level, i);
    float4 sum = shared.pixels[pixel][quad];
    // The pixel is the last corner of the first of its cells.
#pragma unroll
    for (int corner = 3; corner >= 0; --corner) {
      int const cell_x = x - (corner & 1);
      int const cell_y = y - (corner >> 1);
      if (cell_x < 0 || cell_y < 0 || cell_x >= level.tile_width || cell_y >= level.tile_height) {
        continue;
      }
      int const cell = cell_y * level.tile_width + cell_x;
      int const end = shared.first_list[cell + 1];
      for (int list = shared.first_list[cell]; list < end; ++list) {
        add(sum, shared.sums[list][corner][quad]);
      }
    }
    shared.pixels[pixel][quad] = sum;
  }
}

template <class Config>
__device__ __forceinline__ void store_pixels(Params const& p, ValueParams const& s,
                                             SumStorage<Config>& shared, Piece const& piece,
                                             TileLevel const& level) {
  std::int32_t const in_level = piece.tile - level.first_tile;
  std::int32_t const left = in_level % level.tiles_across * level.tile_width - 1;
  std::int32_t const top = in_level / level.tiles_across * level.tile_height - 1;
  int const items = PixelQuad<Config>::count(level);
  for (int i = static_cast<int>(threadIdx.x); i < items; i += kSumThreads) {
    auto const [quad, pixel, x, y] = PixelQuad<Config>(level, i);
    bool const is_on_map =
        left + x >= 0 && top + y >= 0 && left + x < level.width && top + y < level.height;
    std::int64_t const d = piece.slice * kMaxSlice + channel_of_quad<Config>(quad);
    if (!is_on_map || d >= p.head_dim) continue;
    float4 const sum = shared.pixels[pixel][quad];
    if (piece.extra >= 0) {
      float* const to = piece_pixel(p, s, level, piece.head, piece.extra, x, y);
      *reinterpret_cast<float4*>(to + d) = sum;
    } else if (x == 0 || y == 0 || x == level.tile_width || y == level.tile_height) {
      float* const to = border_of(p, s, level, piece.head, piece.tile, x, y);
      *reinterpret_cast<float4*>(to + d) = sum;
    } else {
      std::int64_t const at = value_element(p, s, level, piece.head, left + x, top + y);
      store_four(p.grad_value_dtype, p.grad_value, at + d, sum, s.aligned_result);
    }
  }
}

template <class Config>
__device__ __forceinline__ GradRows grad_rows(Params const& p, ValueParams const& s,
                                              Piece const& piece) {
  HeadIndex const index(p, s, piece.head);
  std::int64_t const d = piece.slice * kMaxSlice + threadIdx.x % Config::kLanes * kChannelsOfLane;
  return {p.grad_output, p.output_dtype, p.output_strides.at(index.b, 0, index.m) + d,
          p.output_strides.row, d < p.head_dim};
}

template <class Config>
static __global__ void __launch_bounds__(kSumThreads, Config::kVectors ? 2 : 1)
    sum_tiles(const __grid_constant__ Params p, const __grid_constant__ ValueParams s) {
  MSDA_DYNAMIC_SHARED(storage);
  auto& shared = *reinterpret_cast<SumStorage<Config>*>(storage);
  ptx::wait_for_previous_grid();
  Piece const piece(s);
  if (!piece.is_there) return;
  TileLevel const& level = level_of_tile(s, piece.tile);
  int const cells = level.tile_width * level.tile_height;
  GradRows const rows = grad_rows<Config>(p, s, piece);
  auto* const pixels = &shared.pixels[0][0];
  for (int i = static_cast<int>(threadIdx.x); i < kMaxTilePixels * Config::kQuads; i += kSumThreads)
    pixels[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (std::uint32_t base = piece.begin; base < piece.end; base += kRound) {
    auto const count = static_cast<int>(min(piece.end - base, std::uint32_t{kRound}));
    auto* const counters = &shared.counters[0][0];
    for (int i = static_cast<int>(threadIdx.x); i < kSumWarps * kMaxCells; i += kSumThreads)
      counters[i] = 0;
    if (threadIdx.x <= kListRecords) shared.of_length[threadIdx.x] = 0;
    __syncthreads();
    Ranked ranked[kRoundOfThread];
    rank_records<Config>(shared, s.records + piece.head * s.points + base, count, level.tile_width,
                         ranked);
    __syncthreads();
    if (warp_of() == 0) make_lists<Config>(shared, cells);
    __syncthreads();
    place_records<Config>(shared, ranked);
    __syncthreads();
    add_lists<Config>(shared, rows);
    __syncthreads();
    add_to_pixels<Config>(shared, level);
  }
  store_pixels<Config>(p, s, shared, piece, level);
}

}  // namespace msda::sorted
