// Sums where a level has few records in each tile, as in decoders: a block takes four of its tiles,
// a warp a tile, and adds record after record to the four pixels of each in shared memory, 32 rows
// of grad_output on their way at once. No warp waits for another, and an SM has 16 tiles under way,
// not 6. A tile with more records after all is a piece (list_segments.cuh), which a whole block
// sums, as it does a tile of any other level.
//
// A lane has one channel, and as many corners at a time as the slice leaves lanes for. Bits are
// those of few_records.cuh: a pixel's sum has the order of its records.
#pragma once

#include "kernels/sorted/sum_tiles.cuh"

namespace msda::sorted {

// Sums of a tile's pixels, channel after channel, and what a warp knows of 32 records.
template <class Config>
struct alignas(16) WarpSums {
  using Element = typename ValueTraits<Config::kType>::Element;
  static constexpr int kChannels = Config::kLanes * kChannelsOfLane;
  float sums[kMaxTilePixels][kChannels];
  float4 weights[kWarp];
  uint2 places[kWarp];                         // query, first pixel
  alignas(16) Element rows[kWarp][kChannels];  // of grad_output
};

template <class Config>
union SparseStorage {
  SumStorage<Config> of_block;
  WarpSums<Config> of_warp[kSumWarps];
};

// What a warp's lanes have of a tile's pixels where they are stored: a quad of channels each.
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
  static constexpr int kCorners = kWarp / Sums::kChannels;  // of other lanes
  static constexpr int kTurns = 4 / kCorners;               // corners of a lane
  static_assert(kCorners == 1 || kCorners == 2 || kCorners == 4);

 public:
  int channel;

  __device__ __forceinline__ explicit WarpLane(Sums& shared)
      : channel(lane_of() % Sums::kChannels),
        own_(lane_of() / Sums::kChannels),
        sums_(&shared.sums[place(own_)][channel]),
        weights_(&shared.weights[0].x + own_) {}
  // Adds record `r` to the pixels of its cell, no two of which are one.
  __device__ __forceinline__ void add(int r, std::uint32_t pixel, float grad) const {
    float* const at = sums_ + pixel * Sums::kChannels;
    float sums[kTurns];
#pragma unroll
    for (int i = 0; i < kTurns; ++i) sums[i] = at[place(i * kCorners) * Sums::kChannels];
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      at[place(i * kCorners) * Sums::kChannels] =
          fmaf(weights_[4 * r + i * kCorners], grad, sums[i]);
    }
    if constexpr (kCorners > 1) __syncwarp();  // the next record may have them as other corners
  }

 private:
  // Of a corner beside the cell's first pixel.
  __device__ __forceinline__ static constexpr int place(int corner) {
    return (corner >> 1) * kPixelsAcross + (corner & 1);
  }
  int own_;
  float* sums_;
  const float* weights_;
};

// The rows of grad_output of 32 records, in shared memory, on their way there all at once.
template <class Config>
class WarpRows {
  using Sums = WarpSums<Config>;
  using Element = typename Sums::Element;
  static constexpr int kChunkBytes = 16;
  static constexpr int kChunks = sizeof(Sums::rows[0]) / kChunkBytes;  // of a row
  static constexpr int kRows = kWarp / kChunks;                        // at a time
  static_assert(kChunks * kRows == kWarp);

 public:
  __device__ __forceinline__ WarpRows(Params const& p, Piece const& piece, HeadIndex const& index)
      : d_(piece.slice * kMaxSlice + lane_of() % kChunks * (kChunkBytes / sizeof(Element))),
        has_channels_(d_ < p.head_dim),
        from_(static_cast<const char*>(p.grad_output) +
              (p.output_strides.at(index.b, 0, index.m) + d_) * sizeof(Element)),
        stride_(static_cast<std::uint32_t>(p.output_strides.row) * sizeof(Element)) {}
  __device__ __forceinline__ void load(Sums& shared, int count) const {
    auto const to = static_cast<std::uint32_t>(__cvta_generic_to_shared(&shared.rows)) +
                    static_cast<std::uint32_t>(lane_of() * kChunkBytes);
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      int const r = i * kRows + lane_of() / kChunks;
      if (r < count && has_channels_) {
        ptx::copy_async(to + i * kWarp * kChunkBytes,
                        ptx::row_at(from_, shared.places[r].x, stride_));
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

// The sums are zero once `clear` has been called, which is while the first records are on their
// way.
template <class Config, class Clear>
__device__ __forceinline__ void add_records_of_warp(Params const& p, ValueParams const& s,
                                                    WarpSums<Config>& shared, Piece const& piece,
                                                    Clear clear) {
  WarpLane<Config> const lane(shared);
  std::int64_t const d = piece.slice * kMaxSlice + lane.channel;
  bool const has_channel = d < p.head_dim;
  HeadIndex const index(p, s, piece.head);
  WarpRows<Config> const rows(p, piece, index);
  std::int64_t const first = p.output_strides.at(index.b, 0, index.m) + d;
  const Record* const records = piece.records(s);
  SegmentWalk segments(s, piece);
  for (std::uint32_t base = piece.begin; base < piece.end; base += kWarp) {
    auto const count = static_cast<int>(min(piece.end - base, std::uint32_t{kWarp}));
    Record record{};
    std::uint32_t const index_of_record = segments.next(base);
    if (lane_of() < count) record = records[index_of_record];
    if (base == piece.begin) clear();
    __syncwarp();  // what was there has been added
    shared.weights[lane_of()] = corner_weights(record);
    shared.places[lane_of()] = {record.query, (record.y >> 24) * kPixelsAcross + (record.x >> 24)};
    __syncwarp();
    if constexpr (Config::kVectors) rows.load(shared, count);
#pragma unroll 4
    for (int r = 0; r < count; ++r) {
      uint2 const place = shared.places[r];
      float grad = 0.0f;
      if constexpr (Config::kVectors) {
        if (has_channel) grad = convert<float>(shared.rows[r][lane.channel]);
      } else {
        if (has_channel) {
          grad = grad_element<Config>(p, first + place.x * p.output_strides.row);
        }
      }
      lane.add(r, place.y, grad);
    }
  }
}

// By one warp.
template <class Config>
__device__ __forceinline__ void sum_sparse_tile(Params const& p, ValueParams const& s,
                                                WarpSums<Config>& shared, Piece const& piece,
                                                TileLevel const& level) {
  constexpr int kQuads = kMaxTilePixels * WarpSums<Config>::kChannels / 4;
  auto const clear = [&] {
    auto* const quads = reinterpret_cast<float4*>(&shared.sums[0][0]);
#pragma unroll 4
    for (int i = lane_of(); i < kQuads; i += kWarp) quads[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  };
  if (piece.begin == piece.end) {
    clear();
  } else {
    add_records_of_warp<Config>(p, s, shared, piece, clear);
  }
  __syncwarp();
  store_pixels<Config>(p, s, WarpPixels<Config>(shared), piece, level);
}

// The level of one of a head's blocks, which becomes the number among those of the level. Levels
// come in the order of tiles where each tile has a block.
__device__ __forceinline__ std::int32_t level_of_block(ValueParams const& s, std::int32_t& block) {
  std::int32_t l = s.last_tiles_first ? s.level_count - 1 : 0;
  std::int32_t const step = s.last_tiles_first ? -1 : 1;
  while (block >= s.sum_levels[l].blocks) {
    block -= s.sum_levels[l].blocks;
    l += step;
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
  std::int32_t index = block.index - s.max_pieces;
  Piece piece;
  if (index < 0) {
    piece.set_piece(s, block);
  } else {
    std::int32_t const l = level_of_block(s, index);
    SumLevel const level = s.sum_levels[l];
    std::int32_t const in_level = level.is_sparse ? index * kSumWarps + warp_of() : index;
    if (in_level >= level.tiles) return;
    piece.set_tile(s, block, level.first_tile + in_level);
    if (level.is_sparse) {
      if (piece.is_there) {
        sum_sparse_tile<Config>(p, s, shared.of_warp[warp_of()], piece, s.levels[l]);
      }
      return;
    }
  }
  clear_sums<Config>(shared.of_block);
  if (piece.is_there) sum_piece<Config>(p, s, shared.of_block, piece);
}

}  // namespace msda::sorted
