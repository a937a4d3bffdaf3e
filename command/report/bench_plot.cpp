// Horizontal bars with their spread.
#include "command/report/bench_report.h"
#include "command/report/drawing.h"
#include "command/report/report_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace msda::command {
namespace {

struct PlotBar {
  std::string group;   // bars of a group stand together under its name
  std::string series;  // bars of a series have one colour, named in the legend
  double low = 0;
  double middle = 0;
  double high = 0;
  std::string label;  // at the end of the bar
};

constexpr double kLeastLeft = 170;    // of the axis: names of groups are left of it
constexpr double kGroupLetter = 6.8;  // the width of a letter of theirs
constexpr double kAxisLength = 630;
constexpr double kRight = 100;  // of the axis: labels of the longest bars need it
constexpr double kBarHeight = 16;
constexpr double kBarGap = 4;
constexpr double kGroupGap = 14;
constexpr double kLogarithmicRatio = 20;

struct Axis {
  double left = kLeastLeft;
  bool logarithmic = false;
  double low = 0;
  double high = 1;
  std::vector<double> ticks;

  double position(double value) const {
    double const share = logarithmic ? std::log(std::max(value, low) / low) / std::log(high / low)
                                     : (value - low) / (high - low);
    return left + share * kAxisLength;
  }
  double right() const { return left + kAxisLength; }
  double plot_width() const { return right() + kRight; }
};

Axis make_axis(std::vector<PlotBar> const& bars) {
  double const least = std::ranges::min_element(bars, {}, &PlotBar::low)->low;
  double const most = std::ranges::max_element(bars, {}, &PlotBar::high)->high;
  Axis axis;
  for (PlotBar const& bar : bars) {
    axis.left = std::max(axis.left, 24 + kGroupLetter * static_cast<double>(bar.group.size()));
  }
  axis.logarithmic = least > 0 && most / least > kLogarithmicRatio;
  if (axis.logarithmic) {
    axis.low = std::pow(10, std::floor(std::log10(least) - 0.1));
    for (double decade = axis.low; axis.ticks.empty() || axis.ticks.back() < most; decade *= 10) {
      for (double const step : {1.0, 2.0, 5.0}) axis.ticks.push_back(step * decade);
    }
    while (axis.ticks.size() > 2 && axis.ticks[axis.ticks.size() - 2] >= most)
      axis.ticks.pop_back();
    axis.high = axis.ticks.back();
    return axis;
  }
  double const raw = most > 0 ? most / 6 : 1;
  double const decade = std::pow(10, std::floor(std::log10(raw)));
  double const step = raw <= 2 * decade ? 2 * decade : raw <= 5 * decade ? 5 * decade : 10 * decade;
  for (int i = 0; axis.ticks.empty() || axis.ticks.back() < most; ++i)
    axis.ticks.push_back(i * step);
  axis.high = axis.ticks.back();
  return axis;
}

std::vector<std::string> series_of(std::vector<PlotBar> const& bars) {
  std::vector<std::string> series;
  for (PlotBar const& bar : bars) {
    if (std::ranges::find(series, bar.series) == series.end()) series.push_back(bar.series);
  }
  return series;
}

double add_legend(Drawing& drawing, std::vector<std::string> const& series, Axis const& axis,
                  double y) {
  double x = axis.left;
  for (std::size_t i = 0; i < series.size(); ++i) {
    double const width = 40 + 7.0 * static_cast<double>(series[i].size());
    if (x > axis.left && x + width > axis.plot_width()) {
      x = axis.left;
      y += 20;
    }
    drawing.rectangle({x, y - 10}, 12, 12, kColours[i % std::size(kColours)]);
    drawing.text({x + 17, y}, Anchor::kStart, series[i]);
    x += width;
  }
  return y + 18;
}

// Returns where the bars end.
double add_bars(Drawing& drawing, std::vector<PlotBar> const& bars,
                std::vector<std::string> const& series, Axis const& axis, double y) {
  for (std::size_t i = 0; i < bars.size(); ++i) {
    PlotBar const& bar = bars[i];
    if (i == 0 || bar.group != bars[i - 1].group) {
      y += kGroupGap;
      drawing.text({axis.left - 8, y + kBarHeight - 4}, Anchor::kEnd, bar.group);
    }
    auto const colour =
        static_cast<std::size_t>(std::ranges::find(series, bar.series) - series.begin());
    double const middle = y + kBarHeight / 2;
    double const low = axis.position(bar.low);
    double const high = axis.position(bar.high);
    drawing.rectangle({axis.left, y}, axis.position(bar.middle) - axis.left, kBarHeight,
                      kColours[colour % std::size(kColours)]);
    drawing.line({low, middle}, {high, middle}, kInk);
    for (double const end : {low, high})
      drawing.line({end, y + 4}, {end, y + kBarHeight - 4}, kInk);
    drawing.text({high + 6, y + kBarHeight - 4}, Anchor::kStart, bar.label);
    y += kBarHeight + kBarGap;
  }
  return y;
}

// The axis is logarithmic when the bars differ by more than a factor of 20.
Drawing draw_bars(std::string const& title, std::string const& axis_title,
                  std::vector<PlotBar> const& bars) {
  Drawing drawing;
  drawing.text({16, 26}, Anchor::kStart, title, 16, true);
  drawing.width = Axis().plot_width();
  drawing.height = 60;
  if (bars.empty()) return drawing;
  auto const series = series_of(bars);
  Axis const axis = make_axis(bars);
  double const top = add_legend(drawing, series, axis, 52);
  Drawing above_grid;
  double const bottom = add_bars(above_grid, bars, series, axis, top) + 6;
  for (double const tick : axis.ticks) {
    double const x = axis.position(tick);
    drawing.line({x, top}, {x, bottom}, kGrid);
    drawing.text({x, bottom + 16}, Anchor::kMiddle, fmt::format("{:g}", tick), 11);
  }
  drawing.shapes.insert(drawing.shapes.end(), above_grid.shapes.begin(), above_grid.shapes.end());
  drawing.line({axis.left, top}, {axis.left, bottom}, kInk);
  drawing.text({(axis.left + axis.right()) / 2, bottom + 36}, Anchor::kMiddle,
               axis_title + (axis.logarithmic ? " (logarithmic)" : ""));
  drawing.width = axis.plot_width();
  drawing.height = bottom + 52;
  return drawing;
}

}  // namespace

Drawing bench_plot(std::vector<BenchRow> const& rows, BenchSettings const& settings) {
  std::vector<PlotBar> bars;
  std::set<std::string_view> operations;
  for (BenchRow const& row : rows) {
    if (!row.is_timed()) continue;
    operations.insert(operation_name(row.spec));
    std::string const threads =
        settings.threads.size() == 1 ? "" : fmt::format(", {} threads", row.threads);
    bars.push_back(
        {row.workload,
         fmt::format("{}, {}{}", row.kernel_id, type_name(row.spec.value_dtype), threads),
         row.timing.min() * 1e-3, row.timing.median() * 1e-3, row.timing.max() * 1e-3,
         time_text(row.timing.median())});
  }
  std::string const operation = operations.empty() ? "" : fmt::format(" {}", *operations.begin());
  return draw_bars(fmt::format("msda{} - {}", operation, settings.machine()),
                   "milliseconds: median, with the fastest and the slowest run", bars);
}

}  // namespace msda::command
