// The gradients of a row's points, from the order of rows into the caller's arrays: softmax and
// offsets undone. Compiled once a target.

#include "cpu/simd/simd_backward.h"

#define HWY_DISABLED_TARGETS MSDA_SIMD_DISABLED_TARGETS
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/simd_point_grads.cpp"
#include <hwy/foreach_target.h>
// After foreach_target:
#include "cpu/simd/simd_elements-inl.h"
#include "cpu/simd/simd_references-inl.h"

#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
PointKernels point_kernels(Problem const&) { return {}; }
#else
// Gradients of a block of points, by pixels and by weight.
struct BlockGrads {
  HWY_ALIGN float x[kPointBlock];
  HWY_ALIGN float y[kPointBlock];
  HWY_ALIGN float weight[kPointBlock];
};

// Reads points [first, first + count) of a row, see PointKernels.
HWY_INLINE void read_block(const Record* row, std::int64_t first, std::int64_t count,
                           BlockGrads& to) {
  const Floats d;
  if (HWY_UNLIKELY(row == nullptr)) {
    to = {};
    return;
  }
  const Record* const from = row + first;
  for (std::int64_t i = 0; i < count; i += kLanes) {
    HWY_ALIGN float copy[4 * kLanes];
    const float* at = reinterpret_cast<const float*>(from + i);
    if (count - i < kLanes) {
      for (std::int64_t n = 0; n < 4 * kLanes; n += kLanes) {
        hn::Store(load_first(d, at + n, 4 * (count - i) - n), d, copy + n);
      }
      at = copy;
    }
    hn::Vec<Floats> x, y, weight, place;
    hn::LoadInterleaved4(d, at, x, y, weight, place);
    hn::Store(x, d, to.x + i);
    hn::Store(y, d, to.y + i);
    hn::Store(weight, d, to.weight + i);
  }
}

// Gradients by offsets from those by pixels. A zero gradient stays zero where the map is empty or a
// box is no number.
template <int kReference>
HWY_INLINE void undo_offsets(HeadSource const& source, std::int64_t q, std::int64_t first,
                             std::int64_t count, BlockGrads& grads) {
  const Floats d;
  PointLevels const& levels = source.tables.levels[first];
  const BlockReferences<kReference == 4 ? 4 : 0> boxes(source, q, first, count);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    auto const x = hn::Load(d, grads.x + i), y = hn::Load(d, grads.y + i);
    auto by_x = hn::Load(d, levels.per_width + i), by_y = hn::Load(d, levels.per_height + i);
    if constexpr (kReference == 4) {
      auto const half_step = hn::Load(d, levels.half_step + i);
      by_x = hn::Mul(boxes.component(2, i), half_step);
      by_y = hn::Mul(boxes.component(3, i), half_step);
    }
    auto const zero = hn::Zero(d);
    hn::Store(hn::IfThenZeroElse(hn::Eq(x, zero), hn::Mul(x, by_x)), d, grads.x + i);
    hn::Store(hn::IfThenZeroElse(hn::Eq(y, zero), hn::Mul(y, by_y)), d, grads.y + i);
  }
}

// Gradients by normalised coordinates, or by offsets.
void store_coords(HeadSource const& source, std::int64_t count, std::int64_t index,
                  BlockGrads const& grads) {
  const Floats d;
  HWY_ALIGN float pairs[2 * kPointBlock];
  for (std::int64_t i = 0; i < count; i += kLanes) {
    hn::StoreInterleaved2(hn::Load(d, grads.x + i), hn::Load(d, grads.y + i), d, pairs + 2 * i);
  }
  Tensor const tensor = source.problem.fused() ? Tensor::kGradOffset : Tensor::kGradCoord;
  store_row(pairs, 2 * count, source.problem.coord_dtype, source.call[tensor], index,
            source.streams_points);
}

// A block's part of sum w_j g_j, which the softmax's derivative w_k (g_k - sum w_j g_j) needs.
template <class V>
HWY_INLINE V add_products(Points const& points, BlockGrads const& grads, std::int64_t count,
                          V sum) {
  const Floats d;
  for (std::int64_t i = 0; i < count; i += kLanes) {
    auto const present = hn::FirstN(d, static_cast<std::size_t>(std::min(count - i, kLanes)));
    auto const product = hn::Mul(hn::Load(d, points.weight + i), hn::Load(d, grads.weight + i));
    sum = hn::Add(sum, hn::IfThenElseZero(present, product));
  }
  return sum;
}

void store_points(HeadSource const& source, std::int64_t q, const Record* row, Softmax& softmax) {
  const Floats d;
  Problem const& problem = source.problem;
  Call const& call = source.call;
  std::int64_t const K = problem.point_total;
  std::int64_t const to_coord = source.grad_coord + q * problem.grad_coord.row;
  std::int64_t const to_weight = source.grad_weight + q * problem.grad_weight.row;
  bool const by_coord = call[problem.fused() ? Tensor::kGradOffset : Tensor::kGradCoord] != nullptr;
  bool const by_logit = problem.fused() && call[Tensor::kGradLogit] != nullptr;
  bool const by_weight = !problem.fused() && call[Tensor::kGradWeight] != nullptr;
  Points points;
  BlockGrads grads;
  auto const read = [&](std::int64_t k) HWY_ATTR {
    std::int64_t const count = std::min(K - k, kPointBlock);
    read_block(row, k, count, grads);
    if (by_logit) source.tables.read.softmax(source, q, k, count, softmax, points);
    return count;
  };
  auto sum = hn::Zero(d);
  for (std::int64_t k = 0; by_logit && k < K; k += kPointBlock) {
    std::int64_t const count = read(k);
    sum = add_products(points, grads, count, sum);
  }
  auto const mean = hn::SumOfLanes(d, sum);
  bool const is_read = by_logit && K <= kPointBlock;
  for (std::int64_t k = 0; k < K; k += kPointBlock) {
    std::int64_t const count = is_read ? K : read(k);
    if (by_coord) {
      // Without samples, which `row` is null for, all gradients are zero and levels not known.
      if (problem.reference_dim == 2 && row != nullptr) undo_offsets<2>(source, q, k, count, grads);
      if (problem.reference_dim == 4 && row != nullptr) undo_offsets<4>(source, q, k, count, grads);
      store_coords(source, count, to_coord + 2 * k, grads);
    }
    if (by_logit) {
      for (std::int64_t i = 0; i < count; i += kLanes) {
        auto const above = hn::Sub(hn::Load(d, grads.weight + i), mean);
        hn::Store(hn::Mul(hn::Load(d, points.weight + i), above), d, grads.weight + i);
      }
    }
    if (by_weight || by_logit) {
      Tensor const tensor = by_logit ? Tensor::kGradLogit : Tensor::kGradWeight;
      store_row(grads.weight, count, problem.weight_dtype, call[tensor], to_weight + k,
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
