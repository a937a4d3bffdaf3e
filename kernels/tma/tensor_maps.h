// Tensor maps of the values: what the kernels are handed, and how a plan's maps become a call's.
// Host and device read it; cuda.h, which it needs, is not there in builds without CUDA.
#pragma once

#include "kernels/common/params.h"

#include <cuda.h>

namespace msda {
struct Problem;
}

namespace msda::tma {

struct Box;  // plan.h

// A map a level, of channels, x, y, head and batch item, without the border.
struct Maps {
  CUtensorMap level[kInlineLevels];
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
