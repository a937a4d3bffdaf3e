#include "command/report/svg_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>

namespace msda::command {
namespace {

constexpr double kLeastLeft = 170;    // of the axis: names of groups are left of it
constexpr double kGroupLetter = 6.8;  // the width of a letter of theirs
constexpr double kAxisLength = 630;
constexpr double kRight = 100;  // of the axis: labels of the longest bars need it
constexpr double kBarHeight = 16;
constexpr double kBarGap = 4;
constexpr double kGroupGap = 14;
constexpr double kLogarithmicRatio = 20;
// Okabe and Ito's colours, which the colour-blind can tell apart.
constexpr std::array<std::string_view, 7> kColours = {"#0072B2", "#E69F00", "#009E73", "#CC79A7",
                                                      "#56B4E9", "#D55E00", "#999999"};

std::string escaped(std::string_view text) {
  std::string out;
  for (char const letter : text) {
    if (letter == '&')
      out += "&amp;";
    else if (letter == '<')
      out += "&lt;";
    else if (letter == '>')
      out += "&gt;";
    else
      out += letter;
  }
  return out;
}

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
  double least = bars.front().low;
  double most = bars.front().high;
  for (PlotBar const& bar : bars) {
    least = std::min(least, bar.low);
    most = std::max(most, bar.high);
  }
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
    if (std::find(series.begin(), series.end(), bar.series) == series.end())
      series.push_back(bar.series);
  }
  return series;
}

class Drawing {
 public:
  void text(double x, double y, std::string_view anchor, std::string_view content, int size = 12,
            std::string_view weight = "normal") {
    append(
        R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" font-size="{}" font-weight="{}">{}</text>)",
        x, y, anchor, size, weight, escaped(content));
  }
  void rectangle(double x, double y, double width, double height, std::string_view colour) {
    append(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}"/>)", x, y, width,
           height, colour);
  }
  void line(double x1, double y1, double x2, double y2, std::string_view colour) {
    append(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}"/>)", x1, y1, x2, y2,
           colour);
  }
  std::string finish(double width, double height) const {
    return fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
        R"(viewBox="0 0 {0:.0f} {1:.0f}" font-family="sans-serif" fill="#222">)"
        "\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{2}</svg>\n",
        width, height, body_);
  }

 private:
  template <typename... Arguments>
  void append(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Arguments>(arguments)...);
    body_ += '\n';
  }
  std::string body_;
};

double draw_legend(Drawing& drawing, std::vector<std::string> const& series, Axis const& axis,
                   double y) {
  double x = axis.left;
  for (std::size_t i = 0; i < series.size(); ++i) {
    double const width = 40 + 7.0 * static_cast<double>(series[i].size());
    if (x > axis.left && x + width > axis.plot_width()) {
      x = axis.left;
      y += 20;
    }
    drawing.rectangle(x, y - 10, 12, 12, kColours[i % kColours.size()]);
    drawing.text(x + 17, y, "start", series[i]);
    x += width;
  }
  return y + 18;
}

// Returns where the bars end.
double draw_bars(Drawing& drawing, std::vector<PlotBar> const& bars,
                 std::vector<std::string> const& series, Axis const& axis, double y) {
  for (std::size_t i = 0; i < bars.size(); ++i) {
    PlotBar const& bar = bars[i];
    if (i == 0 || bar.group != bars[i - 1].group) {
      y += kGroupGap;
      drawing.text(axis.left - 8, y + kBarHeight - 4, "end", bar.group);
    }
    auto const colour = static_cast<std::size_t>(
        std::find(series.begin(), series.end(), bar.series) - series.begin());
    double const middle = y + kBarHeight / 2;
    double const low = axis.position(bar.low);
    double const high = axis.position(bar.high);
    drawing.rectangle(axis.left, y, axis.position(bar.middle) - axis.left, kBarHeight,
                      kColours[colour % kColours.size()]);
    drawing.line(low, middle, high, middle, "#222");
    for (double const end : {low, high}) drawing.line(end, y + 4, end, y + kBarHeight - 4, "#222");
    drawing.text(high + 6, y + kBarHeight - 4, "start", bar.label);
    y += kBarHeight + kBarGap;
  }
  return y;
}

}  // namespace

std::string svg_bars(std::string const& title, std::string const& axis_title,
                     std::vector<PlotBar> const& bars) {
  Drawing drawing;
  drawing.text(16, 26, "start", title, 16, "bold");
  if (bars.empty()) return drawing.finish(Axis().plot_width(), 60);
  auto const series = series_of(bars);
  Axis const axis = make_axis(bars);
  double const top = draw_legend(drawing, series, axis, 52);
  double const groups_height = [&bars] {
    double height = 0;
    for (std::size_t i = 0; i < bars.size(); ++i) {
      height +=
          kBarHeight + kBarGap + (i == 0 || bars[i].group != bars[i - 1].group ? kGroupGap : 0);
    }
    return height;
  }();
  double const bottom = top + groups_height + 6;
  for (double const tick : axis.ticks) {
    double const x = axis.position(tick);
    drawing.line(x, top, x, bottom, "#ddd");
    drawing.text(x, bottom + 16, "middle", fmt::format("{:g}", tick), 11);
  }
  draw_bars(drawing, bars, series, axis, top);
  drawing.line(axis.left, top, axis.left, bottom, "#222");
  drawing.text((axis.left + axis.right()) / 2, bottom + 36, "middle",
               axis_title + (axis.logarithmic ? " (logarithmic)" : ""));
  return drawing.finish(axis.plot_width(), bottom + 52);
}

}  // namespace msda::command
