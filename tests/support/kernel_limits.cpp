#include "support/kernel_limits.h"

#include "command/files/element_type.h"
#include "core/dtype.h"

#include <algorithm>
#include <stdexcept>

namespace msda::test {

using namespace command;

KernelId::KernelId(std::string_view id) {
  std::string_view rest = id.substr(0, id.find('@'));
  while (!rest.empty()) {
    parts_.emplace_back(rest.substr(0, rest.find('.')));
    rest.remove_prefix(std::min(rest.size(), parts_.back().size() + 1));
  }
}

std::int64_t KernelId::number(std::size_t index) const { return std::stoll(part(index).substr(1)); }

// The ids say "f8" for F8_E4M3.
msda_dtype KernelId::value_dtype() const {
  std::string const& name = part(2);
  if (auto const found = type_from_name(name == "f8" ? "f8_e4m3" : name)) return *found;
  throw std::runtime_error("no dtype is " + name);
}

bool levels_overlap(ProblemShape const& shape) {
  std::vector<std::int64_t> const starts = shape.level_starts();
  for (std::size_t l = 0; l < starts.size(); ++l) {
    for (std::size_t other = 0; other < l; ++other) {
      std::int64_t const begin = std::max(starts[l], starts[other]);
      if (begin < starts[l] + shape.level_tokens(shape.levels[l]) &&
          begin < starts[other] + shape.level_tokens(shape.levels[other])) {
        return true;
      }
    }
  }
  return false;
}

std::string float64_reason(ProblemShape const& shape) {
  if (shape.coord_dtype == MSDA_DTYPE_F64) return "does not take this coord_dtype";
  if (shape.fused() && shape.reference_dtype == MSDA_DTYPE_F64) {
    return "does not take this reference_dtype";
  }
  return shape.weight_dtype == MSDA_DTYPE_F64 ? "does not take this weight_dtype" : "";
}

std::string far_levels_reason(ProblemShape const& shape) {
  bool const any = std::ranges::any_of(shape.levels, [](LevelShape const& level) {
    return level.height > 1 << 24 || level.width > 1 << 24;
  });
  return any ? kWrongLevels : "";
}

std::int64_t row_tokens(ProblemShape const& shape, LevelShape const& level) {
  return level.width + 2 * shape.value_border;
}

Strides3 strides_that_count(ProblemShape const& shape, TensorId id) {
  TensorLayout const layout = layout_of(shape, id);
  Strides3 const as_packed = packed(layout.dims);
  for (std::size_t i = 0; i < as_packed.size(); ++i) {
    if (layout.dims[i] != 1 && layout.strides[i] != as_packed[i]) return layout.strides;
  }
  return as_packed;
}

namespace {

bool is_packed(ProblemShape const& shape, TensorId id) {
  return strides_that_count(shape, id) == packed(layout_of(shape, id).dims);
}

bool points_fit(ProblemShape const& shape, RowLimits const& limits) {
  if (shape.point_total() < limits.min_points) return false;
  if (limits.points == "pfew") return shape.point_total() <= 8;
  if (limits.points == "pany") return shape.point_total() <= limits.max_points;
  return std::ranges::all_of(shape.levels, [&](LevelShape const& level) {
    return level.points == std::stoi(limits.points.substr(1));
  });
}

}  // namespace

std::string row_reason(KernelId const& id, ProblemShape const& shape, RowLimits const& limits) {
  if (shape.value_dtype != id.value_dtype()) return kWrongValueDtype;
  if (shape.backward()) return kWrongOperation;
  if (shape.nearest()) return kWrongSampling;
  if (std::string reason = float64_reason(shape); !reason.empty()) return reason;
  std::int64_t const D = shape.head_dim, most = id.channels();
  std::int64_t const least = most == limits.multiple ? most : most / 2 + 1;
  if (D % limits.multiple != 0 || D < least || D > most) return kWrongHeadDim;
  if (shape.levels.size() > 16) return kWrongLevels;
  if (std::string reason = far_levels_reason(shape); !reason.empty()) return reason;
  if (!points_fit(shape, limits)) return kWrongPoints;
  TensorId const coord = shape.fused() ? TensorId::kOffset : TensorId::kCoord;
  TensorId const weight = shape.fused() ? TensorId::kLogit : TensorId::kWeight;
  for (TensorId const tensor : {coord, weight, TensorId::kOutput}) {
    if (!is_packed(shape, tensor)) return kWrongStrides;
  }
  return "";
}

std::string points_reason(KernelId const& id, ProblemShape const& shape, bool takes_overlap) {
  if (shape.value_dtype != id.value_dtype()) return kWrongValueDtype;
  if (!shape.backward()) return kWrongOperation;
  if (shape.nearest()) return kWrongSampling;
  if (!takes_overlap && levels_overlap(shape)) return kOverlap;
  if (std::string reason = float64_reason(shape); !reason.empty()) return reason;
  std::int64_t const D = shape.head_dim;
  if (D % 8 != 0 || D < 8 || D > 256) return kWrongHeadDim;
  return far_levels_reason(shape);
}

std::string float16_sums_reason(KernelId const& id, ProblemShape const& shape) {
  if (shape.math_mode != MSDA_MATH_FAST) return kWrongMathMode;
  bool const is_single =
      id.channels() * dtype_bytes(shape.value_dtype) == 64 && shape.head_count % 2 != 0;
  bool const fits = std::ranges::all_of(shape.levels, [&](LevelShape const& level) {
    return row_tokens(shape, level) * level.height <= (is_single ? 1 << 16 : 1 << 17);
  });
  return fits ? "" : kWrongLevels;
}

}  // namespace msda::test
