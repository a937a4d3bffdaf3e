#include "kernels/common/work.h"

#include "core/dtype.h"

namespace msda {
namespace {

double number(std::int64_t n) { return static_cast<double>(n); }

}  // namespace

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

}  // namespace msda
