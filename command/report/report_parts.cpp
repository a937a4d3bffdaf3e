#include "command/report/report_parts.h"

#include "command/files/element_type.h"
#include "command/files/parallel.h"
#include "command/files/text_values.h"
#include "core/cpu_model.h"
#include "core/join.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace msda::command {
namespace {

std::string scaled(double value, std::string_view unit) {
  constexpr std::array<std::string_view, 5> kPrefixes = {"", "k", "M", "G", "T"};
  std::size_t step = 0;
  while (value >= 999.5 && step + 1 < kPrefixes.size()) {
    value /= 1000;
    ++step;
  }
  int const decimals = step == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}{}", value, decimals, kPrefixes[step], unit);
}

}  // namespace

std::string version_text() {
  std::uint32_t const version = msda_version();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string time_text(double microseconds) {
  if (microseconds < 1e3) return fmt::format("{:.1f} us", microseconds);
  if (microseconds < 1e6) return fmt::format("{:.2f} ms", microseconds * 1e-3);
  return fmt::format("{:.2f} s", microseconds * 1e-6);
}

std::string rough_time_text(double microseconds) {
  double const unit =
      microseconds > 0 ? std::pow(10.0, std::floor(std::log10(microseconds)) - 1) : 1;
  double const rounded = std::round(microseconds / unit) * unit;
  if (rounded < 1e3) return fmt::format("{:.3g} us", rounded);
  if (rounded < 1e6) return fmt::format("{:.3g} ms", rounded * 1e-3);
  return fmt::format("{:.3g} s", rounded * 1e-6);
}

std::string bytes_text(double bytes) { return scaled(bytes, "B"); }

std::string count_text(double count) { return scaled(count, ""); }

std::string sizes_text(ProblemShape const& spec) {
  std::string placed;
  if (!spec.level_start.empty() || spec.tokens != 0) {
    placed =
        fmt::format("  starts {}  tokens {}", join(spec.level_starts(), ","), spec.token_count());
  }
  return fmt::format("{} {}  B {}  Q {}  M {}  D {}  levels {}  points {}{}{}",
                     spec.backward() ? "backward" : "forward",
                     spec.fused() ? fmt::format("fused({})", spec.reference_dim) : "sampled",
                     spec.batch, spec.query_count, spec.head_count, spec.head_dim,
                     pairs_text(spec.level_hw()), join(spec.point_counts(), ","),
                     spec.value_border == 1 ? "  bordered" : "", placed);
}

std::string types_text(ProblemShape const& spec) {
  std::string text = fmt::format("value {}  coord {}  weight {}  output {}",
                                 type_name(spec.value_dtype), type_name(spec.coord_dtype),
                                 type_name(spec.weight_dtype), type_name(spec.output_dtype));
  if (spec.fused() && spec.reference_dtype != spec.coord_dtype) {
    text += fmt::format("  reference {}", type_name(spec.reference_dtype));
  }
  if (spec.backward()) text += fmt::format("  grad_value {}", type_name(spec.grad_value_dtype));
  if (spec.math_mode == MSDA_MATH_FAST) text += "  fast math";
  if (spec.nearest()) text += "  nearest pixels";
  if (spec.determinism == MSDA_NONDETERMINISTIC) text += "  any order";
  if (spec.point_locality != MSDA_POINTS_UNKNOWN) {
    text += fmt::format("  points {}", locality_name(spec.point_locality));
  }
  return text;
}

std::string accuracy_text(Accuracy const& accuracy) {
  return fmt::format("max error {:.3g}, {:.3g} of the bound: {}", accuracy.max_error,
                     accuracy.max_bound_share, accuracy.passed() ? "ok" : "FAILED");
}

std::string wrong_text(Accuracy const& accuracy) {
  return fmt::format("{}; wrong elements: {}", accuracy.first_wrong, accuracy.wrong_count);
}

Work work_of(ProblemShape const& spec) {
  Work work;
  work.points = static_cast<double>(spec.batch) * static_cast<double>(spec.query_count) *
                static_cast<double>(spec.head_count) * static_cast<double>(spec.point_total());
  work.gathered_bytes = work.points * (spec.nearest() ? 1 : 4) *
                        static_cast<double>(spec.head_dim) *
                        static_cast<double>(type_bytes(spec.value_dtype));
  for (TensorRow const& row : tensor_rows()) {
    if (row.is_optional() || !row.belongs_to(spec)) continue;
    work.tensor_bytes += static_cast<double>(tensor_bytes(spec, row));
  }
  return work;
}

std::string table_text(Cells const& rows, std::size_t left_columns) {
  std::vector<std::size_t> widths;
  for (auto const& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (auto const& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? "" : "  ";
      line += i < left_columns ? fmt::format("{:<{}}", row[i], widths[i])
                               : fmt::format("{:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

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
