#include "support/golden.h"

#include "support/npz.h"
#include "support/source_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>

namespace msda::test {
namespace {

GoldenCase read_case(std::filesystem::path const& path) {
  std::map<std::string, NpzArray> arrays = read_npz(path.string());
  GoldenCase result;
  result.name = path.stem().string();
  ProblemShape& shape = result.problem.shape;
  NpzArray const& level_hw = arrays.at("level_hw");
  for (std::size_t l = 0; 2 * l < level_hw.values.size(); ++l) {
    auto const whole = [](double number) { return static_cast<std::int32_t>(number); };
    shape.levels.push_back({whole(level_hw.values[2 * l]), whole(level_hw.values[2 * l + 1]),
                            whole(arrays.at("points").values.at(l))});
  }
  std::vector<std::int64_t> const& output = arrays.at("output").shape;  // [B][Q][M][D]
  shape.batch = output.at(0);
  shape.query_count = output.at(1);
  shape.head_count = output.at(2);
  shape.head_dim = output.at(3);
  if (arrays.contains("reference")) {
    shape.reference_dim = static_cast<std::int32_t>(arrays.at("reference").shape.at(3));
  }
  shape.set_dtypes(MSDA_F64);
  for (TensorRow const& row : tensor_rows()) {
    auto const found = arrays.find(row.name);
    if (found == arrays.end()) continue;
    std::int64_t const expected_count = layout_of(shape, row.id).element_count();
    if (static_cast<std::int64_t>(found->second.values.size()) != expected_count) {
      throw std::runtime_error(path.string() + ": " + row.name + " has the wrong size");
    }
    (row.is_result ? result.results : result.problem.inputs)[row.id] = found->second.values;
  }
  return result;
}

std::vector<GoldenCase> read_all() {
  std::vector<std::filesystem::path> paths;
  for (auto const& entry : std::filesystem::directory_iterator(source_path("tests/golden"))) {
    if (entry.path().extension() == ".npz") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<GoldenCase> cases;
  for (std::filesystem::path const& path : paths) cases.push_back(read_case(path));
  return cases;
}

}  // namespace

std::vector<GoldenCase> const& golden_cases() {
  static std::vector<GoldenCase> const cases = read_all();
  return cases;
}

std::string difference_from_file(std::vector<double> const& stored,
                                 std::vector<double> const& actual) {
  if (actual.size() != stored.size()) {
    return fmt::format("{} elements, not {}", actual.size(), stored.size());
  }
  double largest = 0;
  for (double const number : stored) {
    if (!std::isfinite(number)) return "the file holds a number that is not finite";
    largest = std::max(largest, std::fabs(number));
  }
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (!(std::fabs(actual[i] - stored[i]) <= 1e-12 * largest)) {
      return fmt::format("element {} is {:.17g}, the file has {:.17g}: allowed {:.3g}", i,
                         actual[i], stored[i], 1e-12 * largest);
    }
  }
  return "";
}

}  // namespace msda::test
