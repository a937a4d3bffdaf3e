#include "command/report/report_json.h"

#include "command/files/element_type.h"
#include "command/files/parallel.h"
#include "core/cpu_model.h"

#include <fmt/core.h>

#include <utility>

namespace msda::command {

std::string_view operation_name(ProblemShape const& spec) {
  return spec.backward() ? "backward" : "forward";
}

std::string input_name(ProblemShape const& spec) {
  std::string const mode = spec.fused() ? fmt::format("fused{}", spec.reference_dim) : "sampled";
  return spec.nearest() ? mode + "_nearest" : mode;
}

std::string_view math_name(ProblemShape const& spec) {
  return spec.math_mode == MSDA_MATH_FAST ? "fast" : "accurate";
}

std::string machine_text(unsigned threads) {
  return fmt::format("{}, {} thread{}", cpu_model(), threads, threads == 1 ? "" : "s");
}

Json report_json(Json settings) {
  return {{"build", msda_build_info()},
          {"machine", {{"cpu", cpu_model()}, {"hardware_threads", hardware_threads()}}},
          {"settings", std::move(settings)},
          {"results", Json::array()}};
}

Json problem_json(ProblemShape const& spec) {
  Json levels = Json::array();
  for (LevelShape const& level : spec.levels) levels.push_back({level.height, level.width});
  return {{"operation", operation_name(spec)},
          {"input_mode", input_name(spec)},
          {"math_mode", math_name(spec)},
          {"batch", spec.batch},
          {"queries", spec.query_count},
          {"heads", spec.head_count},
          {"channels", spec.head_dim},
          {"levels", levels},
          {"points", spec.point_counts()},
          {"value_border", spec.value_border},
          {"level_start", spec.level_starts()},
          {"tokens", spec.token_count()},
          {"value_dtype", type_name(spec.value_dtype)},
          {"coord_dtype", type_name(spec.coord_dtype)},
          {"reference_dtype", type_name(spec.reference_dtype)},
          {"weight_dtype", type_name(spec.weight_dtype)},
          {"output_dtype", type_name(spec.output_dtype)}};
}

Json timing_json(Timing const& timing) {
  return {{"median", timing.median()},   {"min", timing.min()}, {"q1", timing.quantile(0.25)},
          {"q3", timing.quantile(0.75)}, {"max", timing.max()}, {"runs", timing.microseconds}};
}

}  // namespace msda::command
