// The roofline of a GPU and each kernel under it: warp instructions a second over warp instructions
// a byte, once for each memory. This form is that of Ding and Williams, "An Instruction Roofline
// Model for GPUs" (2019).
#include "command/report/drawing.h"
#include "command/report/report_parts.h"
#include "command/report/roofline_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace msda::command {
namespace {

constexpr double kPlotLeft = 76;
constexpr double kPlotTop = 76;
constexpr double kPlotWidth = 640;
constexpr double kPlotHeight = 400;
constexpr double kPlotRight = kPlotLeft + kPlotWidth;
constexpr double kPlotBottom = kPlotTop + kPlotHeight;
constexpr double kMarkRadius = 5;
constexpr double kLineHeight = 18;
constexpr double kMicro = 1e-6;

// One of the memories that kernels wait for: a slanted roof, and a mark of each kernel.
struct Memory {
  std::string name;
  double bytes_per_us;
  double Bounds::* bound;
  int corners;  // of its marks
};

std::vector<Memory> memories_of(GpuRates const& rates) {
  auto const fastest = [](PieceRates const& r) { return *std::ranges::max_element(r) * 1e6; };
  return {{"HBM", fastest(rates.hbm_tb_per_s), &Bounds::hbm, 24},
          {"L2", fastest(rates.l2_tb_per_s), &Bounds::l2, 4},
          {"L1 data pipe", kWavefrontBytes * rates.clock_mhz * rates.sm_count, &Bounds::l1, 3}};
}

// A kernel in numbers of the axes.
struct Point {
  RooflineRow const* row;
  std::vector<double> intensities;  // instructions a byte, of each memory
  double performance = 0;           // instructions a microsecond, as measured or at its bound
};

bool is_drawn(RooflineRow const& row) { return row.counts && row.counts->instructions > 0; }

std::vector<Point> points_of(RooflineReport const& report, std::vector<Memory> const& memories) {
  std::vector<Point> points;
  for (RooflineRow const& row : report.rows) {
    if (!is_drawn(row)) continue;
    double const instructions = row.counts->instructions;
    Point point{&row, {}, instructions / row.bounds.largest()};
    if (row.measured) point.performance = instructions / row.measured->median_us;
    // A kernel moves what its bound says at the rate of the roof.
    for (Memory const& memory : memories) {
      point.intensities.push_back(instructions / (row.bounds.*memory.bound * memory.bytes_per_us));
    }
    points.push_back(point);
  }
  return points;
}

struct LogAxis {
  double least;
  double most;
  double start;
  double length;

  double position(double value) const {
    return start + length * std::log(value / least) / std::log(most / least);
  }
  std::vector<double> ticks() const {
    std::vector<double> found;
    for (double decade = std::pow(10, std::floor(std::log10(least))); decade < most; decade *= 10) {
      for (double const tick : {decade, 2 * decade, 5 * decade}) {
        if (tick >= least && tick <= most) found.push_back(tick);
      }
    }
    return found;
  }
};

struct Axes {
  LogAxis x;
  LogAxis y;
  Place place(double intensity, double performance) const {
    return {x.position(intensity), y.position(performance)};
  }
};

Axes axes_of(std::vector<Point> const& points, std::vector<Memory> const& memories, double peak) {
  double least_x = peak / memories.back().bytes_per_us;
  double most_x = peak / memories.front().bytes_per_us;
  double least_y = peak / 10;
  for (Point const& point : points) {
    auto const [low, high] = std::ranges::minmax(point.intensities);
    least_x = std::min(least_x, low);
    most_x = std::max(most_x, high);
    least_y = std::min(least_y, point.performance);
  }
  constexpr double kMargin = 1.5;
  return {{least_x / kMargin, most_x * kMargin, kPlotLeft, kPlotWidth},
          {least_y / kMargin, peak * kMargin, kPlotBottom, -kPlotHeight}};
}

void add_axes(Drawing& drawing, Axes const& axes) {
  for (double const tick : axes.x.ticks()) {
    double const x = axes.x.position(tick);
    drawing.line({x, kPlotTop}, {x, kPlotBottom}, kGrid);
    drawing.text({x, kPlotBottom + 16}, Anchor::kMiddle, fmt::format("{:g}", tick), 11);
  }
  for (double const tick : axes.y.ticks()) {
    double const y = axes.y.position(tick);
    drawing.line({kPlotLeft, y}, {kPlotRight, y}, kGrid);
    drawing.text({kPlotLeft - 8, y + 4}, Anchor::kEnd, fmt::format("{:g}", tick * kMicro), 11);
  }
  drawing.line({kPlotLeft, kPlotBottom}, {kPlotRight, kPlotBottom}, kInk);
  drawing.line({kPlotLeft, kPlotTop}, {kPlotLeft, kPlotBottom}, kInk);
  drawing.text({16, kPlotTop - 10}, Anchor::kStart, "10^12 warp instructions a second");
  drawing.text({kPlotLeft + kPlotWidth / 2, kPlotBottom + 36}, Anchor::kMiddle,
               "warp instructions a byte (L1: a wavefront has 128 bytes)");
}

// A mark has as many corners as its memory says: 24 look like a circle.
void add_mark(Drawing& drawing, Place at, std::size_t memory, int corners, bool is_filled) {
  std::vector<Place> outline;
  for (int i = 0; i < corners; ++i) {
    double const turn = 2 * std::numbers::pi * i / corners;
    outline.push_back({at.x + kMarkRadius * std::sin(turn), at.y - kMarkRadius * std::cos(turn)});
  }
  drawing.polygon(outline, kColours[memory], is_filled);
}

void add_roofs(Drawing& drawing, Axes const& axes, std::vector<Memory> const& memories,
               double peak) {
  double flat_from = kPlotRight;
  double legend = kPlotLeft;
  for (std::size_t i = 0; i < memories.size(); ++i) {
    double const rate = memories[i].bytes_per_us;
    double const start = std::max(axes.x.least, axes.y.least / rate);
    drawing.line(axes.place(start, start * rate), axes.place(peak / rate, peak), kColours[i], 2);
    flat_from = std::min(flat_from, axes.x.position(peak / rate));
    add_mark(drawing, {legend + 6, 48}, i, memories[i].corners, true);
    std::string const name = fmt::format("{}, {:.1f} TB/s", memories[i].name, rate * kMicro);
    drawing.text({legend + 17, 52}, Anchor::kStart, name);
    legend += 44 + 7.0 * static_cast<double>(name.size());
  }
  double const y = axes.y.position(peak);
  drawing.line({flat_from, y}, {kPlotRight, y}, kInk, 2);
  drawing.text({kPlotRight, y - 7}, Anchor::kEnd,
               fmt::format("issue slots, {:.2f} 10^12 instructions a second", peak * kMicro));
}

// The marks of a kernel, joined, and its number where no other is.
void add_point(Drawing& drawing, Axes const& axes, std::vector<Memory> const& memories,
               Point const& point, std::vector<Place>& numbers) {
  auto const [low, high] = std::ranges::minmax(point.intensities);
  Place at = axes.place(high, point.performance);
  drawing.line(axes.place(low, point.performance), at, kColours[6]);
  for (std::size_t i = 0; i < memories.size(); ++i) {
    add_mark(drawing, axes.place(point.intensities[i], point.performance), i, memories[i].corners,
             point.row->measured.has_value());
  }
  at = {at.x + 9, at.y + 4};
  auto const is_taken = [&at](Place const& other) {
    return std::abs(other.x - at.x) < 14 && std::abs(other.y - at.y) < 11;
  };
  while (std::ranges::any_of(numbers, is_taken)) at.x += 14;
  numbers.push_back(at);
  drawing.text(at, Anchor::kStart, std::to_string(numbers.size()), 11, true);
}

std::string legend_of(RooflineRow const& row) {
  std::string const name = fmt::format("{}  {}{}", row.workload, row.kernel_id,
                                       row.spec.math_mode == MSDA_MATH_FAST ? ", fast math" : "");
  if (!is_drawn(row)) return name + ": not drawn, no instructions are counted";
  Bounds const& bounds = row.bounds;
  if (!row.measured) {
    return fmt::format("{}: not measured, drawn at its bound of {} ({})", name,
                       time_text(bounds.largest()), bounds.binding());
  }
  double const median = row.measured->median_us;
  return fmt::format("{}: {}, {:.0f} % of its bound ({})", name, time_text(median),
                     100 * bounds.largest() / median, bounds.binding());
}

}  // namespace

Drawing roofline_plot(RooflineReport const& report) {
  std::vector<Memory> const memories = memories_of(report.rates);
  std::vector<Point> const points = points_of(report, memories);
  GpuRates const& rates = report.rates;
  double const peak = rates.issue_per_cycle * rates.clock_mhz * rates.sm_count;
  Axes const axes = axes_of(points, memories, peak);
  Drawing drawing;
  drawing.width = kPlotRight + 60;
  drawing.text({16, 26}, Anchor::kStart, fmt::format("msda roofline - {}", rates.gpu), 16, true);
  add_axes(drawing, axes);
  add_roofs(drawing, axes, memories, peak);
  std::vector<Place> numbers;
  double y = kPlotBottom + 64;
  for (Point const& point : points) {
    add_point(drawing, axes, memories, point, numbers);
    drawing.text({34, y}, Anchor::kEnd, std::to_string(numbers.size()), 11, true);
    drawing.text({42, y}, Anchor::kStart, legend_of(*point.row), 11);
    y += kLineHeight;
  }
  for (RooflineRow const& row : report.rows) {
    if (is_drawn(row)) continue;
    drawing.text({42, y}, Anchor::kStart, legend_of(row), 11);
    y += kLineHeight;
  }
  drawing.height = y;
  return drawing;
}

}  // namespace msda::command
