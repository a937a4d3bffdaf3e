// What kernels ask of an H200 as their families count it, for tests.
#pragma once

#include "api/objects.h"
#include "registry.h"
#include "support/h200.h"
#include "support/source_path.h"
#include "support/test_problem.h"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <memory_resource>
#include <optional>
#include <string_view>

namespace msda::test {

// A workload of bench/workloads.json with values of a type.
inline ProblemShape workload(std::string_view name, msda_dtype value, msda_math_mode math) {
  std::ifstream file(source_path("bench/workloads.json"));
  nlohmann::json const all = nlohmann::json::parse(file);
  ProblemShape shape;
  for (auto const& entry : all["workloads"]) {
    if (entry["name"] != name) continue;
    shape.batch = entry["batch"];
    shape.head_count = entry["heads"];
    shape.head_dim = entry["channels"];
    shape.query_count = entry["queries"];
    for (std::size_t l = 0; l < entry["levels"].size(); ++l) {
      shape.levels.push_back({entry["levels"][l][0], entry["levels"][l][1], entry["points"][l]});
    }
  }
  shape.set_dtypes(value);
  shape.math_mode = math;
  return shape;
}

inline Problem problem_of(ProblemShape const& shape) {
  ProblemCopy const view = shape.copy();
  return api::canonical_problem(&view.c, std::pmr::new_delete_resource());
}

// Counts of the kernel with this id but for its revision.
inline std::optional<Counts> counts_of(std::string_view name, ProblemShape const& shape) {
  Problem const problem = problem_of(shape);
  for (Family const& family : families()) {
    for (Variant const& variant : family.model.variants) {
      std::string_view const id = variant.id;
      if (id.substr(0, id.find('@')) != name) continue;
      REQUIRE(family.model.reject(variant, problem, h200()) == Reason::kNone);
      return family.model.counts(variant, problem, h200());
    }
  }
  FAIL("there is no kernel " << name);
  return std::nullopt;
}

// 32 channels, 2 batch items, 30 queries and 3 levels.
inline ProblemShape small_shape(std::int64_t heads, std::int32_t points, msda_dtype value) {
  ProblemShape shape;
  shape.batch = 2;
  shape.query_count = 30;
  shape.head_count = heads;
  shape.head_dim = 32;
  shape.levels = {{8, 16, points}, {4, 8, points}, {2, 3, points}};
  shape.set_dtypes(value);
  return shape;
}

// What the hardware counted for 32 points of a workload.
struct HardwareCounts {
  const char *id, *workload;
  msda_dtype value;
  double wavefronts, instructions;
};

inline void check_near(HardwareCounts const& row) {
  CAPTURE(row.id);
  CAPTURE(row.workload);
  ProblemShape const shape = workload(row.workload, row.value, MSDA_MATH_FAST);
  Counts const counts = counts_of(row.id, shape).value();
  double const warps = static_cast<double>(shape.batch * shape.query_count * shape.head_count *
                                           shape.point_total()) /
                       32;
  // A load of rows in 16 lines takes 6 wavefronts, not 4.
  double const of_lines = counts.gather_loads * counts.lines_of_load * 6 / 16;
  double const counted =
      counts.wavefronts() - counts.gather_wavefronts + std::max(counts.gather_wavefronts, of_lines);
  double const wavefronts = row.wavefronts * warps / counted;
  double const instructions = row.instructions * warps / counts.instructions;
  MESSAGE(fmt::format("{} {}: {:.1f} wavefronts, ratio {:.2f}; {:.0f} instructions, ratio {:.3f}",
                      row.id, row.workload, counted / warps, wavefronts,
                      counts.instructions / warps, instructions));
  // Misses and conflicts, which depend on where points land, add wavefronts.
  CHECK(wavefronts > 1);
  CHECK(wavefronts < 2);
  CHECK(instructions > 0.98);
  CHECK(instructions < 1.1);
}

}  // namespace msda::test
