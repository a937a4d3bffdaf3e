// Tensor maps of the values: which problems they can describe, and how a plan's become a call's.
#pragma once

#include "core/family.h"
#include "core/problem.h"
#include "kernels/tma/tma.h"

#include <cstdint>

namespace msda::tma {

// kNone, or the rule of tensor maps that the values break.
Reason reject_maps(Problem const& problem);

// Columns and rows of a level that a copy brings.
struct Box {
  std::int32_t columns = 0;
  std::int32_t rows = 0;
};

// The maps of a plan, which does not know where values will lie, and of its calls, which do.
class PlannedMaps {
 public:
  // boxes: of each level; none of one without points. Throws StatusError where the driver has no
  // tensor maps or refuses one.
  PlannedMaps(Problem const& problem, const Box (&boxes)[kInlineLevels]);

  // Allocates nothing and keeps nothing. `value`: a multiple of 16 bytes.
  Maps at(const void* value) const;

 private:
  Maps maps_{};
  std::int64_t offset_[kInlineLevels] = {};  // bytes from the first value to the level's
  bool is_used_[kInlineLevels] = {};
  decltype(&cuTensorMapReplaceAddress) replace_ = nullptr;
};

}  // namespace msda::tma
