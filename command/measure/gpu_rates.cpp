#include "command/measure/gpu_rates.h"

#include "bench_data.h"
#include "command/files/input_error.h"
#include "core/build_config.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>

namespace msda::command {
namespace {

using Json = nlohmann::ordered_json;

struct NamedRate {
  const char* name;
  double& (*of)(GpuRates&);
  const char* source = nullptr;  // of one that is not measured
};

// Each rate by its name in a file.
constexpr NamedRate kRates[] = {
    {"clock_mhz", [](GpuRates& r) -> double& { return r.clock_mhz; }},
    {"load_cycles", [](GpuRates& r) -> double& { return r.load_cycles; }},
    {"lines_per_cycle", [](GpuRates& r) -> double& { return r.lines_per_cycle; }},
    {"issue_per_cycle", [](GpuRates& r) -> double& { return r.issue_per_cycle; },
     "four schedulers an SM; not measured"},
    {"l2_tb_per_s_128", [](GpuRates& r) -> double& { return r.l2_tb_per_s[0]; }},
    {"l2_tb_per_s_64", [](GpuRates& r) -> double& { return r.l2_tb_per_s[1]; }},
    {"l2_tb_per_s_32", [](GpuRates& r) -> double& { return r.l2_tb_per_s[2]; }},
    {"hbm_tb_per_s_128", [](GpuRates& r) -> double& { return r.hbm_tb_per_s[0]; }},
    {"hbm_tb_per_s_64", [](GpuRates& r) -> double& { return r.hbm_tb_per_s[1]; }},
    {"hbm_tb_per_s_32", [](GpuRates& r) -> double& { return r.hbm_tb_per_s[2]; }},
    {"launch_us", [](GpuRates& r) -> double& { return r.launch_us; }},
};

// A rate's place is like "/rates/clock_mhz/value"; messages have dots there. Its number is
// positive.
double positive(std::string const& name, Json const& json, std::string const& place) {
  Json::json_pointer const pointer(place);
  std::string path = place.substr(1);
  std::ranges::replace(path, '/', '.');
  if (!json.contains(pointer)) bad_input("{}: {} is missing: must be a number above 0", name, path);
  Json const& value = json.at(pointer);
  if (!value.is_number() || value.get<double>() <= 0) {
    bad_input("{}: {} is {}: must be a number above 0", name, path, value.dump());
  }
  return value.get<double>();
}

}  // namespace

GpuRates read_rates(std::string const& name, std::string_view text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (Json::parse_error const& error) {
    bad_input("{}: is not JSON: {}", name, error.what());
  }
  if (!json.is_object()) bad_input("{}: must be an object", name);
  GpuRates rates;
  if (!json.contains("gpu") || !json.at("gpu").is_string()) {
    bad_input("{}: gpu is missing: must be the GPU's name", name);
  }
  rates.gpu = json.at("gpu").get<std::string>();
  rates.sm = static_cast<std::int32_t>(positive(name, json, "/compute_capability"));
  rates.sm_count = static_cast<std::int32_t>(positive(name, json, "/sm_count"));
  rates.shared_bytes_per_block =
      static_cast<std::int64_t>(positive(name, json, "/shared_bytes_per_block"));
  for (auto const& [key, of, unmeasured] : kRates) {
    of(rates) = positive(name, json, fmt::format("/rates/{}/value", key));
  }
  return rates;
}

std::string rates_json(GpuRates const& rates, std::string const& source) {
  Json json = {{"gpu", rates.gpu},
               {"compute_capability", rates.sm},
               {"sm_count", rates.sm_count},
               {"shared_bytes_per_block", rates.shared_bytes_per_block}};
  GpuRates copy = rates;
  for (auto const& [key, of, unmeasured] : kRates) {
    json["rates"][key] = {{"value", of(copy)},
                          {"source", unmeasured == nullptr ? source : unmeasured}};
  }
  return json.dump(2) + "\n";
}

#if !MSDA_HAS_CUDA || MSDA_CUDA_IS_SIMULATED  // else in calibration.cu
GpuRates measure_rates(std::int32_t) {
  throw std::runtime_error("this command was built without CUDA");
}
#endif

GpuRates h200_rates() { return read_rates("bench/rates/h200.json", kH200RatesJson); }

std::string_view h200_times_csv() { return kH200TimesCsv; }

}  // namespace msda::command
