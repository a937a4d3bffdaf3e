#include "lab/workloads.h"

#include "workloads.json.h"

#include <nlohmann/json.hpp>

namespace msda::lab {
namespace {

Workload from_json(nlohmann::json const& json) {
  Workload workload;
  workload.name = json.at("name");
  workload.group = json.at("group");
  workload.note = json.at("note");
  workload.batch = json.at("batch");
  workload.heads = json.at("heads");
  workload.channels = json.at("channels");
  workload.queries = json.at("queries");
  for (auto const& level : json.at("levels")) {
    workload.level_hw.push_back(level.at(0));
    workload.level_hw.push_back(level.at(1));
  }
  workload.points = json.at("points").get<std::vector<std::int32_t>>();
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
  for (std::size_t l = 0; l < level_hw.size() / 2; ++l) {
    pixels += std::int64_t{level_hw[2 * l]} * level_hw[2 * l + 1];
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

}  // namespace msda::lab
