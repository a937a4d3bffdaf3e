// The gradients of a row's points, from the order of rows into the caller's arrays: softmax and
// offsets undone. Compiled once a target.

#include "cpu/simd/simd_backward.h"

#define HWY_DISABLED_TARGETS MSDA_SIMD_DISABLED_TARGETS
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/simd_point_grads.cpp"
#include <hwy/foreach_target.h>
// After foreach_target:
#include "cpu/simd/simd_elements-inl.h"

#include "core/dtype.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
PointKernels point_kernels(Problem const&) { return {}; }
#else
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
constexpr std::int64_t kLanes = hn::MaxLanes(Floats());

// Gradients of a block of points, by pixels and by weight.
struct BlockGrads {
  HWY_ALIGN float x[kPointBlock];
  HWY_ALIGN float y[kPointBlock];
  HWY_ALIGN float weight[kPointBlock];
};

// Reads points [first, first + count) of a row, see StorePoints.
HWY_INLINE void read_block(const Record* row, std::int64_t first, std::int64_t count,
                           BlockGrads& to) {
  const Floats d;
  if (HWY_UNLIKELY(row == nullptr)) {
    to = {};
    return;
  }
  const Record* const from = row + first;
  for (std::int64_t i = 0; i < count; i += kLanes) {
    HWY_ALIGN Record copy[kLanes] = {};
    const Record* at = from + i;
    if (count - i < kLanes) {
      std::memcpy(copy, at, static_cast<std::size_t>(count - i) * sizeof(Record));
      at = copy;
    }
    hn::Vec<Floats> x, y, weight, place;
    hn::LoadInterleaved4(d, reinterpret_cast<const float*>(at), x, y, weight, place);
    hn::Store(x, d, to.x + i);
    hn::Store(y, d, to.y + i);
    hn::Store(weight, d, to.weight + i);
  }
}

// Reads `count` elements of a tensor from `element` on.
HWY_INLINE void read_elements(HeadSource const& source, Tensor tensor, msda_dtype dtype,
                              std::int64_t element, std::int64_t count, float* to) {
  to_floats(dtype,
            reinterpret_cast<std::uintptr_t>(source.call[tensor]) +
                static_cast<std::uintptr_t>(element * dtype_bytes(dtype)),
            count, to);
}

// d coord / d offset of a block of points, one axis after the other.
void offset_factors(HeadSource const& source, std::int64_t q, std::int64_t first,
                    std::int64_t count, float (&to)[2][kPointBlock]) {
  Problem const& problem = source.problem;
  auto const level_count = static_cast<std::int64_t>(problem.levels.size());
  for (std::int64_t l = 0; l < level_count; ++l) {
    Level const& level = problem.levels[static_cast<std::size_t>(l)];
    std::int64_t const begin = std::max(level.point_start - first, std::int64_t{0});
    std::int64_t const end = std::min(level.point_start + level.point_count - first, count);
    if (begin >= end) continue;
    float factor[2] = {1.0f / static_cast<float>(level.width),
                       1.0f / static_cast<float>(level.height)};
    if (problem.reference_dim == 4) {
      float box[kLanes];
      read_elements(source, Tensor::kReference, problem.reference_dtype,
                    source.reference + (q * level_count + l) * 4, 4, box);
      for (int i = 0; i < 2; ++i) {
        factor[i] = box[2 + i] * (0.5f / static_cast<float>(level.point_count));
      }
    }
    for (std::int64_t i = begin; i < end; ++i) {
      to[0][i] = factor[0];
      to[1][i] = factor[1];
    }
  }
}

// Gradients by normalised coordinates, or by offsets.
void store_coords(HeadSource const& source, std::int64_t q, std::int64_t first, std::int64_t count,
                  std::int64_t index, BlockGrads const& grads) {
  const Floats d;
  Problem const& problem = source.problem;
  HWY_ALIGN float factor[2][kPointBlock];
  if (problem.fused()) offset_factors(source, q, first, count, factor);
  HWY_ALIGN float pairs[2 * kPointBlock];
  for (std::int64_t i = 0; i < count; i += kLanes) {
    auto x = hn::Load(d, grads.x + i), y = hn::Load(d, grads.y + i);
    if (problem.fused()) {
      // A zero gradient stays zero where the map is empty or a box is no number.
      auto const zero = hn::Zero(d);
      x = hn::IfThenZeroElse(hn::Eq(x, zero), hn::Mul(x, hn::Load(d, factor[0] + i)));
      y = hn::IfThenZeroElse(hn::Eq(y, zero), hn::Mul(y, hn::Load(d, factor[1] + i)));
    }
    hn::StoreInterleaved2(x, y, d, pairs + 2 * i);
  }
  Tensor const tensor = problem.fused() ? Tensor::kGradOffset : Tensor::kGradCoord;
  store_row(pairs, 2 * count, problem.coord_dtype, source.call[tensor], index,
            source.streams_points);
}

// sum w_j g_j of a row, which the softmax's derivative w_k (g_k - sum w_j g_j) needs first.
float mean_of_row(HeadSource const& source, std::int64_t q, const Record* row,
                  RowSoftmax& softmax) {
  const Floats d;
  std::int64_t const K = source.problem.point_total;
  auto sum = hn::Zero(d);
  for (std::int64_t k = 0; k < K; k += kPointBlock) {
    std::int64_t const count = std::min(K - k, kPointBlock);
    Points points;
    BlockGrads grads;
    source.tables.read.softmax(source, q, k, count, softmax, points);
    read_block(row, k, count, grads);
    for (std::int64_t i = 0; i < count; i += kLanes) {
      auto const present = hn::FirstN(d, static_cast<std::size_t>(std::min(count - i, kLanes)));
      auto const product = hn::Mul(hn::Load(d, points.weight + i), hn::Load(d, grads.weight + i));
      sum = hn::Add(sum, hn::IfThenElseZero(present, product));
    }
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

void store_points(HeadSource const& source, std::int64_t q, const Record* row) {
  const Floats d;
  Problem const& problem = source.problem;
  Call const& call = source.call;
  std::int64_t const K = problem.point_total;
  std::int64_t const to_coord = source.grad_coord + q * problem.grad_coord.row;
  std::int64_t const to_weight = source.grad_weight + q * problem.grad_weight.row;
  bool const by_coord = call[problem.fused() ? Tensor::kGradOffset : Tensor::kGradCoord] != nullptr;
  bool const by_logit = problem.fused() && call[Tensor::kGradLogit] != nullptr;
  bool const by_weight = !problem.fused() && call[Tensor::kGradWeight] != nullptr;
  RowSoftmax softmax;
  float const mean = by_logit ? mean_of_row(source, q, row, softmax) : 0.0f;
  for (std::int64_t k = 0; k < K; k += kPointBlock) {
    std::int64_t const count = std::min(K - k, kPointBlock);
    BlockGrads grads;
    read_block(row, k, count, grads);
    if (by_coord) store_coords(source, q, k, count, to_coord + 2 * k, grads);
    if (by_weight) {
      store_row(grads.weight, count, problem.weight_dtype, call[Tensor::kGradWeight], to_weight + k,
                source.streams_points);
    }
    if (by_logit) {
      Points points;
      source.tables.read.softmax(source, q, k, count, softmax, points);
      for (std::int64_t i = 0; i < count; i += kLanes) {
        auto const above = hn::Sub(hn::Load(d, grads.weight + i), hn::Set(d, mean));
        hn::Store(hn::Mul(hn::Load(d, points.weight + i), above), d, grads.weight + i);
      }
      store_row(grads.weight, count, problem.weight_dtype, call[Tensor::kGradLogit], to_weight + k,
                source.streams_points);
    }
  }
}

// Adds what the points of one level of a row give the gradient of its reference; `coord` is the
// row's element in offset.
void add_to_reference(HeadSource const& source, std::int64_t coord, Level const& level,
                      const Record* row, float (&sum)[kLanes]) {
  Problem const& problem = source.problem;
  float const per_point = 0.5f / static_cast<float>(level.point_count);
  std::int64_t const end = level.point_start + level.point_count;
  for (std::int64_t first = level.point_start; first < end; first += kPointBlock) {
    std::int64_t const count = std::min(end - first, kPointBlock);
    float offset[2 * kPointBlock];
    if (problem.reference_dim == 4) {
      read_elements(source, Tensor::kOffset, problem.coord_dtype, coord + 2 * first, 2 * count,
                    offset);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      Record const& by = row[first + i];
      sum[0] += by.x;
      sum[1] += by.y;
      if (problem.reference_dim != 4) continue;
      if (by.x != 0) sum[2] += by.x * (offset[2 * i] * per_point);
      if (by.y != 0) sum[3] += by.y * (offset[2 * i + 1] * per_point);
    }
  }
}

void store_reference(HeadSource const& source, std::int64_t q, QueryHeads const& heads) {
  Problem const& problem = source.problem;
  auto const level_count = static_cast<std::int64_t>(problem.levels.size());
  std::int64_t const R = problem.reference_dim;
  for (std::int64_t l = 0; l < level_count; ++l) {
    float sum[kLanes] = {};
    if (heads.first > 0) std::copy_n(heads.sums + l * R, R, sum);
    for (std::int64_t i = 0; i < heads.count; ++i) {
      add_to_reference(source, source.coord + q * problem.coord.row + i * problem.coord.head,
                       problem.levels[static_cast<std::size_t>(l)],
                       heads.row + i * heads.head_records, sum);
    }
    if (heads.first + heads.count < problem.head_count) {
      std::copy_n(sum, R, heads.sums + l * R);
      continue;
    }
    store_row(sum, R, problem.reference_dtype, source.call[Tensor::kGradReference],
              source.reference + (q * level_count + l) * R);
  }
}

PointKernels point_kernels(Problem const&) { return {store_points, store_reference}; }
#endif  // HWY_TARGET

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msda::simd {

HWY_EXPORT(point_kernels);
PointKernels choose_point_grads(Problem const& problem) {
  return HWY_DYNAMIC_DISPATCH(point_kernels)(problem);
}

}  // namespace msda::simd
#endif
