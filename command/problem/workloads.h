// The workloads of bench/workloads.json, which is compiled in, and random data for them.
#pragma once

#include "command/problem/case_part.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msda::command {

struct Workload {
  std::string name;
  std::string group;  // "main" or "more"
  std::string note;
  ProblemShape shape;  // its sizes
  bool local = false;
  // Local: the grid whose places the queries are; without it they are the pixels of the levels.
  std::optional<std::array<std::int64_t, 2>> reference_grid;
  double angle_step = 0;

  // At most the largest number: the library refuses such levels, and says which.
  std::int64_t pixel_count() const;
  // Whether the queries are the pixels of the levels.
  bool has_query_per_pixel() const { return shape.query_count == pixel_count(); }
};

std::vector<Workload> const& all_workloads();

// Random tensors for it; the same for the same seed.
Case random_case(Workload const& workload, ProblemShape const& spec, std::uint64_t seed);

}  // namespace msda::command
