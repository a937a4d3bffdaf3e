// In what order queries that are the pixels of grids are worked on: in tiles, so that those worked
// on at the same time look at the same pixels of the values. No result depends on it.
//
// The grids are the problem's query grids; without them those of an encoder, whose queries are as
// many as the pixels of all levels.
#pragma once

#include "core/problem.h"

#include <cstdint>
#include <vector>

namespace msda::rows {

struct QueryOrder {
  std::vector<std::int32_t> queries;  // [Q]; empty: as they come
  // The tiles of the first picture, the largest, have queries of several grids, so that all of them
  // cost alike.
  bool mixes_grids = false;
};

// Pictures one after the other, each tile by tile.
QueryOrder query_order(Problem const& problem);

struct QueryTiles {
  std::vector<std::int32_t> order;  // [Q] queries, tile by tile; empty: as they come
  std::vector<std::int32_t> begin;  // [tiles + 1] places in the order
  // The size of a tile on the finest grid of the first picture, as a fraction of the picture; 0
  // without grids.
  double width = 0, height = 0;  // fractions of the picture
};

// Tiles of at most `max_queries` queries; runs of queries where there are no grids.
QueryTiles make_query_tiles(Problem const& problem, std::int64_t max_queries);

}  // namespace msda::rows
