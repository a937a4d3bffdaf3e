// Sums over a tile's records: what the head's gradient of the values gets from each of its cells.
//
// A block takes a tile, or a piece of a long one, and 32 channels. It works in rounds of kRound
// records:
//
//   rank, order, place   tile_lists.cuh
//   add                  a slot of lanes a list: rows of grad_output times the four corner weights,
//                        in float32 registers; then the lists of a cell to shared memory
//
// where the sums of pixels are in shared memory, corner after corner. A step adds a record: LDS.128
// and LDS for weights and query, 16 bytes of grad_output, 8 conversions and 32 multiply-adds. NaN
// reaches a point's corners alone. Tiles of few records: few_records.cuh.
#pragma once

#include "kernels/common/shared.cuh"
#include "kernels/sorted/few_records.cuh"
#include "kernels/sorted/piece.cuh"
#include "kernels/sorted/segments.cuh"
#include "kernels/sorted/store_pixels.cuh"
#include "kernels/sorted/tile_lists.cuh"

namespace msda::sorted {

template <ValueType kRowType, bool kIsVectors, int kSlotLanes>
struct SumConfig {
  static constexpr ValueType kType = kRowType;
  static constexpr bool kVectors = kIsVectors;
  static constexpr int kLanes = kSlotLanes;
  static constexpr int kWarpSlots = kWarp / kLanes;
  static constexpr int kQuads = kLanes * kChannelsOfLane / 4;
  // Rows of grad_output that a slot has in flight.
  using Row = Channels<kType, kVectors ? Loads::vectors : Loads::any>;
  static constexpr int kInFlight = Row::kNarrow ? 4 : 2;
  static_assert(kLanes <= kMaxSliceLanes && (kLanes & (kLanes - 1)) == 0);
};

static_assert(sizeof(SumStorage<SumConfig<ValueType::f32, true, kMaxSliceLanes>>) <=
              kLeastSharedBytes);

// The rows of grad_output of one head, from the lane's first channel on.
template <class Config>
class GradRows {
 public:
  bool has_channels;

  __device__ __forceinline__ GradRows(Params const& p, ValueParams const& s, Piece const& piece)
      : p_(p) {
    HeadIndex const index(p, s, piece.head);
    std::int64_t const d = piece.slice * kMaxSlice + threadIdx.x % Config::kLanes * kChannelsOfLane;
    has_channels = d < p.head_dim;
    first_ = p.output_strides.at(index.b, 0, index.m) + d;
    at_ = static_cast<const char*>(p.grad_output) + first_ * kBytes;
    steps_ = static_cast<std::uint32_t>(p.output_strides.row * kBytes / kRowStepBytes);
    if constexpr (Config::kVectors) ptx::pin(at_);
  }
  // Where the row of a query is, as operator[] takes it: in steps of kRowStepBytes if rows are
  // vectors (sorted.cpp sees to it that they fit), else the query.
  __device__ __forceinline__ std::uint32_t place(std::uint32_t query) const {
    return Config::kVectors ? query * steps_ : query;
  }
  __device__ __forceinline__ typename Config::Row operator[](std::uint32_t place) const {
    using Row = typename Config::Row;
    if constexpr (Config::kVectors) return Row::load_at(ptx::row_at(at_, place, kRowStepBytes));
    return Row::load(p_.output_dtype, p_.grad_output, first_ + place * p_.output_strides.row);
  }

 private:
  static constexpr int kBytes = sizeof(typename ValueTraits<Config::kType>::Element);
  Params const& p_;
  std::int64_t first_;  // element
  const char* at_;
  std::uint32_t steps_;  // from row to row
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

// The sums of a list.
template <class Config>
__device__ __forceinline__ void add_records(SumStorage<Config> const& shared,
                                            GradRows<Config> const& rows, int first, int end,
                                            float (&sums)[4][kChannelsOfLane]) {
  using Row = typename Config::Row;
  for (int r = first; r < end; r += Config::kInFlight) {
    Row row[Config::kInFlight];
    std::uint32_t queries[Config::kInFlight];
#pragma unroll
    for (int j = 0; j < Config::kInFlight; ++j) {
      if (r + j < end) queries[j] = shared.queries[r + j];
    }
#pragma unroll
    for (int j = 0; j < Config::kInFlight; ++j) {
      if (r + j < end) row[j] = rows[queries[j]];
    }
#pragma unroll
    for (int j = 0; j < Config::kInFlight; ++j) {
      if (r + j < end) add_record<Config>(sums, shared.weights[r + j], row[j]);
    }
  }
}

// Adds the sums of one corner of a list to a pixel, or stores them. Neighbouring lanes have
// neighbouring quads; of two slots one begins with the lower channels and one with the upper, so
// that they meet different banks.
template <class Config>
__device__ __forceinline__ void add_corner(float4 (&to)[Config::kQuads], int turn_of_quads,
                                           bool adds, float const (&x)[kChannelsOfLane]) {
  int const lane = (lane_of() % Config::kLanes) ^ turn_of_quads;
  bool const turn = lane_of() / Config::kLanes % 2 != 0;
  int const quads[2] = {lane + (turn ? Config::kLanes : 0), lane + (turn ? 0 : Config::kLanes)};
  float4 const lower = make_float4(x[0], x[1], x[2], x[3]);
  float4 const upper = make_float4(x[4], x[5], x[6], x[7]);
  float4 parts[2] = {turn ? upper : lower, turn ? lower : upper};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (adds) add(parts[i], to[quads[i]]);
    to[quads[i]] = parts[i];
  }
}

// Lists of one cell that a warp has are added up in a fixed order: the first slot gets the sum.
template <class Config>
__device__ __forceinline__ void join_lists(int lists, float (&sums)[4][kChannelsOfLane]) {
  int const most = __shfl_sync(kAllLanes, lists, 0);  // the first has most
  for (int distance = 1; distance < most; distance *= 2) {
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) {
#pragma unroll
      for (int c = 0; c < kChannelsOfLane; ++c) {
        float const other = __shfl_xor_sync(kAllLanes, sums[corner][c], distance * Config::kLanes);
        if (distance < lists) sums[corner][c] += other;
      }
    }
  }
}

// A warp's slots take neighbouring lists. All cells' first corners go to their pixels, then all
// second ones: two cells have no pixel in common for the same corner. What a second or later warp
// has of a cell goes to a place of its own.
template <class Config>
__device__ __forceinline__ void add_lists(SumStorage<Config>& shared,
                                          GradRows<Config> const& rows) {
  constexpr int kSlots = Config::kWarpSlots;
  for (int base = 0; base * kSlots < static_cast<int>(shared.list_count); base += kSumWarps) {
    int const group = base + warp_of();
    List const list = list_at(shared, group * kSlots + lane_of() / Config::kLanes);
    int const records = shared.first[list.cell];
    int const count = shared.first[list.cell + 1] - records;
    int const first = records + (count * list.index >> list.log_lists);
    int const end = records + (count * (list.index + 1) >> list.log_lists);
    float sums[4][kChannelsOfLane] = {};
    if (list.is_there && rows.has_channels) add_records(shared, rows, first, end, sums);
    __syncwarp();
    int const lists = min(1 << list.log_lists, kSlots);
    join_lists<Config>(lists, sums);
    bool const is_there = list.is_there && list.index % lists == 0;
    bool const is_extra = list.index >= kSlots;
    int const x = list.cell % kCellsAcross;
    int const y = list.cell / kCellsAcross;
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) {
      __syncthreads();
      int const corner_x = x + (corner & 1);
      int const corner_y = y + (corner >> 1);
      auto& to = is_extra ? shared.extra_sums[group - 1][corner]
                          : shared.sums[corner_y * kPixelsAcross + corner_x];
      if (is_there) {
        add_corner<Config>(to, turn_of_pixel<Config>(corner_x, corner_y), !is_extra, sums[corner]);
      }
    }
  }
}

// Sums of the second and later warps of a cell to its pixels. One warp, a lane a quad of a corner.
template <class Config>
__device__ __forceinline__ void add_extra_sums(SumStorage<Config>& shared) {
  static_assert(4 * Config::kQuads <= kWarp);
  int const corner = lane_of() / Config::kQuads;
  int const quad = lane_of() % Config::kQuads;
  for (int group = 1; group <= kExtraSums; ++group) {
    int const first = group * Config::kWarpSlots;
    if (first >= static_cast<int>(shared.list_count)) break;
    List const list = list_at(shared, first);
    if (list.index < Config::kWarpSlots) continue;
    int const x = list.cell % kCellsAcross + (corner & 1);
    int const y = list.cell / kCellsAcross + (corner >> 1);
    if (corner < 4) {
      add(shared.sums[y * kPixelsAcross + x][quad], shared.extra_sums[group - 1][corner][quad]);
    }
    __syncwarp();
  }
}

// Adds the piece's records to the pixels in rounds.
template <class Config>
__device__ __forceinline__ void add_rounds(Params const& p, ValueParams const& s,
                                           SumStorage<Config>& shared, Piece const& piece) {
  GradRows<Config> const rows(p, s, piece);
  // Rounds of nearly the same length.
  std::uint32_t round = piece.end - piece.begin;
  if (round > kRound) {
    std::uint32_t const rounds = (round + kRound - 1) / kRound;
    round = (round + rounds - 1) / rounds;
  }
  for (std::uint32_t base = piece.begin; base < piece.end; base += round) {
    auto const count = static_cast<int>(min(piece.end - base, round));
    Record ranked[kRoundOfThread] = {};
    map_segments(s, shared, piece, base, count);
    __syncthreads();
    rank_records<Config>(
        shared, piece.records(s), [&](int word) { return record_of_round(shared, word); }, count,
        ranked);
    __syncthreads();
    clear_segments(shared);
    find_places<Config>(shared);
    place_records<Config>(shared, ranked, [&](std::uint32_t query) { return rows.place(query); });
    if (is_list_warp()) make_lists<Config>(shared);
    __syncthreads();
    add_lists<Config>(shared, rows);
    __syncthreads();
    if (warp_of() == 0) add_extra_sums<Config>(shared);
  }
}

// While the list of the piece's tile is on its way.
template <class Config>
__device__ __forceinline__ void clear_sums(SumStorage<Config>& shared) {
  float4* const sums = shared.sums[0];
#pragma unroll
  for (int i = 0; i < kMaxTilePixels * Config::kQuads; i += kSumThreads) {
    auto const quad = i + static_cast<int>(threadIdx.x);
    if (quad < kMaxTilePixels * Config::kQuads) {
      sums[quad] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
  }
  clear_segments(shared);
}

// Once the sums are clear. All threads of the block.
template <class Config>
__device__ __forceinline__ void sum_piece(Params const& p, ValueParams const& s,
                                          SumStorage<Config>& shared, Piece const& piece) {
  TileLevel const& level = level_of_tile(s, piece.tile);
  __syncthreads();
  if (piece.end - piece.begin <= kFewRecords) {
    add_few_records<Config>(p, s, shared, piece);
  } else {
    add_rounds<Config>(p, s, shared, piece);
  }
  __syncthreads();
  store_pixels<Config>(p, s, BlockPixels<Config>(shared), piece, level);
}

template <class Config>
static __global__ void __launch_bounds__(kSumThreads, Config::kVectors ? kSumBlocks : 1)
    sum_tiles(const __grid_constant__ Params p, const __grid_constant__ ValueParams s) {
  MSDA_DYNAMIC_SHARED(storage);
  auto& shared = *reinterpret_cast<SumStorage<Config>*>(storage);
  ptx::wait_for_previous_grid();
  SumBlock const block(s);
  Piece piece;
  if (block.index < s.max_pieces) {
    piece.set_piece(s, block);
  } else {
    std::int32_t const tile = block.index - s.max_pieces;
    piece.set_tile(s, block, s.last_tiles_first ? s.tiles - 1 - tile : tile);
  }
  clear_sums<Config>(shared);
  if (piece.is_there) sum_piece<Config>(p, s, shared, piece);
}

}  // namespace msda::sorted
