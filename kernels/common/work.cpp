#include "kernels/common/work.h"

#include "core/dtype.h"

#include <algorithm>

namespace msda {

double rows_of(Problem const& problem) {
  return number(problem.batch) * number(problem.query_count) * number(problem.head_count);
}

double points_of(Problem const& problem) { return rows_of(problem) * number(problem.point_total); }

double forward_bytes(Problem const& problem) {
  double const values = number(problem.batch) * number(problem.token_count) *
                        number(problem.head_count) * number(problem.head_dim);
  double const point =
      number(2 * dtype_bytes(problem.coord_dtype) + dtype_bytes(problem.weight_dtype));
  return values * number(dtype_bytes(problem.value_dtype)) + points_of(problem) * point +
         rows_of(problem) * number(problem.head_dim * dtype_bytes(problem.output_dtype));
}

Counts counts_of_tensors(Problem const& problem) {
  Counts counts;
  double const coord_bytes = number(dtype_bytes(problem.coord_dtype));
  counts.input_bytes =
      points_of(problem) * (2 * coord_bytes + number(dtype_bytes(problem.weight_dtype))) +
      number(problem.batch) * number(problem.query_count) * number(problem.reference_dim) *
          static_cast<double>(problem.levels.size()) * coord_bytes;
  counts.output_bytes =
      rows_of(problem) * number(problem.head_dim * dtype_bytes(problem.output_dtype));
  double pixels = 0;  // of a batch item and head
  for (Level const& level : problem.levels) {
    pixels += std::min(number(level.height * level.width),
                       4 * number(problem.query_count) * number(level.point_count));
  }
  counts.value_bytes = pixels * number(problem.batch) * number(problem.head_count) *
                       number(problem.head_dim * dtype_bytes(problem.value_dtype));
  return counts;
}

}  // namespace msda
