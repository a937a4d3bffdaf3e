// In what order queries that are the pixels of grids are visited: in tiles, so that those worked on
// at the same time look at the same pixels of the values.
#pragma once

#include "core/problem.h"

#include <cstdint>
#include <vector>

namespace msda::persistent {

struct QueryOrder {
  std::vector<std::int32_t> queries;  // [Q]; empty: as they come
  // The tiles of the first picture, the largest, have queries of several grids, so that all of them
  // cost alike.
  bool mixes_grids = false;
};

// By the query grids; without them, those of an encoder, whose queries are as many as the pixels.
QueryOrder query_order(Problem const& problem);

}  // namespace msda::persistent
