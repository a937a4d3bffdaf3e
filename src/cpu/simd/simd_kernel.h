// Parts of the family that are compiled once an instruction set have this in common: the points of
// one row, read and located, and the functions that make and use them. A row is the points of one
// (batch, query, head).
#pragma once

#include "core/call.h"
#include "core/dtype.h"
#include "core/problem.h"
#include "cpu/simd/simd_tables.h"
#include "cpu/simd_targets.h"

#include <hwy/base.h>

#include <algorithm>
#include <cstdint>

namespace msda::simd {

// Weights that are normalized together.
inline constexpr std::int64_t kSoftmaxAhead = 256;

// Rows of a head that are normalized, fused only. One of more than a block has its largest logit
// and its sum here, made with the first block that is read. Shorter ones are made for some queries
// at a time: they do not wait for one another's maximum and sum.
struct Softmax {
  std::int64_t query = -1;  // whose long row it is; -1: of none yet
  double largest_logit = 0;
  float exp_sum = 0;
  std::int64_t begin = 0, end = 0;  // queries whose weights are here
  std::int64_t row_floats = 0;  // of each: its weights, and unless it has two, up to a whole vector
  // And a vector, which is as much as is read of the last row.
  alignas(64) float weights[kSoftmaxAhead + 16];
};

// A block of points: where they lie in pixels, and their attention weights. A point that
// contributes nothing lies left of and above every map, with weight 0. What stands behind the last
// point of a block is not looked at.
struct Points {
  alignas(64) float x[kPointBlock];
  alignas(64) float y[kPointBlock];
  alignas(64) float weight[kPointBlock];
};

// The corners of up to kPointBlock points: (y0, x0), (y0, x0 + 1), (y0 + 1, x0), (y0 + 1, x0 + 1).
struct Corners {
  alignas(64) std::int64_t offset[4][kPointBlock];  // bytes from the plan's row of zeros
  alignas(64) float weight[4][kPointBlock];         // attention weight times bilinear weight
  // An infinite attention weight belongs to the sample: times a corner that weighs nothing it would
  // be NaN. Where the block has one, `weight` is bilinear alone and the attention weights are here.
  bool has_infinite_weight;
  alignas(64) float attention[kPointBlock];
};

// Asks for the lines of some bytes, into the first level of cache or, of kLocality 2, the second.
// Has to be inlined: a call of a function that only prefetches is dropped by GCC as one without
// effect.
template <int kLocality = 3>
HWY_INLINE void prefetch_lines(std::uintptr_t address, std::int64_t bytes) {
  std::uintptr_t const end = address + static_cast<std::uintptr_t>(bytes);
  for (std::uintptr_t line = address & ~std::uintptr_t{63}; line < end; line += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(line), 0, kLocality);
  }
}

// Gradients larger than this are stored past the caches: they would not stay there, and memory that
// is written in whole lines need not be read first.
constexpr std::int64_t kStreamBytes = 4 << 20;

// One head of one batch item: where the inputs of its rows lie.
struct HeadSource {
  HeadSource(Problem const& problem_of_all, Call const& call_of_all, Tables const& tables_of_all,
             std::int64_t batch_item, std::int64_t head)
      : problem(problem_of_all), call(call_of_all), tables(tables_of_all), b(batch_item), m(head) {}

  // Asks for the lines of query q's row: its coordinates, weights and output.
  HWY_INLINE void prefetch(std::int64_t q) const {
    prefetch_inputs(q);
    prefetch_row(output_row, q);
  }
  HWY_INLINE void prefetch_inputs(std::int64_t q) const {
    prefetch_row(coord_row, q);
    prefetch_row(weight_row, std::min(q + weights_ahead, problem.query_count - 1));
  }

  Problem const& problem;
  Call const& call;
  Tables const& tables;
  std::int64_t b;
  std::int64_t m;
  // Elements of query 0: in coord or offset, weight or logit, reference, output or grad_output.
  std::int64_t coord = problem.coord.at(b, 0, m);
  std::int64_t weight = problem.weight.at(b, 0, m);
  std::int64_t reference = b * problem.query_count *
                           static_cast<std::int64_t>(problem.levels.size()) * problem.reference_dim;
  std::int64_t output = problem.output.at(b, 0, m);
  // Bytes from the plan's row of zeros to channel 0 of token 0. The two arrays are not one object,
  // so their distance is that of addresses.
  std::int64_t value = static_cast<std::int64_t>(
      reinterpret_cast<std::uintptr_t>(call[Tensor::kValue]) +
      static_cast<std::uintptr_t>(problem.value.at(b, 0, m) * dtype_bytes(problem.value_dtype)) -
      reinterpret_cast<std::uintptr_t>(tables.zeros.data()));
  float scale = call.scale_of(m);  // of 8-bit values
  // Elements of query 0: in grad_coord or grad_offset, grad_weight or grad_logit.
  std::int64_t grad_coord = problem.grad_coord.at(b, 0, m);
  std::int64_t grad_weight = problem.grad_weight.at(b, 0, m);
  // The element of token 0 in grad_value.
  std::int64_t grad_value = (b * problem.token_count * problem.head_count + m) * problem.head_dim;
  // Whether grad_value and the gradients of points are stored past the caches.
  bool streams_value = problem.batch * problem.token_count * problem.head_count * problem.head_dim *
                           dtype_bytes(problem.grad_value_dtype) >
                       kStreamBytes;
  bool streams_points = problem.batch * problem.query_count * problem.head_count *
                            problem.point_total * 2 * dtype_bytes(problem.coord_dtype) >
                        kStreamBytes;
  // Queries whose weights are read before they are used: see Softmax.
  std::int64_t weights_ahead = problem.fused() && problem.point_total <= kPointBlock
                                   ? kSoftmaxAhead / std::max(problem.point_total, std::int64_t{1})
                                   : 0;

 private:
  // A query's elements of one tensor, as bytes.
  struct Rows {
    std::uintptr_t first;  // address of query 0
    std::int64_t step;
    std::int64_t size;
  };
  Rows rows_of(Tensor tensor, std::int64_t element, Strides const& strides, std::int64_t count,
               msda_dtype dtype) const {
    std::int64_t const bytes = dtype_bytes(dtype);
    return {reinterpret_cast<std::uintptr_t>(call[tensor]) +
                static_cast<std::uintptr_t>(element * bytes),
            strides.row * bytes, count * bytes};
  }
  static HWY_INLINE void prefetch_row(Rows const& rows, std::int64_t q) {
    prefetch_lines(rows.first + static_cast<std::uintptr_t>(q * rows.step), rows.size);
  }

  Rows coord_row = rows_of(problem.fused() ? Tensor::kOffset : Tensor::kCoord, coord, problem.coord,
                           2 * problem.point_total, problem.coord_dtype);
  Rows weight_row = rows_of(problem.fused() ? Tensor::kLogit : Tensor::kWeight, weight,
                            problem.weight, problem.point_total, problem.weight_dtype);
  Rows output_row =
      rows_of(Tensor::kOutput, output, problem.output, problem.head_dim, problem.output_dtype);
};

PointReaders choose_readers(Problem const& problem);
// Computes the rows of queries [first, last).
#define MSDA_VARIANT(type, dtype, revision) Gather choose_gather_##type(Problem const& problem);
#include "cpu/simd/variants.inc"
#undef MSDA_VARIANT

}  // namespace msda::simd
