#include "support/golden.h"

#include "support/source_path.h"

#include "command/files/array_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>

namespace msda::test {
namespace {

GoldenCase read_case(std::filesystem::path const& path) {
  command::NpzReader const npz(path);
  auto const whole = [&](std::string const& name) {
    return command::to_sizes(command::to_integers(npz.read(name), name), name);
  };
  GoldenCase result;
  result.name = path.stem().string();
  ProblemShape& shape = result.problem.shape;
  shape.levels = command::make_levels(whole("level_hw"), whole("points"));
  command::Shape const output = npz.read("output").shape;  // [B][Q][M][D]
  shape.batch = output.at(0);
  shape.query_count = output.at(1);
  shape.head_count = output.at(2);
  shape.head_dim = output.at(3);
  if (npz.has("reference")) {
    shape.reference_dim = static_cast<std::int32_t>(npz.read("reference").shape.at(3));
  }
  shape.set_dtypes(MSDA_DTYPE_F64);
  for (TensorRow const& row : tensor_rows()) {
    if (!npz.has(row.name)) continue;
    command::Array const array =
        command::to_floats(npz.read(std::string(row.name)), {}, path.string());
    if (array.element_count() != layout_of(shape, row.id).element_count()) {
      throw std::runtime_error(fmt::format("{}: {} has the wrong size", path.string(), row.name));
    }
    (row.is_result() ? result.results : result.problem.inputs)[row.id] = array.decode();
  }
  return result;
}

std::vector<GoldenCase> read_all(const char* folder) {
  std::vector<std::filesystem::path> paths;
  for (auto const& entry : std::filesystem::directory_iterator(source_path(folder))) {
    if (entry.path().extension() == ".npz") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<GoldenCase> cases;
  for (std::filesystem::path const& path : paths) cases.push_back(read_case(path));
  return cases;
}

}  // namespace

std::vector<GoldenCase> const& golden_cases() {
  static std::vector<GoldenCase> const cases = read_all("tests/golden");
  return cases;
}

std::vector<GoldenCase> const& nearest_golden_cases() {
  static std::vector<GoldenCase> const cases = [] {
    std::vector<GoldenCase> result = read_all("tests/golden/nearest");
    for (GoldenCase& golden : result) {
      golden.problem.shape.sampling_mode = MSDA_SAMPLING_NEAREST;
    }
    return result;
  }();
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
