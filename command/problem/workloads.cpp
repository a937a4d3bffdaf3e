#include "command/problem/workloads.h"

#include "bench_data.h"

#include <nlohmann/json.hpp>

#include <limits>

namespace msda::command {
namespace {

Workload from_json(nlohmann::json const& json) {
  Workload workload;
  workload.name = json.at("name");
  workload.group = json.at("group");
  workload.note = json.at("note");
  workload.shape.batch = json.at("batch");
  workload.shape.head_count = json.at("heads");
  workload.shape.head_dim = json.at("channels");
  workload.shape.query_count = json.at("queries");
  std::vector<std::int32_t> level_hw;
  for (auto const& level : json.at("levels")) {
    level_hw.insert(level_hw.end(), {level.at(0), level.at(1)});
  }
  workload.shape.levels = make_levels(level_hw, json.at("points").get<std::vector<std::int32_t>>());
  workload.local = json.at("pattern") == "local";
  workload.angle_step = json.value("angle_step", 0.0);
  if (json.contains("reference_grid")) {
    workload.reference_grid = json.at("reference_grid").get<std::array<std::int64_t, 2>>();
  }
  return workload;
}

}  // namespace

std::int64_t Workload::pixel_count() const {
  std::int64_t pixels = 0;
  for (LevelShape const& level : shape.levels) {
    if (__builtin_add_overflow(pixels, std::int64_t{level.height} * level.width, &pixels)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return pixels;
}

std::vector<Workload> const& all_workloads() {
  static const std::vector<Workload> kWorkloads = [] {
    std::vector<Workload> workloads;
    nlohmann::json const file = nlohmann::json::parse(kWorkloadsJson);
    for (auto const& json : file.at("workloads")) workloads.push_back(from_json(json));
    return workloads;
  }();
  return kWorkloads;
}

}  // namespace msda::command
