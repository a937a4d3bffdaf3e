// PNG by Cairo (MSDA_HAS_CAIRO), which has the fonts, the lines without steps and the file format.
#include "command/report/drawing.h"

#include <stdexcept>

#if MSDA_HAS_CAIRO
#include <cairo.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>

namespace msda::command {
namespace {

constexpr double kPixelsPerUnit = 2;
constexpr double kMaxPixels = 32767;  // of a side of Cairo's images

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS) {
    throw std::runtime_error(std::string("Cairo: ") + cairo_status_to_string(status));
  }
}

struct CairoWriter {
  cairo_t* context;

  void set_colour(std::string_view colour) const {  // "#RRGGBB"
    unsigned bits = 0;
    std::from_chars(colour.data() + 1, colour.data() + colour.size(), bits, 16);
    auto const part = [bits](unsigned shift) { return (bits >> shift & 0xff) / 255.0; };
    cairo_set_source_rgb(context, part(16), part(8), part(0));
  }
  void operator()(Drawing::Text const& text) const {
    cairo_select_font_face(context, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           text.is_bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(context, text.size);
    cairo_text_extents_t extents;
    cairo_text_extents(context, text.content.c_str(), &extents);
    set_colour(kInk);
    cairo_move_to(context, text.at.x - extents.x_advance * static_cast<int>(text.anchor) / 2,
                  text.at.y);
    cairo_show_text(context, text.content.c_str());
  }
  void operator()(Drawing::Rectangle const& shape) const {
    set_colour(shape.colour);
    cairo_rectangle(context, shape.at.x, shape.at.y, shape.width, shape.height);
    cairo_fill(context);
  }
  void operator()(Drawing::Path const& path) const {
    set_colour(path.colour);
    cairo_set_line_width(context, path.line_width);
    cairo_new_path(context);  // a text leaves its end as the place to go on from
    for (Place const& place : path.places) cairo_line_to(context, place.x, place.y);
    if (path.is_filled) cairo_fill_preserve(context);
    cairo_stroke(context);
  }
};

cairo_status_t append_bytes(void* text, unsigned char const* bytes, unsigned count) {
  static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(bytes), count);
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

const bool kCanDrawPng = true;

std::string png_of(Drawing const& drawing) {
  double const scale =
      std::min(kPixelsPerUnit, kMaxPixels / std::max(drawing.width, drawing.height));
  auto const pixels = [scale](double units) { return static_cast<int>(std::floor(units * scale)); };
  std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)> const surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, pixels(drawing.width), pixels(drawing.height)),
      cairo_surface_destroy);
  std::unique_ptr<cairo_t, decltype(&cairo_destroy)> const context(cairo_create(surface.get()),
                                                                   cairo_destroy);
  cairo_scale(context.get(), scale, scale);
  cairo_set_source_rgb(context.get(), 1, 1, 1);
  cairo_paint(context.get());
  for (auto const& shape : drawing.shapes) std::visit(CairoWriter{context.get()}, shape);
  check(cairo_status(context.get()));
  std::string bytes;
  check(cairo_surface_write_to_png_stream(surface.get(), append_bytes, &bytes));
  return bytes;
}

}  // namespace msda::command
#else
namespace msda::command {

const bool kCanDrawPng = false;

std::string png_of(Drawing const& /*drawing*/) {
  throw std::logic_error("PNG without Cairo: the options are checked before");
}

}  // namespace msda::command
#endif
