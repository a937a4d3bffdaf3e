// Predicted times with other constants than the library's own, for tools/fit_costs.
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
#include "core/build_config.h"
#include "core/dtype.h"
#include "core/numbers.h"
#include "cpu/simd/simd_cost.h"
#include "registry.h"
#if MSDA_HAS_CUDA
#include "kernels/atomic/plan.h"
#include "kernels/cluster/plan.h"
#include "kernels/direct/plan.h"
#include "kernels/persistent/plan.h"
#include "kernels/pipeline/plan.h"
#include "kernels/sorted/plan.h"
#include "kernels/tma/plan.h"
#endif

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace msda;
using nlohmann::json;

struct Constant {
  std::string name;
  double value;
};

// The predictions of a family, and which of all constants are its.
struct Model {
  std::string family;
  std::size_t first = 0, count = 0;
  std::function<double(const double* constants, Variant const&, Problem const&, Device const&)>
      predict;
};

struct Models {
  std::vector<Constant> constants;
  std::vector<Model> models;

  template <class Costs, class Predict>
  void add(std::string const& family, std::initializer_list<const char*> names, Predict predict) {
    using Values = std::array<double, sizeof(Costs) / sizeof(double)>;
    auto const values = bit_cast<Values>(Costs{});
    Model model{family, constants.size(), values.size(), {}};
    auto const* name = names.begin();
    for (double const value : values) constants.push_back({family + "." + *name++, value});
    model.predict = [predict](const double* given, Variant const& variant, Problem const& problem,
                              Device const& device) {
      Values mine;
      std::copy_n(given, mine.size(), mine.begin());
      return predict(bit_cast<Costs>(mine), variant, problem, device);
    };
    models.push_back(std::move(model));
  }
};

Models all_models() {
  Models all;
#define MSDA_COST(name, value) #name,
#if MSDA_HAS_CUDA
  all.add<direct::Costs>("direct",
                         {
#include "kernels/direct/costs.inc"
                         },
                         direct::predicted_us);
  all.add<persistent::Costs>("persistent",
                             {
#include "kernels/persistent/costs.inc"
                             },
                             persistent::predicted_us);
  all.add<sorted::Costs>("sorted",
                         {
#include "kernels/sorted/costs.inc"
                         },
                         sorted::predicted_us);
  all.add<tma::Costs>("tma",
                      {
#include "kernels/tma/costs.inc"
                      },
                      tma::predicted_us);
  all.add<cluster::Costs>("cluster",
                          {
#include "kernels/cluster/costs.inc"
                          },
                          cluster::predicted_us);
  all.add<atomic::Costs>("atomic",
                         {
#include "kernels/atomic/costs.inc"
                         },
                         atomic::predicted_us);
  all.add<pipeline::Costs>("pipeline",
                           {
#include "kernels/pipeline/costs.inc"
                           },
                           pipeline::predicted_us);
#endif
  all.add<simd::Costs>(
      "simd",
      {
#include "cpu/simd/simd_costs.inc"
      },
      [](simd::Costs const& costs, Variant const&, Problem const& problem, Device const& device) {
        return simd::predicted_us(costs, problem, device);
      });
#undef MSDA_COST
  return all;
}

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
  Model const* model;
  Variant const* variant;
  Problem problem;
  Device device;
};

// The kernel of this id, or the same of another revision: predictions are of what the library has.
KernelRef find_any_revision(std::string_view id) {
  std::string_view const name = id.substr(0, id.find('@') + 1);
  for (std::size_t i = 0; i < kernel_count(); ++i) {
    KernelRef const kernel = kernel_at(i);
    if (std::string_view(kernel.variant->id).starts_with(name)) return kernel;
  }
  return {};
}

std::vector<Row> read_rows(const char* path, std::vector<Model> const& models) {
  std::ifstream file(path);
  std::vector<Row> rows;
  for (json const& entry : json::parse(file)) {
    std::string const id = entry.at("kernel_id");
    KernelRef const kernel = find_any_revision(id);
    if (kernel.variant == nullptr) throw std::runtime_error(fmt::format("no kernel is '{}'", id));
    Row row{nullptr, kernel.variant, problem_of(entry), device_of(entry)};
    for (Model const& model : models) {
      if (model.family == kernel.family->name) row.model = &model;
    }
    if (row.model == nullptr) throw std::runtime_error(fmt::format("'{}' has no constants", id));
    Reason const reason = kernel.family->reject(*kernel.variant, row.problem, row.device);
    if (reason != Reason::kNone) {
      throw std::runtime_error(fmt::format("'{}' {}", id, reason_text(reason)));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_constants(std::vector<Constant> const& constants) {
  json list = json::array();
  for (Constant const& constant : constants) list.push_back({constant.name, constant.value});
  fmt::print("{}\n", list.dump());
}

void answer(Models const& all, std::vector<Row> const& rows) {
  std::vector<double> constants(all.constants.size()), predicted(rows.size());
  while (std::fread(constants.data(), sizeof(double), constants.size(), stdin) ==
         constants.size()) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Row const& row = rows[i];
      predicted[i] = row.model->predict(constants.data() + row.model->first, *row.variant,
                                        row.problem, row.device);
    }
    std::fwrite(predicted.data(), sizeof(double), predicted.size(), stdout);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Models const all = all_models();
    if (argc == 1) {
      print_constants(all.constants);
    } else {
      answer(all, read_rows(argv[1], all.models));
    }
    return 0;
  } catch (std::exception const& error) {
    fmt::print(stderr, "msda_cost_model: error: {}\n", error.what());
    return 1;
  }
}
