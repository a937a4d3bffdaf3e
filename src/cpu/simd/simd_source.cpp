#include "core/dtype.h"
#include "cpu/simd/simd_kernel.h"

namespace msda::simd {
namespace {

// Gradients larger than this are stored past the caches: they would not stay there, and memory that
// is written in whole lines need not be read first.
constexpr std::int64_t kStreamBytes = 4 << 20;

}  // namespace

HeadSource::HeadSource(Problem const& problem_of_all, Call const& call_of_all,
                       Tables const& tables_of_all, std::int64_t b, std::int64_t m)
    : problem(problem_of_all),
      call(call_of_all),
      tables(tables_of_all),
      coord(b * problem.coord.batch + m * problem.coord.head),
      weight(b * problem.weight.batch + m * problem.weight.head),
      reference(b * problem.query_count * static_cast<std::int64_t>(problem.levels.size()) *
                problem.reference_dim),
      output(b * problem.output.batch + m * problem.output.head),
      value(0),
      scale(call.scale_of(m)),
      grad_coord(problem.grad_coord.at(b, 0, m)),
      grad_weight(problem.grad_weight.at(b, 0, m)),
      grad_value((b * problem.token_count * problem.head_count + m) * problem.head_dim),
      streams_value(problem.batch * problem.token_count * problem.head_count * problem.head_dim *
                        dtype_bytes(problem.grad_value_dtype) >
                    kStreamBytes),
      streams_points(problem.batch * problem.query_count * problem.head_count *
                         problem.point_total * 2 * dtype_bytes(problem.coord_dtype) >
                     kStreamBytes),
      coord_row(rows_of(call[problem.fused() ? Tensor::kOffset : Tensor::kCoord], coord,
                        problem.coord, 2 * problem.point_total, problem.coord_dtype)),
      weight_row(rows_of(call[problem.fused() ? Tensor::kLogit : Tensor::kWeight], weight,
                         problem.weight, problem.point_total, problem.weight_dtype)),
      output_row(rows_of(call[Tensor::kOutput], output, problem.output, problem.head_dim,
                         problem.output_dtype)) {
  // The two arrays are not one object, so their distance is that of addresses.
  std::int64_t const first =
      (b * problem.value.batch + m * problem.value.head) * dtype_bytes(problem.value_dtype);
  value = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(call[Tensor::kValue]) +
                                    static_cast<std::uintptr_t>(first) -
                                    reinterpret_cast<std::uintptr_t>(tables.zeros.data()));
}

HeadSource::Rows HeadSource::rows_of(const void* array, std::int64_t element,
                                     Strides const& strides, std::int64_t count, msda_dtype dtype) {
  std::int64_t const bytes = dtype_bytes(dtype);
  return {reinterpret_cast<std::uintptr_t>(array) + static_cast<std::uintptr_t>(element * bytes),
          strides.row * bytes, count * bytes};
}

}  // namespace msda::simd
