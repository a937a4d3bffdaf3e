// A problem with its data, as the tests make it: the numbers in float64.
#pragma once

#include "support/host_tensor.h"

#include "command/problem/problem_shape.h"
#include "command/problem/random_numbers.h"

#include <array>
#include <vector>

namespace msda::test {

using command::LevelShape;
using command::ProblemShape;
using command::Rng;
using command::set_pointer;
using command::Strides3;
using command::tensor_rows;
using command::TensorId;
using command::TensorRow;
using command::type_from_name;
using command::type_name;
using msda::ProblemCopy;

TensorLayout layout_of(ProblemShape const& shape, TensorId id);

// The numbers of a problem, packed, by TensorId. Empty: not there.
struct Arrays {
  std::array<std::vector<double>, kTensorCount> by_id;

  std::vector<double>& operator[](TensorId id) { return by_id[static_cast<std::size_t>(id)]; }
  std::vector<double> const& operator[](TensorId id) const {
    return by_id[static_cast<std::size_t>(id)];
  }
};

struct TestProblem {
  ProblemShape shape;
  Arrays inputs;  // as the storage types hold them

  // Rounds every input to its storage type, and where strides repeat an element makes the repeats
  // equal.
  void settle();
};

}  // namespace msda::test
