// Sums over a tile's records: what the head's gradient of the values gets from each of its cells.
//
// A block takes a tile, or a piece of a long one, and 32 channels. It works in rounds of kRound
// records:
//
//   rank, order, place   tile_lists.cuh
//   add                  a slot of lanes a list: rows of grad_output times the four corner weights,
//                        in float32 registers; then the lists of a cell to shared memory
//
// and in the end each pixel adds up the sums of its four cells. A step adds a record: LDS.128 and
// LDS for weights and query, 16 bytes of grad_output, 8 conversions and 32 multiply-adds. NaN
// reaches a point's corners alone. Pixels that tiles share, and sums of pieces, go to
// join_edges.cuh.
#pragma once

#include "kernels/common/shared.cuh"
#include "kernels/sorted/tile_lists.cuh"
#include "kernels/sorted/tile_pixels.cuh"

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

// What a block sums.
struct Piece {
  std::int64_t head;  // of the run
  std::int32_t slice;
  std::int32_t tile;
  std::uint32_t begin;  // records of the head's list
  std::uint32_t end;
  std::int64_t extra;  // index among the pieces of the head, or -1: the tile is one piece
  bool is_there;

  // Pieces first, then tiles from the last on: what takes longest begins first.
  __device__ Piece(ValueParams const& s) {
    auto const units = static_cast<std::uint32_t>(s.tiles + s.max_pieces);
    auto const slices = static_cast<std::uint32_t>(s.slices);
    auto const unit = static_cast<std::int32_t>(blockIdx.x % units);
    std::uint32_t const rest = blockIdx.x / units;
    slice = static_cast<std::int32_t>(rest % slices);
    head = rest / slices;
    const std::uint32_t* const pieces = s.pieces + head * (s.tiles + 1);
    const std::uint32_t* const starts = s.starts + head * (s.tiles + 1);
    if (unit >= s.max_pieces) {
      extra = -1;
      tile = s.tiles - 1 - (unit - s.max_pieces);
      is_there = pieces[tile + 1] == pieces[tile];
      begin = starts[tile];
      end = starts[tile + 1];
      return;
    }
    extra = unit;
    is_there = extra < static_cast<std::int64_t>(pieces[s.tiles]);
    if (!is_there) return;
    tile = tile_of(pieces, s.tiles, static_cast<std::uint32_t>(extra));
    begin = starts[tile] + (static_cast<std::uint32_t>(extra) - pieces[tile]) * s.piece_records;
    end = min(starts[tile + 1], begin + s.piece_records);
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
    stride_ = static_cast<std::uint32_t>(p.output_strides.row) * kBytes;
    if constexpr (Config::kVectors) ptx::pin(at_);
  }
  __device__ __forceinline__ typename Config::Row operator[](std::uint32_t query) const {
    using Row = typename Config::Row;
    // Vectors by one instruction of 32 bits: sorted.cpp sees to it that the stride fits.
    if constexpr (Config::kVectors) return Row::load_at(ptx::row_at(at_, query, stride_));
    return Row::load(p_.output_dtype, p_.grad_output, first_ + query * p_.output_strides.row);
  }

 private:
  static constexpr int kBytes = sizeof(typename ValueTraits<Config::kType>::Element);
  Params const& p_;
  std::int64_t first_;  // element
  const char* at_;
  std::uint32_t stride_;  // bytes
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
    float4 weights[Config::kInFlight];
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
      if (r + j < end) weights[j] = shared.weights[r + j];
    }
#pragma unroll
    for (int j = 0; j < Config::kInFlight; ++j) {
      if (r + j < end) add_record<Config>(sums, weights[j], row[j]);
    }
  }
}

// Neighbouring lanes store neighbouring quads; of two slots one begins with the lower channels and
// one with the upper, so that they meet different banks.
template <class Config>
__device__ __forceinline__ void store_sums(float4 (&to)[4][Config::kQuads], bool more,
                                           float const (&sums)[4][kChannelsOfLane]) {
  int const lane = lane_of() % Config::kLanes;
  bool const turn = lane_of() / Config::kLanes % 2 != 0;
  int const quads[2] = {lane + (turn ? Config::kLanes : 0), lane + (turn ? 0 : Config::kLanes)};
#pragma unroll
  for (int corner = 0; corner < 4; ++corner) {
    float const(&x)[kChannelsOfLane] = sums[corner];
    float4 const lower = make_float4(x[0], x[1], x[2], x[3]);
    float4 const upper = make_float4(x[4], x[5], x[6], x[7]);
    float4 parts[2] = {turn ? upper : lower, turn ? lower : upper};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (more) add(parts[i], to[corner][quads[i]]);
      to[corner][quads[i]] = parts[i];
    }
  }
}

// A warp's slots take neighbouring lists. Lists of one cell are added up in a fixed order; what a
// second or later warp has of a cell goes to a place of its own.
template <class Config>
__device__ __forceinline__ void add_lists(SumStorage<Config>& shared, GradRows<Config> const& rows,
                                          bool more) {
  constexpr int kSlots = Config::kWarpSlots;
  int const groups = static_cast<int>(shared.list_count + kSlots - 1) / kSlots;
  for (int base = 0; base < groups; base += kSumWarps) {
    // There and back, so that no warp has the longer lists every time.
    int const group = base + (base / kSumWarps % 2 == 0 ? warp_of() : kSumWarps - 1 - warp_of());
    if (group >= groups) continue;
    List const list = shared.lists[group * kSlots + lane_of() / Config::kLanes];
    int const records = shared.first[list.cell];
    int const count = shared.first[list.cell + 1] - records;
    int const first = records + (count * list.index >> list.log_lists);
    int const end = records + (count * (list.index + 1) >> list.log_lists);
    float sums[4][kChannelsOfLane] = {};
    if (list.is_there != 0 && rows.has_channels) add_records(shared, rows, first, end, sums);
    __syncwarp();
    int const lists = min(1 << list.log_lists, kSlots);
    int const most = __shfl_sync(kAllLanes, lists, 0);  // the first has most
    for (int distance = 1; distance < most; distance *= 2) {
#pragma unroll
      for (int corner = 0; corner < 4; ++corner) {
#pragma unroll
        for (int c = 0; c < kChannelsOfLane; ++c) {
          float const other =
              __shfl_xor_sync(kAllLanes, sums[corner][c], distance * Config::kLanes);
          if (distance < lists) sums[corner][c] += other;
        }
      }
    }
    if (list.is_there == 0 || list.index % lists != 0) continue;
    bool const is_extra = list.index >= kSlots;
    store_sums<Config>(shared.sums[is_extra ? kMaxCells + group - 1 : list.cell], more && !is_extra,
                       sums);
  }
}

// Sums of the second and later warps of a cell to those of the first.
template <class Config>
__device__ __forceinline__ void add_extra_sums(SumStorage<Config>& shared) {
  for (int group = 1; group <= kExtraSums; ++group) {
    int const first = group * Config::kWarpSlots;
    if (first >= static_cast<int>(shared.list_count)) break;
    List const list = shared.lists[first];
    if (list.index < Config::kWarpSlots) continue;
    for (int i = static_cast<int>(threadIdx.x); i < 4 * Config::kQuads; i += kSumThreads) {
      add((&shared.sums[list.cell][0][0])[i], (&shared.sums[kMaxCells + group - 1][0][0])[i]);
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
__device__ __forceinline__ float4 sum_of_pixel(SumStorage<Config> const& shared,
                                               TileLevel const& level,
                                               PixelQuad<Config> const& at) {
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  // The pixel is the last corner of the first of its cells.
#pragma unroll
  for (int corner = 3; corner >= 0; --corner) {
    int const cell_x = at.x - (corner & 1);
    int const cell_y = at.y - (corner >> 1);
    if (cell_x < 0 || cell_y < 0 || cell_x >= level.tile_width || cell_y >= level.tile_height) {
      continue;
    }
    add(sum, shared.sums[cell_y * level.tile_width + cell_x][corner][at.quad]);
  }
  return sum;
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
    PixelQuad<Config> const at_pixel(level, i);
    auto const [quad, pixel, x, y] = at_pixel;
    bool const is_on_map =
        left + x >= 0 && top + y >= 0 && left + x < level.width && top + y < level.height;
    std::int64_t const d = piece.slice * kMaxSlice + channel_of_quad<Config>(quad);
    if (!is_on_map || d >= p.head_dim) continue;
    float4 const sum = sum_of_pixel(shared, level, at_pixel);
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
static __global__ void __launch_bounds__(kSumThreads, Config::kVectors ? kSumBlocks : 1)
    sum_tiles(const __grid_constant__ Params p, const __grid_constant__ ValueParams s) {
  MSDA_DYNAMIC_SHARED(storage);
  auto& shared = *reinterpret_cast<SumStorage<Config>*>(storage);
  ptx::wait_for_previous_grid();
  Piece const piece(s);
  if (!piece.is_there) return;
  TileLevel const& level = level_of_tile(s, piece.tile);
  int const cells = level.tile_width * level.tile_height;
  GradRows<Config> const rows(p, s, piece);
  auto* const sums = &shared.sums[0][0][0];
  for (int i = static_cast<int>(threadIdx.x); i < cells * 4 * Config::kQuads; i += kSumThreads) {
    sums[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  // Rounds of nearly the same length.
  std::uint32_t const rounds = (piece.end - piece.begin + kRound - 1) / kRound;
  std::uint32_t const round = rounds == 0 ? 0 : (piece.end - piece.begin + rounds - 1) / rounds;
  for (std::uint32_t base = piece.begin; base < piece.end; base += round) {
    auto const count = static_cast<int>(min(piece.end - base, round));
    auto* const counters = reinterpret_cast<std::uint32_t*>(shared.counters);
    for (int i = static_cast<int>(threadIdx.x); i < kSumWarps * kMaxCells / 2; i += kSumThreads) {
      counters[i] = 0;
    }
    __syncthreads();
    Ranked ranked[kRoundOfThread];
    rank_records<Config>(shared, s.records + piece.head * s.points + base, count, level.tile_width,
                         ranked);
    __syncthreads();
    if (warp_of() == 0) find_places<Config>(shared);
    if (warp_of() == 1) make_lists<Config>(shared);
    __syncthreads();
    place_records<Config>(shared, ranked);
    __syncthreads();
    add_lists<Config>(shared, rows, base != piece.begin);
    __syncthreads();
    add_extra_sums<Config>(shared);
  }
  __syncthreads();
  store_pixels<Config>(p, s, shared, piece, level);
}

}  // namespace msda::sorted
