// Predicted times with other constants than the library's own, for tools/measure fit.
//
//   msda_cost_model             prints the constants of all families: [["direct.launch_us", 4.59],
//   ...] msda_cost_model ROWS.json   reads vectors of constants from standard input, float64 in the
//   order of that list,
//                               and answers each with the predicted microseconds of every row,
//                               float64
//
// A row names a kernel, its problem as bench/workloads.json has it, and the device's sm_count or
// threads.

#include "api/objects.h"
#include "core/dtype.h"
#include "registry.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace msda;
using nlohmann::json;

// The constants of all families, one after the other, and where those of each begin.
struct Constants {
  std::vector<std::pair<std::string, double>> all;
  std::map<const Family*, std::size_t> first;

  Constants() {
    for (Family const& family : families()) {
      if (family.model.constants.empty()) continue;
      first[&family] = all.size();
      for (Constant const& constant : family.model.constants) {
        all.emplace_back(fmt::format("{}.{}", family.model.name, constant.name), constant.value);
      }
    }
  }
};

msda_dtype dtype_named(std::string const& name) {
  for (DtypeInfo const& info : kDtypes) {
    if (info.name == name) return info.dtype;
  }
  throw std::runtime_error(fmt::format("'{}' is no dtype", name));
}

msda_point_locality locality_named(std::string const& name) {
  if (name == "local") return MSDA_POINTS_LOCAL;
  if (name == "scattered") return MSDA_POINTS_SCATTERED;
  throw std::runtime_error(fmt::format("'{}' is not local or scattered", name));
}

std::vector<std::int32_t> pairs(json const& list) {
  std::vector<std::int32_t> numbers;
  for (json const& pair : list) numbers.insert(numbers.end(), {pair.at(0), pair.at(1)});
  return numbers;
}

Problem problem_of(json const& row) {
  std::vector<std::int32_t> const level_hw = pairs(row.at("levels")),
                                  query_hw = pairs(row.value("query_hw", json::array()));
  auto const points = row.at("points").get<std::vector<std::int32_t>>();
  if (2 * points.size() != level_hw.size()) throw std::runtime_error("points are not of levels");
  msda_problem problem{};
  problem.struct_size = sizeof problem;
  problem.level_hw = level_hw.data();
  problem.point_counts = points.data();
  problem.level_count = static_cast<std::int32_t>(points.size());
  problem.query_hw = query_hw.empty() ? nullptr : query_hw.data();
  problem.query_grid_count = static_cast<std::int32_t>(query_hw.size() / 2);
  problem.batch = row.at("batch");
  problem.query_count = row.at("queries");
  problem.head_count = row.at("heads");
  problem.head_dim = row.at("channels");
  problem.reference_dim = row.at("reference_dim");
  problem.input_mode = problem.reference_dim == 0 ? MSDA_INPUT_SAMPLED : MSDA_INPUT_FUSED;
  problem.operation = row.at("operation") == "backward" ? MSDA_BACKWARD : MSDA_FORWARD;
  problem.math_mode = row.at("math_mode") == "fast" ? MSDA_MATH_FAST : MSDA_MATH_ACCURATE;
  problem.value_dtype = dtype_named(row.at("value_dtype"));
  problem.coord_dtype = dtype_named(row.at("coord_dtype"));
  problem.point_locality = locality_named(row.at("point_locality"));
  return api::canonical_problem(&problem, std::pmr::new_delete_resource());
}

Device device_of(json const& row) {
  Device device;
  if (row.contains("sm_count")) {
    device.ordinal = 0;
    device.sm = row.at("sm");
    device.sm_count = row.at("sm_count");
    // The measured kernels did run.
    device.shared_bytes_per_block = INT64_MAX;
    device.max_cluster_blocks = 16;
    device.has_bulk_copy = true;
  } else {
    device.thread_count = row.at("threads");
  }
  return device;
}

struct Row {
  KernelRef kernel;
  Problem problem;
  Device device;
};

// The kernel of this id, or the same of another revision: predictions are of what the library has.
KernelRef find_any_revision(std::string_view id) {
  std::string_view const name = id.substr(0, id.find('@') + 1);
  for (Family const& family : families()) {
    for (Variant const& variant : family.model.variants) {
      if (std::string_view(variant.id).starts_with(name)) return {&family, &variant};
    }
  }
  return {};
}

std::vector<Row> read_rows(const char* path) {
  std::ifstream file(path);
  std::vector<Row> rows;
  for (json const& entry : json::parse(file)) {
    std::string const id = entry.at("kernel_id");
    KernelRef const kernel = find_any_revision(id);
    if (kernel.variant == nullptr) throw std::runtime_error(fmt::format("no kernel is '{}'", id));
    FamilyModel const& model = kernel.family->model;
    if (model.constants.empty()) throw std::runtime_error(fmt::format("'{}' has no constants", id));
    Row row{kernel, problem_of(entry), device_of(entry)};
    Reason const reason = model.reject(*kernel.variant, row.problem, row.device);
    if (reason != Reason::kNone) {
      throw std::runtime_error(fmt::format("'{}' {}", id, reason_text(reason)));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_constants(Constants const& constants) {
  json list = json::array();
  for (auto const& [name, value] : constants.all) list.push_back({name, value});
  fmt::print("{}\n", list.dump());
}

void answer(Constants const& constants, std::vector<Row> const& rows) {
  std::vector<double> values(constants.all.size()), predicted(rows.size());
  while (std::fread(values.data(), sizeof(double), values.size(), stdin) == values.size()) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      KernelRef const& kernel = rows[i].kernel;
      double const* const costs = values.data() + constants.first.at(kernel.family);
      predicted[i] =
          kernel.family->model.predict(costs, *kernel.variant, rows[i].problem, rows[i].device);
    }
    std::fwrite(predicted.data(), sizeof(double), predicted.size(), stdout);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Constants const constants;
    if (argc == 1) {
      print_constants(constants);
    } else {
      answer(constants, read_rows(argv[1]));
    }
    return 0;
  } catch (std::exception const& error) {
    fmt::print(stderr, "msda_cost_model: error: {}\n", error.what());
    return 1;
  }
}
