// What a block of sum_tiles.cuh sums.
#pragma once

#include "kernels/sorted/warps.cuh"

namespace msda::sorted {

// A block's head and slice of channels, and its number among the blocks of these: pieces of long
// tiles first, then tiles from the last on, so that what takes longest begins first.
struct SumBlock {
  std::int32_t head;  // of the run
  std::int32_t slice;
  std::int32_t index;

  __device__ explicit SumBlock(ValueParams const& s) : slice(0) {
    auto const blocks = static_cast<std::uint32_t>(s.max_pieces + s.sum_blocks);
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

// A tile, or a part of a long one, and 32 channels.
struct Piece {
  std::int32_t head;  // of the run
  std::int32_t slice;
  std::int32_t tile;
  std::uint32_t begin;  // records of the head's list
  std::uint32_t end;
  std::int32_t extra;  // index among the pieces of the head, or -1: the tile is one piece
  bool is_there;

  // A tile, if it is not in pieces.
  __device__ __forceinline__ void set_tile(ValueParams const& s, SumBlock const& block,
                                           std::int32_t of_head) {
    set_block(block);
    const std::uint32_t* const pieces = s.pieces + std::int64_t{head} * (s.tiles + 1);
    const std::uint32_t* const starts = s.starts + std::int64_t{head} * (s.tiles + 1);
    extra = -1;
    tile = of_head;
    is_there = pieces[tile + 1] == pieces[tile];
    begin = starts[tile];
    end = starts[tile + 1];
  }
  // That of the block's number.
  __device__ __forceinline__ void set_piece(ValueParams const& s, SumBlock const& block) {
    set_block(block);
    const std::uint32_t* const pieces = s.pieces + std::int64_t{head} * (s.tiles + 1);
    const std::uint32_t* const starts = s.starts + std::int64_t{head} * (s.tiles + 1);
    extra = block.index;
    is_there = static_cast<std::uint32_t>(extra) < pieces[s.tiles];
    if (!is_there) return;
    tile = tile_of(pieces, s.tiles, static_cast<std::uint32_t>(extra));
    begin = starts[tile] + (static_cast<std::uint32_t>(extra) - pieces[tile]) * s.piece_records;
    end = min(starts[tile + 1], begin + s.piece_records);
  }

 private:
  __device__ __forceinline__ void set_block(SumBlock const& block) {
    head = block.head;
    slice = block.slice;
  }
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

}  // namespace msda::sorted
