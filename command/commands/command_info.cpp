// msda info: what is installed and what it can run on.
#include "command/commands/library_needs.h"
#include "command/commands/options.h"
#include "command/commands/result_files.h"
#include "command/files/parallel.h"
#include "command/measure/machine.h"
#include "command/measure/plan_runner.h"
#include "command/report/report_parts.h"
#include "core/build_config.h"
#include "core/cpu_model.h"
#include "core/join.h"

#include <algorithm>
#include <optional>

namespace msda::command {

namespace {

// GPU 0, or why a handle for it cannot be created.
struct GpuSearch {
  std::optional<Gpu> gpu;
  std::string why_none;
};

GpuSearch find_gpu() {
  try {
    Engine const engine(0, 0);
    return {gpu_of(0), ""};
  } catch (Error const& error) {
    return {std::nullopt, in_own_words("info", error.what())};
  }
}

std::string gpu_text(GpuSearch const& found) {
  if (!found.gpu) return fmt::format("none ({})", found.why_none);
  return fmt::format("device 0 is usable: {}, sm_{}, {} SMs", found.gpu->name, found.gpu->sm,
                     found.gpu->sm_count);
}

std::string device_range(std::int32_t sm_min, std::int32_t sm_max) {
  if (sm_min == 0) return "cpu";
  return sm_max == 0 ? fmt::format("sm_{} and later", sm_min)
                     : fmt::format("sm_{} to sm_{}", sm_min, sm_max);
}

bool runs_here(msda_kernel_info const& kernel, GpuSearch const& found) {
  return kernel.sm_min == 0 ||
         (found.gpu &&
          has_code_for(MSDA_BUILD_CUDA_ARCHITECTURES, kernel.sm_min, kernel.sm_max, found.gpu->sm));
}

std::string needs_text() {
  std::vector<std::string> libraries;
  for (NeededLibrary const& library : library_needs()) {
    std::string const versions = join(library.versions, " ");
    libraries.push_back(versions.empty() ? library.name : library.name + " (" + versions + ")");
  }
  std::string const driver = MSDA_HAS_CUDA ? "; on a GPU: " MSDA_LEAST_DRIVER : "";
  return join(libraries, ", ") + driver;
}

std::string json_text(std::vector<msda_kernel_info> const& kernels, GpuSearch const& found) {
  Json json;
  json["version"] = version_text();
  json["abi_version"] = msda_abi_version();
  json["build"] = msda_build_info();
  for (NeededLibrary const& library : library_needs()) {
    json["needs"][library.name] = library.versions;
  }
  json["devices"].push_back(
      {{"device", "cpu"}, {"name", cpu_model()}, {"threads", hardware_threads()}});
  if (found.gpu) {
    json["devices"].push_back({{"device", "0"},
                               {"name", found.gpu->name},
                               {"sm", found.gpu->sm},
                               {"sm_count", found.gpu->sm_count}});
  }
  json["gpu_unavailable"] = found.gpu ? nullptr : Json(found.why_none);
  json["kernels"] = Json::array();
  for (msda_kernel_info const& kernel : kernels) {
    json["kernels"].push_back({{"id", kernel.kernel_id},
                               {"family", kernel.family},
                               {"sm_min", kernel.sm_min},
                               {"sm_max", kernel.sm_max},
                               {"runs_here", runs_here(kernel, found)}});
  }
  return json.dump(2) + "\n";
}

std::string kernels_text(std::vector<msda_kernel_info> const& kernels, GpuSearch const& found) {
  Cells rows = {{"kernel", "family", "runs on", "runs here"}};
  for (msda_kernel_info const& kernel : kernels) {
    rows.push_back({kernel.kernel_id, kernel.family, device_range(kernel.sm_min, kernel.sm_max),
                    runs_here(kernel, found) ? "yes" : "no"});
  }
  return table_text(rows, 4);
}

std::string families_text(std::vector<msda_kernel_info> const& kernels, GpuSearch const& found) {
  struct Count {
    std::string_view family;
    std::int32_t sm_min;
    std::int32_t sm_max;
    int all = 0;
    int here = 0;
  };
  std::vector<Count> counts;
  for (msda_kernel_info const& kernel : kernels) {
    auto count = std::ranges::find(counts, kernel.family, &Count::family);
    if (count == counts.end()) {
      count = counts.insert(count, {kernel.family, kernel.sm_min, kernel.sm_max});
    }
    count->sm_min = std::min(count->sm_min, kernel.sm_min);
    bool const has_end = count->sm_max != 0 && kernel.sm_max != 0;
    count->sm_max = has_end ? std::max(count->sm_max, kernel.sm_max) : 0;
    ++count->all;
    count->here += runs_here(kernel, found) ? 1 : 0;
  }
  Cells rows = {{"family", "runs on", "kernels", "run here"}};
  for (Count const& count : counts) {
    rows.push_back({std::string(count.family), device_range(count.sm_min, count.sm_max),
                    std::to_string(count.all), std::to_string(count.here)});
  }
  return fmt::format("{}\n`msda info --kernels` lists all {}.\n", table_text(rows, 2),
                     kernels.size());
}

int run_info(Options const& options) {
  ResultFiles files(options);
  auto const kernels = Handle::cpu(1).kernels();
  GpuSearch const found = find_gpu();
  files.add_text("json", json_text(kernels, found));
  files.finish(fmt::format(
      "version  {} (ABI {})\nbuild    {}\nneeds    {}\ncpu      {}, {} threads\ngpu      {}\n\n{}",
      version_text(), msda_abi_version(), msda_build_info(), needs_text(), cpu_model(),
      hardware_threads(), gpu_text(found),
      (options.list_kernels ? kernels_text : families_text)(kernels, found)));
  return kExitOk;
}

}  // namespace

const Command kInfoCommand = {
    "info",
    kInfo,
    "version, build, devices and kernels",
    R"(Shows the version and build of the library, what it needs of the system, the devices of this
machine, and how many kernels each family has and this machine runs.)",
    "",
    R"(Examples:
  msda info
  msda info --kernels
  msda info --json -)",
    run_info};

}  // namespace msda::command
