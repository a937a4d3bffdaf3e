#include "command/report/drawing.h"

#include <fmt/core.h>

#include <iterator>
#include <utility>

namespace msda::command {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (char const letter : text) {
    out += letter == '&'   ? "&amp;"
           : letter == '<' ? "&lt;"
           : letter == '>' ? "&gt;"
                           : std::string(1, letter);
  }
  return out;
}

struct SvgWriter {
  std::string body;

  template <typename... Arguments>
  void append(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(body), format, std::forward<Arguments>(arguments)...);
    body += '\n';
  }
  void operator()(Drawing::Text const& text) {
    constexpr std::string_view kAnchors[] = {"start", "middle", "end"};
    append(
        R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" font-size="{}" font-weight="{}">{}</text>)",
        text.at.x, text.at.y, kAnchors[static_cast<int>(text.anchor)], text.size,
        text.is_bold ? "bold" : "normal", escaped(text.content));
  }
  void operator()(Drawing::Rectangle const& shape) {
    append(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}"/>)", shape.at.x,
           shape.at.y, shape.width, shape.height, shape.colour);
  }
  void operator()(Drawing::Path const& path) {
    std::string places;
    for (Place const& place : path.places)
      places += fmt::format(" {:.1f},{:.1f}", place.x, place.y);
    append(R"(<polyline points="{}" fill="{}" stroke="{}" stroke-width="{}"/>)", places.substr(1),
           path.is_filled ? path.colour : "none", path.colour, path.line_width);
  }
};

}  // namespace

void Drawing::text(Place at, Anchor anchor, std::string_view content, double size, bool is_bold) {
  shapes.emplace_back(Text{at, anchor, std::string(content), size, is_bold});
}

void Drawing::rectangle(Place at, double shape_width, double shape_height,
                        std::string_view colour) {
  shapes.emplace_back(Rectangle{at, shape_width, shape_height, colour});
}

void Drawing::line(Place from, Place to, std::string_view colour, double line_width) {
  shapes.emplace_back(Path{{from, to}, colour, false, line_width});
}

void Drawing::polygon(std::vector<Place> corners, std::string_view colour, bool is_filled) {
  corners.push_back(corners.front());
  shapes.emplace_back(Path{std::move(corners), colour, is_filled, 1.5});
}

std::string svg_of(Drawing const& drawing) {
  SvgWriter writer;
  for (auto const& shape : drawing.shapes) std::visit(writer, shape);
  return fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
                     R"(viewBox="0 0 {0:.0f} {1:.0f}" font-family="sans-serif" fill="{2}">)"
                     "\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{3}</svg>\n",
                     drawing.width, drawing.height, kInk, writer.body);
}

}  // namespace msda::command
