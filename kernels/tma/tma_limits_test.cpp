// tma is a forward of values that tensor maps can describe.
#include "core/dtype.h"
#include "support/kernel_limits.h"

#include <algorithm>

namespace msda::test::tma {
namespace {

// Part 5 of "tma.sm90.f16.d32.win.h.p1n4@4".
bool sums_in_float16(KernelId const& id) { return id.part(5) == "h"; }

// A tensor map of each level has the axes channels, x, y, head and batch item.
std::string tensor_map_reason(ProblemShape const& shape) {
  auto const value_strides = strides_that_count(shape, command::TensorId::kValue);
  std::int64_t const bytes = dtype_bytes(shape.value_dtype);
  std::int64_t const token = value_strides[1] * bytes;
  for (command::LevelShape const& level : shape.levels) {
    bool const is_empty = level.width == 0 || level.height == 0;
    if (level.width > 65534 || level.height > 65534 || (is_empty && level.points > 0)) {
      return "its tensor maps and records take levels of 1 to 65534 columns and rows";
    }
  }
  std::string const strides =
      "its tensor maps take strides of value that are multiples of 16 bytes below 2^40, from token "
      "to token at least a head";
  auto const is_wrong = [](std::int64_t stride) {
    return stride % 16 != 0 || stride <= 0 || stride >= std::int64_t{1} << 40;
  };
  if (token < shape.head_dim * bytes || is_wrong(token)) return strides;
  if (shape.head_count > 1 && is_wrong(value_strides[2] * bytes)) return strides;
  if (shape.batch > 1 && is_wrong(value_strides[0] * bytes)) return strides;
  for (command::LevelShape const& level : shape.levels) {
    if (level.height > 1 && is_wrong(row_tokens(shape, level) * token)) return strides;
  }
  return "";
}

// A lane of a slot has a level of 4 or 8 points; slots of four lanes have 64 bytes of channels.
std::string window_reason(ProblemShape const& shape) {
  if (shape.head_dim != 32) return kWrongHeadDim;
  std::vector<std::int64_t> points;
  for (command::LevelShape const& level : shape.levels) {
    if (level.points > 0) points.push_back(level.points);
  }
  if (points.size() > 4) return kWrongLevels;
  bool const are_alike = std::ranges::count(points, points.front()) == std::ssize(points);
  if (!are_alike || (points.front() != 4 && points.front() != 8)) return kWrongPoints;
  return shape.query_count > 1 << 24 ? kTooLarge : "";
}

std::string reason(KernelId const& id, ProblemShape const& shape) {
  if (shape.value_dtype != id.value_dtype()) return kWrongValueDtype;
  if (shape.backward()) return kWrongOperation;
  if (shape.nearest()) return kWrongSampling;
  if (std::string reason = float64_reason(shape); !reason.empty()) return reason;
  std::int64_t const D = shape.head_dim, most = id.channels();
  if (D % 8 != 0 || D <= most / 2 || D > most) return kWrongHeadDim;
  if (shape.levels.size() > 16) return kWrongLevels;
  if (std::string reason = far_levels_reason(shape); !reason.empty()) return reason;
  if (shape.point_total() < 1 || shape.point_total() > 512) return kWrongPoints;
  if (id.part(4) == "win") {
    if (std::string reason = window_reason(shape); !reason.empty()) return reason;
  }
  if (sums_in_float16(id) && shape.math_mode != MSDA_MATH_FAST) return kWrongMathMode;
  return tensor_map_reason(shape);
}

}  // namespace

extern const KernelLimits kLimits{
    .family = "tma", .reason = reason, .does_backward = never, .sums_in_float16 = sums_in_float16};

}  // namespace msda::test::tma
