#include "support/test_problem.h"

#include <algorithm>

namespace msda::test {

TensorLayout layout_of(ProblemShape const& shape, TensorId id) {
  TensorRow const& row = command::tensor_row(id);
  TensorLayout layout{command::tensor_type(shape, row), {1, 1, 1, 1}, {}};
  command::Shape const axes = command::tensor_shape(shape, row);
  // What is behind the heads, or is all there is, lies without gaps.
  for (std::size_t i = 0; i < axes.size(); ++i) {
    layout.dims[axes.size() == 1 ? 3 : std::min<std::size_t>(i, 3)] *= axes[i];
  }
  if (row.strides != nullptr) layout.strides = shape.*row.strides;
  if (layout.strides == Strides3{0, 0, 0}) layout.strides = packed(layout.dims);
  return layout;
}

void TestProblem::settle() {
  for (TensorRow const& row : tensor_rows()) {
    if (row.is_result() || inputs[row.id].empty()) continue;
    HostTensor storage(layout_of(shape, row.id));
    storage.set_values(inputs[row.id]);
    inputs[row.id] = storage.values();
  }
}

}  // namespace msda::test
