// msda info: what is installed and what it can run on.
#include "cli/cli_error.h"
#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/plan_runner.h"
#include "cli/report_text.h"

#include <nlohmann/json.hpp>

#include <optional>

namespace msda::cli {
namespace {

// Why there is no GPU 0, or none if there is one.
std::optional<std::string> why_no_gpu() {
  try {
    Engine const gpu(0, 0);
    return std::nullopt;
  } catch (Error const& error) {
    return error.what();
  }
}

std::string version_text(std::uint32_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string device_range(msda_kernel_info const& kernel) {
  if (kernel.sm_min == 0) return "cpu";
  return kernel.sm_max == 0 ? fmt::format("sm_{} and later", kernel.sm_min)
                            : fmt::format("sm_{} to sm_{}", kernel.sm_min, kernel.sm_max);
}

void print_json(std::vector<msda_kernel_info> const& kernels) {
  nlohmann::ordered_json json;
  json["version"] = version_text(msda_version());
  json["abi_version"] = msda_abi_version();
  json["build"] = msda_build_info();
  json["devices"] = nlohmann::ordered_json::array();
  json["devices"].push_back(
      {{"device", "cpu"}, {"name", cpu_name()}, {"threads", hardware_threads()}});
  auto const no_gpu = why_no_gpu();
  if (!no_gpu) json["devices"].push_back({{"device", "0"}, {"name", "GPU"}});
  json["gpu_unavailable"] = no_gpu ? nlohmann::ordered_json(*no_gpu) : nullptr;
  json["kernels"] = nlohmann::ordered_json::array();
  for (msda_kernel_info const& kernel : kernels) {
    json["kernels"].push_back({{"id", kernel.kernel_id},
                               {"family", kernel.family},
                               {"sm_min", kernel.sm_min},
                               {"sm_max", kernel.sm_max}});
  }
  fmt::print("{}\n", json.dump(2));
}

int run_info(Options const& options) {
  auto const kernels = Handle::cpu(1).kernels();
  if (options.json_to_stdout) {
    print_json(kernels);
    return kExitOk;
  }
  fmt::print("version  {} (ABI {})\n", version_text(msda_version()), msda_abi_version());
  fmt::print("build    {}\n", msda_build_info());
  fmt::print("cpu      {}, {} threads\n", cpu_name(), hardware_threads());
  auto const no_gpu = why_no_gpu();
  fmt::print("gpu      {}\n\n", no_gpu ? fmt::format("none ({})", *no_gpu) : "device 0 is usable");
  std::vector<std::vector<std::string>> rows = {{"kernel", "family", "runs on"}};
  for (msda_kernel_info const& kernel : kernels) {
    rows.push_back({kernel.kernel_id, kernel.family, device_range(kernel)});
  }
  fmt::print("{}", table_text(rows, 3));
  return kExitOk;
}

}  // namespace

const Command kInfoCommand = {
    "info",
    kInfo,
    "version, build, devices and kernels",
    "Shows the version and build of the library, the devices of this machine, and every kernel.",
    "",
    "Examples:\n"
    "  msda info\n"
    "  msda info --json",
    run_info};

}  // namespace msda::cli
