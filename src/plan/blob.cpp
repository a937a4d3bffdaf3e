#include "plan/blob.h"

#include "core/status.h"

#include <nlohmann/json.hpp>

#include <span>

namespace msda {
namespace {

using nlohmann::json;

constexpr const char* kMagic = "msda-plan";
constexpr std::size_t kChecksumBytes = 8;

std::string version_text() {
  return fmt::format("{}.{}.{}", MSDA_VERSION_MAJOR, MSDA_VERSION_MINOR, MSDA_VERSION_PATCH);
}

// FNV-1a, 64 bits: against damage, not against malice.
std::uint64_t checksum(std::span<const std::uint8_t> bytes) {
  std::uint64_t hash = 14695981039346656037u;
  for (std::uint8_t const byte : bytes) hash = (hash ^ byte) * 1099511628211u;
  return hash;
}

json strides_json(Strides const& strides) {
  return json::array({strides.batch, strides.row, strides.head});
}

json problem_json(Problem const& p) {
  json levels = json::array(), points = json::array(), grids = json::array();
  for (Level const& level : p.levels) {
    levels.push_back(level.height);
    levels.push_back(level.width);
    points.push_back(level.point_count);
  }
  for (Grid const& grid : p.query_grids) {
    grids.push_back(grid.height);
    grids.push_back(grid.width);
  }
  return {{"level_hw", levels},
          {"point_counts", points},
          {"query_hw", grids},
          {"batch", p.batch},
          {"query_count", p.query_count},
          {"head_count", p.head_count},
          {"head_dim", p.head_dim},
          {"value_strides", strides_json(p.value)},
          {"coord_strides", strides_json(p.coord)},
          {"weight_strides", strides_json(p.weight)},
          {"output_strides", strides_json(p.output)},
          {"value_border", p.value_border},
          {"reference_dim", p.reference_dim},
          {"operation", p.operation},
          {"input_mode", p.input_mode},
          {"value_dtype", p.value_dtype},
          {"coord_dtype", p.coord_dtype},
          {"weight_dtype", p.weight_dtype},
          {"output_dtype", p.output_dtype},
          {"grad_value_dtype", p.grad_value_dtype},
          {"math_mode", p.math_mode},
          {"determinism", p.determinism}};
}

void read_strides(json const& from, std::int64_t (&to)[3]) {
  for (std::size_t i = 0; i < 3; ++i) to[i] = from.at(i).get<std::int64_t>();
}

StoredProblem read_problem(json const& from) {
  StoredProblem stored;
  stored.level_hw = from.at("level_hw").get<std::vector<std::int32_t>>();
  stored.point_counts = from.at("point_counts").get<std::vector<std::int32_t>>();
  stored.query_hw = from.at("query_hw").get<std::vector<std::int32_t>>();
  msda_problem& p = stored.problem;
  p.struct_size = sizeof(p);
  from.at("batch").get_to(p.batch);
  from.at("query_count").get_to(p.query_count);
  from.at("head_count").get_to(p.head_count);
  from.at("head_dim").get_to(p.head_dim);
  read_strides(from.at("value_strides"), p.value_strides);
  read_strides(from.at("coord_strides"), p.coord_strides);
  read_strides(from.at("weight_strides"), p.weight_strides);
  read_strides(from.at("output_strides"), p.output_strides);
  from.at("value_border").get_to(p.value_border);
  from.at("reference_dim").get_to(p.reference_dim);
  from.at("operation").get_to(p.operation);
  from.at("input_mode").get_to(p.input_mode);
  from.at("value_dtype").get_to(p.value_dtype);
  from.at("coord_dtype").get_to(p.coord_dtype);
  from.at("weight_dtype").get_to(p.weight_dtype);
  from.at("output_dtype").get_to(p.output_dtype);
  from.at("grad_value_dtype").get_to(p.grad_value_dtype);
  from.at("math_mode").get_to(p.math_mode);
  from.at("determinism").get_to(p.determinism);
  p.level_count = static_cast<std::int32_t>(stored.point_counts.size());
  p.query_grid_count = static_cast<std::int32_t>(stored.query_hw.size() / 2);
  if (stored.level_hw.size() != 2 * stored.point_counts.size() || stored.query_hw.size() % 2 != 0) {
    invalid("blob: its arrays do not fit each other");
  }
  return stored;
}

// The CBOR document inside the blob, once its checksum holds.
json read_document(std::span<const std::uint8_t> blob) {
  if (blob.size() <= kChecksumBytes) {
    invalid("blob_size is {}: must be the size msda_plan_serialize() gave", blob.size());
  }
  std::span<const std::uint8_t> const body = blob.first(blob.size() - kChecksumBytes);
  std::uint64_t stored = 0;
  for (std::size_t i = 0; i < kChecksumBytes; ++i) {
    stored |= std::uint64_t{blob[body.size() + i]} << (8 * i);
  }
  if (stored != checksum(body)) invalid("blob is damaged or cut short: its checksum does not hold");
  json document = json::from_cbor(body.begin(), body.end(), true, false);
  if (!document.is_object() || document.value("magic", "") != kMagic) {
    invalid("blob is no plan: its magic is not '{}'", kMagic);
  }
  return document;
}

}  // namespace

msda_problem StoredProblem::view() const {
  msda_problem with_pointers = problem;
  with_pointers.level_hw = level_hw.empty() ? nullptr : level_hw.data();
  with_pointers.point_counts = point_counts.empty() ? nullptr : point_counts.data();
  with_pointers.query_hw = query_hw.empty() ? nullptr : query_hw.data();
  return with_pointers;
}

std::vector<std::uint8_t> encode_plan(Problem const& problem, std::string_view kernel_id,
                                      Device const& device) {
  json const document = {{"magic", kMagic},
                         {"version", version_text()},
                         {"device", std::string(device.name)},
                         {"kernel_id", std::string(kernel_id)},
                         {"problem", problem_json(problem)}};
  std::vector<std::uint8_t> blob = json::to_cbor(document);
  std::uint64_t const sum = checksum(blob);
  for (std::size_t i = 0; i < kChecksumBytes; ++i) {
    blob.push_back(static_cast<std::uint8_t>(sum >> (8 * i)));
  }
  return blob;
}

StoredPlan decode_plan(const void* bytes, std::size_t size, Device const& device) {
  json const document = read_document({static_cast<const std::uint8_t*>(bytes), size});
  try {
    auto const version = document.at("version").get<std::string>();
    auto const device_name = document.at("device").get<std::string>();
    if (version != version_text()) {
      fail(MSDA_ERROR_STALE_PLAN, "blob is of libmsda {}: this is {}", version, version_text());
    }
    if (device_name != device.name) {
      fail(MSDA_ERROR_STALE_PLAN, "blob is for device '{}': this handle is '{}'", device_name,
           device.name);
    }
    return {document.at("kernel_id").get<std::string>(), read_problem(document.at("problem"))};
  } catch (json::exception const& error) {
    invalid("blob is no whole plan: {}", error.what());
  }
}

}  // namespace msda
