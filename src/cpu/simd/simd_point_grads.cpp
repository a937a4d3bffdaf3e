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

#include <hwy/cache_control.h>
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

// Reads `count` records, see PointKernels.
HWY_INLINE void read_block(const Record* from, std::int64_t count, BlockGrads& to) {
  const Floats d;
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
HWY_INLINE void undo_offsets(HeadSource const& source, PointRange const& range, BlockGrads& grads) {
  const Floats d;
  PointLevels const& levels = source.tables.levels[range.first];
  const BlockReferences<kReference == 4 ? 4 : 0> boxes(source, range);
  for (std::int64_t i = 0; i < range.size(); i += kLanes) {
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

// The gradients of the points of one head's rows, into the caller's arrays.
class PointGrads {
 public:
  explicit PointGrads(HeadSource const& source) : source_(source) {}

  // Stores those of `rows` rows from query q on; without records all are 0.
  HWY_INLINE void store(std::int64_t q, std::int64_t rows, const Record* records) {
    const Floats d;
    std::int64_t const K = problem_.point_total;
    PointRange range{q, rows, 0, 0};
    auto const read = [&](std::int64_t k) HWY_ATTR {
      range.first = k;
      range.count = std::min(K - k, kPointBlock);
      read_records(range, records);
    };
    auto mean = hn::Zero(d);
    if (by_logit_) {
      for (std::int64_t k = 0; k < K; k += kPointBlock) {
        read(k);
        mean = add_products(points_, grads_, range.size(), mean);
      }
      mean = rows > 1 ? sum_of_rows(mean, K) : hn::SumOfLanes(d, mean);
    }
    bool const is_read = by_logit_ && K <= kPointBlock;
    for (std::int64_t k = 0; k < K; k += kPointBlock) {
      if (!is_read) read(k);
      if (by_coord_) {
        // Without records levels are not known.
        if (records != nullptr && R_ == 2) undo_offsets<2>(source_, range, grads_);
        if (records != nullptr && R_ == 4) undo_offsets<4>(source_, range, grads_);
        store_coords(range);
      }
      if (by_logit_) undo_softmax(range, mean);
      if (by_weight_) store_weights(range);
    }
  }

 private:
  HWY_INLINE void read_records(PointRange const& range, const Record* records) {
    if (HWY_LIKELY(records != nullptr)) {
      read_block(records + range.first, range.size(), grads_);
    } else {
      grads_ = {};
    }
    if (by_logit_) source_.tables.read.softmax(source_, range, softmax_, points_);
  }

  HWY_INLINE void store_coords(PointRange const& range) const {
    const Floats d;
    HWY_ALIGN float pairs[2 * kPointBlock];
    for (std::int64_t i = 0; i < range.size(); i += kLanes) {
      hn::StoreInterleaved2(hn::Load(d, grads_.x + i), hn::Load(d, grads_.y + i), d, pairs + 2 * i);
    }
    store_rows(range, 2, pairs, problem_.coord_dtype, to_coord_,
               source_.grad_coord + range.q * problem_.grad_coord.row, problem_.grad_coord.row);
  }

  template <class V>
  HWY_INLINE void undo_softmax(PointRange const& range, V mean) {
    const Floats d;
    for (std::int64_t i = 0; i < range.size(); i += kLanes) {
      auto const above = hn::Sub(hn::Load(d, grads_.weight + i), mean);
      hn::Store(hn::Mul(hn::Load(d, points_.weight + i), above), d, grads_.weight + i);
    }
  }

  HWY_INLINE void store_weights(PointRange const& range) const {
    store_rows(range, 1, grads_.weight, problem_.weight_dtype, to_weight_,
               source_.grad_weight + range.q * problem_.grad_weight.row, problem_.grad_weight.row);
  }

  // `components` floats a point; `element` is the first row's, from which to the next are `step`.
  HWY_INLINE void store_rows(PointRange const& range, std::int64_t components, const float* from,
                             msda_dtype dtype, Tensor tensor, std::int64_t element,
                             std::int64_t step) const {
    std::int64_t const count = components * range.count;
    for (std::int64_t r = 0; r < range.rows; ++r) {
      store_row(from + r * count, count, dtype, source_.call[tensor],
                element + r * step + components * range.first, source_.streams_points);
    }
  }

  HeadSource const& source_;
  Problem const& problem_ = source_.problem;
  std::int32_t R_ = problem_.reference_dim;
  Tensor to_coord_ = problem_.fused() ? Tensor::kGradOffset : Tensor::kGradCoord;
  Tensor to_weight_ = problem_.fused() ? Tensor::kGradLogit : Tensor::kGradWeight;
  bool by_coord_ = source_.call[to_coord_] != nullptr;
  bool by_weight_ = source_.call[to_weight_] != nullptr;
  bool by_logit_ = problem_.fused() && by_weight_;
  Softmax softmax_;
  Points points_;
  BlockGrads grads_;
};

void store_points(HeadSource const& source, std::int64_t first, std::int64_t last,
                  const Record* records) {
  std::int64_t const K = source.problem.point_total, together = source.tables.read.rows;
  PointGrads grads(source);
  for (std::int64_t q = first; q < last; q += together) {
    const Record* const row = records == nullptr ? nullptr : records + (q - first) * K;
    grads.store(q, std::min(together, last - q), row);
  }
  hwy::FlushStream();
}

// Gradients of the references of one query, each summed head by head.
class ReferenceSums {
 public:
  ReferenceSums(HeadSource const& first_head, std::int64_t query, QueryHeads const& heads)
      : first_(first_head), q_(query), heads_(heads) {}

  void run() const {
    auto const level_count = static_cast<std::int64_t>(problem_.levels.size());
    bool const is_whole = heads_.first + heads_.count == problem_.head_count;
    for (std::int64_t l = 0; l < level_count; ++l) {
      Level const& level = problem_.levels[static_cast<std::size_t>(l)];
      HWY_ALIGN float sum[kLanes] = {};
      if (heads_.first > 0) std::copy_n(heads_.sums + l * R_, R_, sum);
      add_centres(level, sum);
      if (R_ == 4) add_extents(level, sum);
      if (is_whole) {
        store_row(sum, R_, problem_.reference_dtype, first_.call[Tensor::kGradReference],
                  first_.reference + (q_ * level_count + l) * R_);
      } else {
        std::copy_n(sum, R_, heads_.sums + l * R_);
      }
    }
  }

 private:
  // A record is a vector, of which the first two numbers are wanted.
  void add_centres(Level const& level, float* sum) const {
    const hn::CappedTag<float, 4> d;
    auto total = hn::Load(d, sum);
    const Record* row = heads_.row + level.point_start;
    for (std::int64_t i = 0; i < heads_.count; ++i, row += heads_.head_records) {
      for (const Record* by = row; by < row + level.point_count; ++by) {
        total = hn::Add(total, hn::LoadU(d, &by->x));
      }
    }
    HWY_ALIGN float all[4];
    hn::Store(total, d, all);
    std::copy_n(all, 2, sum);
  }

  void add_extents(Level const& level, float* sum) const {
    for (std::int64_t i = 0; i < heads_.count; ++i) {
      std::int64_t const end = level.point_start + level.point_count;
      for (std::int64_t first = level.point_start; first < end; first += kPointBlock) {
        add_extents_of(i, level, first, std::min(end - first, kPointBlock), sum);
      }
    }
  }

  void add_extents_of(std::int64_t head, Level const& level, std::int64_t first, std::int64_t count,
                      float* sum) const {
    float const per_point = 0.5f / static_cast<float>(level.point_count);
    const Record* const row = heads_.row + head * heads_.head_records + first;
    float offset[2 * kPointBlock];
    read_elements(first_, Tensor::kOffset, problem_.coord_dtype,
                  first_.coord + q_ * problem_.coord.row + head * problem_.coord.head + 2 * first,
                  2 * count, offset);
    for (std::int64_t i = 0; i < count; ++i) {
      if (row[i].x != 0) sum[2] += row[i].x * (offset[2 * i] * per_point);
      if (row[i].y != 0) sum[3] += row[i].y * (offset[2 * i + 1] * per_point);
    }
  }

  HeadSource const& first_;
  Problem const& problem_ = first_.problem;
  std::int64_t q_;
  QueryHeads const& heads_;
  std::int64_t R_ = problem_.reference_dim;
};

void store_reference(HeadSource const& first_head, std::int64_t q, QueryHeads const& heads) {
  ReferenceSums(first_head, q, heads).run();
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
