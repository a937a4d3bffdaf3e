// Problems of the tests of backward kernels, by their sizes.
#pragma once

#include "command/problem/problem_shape.h"

#include <cstdint>
#include <vector>

namespace msda::test {

using command::LevelShape;
using command::ProblemShape;

struct Shape {
  std::vector<LevelShape> levels;
  std::int64_t batch, queries, heads, channels;
};

inline ProblemShape backward_shape(Shape const& shape, msda_dtype dtype,
                                   std::int32_t reference_dim = 0) {
  ProblemShape result;
  result.levels = shape.levels;
  result.batch = shape.batch;
  result.query_count = shape.queries;
  result.head_count = shape.heads;
  result.head_dim = shape.channels;
  result.reference_dim = reference_dim;
  result.set_dtypes(dtype);
  result.operation = MSDA_BACKWARD;
  return result;
}

}  // namespace msda::test
