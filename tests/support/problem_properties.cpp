#include "support/problem_properties.h"

#include "support/element_formats.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace msda::test {
namespace {

// Strides of a result are 0 only where it is empty.
std::string stride_kind(Strides3 const& strides, bool may_repeat) {
  if (strides == Strides3{0, 0, 0}) return "packed";
  if (may_repeat && std::ranges::count(strides, 0) > 0) return "repeating";
  bool const in_order = strides[0] >= strides[1] && strides[1] >= strides[2];
  return in_order ? "padded" : "permuted";
}

struct Stride {
  const char* name;
  Strides3 ProblemShape::* strides;
};
constexpr Stride kStrides[] = {
#define MSDA_STRIDES(name, tensors) {#name, &ProblemShape::name},
#include "core/problem_fields.inc"
};
struct Dtype {
  const char* name;
  msda_dtype ProblemShape::* dtype;
};
constexpr Dtype kDtypes[] = {
#define MSDA_DTYPE(name, otherwise) {#name, &ProblemShape::name},
#include "core/problem_fields.inc"
};

void add_empty(ProblemShape const& shape, std::vector<Property>& to) {
  auto const add_if = [&](bool holds, const char* name) {
    if (holds) to.push_back({name, ""});
  };
  auto const any_level = [&](auto holds) { return std::ranges::any_of(shape.levels, holds); };
  add_if(shape.batch == 0, "B=0");
  add_if(shape.query_count == 0, "Q=0");
  add_if(shape.head_count == 0, "M=0");
  add_if(shape.head_dim == 0, "D=0");
  add_if(shape.levels.empty(), "L=0");
  add_if(!shape.levels.empty() && shape.point_total() == 0, "P=0");
  add_if(any_level([](LevelShape const& level) { return level.points == 0; }) &&
             shape.point_total() > 0,
         "P=0 of a level");
  add_if(any_level([](LevelShape const& level) { return level.points > 0 && level.height == 0; }),
         "H=0 under points");
  add_if(any_level([](LevelShape const& level) { return level.points > 0 && level.width == 0; }),
         "W=0 under points");
}

// Adds where the levels that have tokens lie.
void add_places(ProblemShape const& shape, std::vector<Property>& to) {
  struct Range {
    std::int64_t begin, end;
  };
  std::vector<Range> ranges;
  std::vector<std::int64_t> const starts = shape.level_starts();
  for (std::size_t l = 0; l < starts.size(); ++l) {
    std::int64_t const tokens = shape.level_tokens(shape.levels[l]);
    if (tokens > 0) ranges.push_back({starts[l], starts[l] + tokens});
  }
  if (!std::ranges::is_sorted(ranges, {}, &Range::begin)) to.push_back({"levels out of order", ""});
  std::ranges::sort(ranges, {}, &Range::begin);
  bool overlap = false, are_apart = false;
  std::int64_t end = 0;
  for (Range const& range : ranges) {
    overlap = overlap || range.begin < end;
    are_apart = are_apart || range.begin > end;
    end = std::max(end, range.end);
  }
  if (overlap) to.push_back({"levels that overlap", ""});
  if (are_apart) to.push_back({"levels apart", ""});
  if (shape.token_count() > end) to.push_back({"tokens behind levels", ""});
}

std::size_t element_count(ProblemShape const& shape, TensorId id) {
  return static_cast<std::size_t>(layout_of(shape, id).element_count());
}

void add_specials(RandomDraw const& draw, std::vector<Property>& to) {
  ProblemShape const& shape = draw.shape;
  DataKind const& kind = draw.kind;
  auto const add_if = [&](bool flag, TensorId id, const char* name) {
    if (flag && element_count(shape, id) > 0) to.push_back({name, ""});
  };
  TensorId const coord = shape.fused() ? TensorId::kOffset : TensorId::kCoord;
  TensorId const weight = shape.fused() ? TensorId::kLogit : TensorId::kWeight;
  add_if(kind.odd_coords, coord, "odd coordinates");
  add_if(kind.on_pixel_lines, coord, "pixel lines");
  add_if(kind.odd_weights, weight, "NaN weights");
  add_if(kind.infinite_weights, weight, "infinite weights");
  add_if(kind.steep_logits, weight, "steep logits");
  bool const has_pixels = std::ranges::any_of(
      shape.levels, [](LevelShape const& level) { return level.height > 0 && level.width > 0; });
  add_if(kind.odd_values && has_pixels, TensorId::kValue, "odd values");
  if (shape.backward()) add_if(kind.odd_grads, TensorId::kGradOutput, "odd grad_output");
}

// Pairs of words with which two properties begin that exclude each other.
using Pair = std::array<std::string_view, 2>;
constexpr Pair kExcluded[] = {
    // Only backward problems have these.
    {"operation forward", "grad_value_dtype"},
    {"operation forward", "odd grad_output"},
    // One is part of the other, or leaves it nothing.
    {"L=0", "levels"},
    {"L=0", "P=0"},
    {"L=0", "P=0 of a level"},
    {"L=0", "H=0"},
    {"L=0", "W=0"},
    {"P=0", "P=0 of a level"},
    {"P=0", "H=0"},
    {"P=0", "W=0"},
    // Numbers of a tensor without elements.
    {"B=0", "odd"},
    {"B=0", "pixel lines"},
    {"B=0", "NaN weights"},
    {"B=0", "infinite weights"},
    {"B=0", "steep logits"},
    {"Q=0", "odd coordinates"},
    {"Q=0", "odd grad_output"},
    {"Q=0", "pixel lines"},
    {"Q=0", "NaN weights"},
    {"Q=0", "infinite weights"},
    {"Q=0", "steep logits"},
    {"M=0", "odd"},
    {"M=0", "pixel lines"},
    {"M=0", "NaN weights"},
    {"M=0", "infinite weights"},
    {"M=0", "steep logits"},
    {"D=0", "odd values"},
    {"D=0", "odd grad_output"},
    {"L=0", "odd values"},
    {"L=0", "odd coordinates"},
    {"L=0", "pixel lines"},
    {"L=0", "NaN weights"},
    {"L=0", "infinite weights"},
    {"L=0", "steep logits"},
    {"P=0", "odd coordinates"},
    {"P=0", "pixel lines"},
    {"P=0", "NaN weights"},
    {"P=0", "infinite weights"},
    {"P=0", "steep logits"},
    // A softmax has no infinite weight, and steep logits are those of one.
    {"infinite weights", "reference_dim 2"},
    {"infinite weights", "reference_dim 4"},
    {"infinite weights", "steep logits"},
    {"steep logits", "reference_dim 0"},
    // A weight below float32's numbers is 0 there, and 0 times an infinity is none.
    {"steep logits", "odd values"},
    {"steep logits", "odd grad_output"},
    // Offsets are drawn anywhere; points on pixel lines are sampled.
    {"pixel lines", "reference_dim 2"},
    {"pixel lines", "reference_dim 4"},
    {"pixel lines", "steep logits"},
    // On a line rounding chooses which pixels are read, and so whether the result is a number.
    {"pixel lines", "odd values"},
    {"pixel lines", "odd grad_output"},
    {"pixel lines", "NaN weights"},
    {"pixel lines", "infinite weights"},
    // Coordinates that repeat cannot keep off lines one by one.
    {"coord_strides repeating", "odd values"},
    {"coord_strides repeating", "infinite weights"},
    // Borders are 0 and pixels are not.
    {"levels that overlap", "value_border 1"},
    // Rows of a result must not overlap.
    {"output_strides repeating", ""},
    {"grad_coord_strides repeating", ""},
    {"grad_weight_strides repeating", ""},
    // Forward has no gradients.
    {"grad_coord_strides", "operation forward"},
    {"grad_weight_strides", "operation forward"},
    // Sampled input has no references.
    {"reference_dtype", "reference_dim 0"},
    {"reference_dtype", "infinite weights"},
    {"reference_dtype", "pixel lines"},
};

}  // namespace

std::vector<Property> properties_of(RandomDraw const& draw) {
  ProblemShape const& shape = draw.shape;
  std::vector<Property> result = {
      {"operation", shape.backward() ? "backward" : "forward"},
      {"reference_dim", std::to_string(shape.reference_dim)},
      {"value_border", std::to_string(shape.value_border)},
      {"math_mode", shape.math_mode == MSDA_MATH_FAST ? "fast" : "accurate"},
      {"query_hw", shape.query_hw.empty() ? "none" : "given"},
      {"point_locality", std::to_string(shape.point_locality)},
      {"sampling_mode", shape.nearest() ? "nearest" : "bilinear"},
  };
  auto const matters = [&](std::string_view field) {
    if (field == "reference_dtype" && !shape.fused()) return false;
    return shape.backward() || !field.starts_with("grad_");
  };
  for (Dtype const& row : kDtypes) {
    if (!matters(row.name)) continue;
    result.push_back({row.name, std::string(type_name(shape.*row.dtype))});
  }
  for (Stride const& row : kStrides) {
    if (!matters(row.name)) continue;
    bool const may_repeat = std::ranges::none_of(tensor_rows(), [&row](TensorRow const& tensor) {
      return tensor.is_result() && tensor.strides == row.strides;
    });
    result.push_back({row.name, stride_kind(shape.*row.strides, may_repeat)});
  }
  add_empty(shape, result);
  add_places(shape, result);
  add_specials(draw, result);
  return result;
}

std::vector<Property> all_properties() {
  std::vector<Property> result;
  auto const add = [&](const char* name, std::initializer_list<const char*> values) {
    for (const char* const value : values) result.push_back({name, value});
  };
  add("operation", {"forward", "backward"});
  add("reference_dim", {"0", "2", "4"});
  for (msda_dtype const dtype : kAllDtypes) {
    std::string const name(type_name(dtype));
    result.push_back({"value_dtype", name});
    if (dtype == MSDA_DTYPE_F8_E4M3) continue;  // only for values
    for (Dtype const& row : kDtypes) result.push_back({row.name, name});
  }
  for (Stride const& row : kStrides) add(row.name, {"packed", "padded", "permuted", "repeating"});
  add("value_border", {"0", "1"});
  add("math_mode", {"accurate", "fast"});
  add("query_hw", {"none", "given"});
  add("point_locality", {"0", "1", "2"});
  add("sampling_mode", {"bilinear", "nearest"});
  for (const char* const name : {"B=0",
                                 "Q=0",
                                 "M=0",
                                 "D=0",
                                 "L=0",
                                 "P=0",
                                 "P=0 of a level",
                                 "H=0 under points",
                                 "W=0 under points",
                                 "levels out of order",
                                 "levels that overlap",
                                 "levels apart",
                                 "tokens behind levels",
                                 "odd coordinates",
                                 "pixel lines",
                                 "NaN weights",
                                 "infinite weights",
                                 "steep logits",
                                 "odd values",
                                 "odd grad_output"}) {
    result.push_back({name, ""});
  }
  return result;
}

bool exclude_each_other(Property const& a, Property const& b) {
  if (a.name == b.name) return true;
  auto const matches = [](Property const& property, std::string_view words) {
    std::string const text = property.text();
    // "P=0" alone does not mean "P=0 of a level".
    return text == words || (words != "P=0" && text.starts_with(words));
  };
  return std::ranges::any_of(kExcluded, [&](Pair const& pair) {
    return (matches(a, pair[0]) && matches(b, pair[1])) ||
           (matches(b, pair[0]) && matches(a, pair[1]));
  });
}

}  // namespace msda::test
