// The workloads of bench/workloads.json, which is compiled in, and random data for them.
#pragma once

#include "lab/problem_spec.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msda::lab {

struct Workload {
  std::string name;
  std::string group;  // "main" or "more"
  std::string note;
  std::int64_t batch = 1;
  std::int64_t heads = 8;
  std::int64_t channels = 32;
  std::int64_t queries = 0;
  std::vector<std::int32_t> level_hw;
  std::vector<std::int32_t> points;
  bool local = false;
  // Local: the grid whose places the queries are; without it they are the pixels of the levels.
  std::optional<std::array<std::int64_t, 2>> reference_grid;
  double angle_step = 0;

  std::int64_t pixel_count() const;
};

std::vector<Workload> const& all_workloads();

// Random tensors for it; the same for the same seed.
Case random_case(Workload const& workload, ProblemSpec const& spec, std::uint64_t seed);

}  // namespace msda::lab
