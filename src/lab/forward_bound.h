// How far an element of the forward result may be from the exact one, as include/msda.h has it.
#pragma once

#include "lab/problem_spec.h"

#include <span>

namespace msda::lab {

// What does not depend on the element.
struct ForwardBound {
  explicit ForwardBound(Case const& input);

  // Makes bounds of `elements`, [B][Q][M][D], which are sum |w c v|. `part` is the case, or batch
  // items of it, in float64. The result's own rounding to its type is not in the bounds.
  void add_to(Case const& part, std::span<double> elements) const;

  double product_factor;  // of sum |w c v|
  double slope_factor;    // of max(W, H) sum |w| dv, dv the channel's largest on the level
  double step_factor;     // of sum |w| dv
  double constant;
};

}  // namespace msda::lab
