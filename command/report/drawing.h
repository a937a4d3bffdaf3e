// A plot as shapes, and the shapes as SVG or PNG.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace msda::command {

struct Place {
  double x = 0;
  double y = 0;  // downward
};

enum class Anchor { kStart, kMiddle, kEnd };

struct Drawing {
  struct Text {
    Place at;
    Anchor anchor;
    std::string content;
    double size;
    bool is_bold;
  };
  struct Rectangle {
    Place at;
    double width;
    double height;
    std::string_view colour;
  };
  struct Path {
    std::vector<Place> places;
    std::string_view colour;
    bool is_filled;
    double line_width;
  };

  double width = 0;
  double height = 0;
  std::vector<std::variant<Text, Rectangle, Path>> shapes;  // the last lies on top

  void text(Place at, Anchor anchor, std::string_view content, double size = 12,
            bool is_bold = false);
  void rectangle(Place at, double shape_width, double shape_height, std::string_view colour);
  void line(Place from, Place to, std::string_view colour, double line_width = 1);
  // Closed; only its outline where it is not filled.
  void polygon(std::vector<Place> corners, std::string_view colour, bool is_filled);
};

std::string svg_of(Drawing const& drawing);

extern const bool kCanDrawPng;  // whether the command was built with Cairo
std::string png_of(Drawing const& drawing);

// Okabe and Ito's colours, which the colour-blind can tell apart.
inline constexpr std::string_view kColours[] = {"#0072B2", "#E69F00", "#009E73", "#CC79A7",
                                                "#56B4E9", "#D55E00", "#999999"};
inline constexpr std::string_view kInk = "#222222";
inline constexpr std::string_view kGrid = "#DDDDDD";

}  // namespace msda::command
