// Horizontal bars with their spread.
#pragma once

#include "command/report/drawing.h"

#include <string>
#include <vector>

namespace msda::command {

struct PlotBar {
  std::string group;   // bars of a group stand together under its name
  std::string series;  // bars of a series have one colour, named in the legend
  double low = 0;
  double middle = 0;
  double high = 0;
  std::string label;  // at the end of the bar
};

// The axis is logarithmic when the bars differ by more than a factor of 20.
Drawing draw_bars(std::string const& title, std::string const& axis_title,
                  std::vector<PlotBar> const& bars);

}  // namespace msda::command
