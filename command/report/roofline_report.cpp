#include "command/report/roofline_report.h"

#include "command/files/element_type.h"
#include "command/report/report_parts.h"

#include <fmt/core.h>

namespace msda::command {

namespace {

constexpr double kSectorBytes = 32;
constexpr double kWarpPoints = 32;

std::vector<std::string> name_cells(RooflineRow const& row) {
  return {row.workload, row.kernel_id, std::string(type_name(row.spec.value_dtype)),
          std::string(math_name(row.spec))};
}

std::string us_text(double us) { return fmt::format("{:.{}f}", us, us < 99.95 ? 1 : 0); }

std::string range_text(double least, double most) {
  return fmt::format("{}..{}", us_text(least), us_text(most));
}

std::string counts_table(RooflineReport const& report) {
  Cells cells = {{"workload", "kernel", "value", "math", "compulsory", "gathered", "copied",
                  "sectors", "wavefronts", "gather", "records", "inputs", "outputs", "copies",
                  "instructions"}};
  for (RooflineRow const& row : report.rows) {
    std::vector<std::string> line = name_cells(row);
    if (row.counts) {
      Counts const& counts = *row.counts;
      double const warps = work_of(row.spec).points / kWarpPoints;
      auto const of_warp = [warps](double count) {
        return warps > 0 ? fmt::format("{:.1f}", count / warps) : std::string("-");
      };
      line.insert(line.end(), {bytes_text(counts.compulsory_bytes()),
                               bytes_text(counts.gathered_bytes), bytes_text(counts.copied_bytes),
                               count_text(counts.gathered_bytes / kSectorBytes),
                               of_warp(counts.wavefronts()), of_warp(counts.gather_wavefronts),
                               of_warp(counts.record_wavefronts), of_warp(counts.input_wavefronts),
                               of_warp(counts.output_wavefronts), of_warp(counts.copy_wavefronts),
                               counts.instructions > 0 ? of_warp(counts.instructions) : "-"});
    } else {
      line.emplace_back("not modelled");
      line.insert(line.end(), 10, "-");
    }
    cells.push_back(line);
  }
  return table_text(cells, 4);
}

std::string bounds_table(RooflineReport const& report) {
  Cells cells = {{"workload", "kernel", "value", "math", "HBM", "L2", "L1 data pipe", "issue slots",
                  "launch", "bound", "binds", "measured", "of measured"}};
  for (RooflineRow const& row : report.rows) {
    std::vector<std::string> line = name_cells(row);
    Bounds const& bounds = row.bounds;
    if (row.counts) {
      line.insert(
          line.end(),
          {range_text(bounds.hbm, bounds.hbm_most), range_text(bounds.l2, bounds.l2_most),
           us_text(bounds.l1), bounds.issue > 0 ? us_text(bounds.issue) : "-",
           us_text(bounds.launch), us_text(bounds.largest()), std::string(bounds.binding())});
    } else {
      line.emplace_back("not modelled");
      line.insert(line.end(), 6, "-");
    }
    line.push_back(row.measured ? us_text(row.measured->median_us) : "-");
    line.push_back(row.measured && row.counts
                       ? fmt::format("{:.0f} %", 100 * bounds.largest() / row.measured->median_us)
                       : "-");
    cells.push_back(line);
  }
  return table_text(cells, 4);
}

std::string ncu_table(RooflineReport const& report) {
  Cells cells = {{"launch", "counter", "counted", "measured", "ratio"}};
  for (ComparedCounter const& row : report.ncu) {
    cells.push_back({row.launch, row.counter,
                     row.counted ? fmt::format("{:.4g}", *row.counted) : "-",
                     fmt::format("{:.4g}", row.measured),
                     row.ratio() ? fmt::format("{:.3f}", *row.ratio()) : "-"});
  }
  return table_text(cells, 2);
}

Json counts_json(Counts const& counts) {
  return {{"input_bytes", counts.input_bytes},
          {"output_bytes", counts.output_bytes},
          {"value_bytes", counts.value_bytes},
          {"compulsory_bytes", counts.compulsory_bytes()},
          {"gathered_bytes", counts.gathered_bytes},
          {"copied_bytes", counts.copied_bytes},
          {"gather_loads", counts.gather_loads},
          {"gathered_sectors", counts.gathered_bytes / kSectorBytes},
          {"wavefronts",
           {{"all", counts.wavefronts()},
            {"gather", counts.gather_wavefronts},
            {"records", counts.record_wavefronts},
            {"inputs", counts.input_wavefronts},
            {"outputs", counts.output_wavefronts},
            {"copies", counts.copy_wavefronts}}},
          {"instructions", counts.instructions > 0 ? Json(counts.instructions) : Json()}};
}

Json bounds_json(Bounds const& bounds) {
  return {{"hbm", {bounds.hbm, bounds.hbm_most}},
          {"l2", {bounds.l2, bounds.l2_most}},
          {"l1", bounds.l1},
          {"issue", bounds.issue > 0 ? Json(bounds.issue) : Json()},
          {"launch", bounds.launch},
          {"largest", bounds.largest()},
          {"binds", bounds.binding()}};
}

Json row_json(RooflineRow const& row) {
  Json json = {{"workload", row.workload},
               {"kernel_id", row.kernel_id},
               {"problem", problem_json(row.spec)},
               {"counts", row.counts ? counts_json(*row.counts) : Json()},
               {"bounds_us", row.counts ? bounds_json(row.bounds) : Json()},
               {"measured_us", nullptr}};
  if (row.measured) {
    json["measured_us"] = {{"median", row.measured->median_us},
                           {"q1", row.measured->q1_us},
                           {"q3", row.measured->q3_us}};
  }
  return json;
}

}  // namespace

std::string roofline_table(RooflineReport const& report) {
  std::string text = fmt::format(
      "{}, rates: {}; times: {}\n\nCounted; wavefronts and instructions for 32 points\n{}\n"
      "Bounds, microseconds: of HBM and L2 from every sector read once to every gather missed, of "
      "L1 where every gather hits\n{}",
      report.rates.gpu, report.rates_source, report.times_source, counts_table(report),
      bounds_table(report));
  if (!report.ncu.empty()) text += "\nNsight Compute\n" + ncu_table(report);
  return text;
}

std::string roofline_json(RooflineReport const& report) {
  Json json = report_json({{"rates", Json::parse(rates_json(report.rates, report.rates_source))},
                           {"times", report.times_source}});
  for (RooflineRow const& row : report.rows) json["results"].push_back(row_json(row));
  json["ncu"] = Json::array();
  for (ComparedCounter const& row : report.ncu) {
    json["ncu"].push_back({{"launch", row.launch},
                           {"counter", row.counter},
                           {"counted", row.counted ? Json(*row.counted) : Json()},
                           {"measured", row.measured},
                           {"ratio", row.ratio() ? Json(*row.ratio()) : Json()}});
  }
  return json.dump(2) + "\n";
}

}  // namespace msda::command
