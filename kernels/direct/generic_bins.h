// How the generic backward orders a head's points, for the host: tiles, and what its arrays take. A
// head is a (batch item, head) pair.
#pragma once

#include "core/arena.h"
#include "core/problem.h"
#include "kernels/direct/direct.h"

#include <cstdint>
#include <vector>

namespace msda::direct {

// Tiles that may be added at a time.
struct TileRange {
  std::int64_t begin;
  std::int64_t end;
};

struct Tiles {
  std::vector<LevelTiles> levels;  // [L]
  std::int64_t count = 0;          // of a head
  // All of them, or each level's where levels share tokens: two warps must not add to one pixel.
  std::vector<TileRange> rounds;
};
Tiles make_tiles(Problem const& problem);

// But for the arrays and the run of heads.
BinParams bin_params(Problem const& problem, Tiles const& tiles);

// The arrays of a run of `heads` heads: at most 13 bytes a point, and 64 a level.
void take_arrays(BinParams& bins, std::int64_t heads, Arena& arena);

// As many heads at a time as fit `limit` bytes beside `other_bytes`, at least one; 0: no limit.
std::int64_t heads_within(Problem const& problem, BinParams const& bins, std::int64_t other_bytes,
                          std::size_t limit);

}  // namespace msda::direct
