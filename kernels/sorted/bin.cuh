// Points to records, ordered by tile and, within a tile, as they come: a stable counting sort, so
// that sums over a tile's list have the same order on every run.
//
// Two launches. bin_points() reads coordinates and weights, 12 bytes a point of F32, or computes
// them from offsets, references and logits, whose softmax a warp or a block has; it ranks a
// chunk's points with ballots and counters of each warp, orders their records by tile in shared
// memory and writes them, 16 bytes each, side by side; with them goes where the records of each
// tile begin, 2 bytes a tile and chunk. Where chunks are small, records go straight to their
// places. The records that a chunk has of a tile are a segment of the tile's list; list_segments()
// finds the segments and writes 8 bytes for each.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/points/fused.cuh"
#include "kernels/sorted/tiles.cuh"

namespace msda::sorted {

// ---- a chunk, and the counters that order it

// A block's chunk, and the range of tiles that it looks for.
struct Chunk {
  std::int64_t head;  // of the pass
  std::int64_t b, m;
  std::int32_t chunk;
  std::int32_t first_tile;
  std::int32_t tiles;

  __device__ Chunk(Params const& p, ValueParams const& s) {
    auto const chunks = static_cast<std::uint32_t>(s.chunks);
    auto const tile_ranges = static_cast<std::uint32_t>(s.tile_ranges);
    std::uint32_t const rest = quotient(blockIdx.x, chunks, s.by_chunks);
    chunk = static_cast<std::int32_t>(blockIdx.x - rest * chunks);
    std::uint32_t const of_head = quotient(rest, tile_ranges, s.by_tile_ranges);
    first_tile = static_cast<std::int32_t>(rest - of_head * tile_ranges) * s.range_tiles;
    tiles = min(s.range_tiles, s.tiles - first_tile);
    head = of_head;
    HeadIndex const index(p, s, head);
    b = index.b;
    m = index.m;
  }
  // Among the blocks of its head.
  __device__ bool is_first() const { return chunk == 0 && first_tile == 0; }
  // The begins of the range's tiles, which the block stores.
  __device__ std::uint16_t* begins(ValueParams const& s) const {
    return s.begins + (head * s.chunks + chunk) * s.begin_stride + first_tile;
  }
  // The begins that its block stores: that of the last range has one more than tiles, at least.
  __device__ std::int32_t begin_count(ValueParams const& s) const {
    return first_tile + tiles < s.tiles ? tiles : s.begin_stride - first_tile;
  }
};

// The lanes among `lanes` that have the same lowest kBits bits of `tile`, by ballots: with
// match.any, which sums rank by, bin_points() takes 13 us longer on bev-local.
template <int kBits>
__device__ __forceinline__ std::uint32_t lanes_in_same_tile(std::uint32_t lanes,
                                                            std::uint32_t tile) {
#pragma unroll
  for (int i = 0; i < kBits; i += 2) {
    // Three words are one instruction.
    std::uint32_t const first = ptx::lanes_of_bit(tile, 1u << i);
    std::uint32_t const second = i + 1 < kBits ? ptx::lanes_of_bit(tile, 2u << i) : kAllLanes;
    lanes = lanes & first & second;
  }
  return lanes;
}

// The points of the warp before this one that have the same tile, in rounds of 32: `counters` are
// the warp's own, one a tile, and `same` the lanes of this round with the tile. A point that is not
// there has the tile of some counter.
__device__ __forceinline__ std::uint32_t rank_in_tile(std::uint16_t* counters, std::uint32_t same,
                                                      bool there, std::uint32_t tile) {
  std::uint16_t& counter = counters[tile];
  std::uint32_t const before = __popc(same & lanes_before());
  std::uint32_t const earlier = counter;
  __syncwarp();
  if (there && before == 0) counter = static_cast<std::uint16_t>(earlier + __popc(same));
  __syncwarp();
  return earlier + before;
}

// The softmax of a row of logits is exp(logit - shift) times a factor.
struct alignas(8) RowPowers {
  float shift;
  float factor;  // 1 / the sum of powers

  __device__ __forceinline__ float weight(float logit) const {
    return power_of_e(logit - shift) * factor;
  }
};
static_assert(sizeof(RowPowers) * kBinThreads <= kStagedRowBytes,
              "a chunk whose records are not staged has a row a thread at most");
static_assert(sizeof(RowPowers) <= sizeof(TileRecord), "rows fit where records are staged");

// The dynamic shared memory of a block that bins.
struct Staged {
  std::uint16_t* counters;  // [kBinWarps][stride] of the tiles of the range
  TileRecord* records;      // [kChunkPoints], if they are staged
  RowPowers* rows;          // fused: [rows of a chunk], where records lie later
  std::uint32_t* sums;      // [kWarp + 1]
  std::uint32_t* earlier;   // the chunk's points in tiles of earlier ranges
  int stride;

  __device__ Staged(char* shared, ValueParams const& s)
      : counters(reinterpret_cast<std::uint16_t*>(shared)), stride(s.range_counters) {
    records = reinterpret_cast<TileRecord*>(counters + kBinWarps * stride);
    rows = reinterpret_cast<RowPowers*>(records);
    sums = reinterpret_cast<std::uint32_t*>(reinterpret_cast<char*>(records) +
                                            (s.stages_records ? kStagedBytes : kStagedRowBytes));
    earlier = sums + kWarp + 1;
  }
  __device__ std::uint16_t* of_warp() const { return counters + warp_of() * stride; }

  __device__ __forceinline__ void clear() const {
    auto* const quads = reinterpret_cast<uint4*>(counters);
    int const count = kBinWarps * stride / 8;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kBinThreads) quads[i] = {};
    if (threadIdx.x == 0) *earlier = 0;
  }
  // Turns counts of (warp, tile) into positions among the chunk's records, of which those of the
  // first warp are the begins of tiles; returns the position behind the last record. A thread takes
  // kTilesOfThread tiles, two a word: a chunk's points fit half of it.
  __device__ __forceinline__ std::uint32_t order_tiles(ValueParams const& s,
                                                       Chunk const& chunk) const {
    constexpr int kWords = kTilesOfThread / 2;
    auto* const words = reinterpret_cast<std::uint32_t*>(counters);
    int const of_warp = stride / 2;
    int const first = static_cast<int>(threadIdx.x) * kWords;
    bool const is_there = first < of_warp;
    std::uint32_t all[kWords] = {};
    std::uint32_t n = 0;
    if (is_there) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
#pragma unroll
        for (int w = 0; w < kBinWarps; ++w) all[i] += words[w * of_warp + first + i];
        n += (all[i] & 0xffffu) + (all[i] >> 16);
      }
    }
    std::uint32_t const first_record = *earlier;
    std::uint32_t at = first_record + sum_before(n, sums);
    if (is_there) {
      auto* const begins = reinterpret_cast<std::uint32_t*>(chunk.begins(s));
      bool const has_begins = 2 * first < chunk.begin_count(s);
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        std::uint32_t const second = at + (all[i] & 0xffffu);
        std::uint32_t before = second << 16 | at;
        if (has_begins) begins[first + i] = before;
        at = second + (all[i] >> 16);
#pragma unroll
        for (int w = 0; w < kBinWarps; ++w) {
          std::uint32_t& word = words[w * of_warp + first + i];
          std::uint32_t const of_this = word;
          word = before;
          before += of_this;
        }
      }
    }
    return first_record + sums[kWarp];
  }
};

// ---- where points lie

struct BinnedPoint {
  bool is_in_range;
  bool is_earlier;     // in an earlier range
  std::uint32_t tile;  // of the range
  std::uint32_t x;     // as TileRecord has it
  std::uint32_t y;
};

// Cell in the tile << 24 | fraction * 2^24.
__device__ __forceinline__ std::uint32_t record_axis(std::uint32_t cell, float fraction) {
  // Just below a pixel line the fraction may have been rounded to 1.
  auto const units = static_cast<std::uint32_t>(fraction * 16777216.0f);
  return cell << 24 | min(units, 0xffffffu);
}

// A position on an axis. One that is far away or no number has a cell beyond those of any map.
struct AxisCell {
  std::uint32_t cell;
  float fraction;
};

// kPlain: the map's side is at most kLargestPlainSide.
template <bool kPlain>
__device__ __forceinline__ AxisCell axis_cell(float x) {
  if constexpr (kPlain) {
    // From 2^23 to 2^24 the numbers are the integers: rounded down, the sum is 2^23 and the cell.
    float const sum = __fadd_rd(x, 0x1p23f + 1.0f);
    return {__float_as_uint(sum) - __float_as_uint(0x1p23f), x - (sum - (0x1p23f + 1.0f))};
  }
  float const left = floorf(x);
  bool const fits = left >= -1.0f && left <= 0x1p25f;
  return {fits ? static_cast<std::uint32_t>(static_cast<std::int32_t>(left) + 1) : ~0u, x - left};
}

// Walks over a thread's points of a chunk, kWarp from one to the next, so that a warp's points are
// neighbours. kPlain: K divides kWarp, so that all have the same k.
template <bool kPlain>
struct QueryWalk {
  std::int32_t left;  // points of the warp's part of the chunk, from this one on
  std::uint32_t q, k;

  __device__ __forceinline__ QueryWalk(Params const& p, ValueParams const& s, Chunk const& chunk) {
    auto const points = static_cast<std::uint32_t>(p.point_total);
    auto const of_warp = static_cast<std::uint32_t>(s.points_of_thread) * kWarp;
    std::uint32_t const begin =
        (static_cast<std::uint32_t>(chunk.chunk) * kBinWarps + warp_of()) * of_warp;
    std::uint32_t const point = begin + lane_of();
    left = min(static_cast<std::int32_t>(static_cast<std::uint32_t>(s.points) - point),
               static_cast<std::int32_t>(of_warp) - lane_of());
    q = kPlain ? point >> (__ffs(static_cast<int>(points)) - 1) : point / points;
    k = point - q * points;
  }
  __device__ __forceinline__ bool is_there() const { return left > 0; }
  __device__ __forceinline__ void advance(Params const& p, ValueParams const& s) {
    auto const points = static_cast<std::uint32_t>(p.point_total);
    left -= kWarp;
    q += s.query_stride;
    if (kPlain || s.point_stride == 0) return;
    k += s.point_stride;
    if (k < points) return;
    k -= points;
    ++q;
  }
};

// The places of a thread's points: their coordinates where input is sampled and coordinates are
// pairs of F32, else their positions in pixels. kPlain: all loads are under way before the first is
// waited for. kNarrow: plain offsets have 16 bits.
template <Input kInput, bool kNarrow>
class PointCoords {
  static constexpr bool kPlain = kInput != Input::any;

 public:
  __device__ __forceinline__ PointCoords(Params const& p, ValueParams const& s, Chunk const& chunk)
      : in_pixels_(kInput == Input::fused ||
                   (!kPlain &&
                    (p.reference_dim != 0 || p.coord_dtype != MSDA_DTYPE_F32 || !s.coord_pairs))) {
    QueryWalk<kPlain> walk(p, s, chunk);
    if (!kPlain && in_pixels_) {
      load_pixels(p, s, chunk, walk);
    } else if constexpr (kNarrow) {
      load_narrow_pairs(p, s, chunk, walk);
    } else {
      load_pairs(p, s, chunk, walk);
    }
    if constexpr (kInput == Input::fused) move_offsets(p, s, chunk, walk);
  }
  // The position of point `j` on a level of this size, in pixels; NaN where it is no number.
  __device__ __forceinline__ float2 pixel(int j, float width, float height) const {
    if (in_pixels_) return at_[j];
    return {to_pixel(at_[j].x, width), to_pixel(at_[j].y, height)};
  }

 private:
  __device__ __forceinline__ static float2 nowhere() {
    float const nan = __uint_as_float(0x7fc00000u);
    return {nan, nan};
  }
  __device__ __forceinline__ void load_pairs(Params const& p, ValueParams const& s,
                                             Chunk const& chunk, QueryWalk<kPlain> walk) {
    const float* const coord =
        static_cast<const float*>(p.coord) + p.coord_strides.at(chunk.b, 0, chunk.m);
    const float* at = coord + walk.q * p.coord_strides.row + 2 * std::int64_t{walk.k};
#pragma unroll
    for (int j = 0; j < kPointsOfThread; ++j) {
      at_[j] = nowhere();
      if (walk.is_there()) at_[j] = *reinterpret_cast<const float2*>(at);
      walk.advance(p, s);
      if constexpr (kPlain) {
        at += s.query_stride * p.coord_strides.row;
      } else {
        at = coord + walk.q * p.coord_strides.row + 2 * std::int64_t{walk.k};
      }
    }
  }
  __device__ __forceinline__ void load_narrow_pairs(Params const& p, ValueParams const& s,
                                                    Chunk const& chunk, QueryWalk<kPlain> walk) {
    const std::uint16_t* at = static_cast<const std::uint16_t*>(p.coord) +
                              p.coord_strides.at(chunk.b, 0, chunk.m) +
                              walk.q * p.coord_strides.row + 2 * std::int64_t{walk.k};
    std::uint32_t pairs[kPointsOfThread];
#pragma unroll
    for (int j = 0; j < kPointsOfThread; ++j) {
      pairs[j] = kNanPair;
      if (walk.is_there()) pairs[j] = *reinterpret_cast<const std::uint32_t*>(at);
      walk.advance(p, s);
      at += s.query_stride * p.coord_strides.row;
    }
#pragma unroll
    for (int j = 0; j < kPointsOfThread; ++j) at_[j] = pair_of(p.coord_dtype, pairs[j]);
  }
  // Plain offsets become positions.
  __device__ __forceinline__ void move_offsets(Params const& p, ValueParams const& s,
                                               Chunk const& chunk, QueryWalk<kPlain> walk) {
    PointLevel const level = s.point_levels[walk.k];
    bool const is_box = p.reference_dim == 4;
    std::int64_t const row = std::int64_t{p.level_count} * p.reference_dim;
    const char* at = static_cast<const char*>(p.reference) +
                     ((chunk.b * p.query_count + walk.q) * row + level.index * p.reference_dim) * 4;
    float4 references[kPointsOfThread];
#pragma unroll
    for (int j = 0; j < kPointsOfThread; ++j) {
      references[j] = {};
      if (walk.is_there()) references[j] = stream_reference(at, is_box);
      walk.advance(p, s);
      at += s.query_stride * row * 4;
    }
#pragma unroll
    for (int j = 0; j < kPointsOfThread; ++j) {
      at_[j] = fused_to_pixels(at_[j], references[j], static_cast<float>(level.width),
                               static_cast<float>(level.height), level.box_scale, is_box);
    }
  }
  __device__ __forceinline__ void load_pixels(Params const& p, ValueParams const& s,
                                              Chunk const& chunk, QueryWalk<kPlain> walk) {
    std::int64_t const first = p.coord_strides.at(chunk.b, 0, chunk.m);
#pragma unroll
    for (int j = 0; j < kPointsOfThread; ++j) {
      at_[j] = nowhere();
      if (walk.is_there()) {
        PointLevel const level = s.point_levels[walk.k];
        auto const width = static_cast<float>(level.width);
        auto const height = static_cast<float>(level.height);
        float2 const at = load_pair(p.coord_dtype, p.coord,
                                    first + walk.q * p.coord_strides.row + 2 * std::int64_t{walk.k},
                                    s.coord_pairs);
        if (p.reference_dim == 0) {
          at_[j] = {to_pixel(at.x, width), to_pixel(at.y, height)};
        } else {
          std::int64_t const query = chunk.b * p.query_count + walk.q;
          float4 const reference =
              load_reference(p, (query * p.level_count + level.index) * p.reference_dim);
          at_[j] =
              fused_to_pixels(at, reference, width, height, level.box_scale, p.reference_dim == 4);
        }
      }
      walk.advance(p, s);
    }
  }

  bool in_pixels_;
  float2 at_[kPointsOfThread];
};

// Walks over the levels of a thread's points. A level is looked up once where K divides kWarp.
template <bool kPlain>
class LevelWalk : QueryWalk<kPlain> {
 public:
  __device__ __forceinline__ LevelWalk(Params const& p, ValueParams const& s, Chunk const& chunk)
      : QueryWalk<kPlain>(p, s, chunk), p_(p), s_(s), chunk_(chunk) {
    set_level();
  }
  __device__ __forceinline__ void advance() {
    if constexpr (!kPlain) {
      QueryWalk<kPlain>::advance(p_, s_);
      if (s_.point_stride != 0) set_level();
    }
  }
  // The lanes of the warp whose points can be in the same tile as the lane's.
  __device__ __forceinline__ std::uint32_t lanes_of_level() const {
    if constexpr (!kPlain) return kAllLanes;
    return __match_any_sync(kAllLanes, first_tile_);
  }

  // The thread's point `j`, which is the one that the walk is at.
  template <class Coords>
  __device__ __forceinline__ BinnedPoint bin(Coords const& coords, int j) const {
    float2 const at = coords.pixel(j, width_, height_);
    AxisCell const across = axis_cell<kPlain>(at.x);
    AxisCell const down = axis_cell<kPlain>(at.y);
    std::uint32_t const tile_x = __umulhi(across.cell, by_width_);
    std::uint32_t const tile_y = __umulhi(down.cell, by_height_);
    std::uint32_t const tile = first_tile_ + tile_y * tiles_across_ + tile_x;
    bool const is_on_map = across.cell < cells_across_ && down.cell < cells_down_;
    return {is_on_map && tile < static_cast<std::uint32_t>(chunk_.tiles),
            is_on_map && static_cast<std::int32_t>(tile) < 0, tile,
            record_axis(across.cell - tile_x * (tile_size_ & 0xffffu), across.fraction),
            record_axis(down.cell - tile_y * (tile_size_ >> 16), down.fraction)};
  }

 private:
  __device__ __forceinline__ void set_level() {
    TileLevel const& level = s_.levels[s_.point_levels[this->k].index];
    width_ = static_cast<float>(level.width);
    height_ = static_cast<float>(level.height);
    // An empty map has no cells.
    cells_across_ = level.tiles_across == 0 ? 0 : static_cast<std::uint32_t>(level.width) + 1;
    cells_down_ = static_cast<std::uint32_t>(level.height) + 1;
    tile_size_ = static_cast<std::uint32_t>(level.tile_height << 16 | level.tile_width);
    by_width_ = level.by_width;
    by_height_ = level.by_height;
    tiles_across_ = static_cast<std::uint32_t>(level.tiles_across);
    first_tile_ = static_cast<std::uint32_t>(level.first_tile - chunk_.first_tile);
  }

  Params const& p_;
  ValueParams const& s_;
  Chunk const& chunk_;
  // The level of point k.
  float width_, height_;
  std::uint32_t cells_across_, cells_down_;
  std::uint32_t tile_size_;  // height << 16 | width
  std::uint32_t by_width_, by_height_;
  std::uint32_t tiles_across_;
  std::uint32_t first_tile_;  // less that of the range
};

// ---- weights

// Fused input of any K: finds the powers of all rows that have points of the chunk. All threads of
// the block.
__device__ __forceinline__ void find_powers(Params const& p, ValueParams const& s,
                                            Chunk const& chunk, RowPowers* rows) {
  auto const K = static_cast<std::uint32_t>(p.point_total);
  auto const chunk_points = static_cast<std::uint32_t>(s.points_of_thread) * kBinThreads;
  std::uint32_t const begin = static_cast<std::uint32_t>(chunk.chunk) * chunk_points;
  std::uint32_t const end = min(begin + chunk_points, static_cast<std::uint32_t>(s.points));
  std::uint32_t const first = begin / K, count = (end - 1) / K - first + 1;
  auto const lanes = static_cast<std::uint32_t>(lanes_of_logits(K));
  std::uint32_t const lane = threadIdx.x % lanes;
  for (std::uint32_t base = 0; base < count; base += kBinThreads / lanes) {
    std::uint32_t const row = base + threadIdx.x / lanes;
    std::int64_t const logits = p.weight_strides.at(chunk.b, first + min(row, count - 1), chunk.m);
    float largest = -INFINITY;
    for (std::uint32_t k = lane; k < K; k += lanes) {
      largest = fmaxf(largest, load_narrow(p.weight_dtype, p.weight, logits + k));
    }
    largest = largest_of_lanes(largest, static_cast<int>(lanes));
    float const shift = shift_by_largest(largest);
    float sum = 0.0f;
    for (std::uint32_t k = lane; k < K; k += lanes) {
      sum += power_of_e(load_narrow(p.weight_dtype, p.weight, logits + k) - shift);
    }
    sum = sum_of_lanes(sum, static_cast<int>(lanes));
    if (lane == 0 && row < count) rows[row] = {shift, reciprocal(sum)};
  }
}

// The weights of a thread's points, as they are in memory: their loads are under way until they are
// asked for. Of sampled input those that have a rank are loaded, of plain fused input all, since
// they are logits of rows that lie in a warp.
template <Input kInput>
class PointWeights {
  static constexpr bool kPlain = kInput != Input::any;
  static constexpr int kTogether = 4;  // points that are weighed at a time
  static_assert(kPointsOfThread % kTogether == 0);

 public:
  __device__ __forceinline__ PointWeights(Params const& p, ValueParams const& s, Chunk const& chunk,
                                          std::uint32_t const (&ranks)[kPointsOfThread],
                                          const RowPowers* rows)
      : dtype_(p.weight_dtype) {
    std::int64_t const first = p.weight_strides.at(chunk.b, 0, chunk.m);
    QueryWalk<kPlain> const walk(p, s, chunk);
    if (dtype_ == MSDA_DTYPE_F32) {
      load(p, s, static_cast<const std::uint32_t*>(p.weight) + first, walk, ranks);
    } else {
      load(p, s, static_cast<const std::uint16_t*>(p.weight) + first, walk, ranks);
    }
    if (kPlain || p.reference_dim == 0) return;
    weigh(p, s, chunk, walk, rows);
    dtype_ = MSDA_DTYPE_F32;
  }
  __device__ __forceinline__ float operator[](int j) const { return narrow_of(dtype_, bits_[j]); }
  // Plain logits become weights. All lanes of the warp.
  __device__ __forceinline__ void finish() {
    if constexpr (kInput == Input::fused) {
#pragma unroll
      for (int first = 0; first < kPointsOfThread; first += kTogether) weigh_rows(first);
      dtype_ = MSDA_DTYPE_F32;
    }
  }

 private:
  template <typename Word>
  __device__ __forceinline__ void load(Params const& p, ValueParams const& s, const Word* weights,
                                       QueryWalk<kPlain> walk,
                                       std::uint32_t const (&ranks)[kPointsOfThread]) {
    row_lanes_ = static_cast<int>(p.point_total);
    const Word* at = weights + walk.q * p.weight_strides.row + walk.k;
#pragma unroll
    for (int j = 0; j < kPointsOfThread; ++j) {
      bits_[j] = 0;
      bool const is_wanted = kInput == Input::fused ? walk.is_there() : ranks[j] != ~0u;
      if (is_wanted) bits_[j] = *at;
      walk.advance(p, s);
      if constexpr (kPlain) {
        at += s.query_stride * p.weight_strides.row;
      } else {
        at = weights + walk.q * p.weight_strides.row + walk.k;
      }
    }
  }
  // Logits of the points from number `first` on become weights.
  __device__ __forceinline__ void weigh_rows(int first) {
    float powers[kTogether], sums[kTogether], shifts[kTogether] = {};
    bool needs_shift = false;
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      powers[j] = narrow_of(dtype_, bits_[first + j]);
      needs_shift |= largest_needs_shift(powers[j]);
    }
    // A row needs a shift only if one of its logits does.
    if (__any_sync(kAllLanes, needs_shift)) {
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        shifts[j] = shift_by_largest(largest_of_lanes(powers[j], row_lanes_));
      }
    }
#pragma unroll
    for (int j = 0; j < kTogether; ++j) sums[j] = powers[j] = power_of_e(powers[j] - shifts[j]);
    sum_over_lanes(sums, row_lanes_);
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      bits_[first + j] = __float_as_uint(powers[j] * reciprocal(sums[j]));
    }
  }
  // Logits of any input become weights.
  __device__ __forceinline__ void weigh(Params const& p, ValueParams const& s, Chunk const& chunk,
                                        QueryWalk<kPlain> walk, const RowPowers* rows) {
    auto const chunk_points = static_cast<std::uint32_t>(s.points_of_thread) * kBinThreads;
    std::uint32_t const first = static_cast<std::uint32_t>(chunk.chunk) * chunk_points /
                                static_cast<std::uint32_t>(p.point_total);
#pragma unroll
    for (int j = 0; j < kPointsOfThread; ++j) {
      if (walk.is_there()) {
        float const logit = narrow_of(p.weight_dtype, bits_[j]);
        bits_[j] = __float_as_uint(rows[walk.q - first].weight(logit));
      }
      walk.advance(p, s);
    }
  }
  msda_dtype dtype_;
  int row_lanes_;
  std::uint32_t bits_[kPointsOfThread];
};

// ---- kernels

// A block bins a chunk for a range of tiles: it ranks its points within each warp and tile, turns
// the counts of warps and tiles into positions, and writes records there. Plain input is on maps of
// usual sides, and K divides kWarp; kNarrow: its offsets have 16 bits.
template <Input kInput, bool kNarrow>
static __global__ void __launch_bounds__(kBinThreads, kBinBlocks)
    bin_points(const __grid_constant__ Params p, const __grid_constant__ ValueParams s) {
  constexpr bool kPlain = kInput != Input::any;
  MSDA_DYNAMIC_SHARED(shared);
  Staged const staged(shared, s);
  Chunk const chunk(p, s);
  staged.clear();
  ptx::wait_for_previous_grid();
  if (chunk.is_first() && threadIdx.x == 0) s.part_counts[chunk.head] = 0;
  PointCoords<kInput, kNarrow> const coords(p, s, chunk);
  if (!kPlain && p.reference_dim != 0) find_powers(p, s, chunk, staged.rows);
  __syncthreads();
  std::uint16_t* const mine = staged.of_warp();
  std::uint32_t x[kPointsOfThread], y[kPointsOfThread];  // as TileRecord has them
  std::uint32_t ranks[kPointsOfThread];  // tile << 16 | rank in the warp; all ones: not here
  LevelWalk<kPlain> walk(p, s, chunk);
  std::uint32_t const lanes = walk.lanes_of_level();
  // A warp's points are neighbours, so that the order of ranks is that of points.
#pragma unroll
  for (int j = 0; j < kPointsOfThread; ++j) {
    ranks[j] = ~0u;
    if (j >= s.points_of_thread) continue;
    BinnedPoint const point = walk.bin(coords, j);
    x[j] = point.x;
    y[j] = point.y;
    walk.advance();
    if (chunk.first_tile > 0) {
      std::uint32_t const earlier = __ballot_sync(kAllLanes, point.is_earlier);
      if (lane_of() == 0) atomicAdd(staged.earlier, __popc(earlier));  // whatever the order
    }
    bool const is_there = point.is_in_range;
    std::uint32_t const tile = is_there ? point.tile : 0;
    std::uint32_t same = lanes & __ballot_sync(kAllLanes, is_there);
    same = lanes_in_same_tile<kFewTileBits>(same, tile);
    if (!kPlain || s.level_tile_bits > kFewTileBits) {
      same = lanes_in_same_tile<kTileBits - kFewTileBits>(same, tile >> kFewTileBits);
    }
    std::uint32_t const rank = rank_in_tile(mine, same, is_there, tile);
    if (is_there) ranks[j] = tile << 16 | rank;
  }
  // Under way while the tiles are ordered.
  PointWeights<kInput> weights(p, s, chunk, ranks, staged.rows);
  __syncthreads();
  std::uint32_t const end = staged.order_tiles(s, chunk);
  __syncthreads();
  weights.finish();
  // The queries are computed once more: registers for them would be too many.
  QueryWalk<kPlain> queries(p, s, chunk);
  TileRecord* const list = s.records + chunk.head * s.points +
                           std::int64_t{chunk.chunk} * s.points_of_thread * kBinThreads;
#pragma unroll
  for (int j = 0; j < kPointsOfThread; ++j) {
    if (j >= s.points_of_thread) continue;
    float const weight = weights[j];
    if (ranks[j] != ~0u) {
      std::uint32_t const tile = ranks[j] >> 16;
      std::uint32_t const at = mine[tile] + (ranks[j] & 0xffffu);
      TileRecord const record = {x[j], y[j], weight, queries.q};
      if (s.stages_records) {
        staged.records[at] = record;
      } else {
        list[at] = record;
      }
    }
    queries.advance(p, s);
  }
  if (!s.stages_records) return;
  __syncthreads();
  for (std::uint32_t i = *staged.earlier + threadIdx.x; i < end; i += kBinThreads) {
    list[i] = staged.records[i];
  }
}

// The begins and counts of one tile's records in up to kCountsOfThread chunks.
struct ChunkCounts {
  std::uint32_t words[kCountsOfThread];  // begin << 16 | count

  __device__ __forceinline__ ChunkCounts(const std::uint16_t* begins, std::int32_t stride,
                                         std::int32_t chunks) {
#pragma unroll
    for (int j = 0; j < kCountsOfThread; ++j) {
      words[j] = 0;
      if (j >= chunks) continue;
      const std::uint16_t* const at = begins + static_cast<std::int64_t>(j) * stride;
      std::uint32_t const begin = at[0];
      words[j] = begin << 16 | (at[1] - begin);
    }
  }
  __device__ __forceinline__ void add_to(TileList& list) const {
#pragma unroll
    for (int j = 0; j < kCountsOfThread; ++j) {
      list.records += words[j] & 0xffffu;
      list.segments += (words[j] & 0xffffu) != 0 ? 1 : 0;
    }
  }
  // Stores the chunks that have records as segments behind `list`, which grows by them. The first
  // chunk's records begin at `record` of the head's.
  __device__ __forceinline__ void store(Segment* segments, std::uint32_t record,
                                        std::uint32_t chunk_points, TileList& list) const {
#pragma unroll
    for (int j = 0; j < kCountsOfThread; ++j) {
      std::uint32_t const count = words[j] & 0xffffu;
      if (count != 0) {
        segments[list.segments++] = {record + (words[j] >> 16) - list.records,
                                     list.records + count};
      }
      list.records += count;
      record += chunk_points;
    }
  }
};

// Whether a warp would sum the tile, if it had few records.
__device__ __forceinline__ bool is_of_sparse_level(ValueParams const& s, std::int64_t tile) {
  std::int32_t l = 0;
  while (tile >= s.sum_levels[l].first_tile + s.sum_levels[l].tiles) ++l;
  return s.sum_levels[l].is_sparse;
}

// The parts of a tile that is summed in parts, else 0. All but its last have `most` records.
__device__ __forceinline__ std::uint32_t parts_of(ValueParams const& s, std::int64_t tile,
                                                  std::uint32_t records, std::uint32_t most) {
  bool const is_cut = records > most || (s.sum_blocks < s.tiles && records > kFewOfWarp &&
                                         is_of_sparse_level(s, tile));
  return is_cut ? (records - 1) / most + 1 : 0;
}

// A lane takes a tile, each of the kListWarps warps as many chunks. Counts of a warp's first chunks
// stay in registers between the two walks over them: one sums up, the other stores.
static __global__ void __launch_bounds__(kListWarps* kWarp, 5)
    list_segments(const __grid_constant__ ValueParams s) {
  MSDA_SHARED(uint2, sums, [kListWarps][kWarp]);
  ptx::wait_for_previous_grid();
  auto const head_blocks = (static_cast<std::uint32_t>(s.tiles) + kWarp - 1) / kWarp;
  std::int64_t const head = blockIdx.x / head_blocks;
  auto const tile = static_cast<std::int32_t>(blockIdx.x % head_blocks * kWarp) + lane_of();
  bool const is_there = tile < s.tiles;
  std::int64_t const of_head = head * s.tiles + (is_there ? tile : 0);
  std::int32_t const of_warp = (s.chunks + kListWarps - 1) / kListWarps;
  std::int32_t const first = min(warp_of() * of_warp, s.chunks);
  std::int32_t const chunks = is_there ? min(of_warp, s.chunks - first) : 0;
  const std::uint16_t* const begins =
      s.begins + (head * s.chunks + first) * s.begin_stride + (is_there ? tile : 0);
  std::int64_t const stride = std::int64_t{kCountsOfThread} * s.begin_stride;
  ChunkCounts const first_counts(begins, s.begin_stride, chunks);
  TileList list{};
  first_counts.add_to(list);
  const std::uint16_t* at = begins;
  for (std::int32_t left = chunks - kCountsOfThread; left > 0; left -= kCountsOfThread) {
    at += stride;
    ChunkCounts(at, s.begin_stride, left).add_to(list);
  }
  sums[warp_of()][lane_of()] = {list.records, list.segments};
  __syncthreads();
  TileList before{};
  for (int warp = 0; warp < warp_of(); ++warp) {
    before.records += sums[warp][lane_of()].x;
    before.segments += sums[warp][lane_of()].y;
  }
  Segment* const segments = s.segments + of_head * s.chunks;
  auto const chunk_points = static_cast<std::uint32_t>(s.points_of_thread * kBinThreads);
  auto record = static_cast<std::uint32_t>(first) * chunk_points;
  first_counts.store(segments, record, chunk_points, before);
  at = begins;
  for (std::int32_t left = chunks - kCountsOfThread; left > 0; left -= kCountsOfThread) {
    at += stride;
    record += kCountsOfThread * chunk_points;
    ChunkCounts(at, s.begin_stride, left).store(segments, record, chunk_points, before);
  }
  if (!is_there || warp_of() != kListWarps - 1) return;
  before.parts = parts_of(s, tile, before.records, static_cast<std::uint32_t>(s.part_records));
  if (before.parts > 0) {
    before.first_part = atomicAdd(&s.part_counts[head], before.parts);  // any numbers do
    std::int32_t* const tiles = s.part_tiles + head * s.max_parts + before.first_part;
    for (std::uint32_t i = 0; i < before.parts; ++i) tiles[i] = tile;
  }
  s.lists[of_head] = before;
}

}  // namespace msda::sorted
