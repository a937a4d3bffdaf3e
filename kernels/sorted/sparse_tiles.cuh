// Sums where a level has few records in each tile, as in decoders: a block takes four of its tiles,
// a warp a tile, and adds record after record to the four pixels of each in shared memory, with 32
// rows of grad_output under way at once. No warp waits for another, and an SM has 16 tiles under
// way, not 6. A tile with more records after all is a part (list_segments()), which a whole block
// sums, as it does a tile of any other level. On dec a sum takes 12.7 M instructions instead
// of 29.7 M.
//
// A lane has one channel, and as many corners at a time as the slice leaves lanes for. Bits are
// those of add_few_records(): a pixel's sum has the order of its records.
#pragma once

#include "kernels/sorted/sum.cuh"

namespace msda::sorted {

// A warp's storage: the sums of a tile's pixels, channel after channel, and 32 records.
template <class Config>
struct alignas(16) WarpSums {
  using Element = typename ValueTraits<Config::kType>::Element;
  static constexpr int kChannels = Config::kLanes * kChannelsOfLane;
  float sums[kMaxTilePixels][kChannels];
  float4 weights[kWarp];
  uint2 records[kWarp];                        // query, first pixel
  alignas(16) Element rows[kWarp][kChannels];  // of grad_output
};

template <class Config>
union SparseStorage {
  SumStorage<Config> of_block;
  WarpSums<Config> of_warp[kSumWarps];
};

// A tile's pixels as a warp's lanes store them: a quad of channels each.
template <class Config>
class WarpPixels {
 public:
  static constexpr int kThreads = kWarp;

  __device__ __forceinline__ explicit WarpPixels(WarpSums<Config> const& shared)
      : shared_(shared) {}
  __device__ __forceinline__ static int thread() { return lane_of(); }
  __device__ __forceinline__ static int channel(int quad) { return quad * 4; }
  __device__ __forceinline__ float4 operator()(int x, int y, int quad) const {
    return *reinterpret_cast<const float4*>(&shared_.sums[y * kPixelsAcross + x][quad * 4]);
  }

 private:
  WarpSums<Config> const& shared_;
};

// A lane's channel and its corners of a record.
template <class Config>
class WarpLane {
  using Sums = WarpSums<Config>;
  static constexpr int kCorners = kWarp / Sums::kChannels;  // that lanes side by side have
  static constexpr int kCornersOfLane = 4 / kCorners;       // corners of a lane
  static_assert(kCorners == 1 || kCorners == 2 || kCorners == 4, "lanes divide the corners");

 public:
  int channel;

  __device__ __forceinline__ explicit WarpLane(Sums& shared)
      : channel(lane_of() % Sums::kChannels),
        own_(lane_of() / Sums::kChannels),
        sums_(&shared.sums[pixel_of(own_)][channel]),
        weights_(&shared.weights[0].x + own_) {}
  // Adds record `r` to the pixels of its cell, no two of which are one.
  __device__ __forceinline__ void add(int r, std::uint32_t pixel, float grad) const {
    float* const at = sums_ + pixel * Sums::kChannels;
    float sums[kCornersOfLane];
#pragma unroll
    for (int i = 0; i < kCornersOfLane; ++i) sums[i] = at[pixel_of(i * kCorners) * Sums::kChannels];
#pragma unroll
    for (int i = 0; i < kCornersOfLane; ++i) {
      at[pixel_of(i * kCorners) * Sums::kChannels] =
          fmaf(weights_[4 * r + i * kCorners], grad, sums[i]);
    }
    if constexpr (kCorners > 1) __syncwarp();  // the next record may have them as other corners
  }

 private:
  // A corner's pixel, from the cell's first one on.
  __device__ __forceinline__ static constexpr int pixel_of(int corner) {
    return (corner >> 1) * kPixelsAcross + (corner & 1);
  }
  int own_;
  float* sums_;
  const float* weights_;
};

// The rows of grad_output of 32 records, copied to shared memory all at once.
template <class Config>
class WarpRows {
  using Sums = WarpSums<Config>;
  using Element = typename Sums::Element;
  static constexpr int kVecs = sizeof(Sums::rows[0]) / kVecBytes;  // of a row
  static constexpr int kRows = kWarp / kVecs;                      // at a time
  static_assert(kVecs * kRows == kWarp, "a warp's lanes copy whole rows");

 public:
  __device__ __forceinline__ WarpRows(Params const& p, TilePart const& part, HeadIndex const& index)
      : d_(part.slice * kMaxSlice + lane_of() % kVecs * (kVecBytes / sizeof(Element))),
        has_channels_(d_ < p.head_dim),
        from_(static_cast<const char*>(p.grad_output) +
              (p.output_strides.at(index.b, 0, index.m) + d_) * sizeof(Element)),
        stride_(static_cast<std::uint32_t>(p.output_strides.row) * sizeof(Element)) {}
  __device__ __forceinline__ void load(Sums& shared, int count) const {
    std::uint32_t const to =
        shared_address(&shared.rows) + static_cast<std::uint32_t>(lane_of() * kVecBytes);
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      int const r = i * kRows + lane_of() / kVecs;
      if (r < count && has_channels_) {
        ptx::copy_async(to + i * kWarp * kVecBytes,
                        ptx::row_at(from_, shared.records[r].x, stride_));
      }
    }
    ptx::wait_for_copies();
    __syncwarp();
  }

 private:
  std::int64_t d_;
  bool has_channels_;
  const char* from_;
  std::uint32_t stride_;
};

// Adds the records of a tile to its sums, which `clear` makes zero while the first records are on
// their way.
template <class Config, class Clear>
__device__ __forceinline__ void add_records_of_warp(Params const& p, ValueParams const& s,
                                                    WarpSums<Config>& shared, TilePart const& part,
                                                    Clear clear) {
  WarpLane<Config> const lane(shared);
  std::int64_t const d = part.slice * kMaxSlice + lane.channel;
  bool const has_channel = d < p.head_dim;
  HeadIndex const index(p, s, part.head);
  WarpRows<Config> const rows(p, part, index);
  std::int64_t const first = p.output_strides.at(index.b, 0, index.m) + d;
  const TileRecord* const records = part.records(s);
  SegmentWalk segments(s, part);
  for (std::uint32_t base = part.begin; base < part.end; base += kWarp) {
    auto const count = static_cast<int>(min(part.end - base, std::uint32_t{kWarp}));
    TileRecord record{};
    std::uint32_t const index_of_record = segments.next(base);
    if (lane_of() < count) record = records[index_of_record];
    if (base == part.begin) clear();
    __syncwarp();  // what was there has been added
    shared.weights[lane_of()] = corner_weights(record);
    shared.records[lane_of()] = {record.query, (record.y >> 24) * kPixelsAcross + (record.x >> 24)};
    __syncwarp();
    if constexpr (Config::kVectors) rows.load(shared, count);
#pragma unroll 4
    for (int r = 0; r < count; ++r) {
      uint2 const target = shared.records[r];
      float grad = 0.0f;
      if constexpr (Config::kVectors) {
        if (has_channel) grad = convert<float>(shared.rows[r][lane.channel]);
      } else {
        if (has_channel) {
          grad = grad_element<Config>(p, first + target.x * p.output_strides.row);
        }
      }
      lane.add(r, target.y, grad);
    }
  }
}

// Sums a tile by one warp.
template <class Config>
__device__ __forceinline__ void sum_sparse_tile(Params const& p, ValueParams const& s,
                                                WarpSums<Config>& shared, TilePart const& part,
                                                TileLevel const& level) {
  constexpr int kQuads = kMaxTilePixels * WarpSums<Config>::kChannels / 4;
  auto const clear = [&] {
    auto* const quads = reinterpret_cast<float4*>(&shared.sums[0][0]);
#pragma unroll 4
    for (int i = lane_of(); i < kQuads; i += kWarp) quads[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  };
  if (part.begin == part.end) {
    clear();
  } else {
    add_records_of_warp<Config>(p, s, shared, part, clear);
  }
  __syncwarp();
  store_pixels<Config>(p, s, WarpPixels<Config>(shared), part, level);
}

// The level of one of a head's blocks; `block` becomes its number among those of the level. Levels
// come in the order of tiles.
__device__ __forceinline__ std::int32_t level_of_block(ValueParams const& s, std::int32_t& block) {
  std::int32_t l = s.last_tiles_first ? s.level_count - 1 : 0;
  std::int32_t const next = s.last_tiles_first ? -1 : 1;
  while (block >= s.sum_levels[l].blocks) {
    block -= s.sum_levels[l].blocks;
    l += next;
  }
  return l;
}

template <class Config>
static __global__ void __launch_bounds__(kSumThreads, Config::kVectors ? kSparseBlocks : 1)
    sum_sparse_tiles(const __grid_constant__ Params p, const __grid_constant__ ValueParams s) {
  MSDA_DYNAMIC_SHARED(dynamic);
  auto& shared = *reinterpret_cast<SparseStorage<Config>*>(dynamic);
  ptx::wait_for_previous_grid();
  SumBlock const block(s);
  std::int32_t index = block.index - s.max_parts;
  TilePart part;
  if (index < 0) {
    part.set_part(s, block);
  } else {
    std::int32_t const l = level_of_block(s, index);
    SumLevel const level = s.sum_levels[l];
    std::int32_t const in_level = level.is_sparse ? index * kSumWarps + warp_of() : index;
    if (in_level >= level.tiles) return;
    part.set_tile(s, block, level.first_tile + in_level);
    if (level.is_sparse) {
      if (part.is_there) {
        sum_sparse_tile<Config>(p, s, shared.of_warp[warp_of()], part, s.levels[l]);
      }
      return;
    }
  }
  clear_sums<Config>(shared.of_block);
  if (part.is_there) sum_part<Config>(p, s, shared.of_block, part);
}

}  // namespace msda::sorted
