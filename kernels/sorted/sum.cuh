// Sums over a tile's records: the terms that the head's gradient of the values gets from each of
// its cells.
//
// A block takes a tile, or a part of a long one, and 32 channels. It works in rounds of kRound
// records:
//
//   map, rank, order, store   sum_lists.cuh
//   add                       a slot of lanes a list: rows of grad_output times the four corner
//                             weights, in float32 registers; then lists to shared memory
//
// where the sums of pixels are in shared memory, corner after corner. A record costs a slot LDS.128
// and LDS for weights and query, 16 bytes of grad_output a lane, 8 conversions and 32
// multiply-adds; for 32 points of D = 32 a round takes 638 instructions in all. NaN reaches a
// point's corners alone. Ranks, lists and cells cost a tile some thousand instructions whatever its
// records, so that a tile of few records is summed record by record.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/sorted/sum_lists.cuh"

namespace msda::sorted {

template <ValueType kRowType, bool kIsVectors, int kSlotLanes>
struct SumConfig {
  static constexpr ValueType kType = kRowType;
  static constexpr bool kVectors = kIsVectors;
  static constexpr int kLanes = kSlotLanes;
  static constexpr int kWarpSlots = kWarp / kLanes;
  static constexpr int kQuads = kLanes * kChannelsOfLane / 4;
  using Row = Channels<kType, kVectors ? Loads::vectors : Loads::any>;
  static constexpr int kInFlight = Row::kNarrow ? 4 : 2;  // rows of grad_output, of a slot
  static_assert(kLanes <= kMaxSliceLanes && (kLanes & (kLanes - 1)) == 0,
                "a slot is 1, 2 or 4 lanes");
};

static_assert(sizeof(SumStorage<SumConfig<ValueType::f32, true, kMaxSliceLanes>>) <=
                  kMinSharedBytes,
              "the largest storage fits every GPU that the family takes");

// ---- lists

// The rows of grad_output of one head, from the lane's first channel on.
template <class Config>
class GradRows {
 public:
  bool has_channels;

  __device__ __forceinline__ GradRows(Params const& p, ValueParams const& s, TilePart const& part)
      : p_(p) {
    HeadIndex const index(p, s, part.head);
    std::int64_t const d = part.slice * kMaxSlice + threadIdx.x % Config::kLanes * kChannelsOfLane;
    has_channels = d < p.head_dim;
    first_ = p.output_strides.at(index.b, 0, index.m) + d;
    at_ = static_cast<const char*>(p.grad_output) + first_ * kBytes;
    row_vecs_ = static_cast<std::uint32_t>(p.output_strides.row * kBytes / kVecBytes);
    if constexpr (Config::kVectors) ptx::pin(at_);
  }
  // The row of a query, as operator[] takes it: counted in vecs where rows are vectors, which
  // row_vecs_fit() allows, else the query.
  __device__ __forceinline__ std::uint32_t row_of(std::uint32_t query) const {
    return Config::kVectors ? query * row_vecs_ : query;
  }
  __device__ __forceinline__ typename Config::Row operator[](std::uint32_t row) const {
    using Row = typename Config::Row;
    if constexpr (Config::kVectors) return Row::load_at(ptx::row_at(at_, row, kVecBytes));
    return Row::load(p_.output_dtype, p_.grad_output, first_ + row * p_.output_strides.row);
  }

 private:
  static constexpr int kBytes = sizeof(typename ValueTraits<Config::kType>::Element);
  Params const& p_;
  std::int64_t first_;  // element
  const char* at_;
  std::uint32_t row_vecs_;  // from row to row
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

// Adds up records `first` to `end` of a list.
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
// neighbouring quads; every second slot begins with the upper channels, so that slots side by side
// meet different banks.
template <class Config>
__device__ __forceinline__ void add_corner(float4 (&to)[Config::kQuads], int swizzle, bool adds,
                                           float const (&x)[kChannelsOfLane]) {
  int const lane = (lane_of() % Config::kLanes) ^ swizzle;
  bool const swaps = lane_of() / Config::kLanes % 2 != 0;
  int const quads[2] = {lane + (swaps ? Config::kLanes : 0), lane + (swaps ? 0 : Config::kLanes)};
  float4 const lower = make_float4(x[0], x[1], x[2], x[3]);
  float4 const upper = make_float4(x[4], x[5], x[6], x[7]);
  float4 terms[2] = {swaps ? upper : lower, swaps ? lower : upper};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (adds) add(terms[i], to[quads[i]]);
    to[quads[i]] = terms[i];
  }
}

// Adds up the lists of one cell that a warp has, in a fixed order: the first slot gets the sum.
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

// Adds up all lists; a warp's slots take neighbouring ones. All cells' first corners go to their
// pixels, then all second ones: two cells have no pixel in common for the same corner. The sums
// that a second or later warp has of a cell go to extra_sums.
template <class Config>
__device__ __forceinline__ void add_lists(SumStorage<Config>& shared,
                                          GradRows<Config> const& rows) {
  constexpr int kSlots = Config::kWarpSlots;
  for (int base = 0; base * kSlots < static_cast<int>(shared.list_count); base += kSumWarps) {
    int const lists_of_warp = base + warp_of();
    CellList const list = cell_list_at(shared, lists_of_warp * kSlots + lane_of() / Config::kLanes);
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
      auto& to = is_extra ? shared.extra_sums[lists_of_warp - 1][corner]
                          : shared.sums[corner_y * kPixelsAcross + corner_x];
      if (is_there) {
        add_corner<Config>(to, swizzle_of_pixel<Config>(corner_x, corner_y), !is_extra,
                           sums[corner]);
      }
    }
  }
}

// Adds extra_sums to the pixels of their cells. One warp, a lane a quad of a corner.
template <class Config>
__device__ __forceinline__ void add_extra_sums(SumStorage<Config>& shared) {
  static_assert(4 * Config::kQuads <= kWarp, "a warp has a lane for each quad of four corners");
  int const corner = lane_of() / Config::kQuads;
  int const quad = lane_of() % Config::kQuads;
  for (int extra = 0; extra < kExtraSums; ++extra) {
    int const first = (extra + 1) * Config::kWarpSlots;
    if (first >= static_cast<int>(shared.list_count)) break;
    CellList const list = cell_list_at(shared, first);
    if (list.index < Config::kWarpSlots) continue;
    int const x = list.cell % kCellsAcross + (corner & 1);
    int const y = list.cell / kCellsAcross + (corner >> 1);
    if (corner < 4) {
      add(shared.sums[y * kPixelsAcross + x][quad], shared.extra_sums[extra][corner][quad]);
    }
    __syncwarp();
  }
}

// ---- few records

template <class Config>
__device__ __forceinline__ float grad_element(Params const& p, std::int64_t at) {
  if constexpr (!Config::kVectors) return load_element<float>(p.output_dtype, p.grad_output, at);
  using Element = typename ValueTraits<Config::kType>::Element;
  return convert<float>(static_cast<const Element*>(p.grad_output)[at]);
}

// Sums a tile of few records: a warp takes 8 channels and adds record after record to the four
// pixels of each in shared memory; a lane has one corner and one channel. All threads of the block,
// once the sums are zero. Records are stored where those of a round would be; `first` has the quads
// of their first pixels, times four, and the swizzle of these.
template <class Config>
__device__ __forceinline__ void add_few_records(Params const& p, ValueParams const& s,
                                                SumStorage<Config>& shared, TilePart const& part) {
  constexpr int kInFlight = 16;
  static_assert(kFewRecords <= kMaxCells, "`first` has room for the records");
  static_assert(kSumWarps >= kMaxSliceLanes, "there is a warp for each lane of a slot");
  static_assert(kMaxTilePixels * Config::kQuads * 4 <= 0x10000, "quads times four fit 16 bits");
  auto const count = static_cast<int>(part.end - part.begin);
  auto const i = static_cast<int>(threadIdx.x);
  map_segments(s, shared, part, part.begin, count);
  __syncthreads();
  std::uint32_t record_index = 0;
  if (i < count) record_index = record_of_round(shared, 0);
  __syncwarp();  // queries are stored where offsets are
  if (i < count) {
    TileRecord const record = part.records(s)[record_index];
    auto const x = static_cast<int>(record.x >> 24);
    auto const y = static_cast<int>(record.y >> 24);
    shared.weights[i] = corner_weights(record);
    shared.queries[i] = record.query;
    shared.first[i] = static_cast<std::uint16_t>((y * kPixelsAcross + x) * Config::kQuads * 4 +
                                                 swizzle_of_pixel<Config>(x, y));
  }
  __syncthreads();
  int const slot_lane = warp_of();  // whose channels the warp takes
  int const channel = lane_of() % kChannelsOfLane;
  std::int64_t const d = part.slice * kMaxSlice + slot_lane * kChannelsOfLane + channel;
  if (slot_lane >= Config::kLanes || d >= p.head_dim) return;
  int const corner = lane_of() / kChannelsOfLane;
  HeadIndex const index(p, s, part.head);
  std::int64_t const first = p.output_strides.at(index.b, 0, index.m) + d;
  float4* const pixel = shared.sums[(corner >> 1) * kPixelsAcross + (corner & 1)];
  float* const sums = &pixel[channel / 4 * Config::kLanes].x + channel % 4;
  const float* const weights = &shared.weights[0].x + corner;
  for (int base = 0; base < count; base += kInFlight) {
    float grads[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (base + j >= count) continue;
      grads[j] = grad_element<Config>(p, first + shared.queries[base + j] * p.output_strides.row);
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (base + j >= count) continue;
      int const quad = shared.first[base + j];
      int const swizzled = (quad ^ corner ^ slot_lane) & (Config::kLanes - 1);
      float& sum = sums[(quad / 4 + swizzled) * 4];
      sum = fmaf(weights[4 * (base + j)], grads[j], sum);
      __syncwarp();  // the next record may have the same pixels as other corners
    }
  }
}

// ---- results

// A tile's pixels as a block's threads store them: a quad of channels each.
template <class Config>
class BlockPixels {
 public:
  static constexpr int kThreads = kSumThreads;

  __device__ __forceinline__ explicit BlockPixels(SumStorage<Config> const& shared)
      : shared_(shared) {}
  __device__ __forceinline__ static int thread() { return static_cast<int>(threadIdx.x); }
  // The first channel of a quad, from the slice's first on.
  __device__ __forceinline__ static int channel(int quad) {
    return quad % Config::kLanes * kChannelsOfLane + quad / Config::kLanes * 4;
  }
  __device__ __forceinline__ float4 operator()(int x, int y, int quad) const {
    return sum_of_pixel(shared_, x, y, quad);
  }

 private:
  SumStorage<Config> const& shared_;
};

// Threads of neighbouring quads store a pixel, all threads this many pixels at a time.
template <class Config, class Pixels>
inline constexpr int kPixelsAtOnce = Pixels::kThreads / Config::kQuads;
template <class Config, class Pixels>
__device__ __forceinline__ int first_pixel() {
  return Pixels::thread() / Config::kQuads;
}

// Pixel `i` on the border of a tile; border_index() is its inverse.
__device__ __forceinline__ int2 border_pixel(int width, int height, int i) {
  int const across = width + 1;
  int const side = i - 2 * across;
  if (side >= 0) return {(side & 1) != 0 ? width : 0, 1 + (side >> 1)};
  return {i < across ? i : i - across, i < across ? 0 : height};
}

template <class Config, class Pixels>
__device__ __forceinline__ void store_border(Params const& p, ValueParams const& s,
                                             Pixels const& pixels, TilePart const& part,
                                             TileLevel const& level, int quad, int d) {
  int const width = level.tile_width;
  int const height = level.tile_height;
  int const head_dim = static_cast<int>(p.head_dim);
  float* const to = border_of(p, s, level, part.head, part.tile) + d;
  for (int i = first_pixel<Config, Pixels>(); i < 2 * (width + height);
       i += kPixelsAtOnce<Config, Pixels>) {
    int2 const at = border_pixel(width, height, i);
    *reinterpret_cast<float4*>(to + i * head_dim) = pixels(at.x, at.y, quad);
  }
}

// Stores the pixels that no other tile has. A row is as many threads wide as it can have pixels, or
// less where there are not so many threads.
template <class Config, class Pixels>
__device__ __forceinline__ void store_inner(Params const& p, ValueParams const& s,
                                            Pixels const& pixels, TilePart const& part,
                                            TileLevel const& level, int quad, int d) {
  constexpr int kAcross = kPixelsAtOnce<Config, Pixels> < 8 ? kPixelsAtOnce<Config, Pixels> : 8;
  constexpr int kRows = kPixelsAtOnce<Config, Pixels> / kAcross;
  constexpr int kInRow = (kMaxTileSide - 1 + kAcross - 1) / kAcross;  // of a thread
  int const slot = first_pixel<Config, Pixels>();
  std::int32_t const in_level = part.tile - level.first_tile;
  std::int32_t const tile_y = in_level / level.tiles_across;
  std::int32_t const left = (in_level - tile_y * level.tiles_across) * level.tile_width - 1;
  std::int32_t const top = tile_y * level.tile_height - 1;
  int const x = 1 + slot % kAcross;
  int y = 1 + slot / kAcross;
  int const width = min(level.tile_width, level.width - left);
  if (x >= width) return;
  int const end = min(level.tile_height, level.height - top);
  std::int64_t at = value_element(p, s, level, part.head, left + x, top + y) + d;
  std::int64_t const rows_stride = kRows * level.row_tokens * p.head_count * p.head_dim;
  for (; y < end; y += kRows) {
    store_four(p.grad_value_dtype, p.grad_value, at, pixels(x, y, quad), s.aligned_result);
    if constexpr (kInRow > 1) {
#pragma unroll
      for (int i = 1; i < kInRow; ++i) {
        if (x + i * kAcross >= width) continue;
        store_four(p.grad_value_dtype, p.grad_value, at + i * kAcross * p.head_count * p.head_dim,
                   pixels(x + i * kAcross, y, quad), s.aligned_result);
      }
    }
    at += rows_stride;
  }
}

template <class Config, class Pixels>
__device__ __forceinline__ void store_part(Params const& p, ValueParams const& s,
                                           Pixels const& sums, TilePart const& part,
                                           TileLevel const& level, int quad, int d) {
  int const across = level.tile_width + 1;
  int const pixels = across * (level.tile_height + 1);
  for (int i = first_pixel<Config, Pixels>(); i < pixels; i += kPixelsAtOnce<Config, Pixels>) {
    int const y = static_cast<int>(__umulhi(static_cast<std::uint32_t>(i), level.by_pixels));
    int const x = i - y * across;
    float* const to = part_pixel(p, s, level, part.head, part.index, x, y) + d;
    *reinterpret_cast<float4*>(to) = sums(x, y, quad);
  }
}

// Stores the sums of a tile or a part, by all threads that have some.
template <class Config, class Pixels>
__device__ __forceinline__ void store_pixels(Params const& p, ValueParams const& s,
                                             Pixels const& pixels, TilePart const& part,
                                             TileLevel const& level) {
  int const quad = Pixels::thread() % Config::kQuads;
  int const d = part.slice * kMaxSlice + Pixels::channel(quad);
  if (d >= p.head_dim) return;
  if (part.index >= 0) return store_part<Config>(p, s, pixels, part, level, quad, d);
  store_border<Config>(p, s, pixels, part, level, quad, d);
  store_inner<Config>(p, s, pixels, part, level, quad, d);
}

// ---- the kernel

// Adds the part's records to the pixels in rounds.
template <class Config>
__device__ __forceinline__ void add_rounds(Params const& p, ValueParams const& s,
                                           SumStorage<Config>& shared, TilePart const& part) {
  GradRows<Config> const rows(p, s, part);
  // Rounds of nearly the same length.
  std::uint32_t round = part.end - part.begin;
  if (round > kRound) {
    std::uint32_t const rounds = (round + kRound - 1) / kRound;
    round = (round + rounds - 1) / rounds;
  }
  for (std::uint32_t base = part.begin; base < part.end; base += round) {
    auto const count = static_cast<int>(min(part.end - base, round));
    TileRecord ranked[kRoundOfThread] = {};
    map_segments(s, shared, part, base, count);
    __syncthreads();
    rank_records<Config>(
        shared, part.records(s), [&](int word) { return record_of_round(shared, word); }, count,
        ranked);
    __syncthreads();
    clear_segments(shared);
    find_record_starts<Config>(shared);
    store_records<Config>(shared, ranked, [&](std::uint32_t query) { return rows.row_of(query); });
    if (is_list_warp()) make_cell_lists<Config>(shared);
    __syncthreads();
    add_lists<Config>(shared, rows);
    __syncthreads();
    if (warp_of() == 0) add_extra_sums<Config>(shared);
  }
}

// Clears the sums, while the list of the part's tile is on its way.
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

// Sums a tile or a part once the sums are clear. All threads of the block.
template <class Config>
__device__ __forceinline__ void sum_part(Params const& p, ValueParams const& s,
                                         SumStorage<Config>& shared, TilePart const& part) {
  TileLevel const& level = level_of_tile(s, part.tile);
  __syncthreads();
  if (part.end - part.begin <= kFewRecords) {
    add_few_records<Config>(p, s, shared, part);
  } else {
    add_rounds<Config>(p, s, shared, part);
  }
  __syncthreads();
  store_pixels<Config>(p, s, BlockPixels<Config>(shared), part, level);
}

template <class Config>
static __global__ void __launch_bounds__(kSumThreads, Config::kVectors ? kSumBlocks : 1)
    sum_tiles(const __grid_constant__ Params p, const __grid_constant__ ValueParams s) {
  MSDA_DYNAMIC_SHARED(storage);
  auto& shared = *reinterpret_cast<SumStorage<Config>*>(storage);
  ptx::wait_for_previous_grid();
  SumBlock const block(s);
  TilePart part;
  if (block.index < s.max_parts) {
    part.set_part(s, block);
  } else {
    std::int32_t const tile = block.index - s.max_parts;
    part.set_tile(s, block, s.last_tiles_first ? s.tiles - 1 - tile : tile);
  }
  clear_sums<Config>(shared);
  if (part.is_there) sum_part<Config>(p, s, shared, part);
}

}  // namespace msda::sorted
