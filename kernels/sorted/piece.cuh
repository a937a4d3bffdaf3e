// What a block of sum_tiles.cuh sums.
#pragma once

#include "kernels/sorted/warps.cuh"

namespace msda::sorted {

// A block's head and slice of channels, and its number among the blocks of these: pieces of long
// tiles first, then tiles in the order of sums, so that what takes longest begins first.
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
  std::uint32_t begin;  // records of the tile's list
  std::uint32_t end;
  std::uint32_t segment_count;  // of the tile
  std::int32_t extra;           // index among the pieces of the head, or -1: the tile is one piece
  bool is_there;

  // A tile, if it is not in pieces.
  __device__ __forceinline__ void set_tile(ValueParams const& s, SumBlock const& block,
                                           std::int32_t of_head) {
    tile = of_head;
    TileList const list = set_list(s, block);
    extra = -1;
    is_there = list.pieces == 0;
    begin = 0;
    end = list.records;
  }
  // That of the block's number.
  __device__ __forceinline__ void set_piece(ValueParams const& s, SumBlock const& block) {
    extra = block.index;
    is_there = static_cast<std::uint32_t>(extra) < s.piece_counts[block.head];
    if (!is_there) return;
    tile = s.piece_tiles[std::int64_t{block.head} * s.max_pieces + extra];
    TileList const list = set_list(s, block);
    begin = (static_cast<std::uint32_t>(extra) - list.first_piece) * s.piece_records;
    end = min(list.records, begin + s.piece_records);
  }
  // Of the tile.
  __device__ __forceinline__ const Segment* segments(ValueParams const& s) const {
    return s.segments + (std::int64_t{head} * s.tiles + tile) * s.chunks;
  }
  // Of the head.
  __device__ __forceinline__ const Record* records(ValueParams const& s) const {
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

}  // namespace msda::sorted
