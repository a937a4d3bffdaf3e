// What a block of sum_tiles.cuh sums.
#pragma once

#include "kernels/sorted/warps.cuh"

namespace msda::sorted {

// A tile, or a part of a long one, and 32 channels.
struct Piece {
  std::int32_t head;  // of the run
  std::int32_t slice;
  std::int32_t tile;
  std::uint32_t begin;  // records of the head's list
  std::uint32_t end;
  std::int32_t extra;  // index among the pieces of the head, or -1: the tile is one piece
  bool is_there;

  // Pieces first, then tiles from the last on: what takes longest begins first.
  __device__ Piece(ValueParams const& s) {
    auto const units = static_cast<std::uint32_t>(s.tiles + s.max_pieces);
    auto const slices = static_cast<std::uint32_t>(s.slices);
    auto const unit = static_cast<std::int32_t>(blockIdx.x % units);
    std::uint32_t const rest = blockIdx.x / units;
    slice = 0;
    head = static_cast<std::int32_t>(rest);
    if (slices != 1) {
      slice = static_cast<std::int32_t>(rest % slices);
      head = static_cast<std::int32_t>(rest / slices);
    }
    const std::uint32_t* const pieces = s.pieces + std::int64_t{head} * (s.tiles + 1);
    const std::uint32_t* const starts = s.starts + std::int64_t{head} * (s.tiles + 1);
    if (unit >= s.max_pieces) {
      extra = -1;
      tile = s.tiles - 1 - (unit - s.max_pieces);
      is_there = pieces[tile + 1] == pieces[tile];
      begin = starts[tile];
      end = starts[tile + 1];
      return;
    }
    extra = unit;
    is_there = static_cast<std::uint32_t>(extra) < pieces[s.tiles];
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

}  // namespace msda::sorted
