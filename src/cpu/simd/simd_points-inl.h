// From the inputs of one (batch, query, head) to corner offsets and corner weights, a vector of points at
// a time. Included once a target by foreach_target.
#if defined(MSDA_SIMD_POINTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MSDA_SIMD_POINTS_INL_H_
#undef MSDA_SIMD_POINTS_INL_H_
#else
#define MSDA_SIMD_POINTS_INL_H_
#endif

#include "core/problem.h"
#include "cpu/simd/simd_elements-inl.h"
#include "cpu/simd/simd_tables.h"

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Corners in the order (y0, x0), (y0, x0 + 1), (y0 + 1, x0), (y0 + 1, x0 + 1).
struct Corners {
  HWY_ALIGN std::int64_t offset[4][kPointBlock];  // elements from the head's first; outside: to the zeros
  HWY_ALIGN float weight[4][kPointBlock];         // attention weight times bilinear weight
};

// Coordinates and attention weights of a block of points; the padding behind them is harmless.
struct Points {
  HWY_ALIGN float x[kPointBlock];
  HWY_ALIGN float y[kPointBlock];
  HWY_ALIGN float weight[kPointBlock];
};

// Where one (batch, query, head) has its inputs.
struct Row {
  std::int64_t coord;      // element of coord or offset
  std::int64_t weight;     // element of weight or logit
  std::int64_t reference;  // element of reference, fused only
};

HWY_INLINE Row row_of(Problem const& problem, std::int64_t b, std::int64_t q, std::int64_t m) {
  auto const levels = static_cast<std::int64_t>(problem.levels.size());
  return {b * problem.coord.batch + q * problem.coord.row + m * problem.coord.head,
          b * problem.weight.batch + q * problem.weight.row + m * problem.weight.head,
          (b * problem.query_count + q) * levels * problem.reference_dim};
}

// (x, y) pairs of points [first, first + count), split.
HWY_INLINE void read_pairs(msda_dtype dtype, const void* array, std::int64_t element,
                           std::int64_t count, float* x, float* y) {
  const hn::ScalableTag<float> d;
  auto const lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN float pairs[2 * kPointBlock];
  const float* from = pairs;
  if (dtype == MSDA_F32) {
    from = static_cast<const float*>(array) + element;
  } else {
    read_floats(dtype, array, element, 2 * count, pairs);
  }
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<decltype(d)> vx, vy;
    hn::LoadInterleaved2(d, from + 2 * i, vx, vy);
    hn::Store(vx, d, x + i);
    hn::Store(vy, d, y + i);
  }
  for (; i < count; ++i) {
    x[i] = from[2 * i];
    y[i] = from[2 * i + 1];
  }
}

// The largest logit and the sum of exp(logit - largest) over all K points, in one fixed order.
struct Softmax {
  float largest;
  float sum;
};

HWY_INLINE std::int64_t padded(std::int64_t count) {
  auto const lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  return (count + lanes - 1) / lanes * lanes;
}

// Reads a block of logits; lanes behind them are minus infinity.
HWY_INLINE void read_logits(Problem const& problem, Call const& call, std::int64_t element,
                            std::int64_t count, float* to) {
  read_floats(problem.weight_dtype, call.logit, element, count, to);
  std::fill(to + count, to + padded(count), -std::numeric_limits<float>::infinity());
}

template <class D>
HWY_INLINE hn::Vec<D> exp_of_difference(D d, hn::Vec<D> logit, float largest) {
  auto const difference = hn::Sub(logit, hn::Set(d, largest));
  // Highway's Exp is for finite arguments: NaN must stay NaN, far below must be zero.
  auto const result = hn::Exp(d, hn::Max(difference, hn::Set(d, -104.0f)));
  auto const zeroed = hn::IfThenElse(hn::Lt(difference, hn::Set(d, -103.9f)), hn::Zero(d), result);
  return hn::IfThenElse(hn::IsNaN(difference), difference, zeroed);
}

HWY_INLINE Softmax softmax_of(Problem const& problem, Call const& call, std::int64_t element) {
  const hn::ScalableTag<float> d;
  auto const lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN float logits[kPointBlock];
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t k = 0; k < problem.point_total; k += kPointBlock) {
    std::int64_t const count = std::min(kPointBlock, problem.point_total - k);
    read_logits(problem, call, element + k, count, logits);
    for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, logits[i]);
  }
  auto sum = hn::Zero(d);
  for (std::int64_t k = 0; k < problem.point_total; k += kPointBlock) {
    std::int64_t const count = std::min(kPointBlock, problem.point_total - k);
    if (problem.point_total > kPointBlock) read_logits(problem, call, element + k, count, logits);
    for (std::int64_t i = 0; i < padded(count); i += lanes) {
      sum = hn::Add(sum, exp_of_difference(d, hn::Load(d, logits + i), largest));
    }
  }
  return {largest, hn::GetLane(hn::SumOfLanes(d, sum))};
}

// Points [first, first + count) of a sampled row.
HWY_INLINE void read_sampled(Problem const& problem, Call const& call, Row const& row,
                             std::int64_t first, std::int64_t count, Points& points) {
  read_pairs(problem.coord_dtype, call.coord, row.coord + 2 * first, count, points.x, points.y);
  read_floats(problem.weight_dtype, call.weight, row.weight + first, count, points.weight);
}

// reference + offset / (W, H), or reference.xy + offset / P * reference.wh / 2.
HWY_INLINE void place_offsets(Problem const& problem, Call const& call, Tables const& tables,
                              Row const& row, std::int64_t first, std::int64_t count,
                              Points& points) {
  const hn::ScalableTag<float> d;
  auto const lanes = static_cast<std::int64_t>(hn::Lanes(d));
  // Of each point: the reference point and, with boxes, what one unit of offset is worth.
  HWY_ALIGN float centre[2][kPointBlock] = {};
  HWY_ALIGN float unit[2][kPointBlock] = {};
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    std::int64_t const begin = std::max(level.point_start - first, std::int64_t{0});
    std::int64_t const end = std::min(level.point_start + level.point_count - first, count);
    if (begin >= end) continue;
    float reference[kPointBlock] = {};
    read_floats(problem.coord_dtype, call.reference,
                row.reference + static_cast<std::int64_t>(l) * problem.reference_dim,
                problem.reference_dim, reference);
    auto const point_count = static_cast<float>(level.point_count);
    for (std::int64_t i = begin; i < end; ++i) {
      for (int axis = 0; axis < 2; ++axis) {
        centre[axis][i] = reference[axis];
        unit[axis][i] = reference[2 + axis] * 0.5f / point_count;
      }
    }
  }
  for (std::int64_t i = 0; i < padded(count); i += lanes) {
    auto const dx = hn::Load(d, points.x + i), dy = hn::Load(d, points.y + i);
    auto const cx = hn::Load(d, centre[0] + i), cy = hn::Load(d, centre[1] + i);
    if (problem.reference_dim == 2) {
      auto const width = hn::LoadU(d, tables.width.data() + first + i);
      auto const height = hn::LoadU(d, tables.height.data() + first + i);
      hn::Store(hn::Add(cx, hn::Div(dx, width)), d, points.x + i);
      hn::Store(hn::Add(cy, hn::Div(dy, height)), d, points.y + i);
    } else {
      hn::Store(hn::MulAdd(dx, hn::Load(d, unit[0] + i), cx), d, points.x + i);
      hn::Store(hn::MulAdd(dy, hn::Load(d, unit[1] + i), cy), d, points.y + i);
    }
  }
}

HWY_INLINE void read_fused(Problem const& problem, Call const& call, Tables const& tables,
                           Row const& row, Softmax const& softmax, std::int64_t first,
                           std::int64_t count, Points& points) {
  const hn::ScalableTag<float> d;
  auto const lanes = static_cast<std::int64_t>(hn::Lanes(d));
  read_pairs(problem.coord_dtype, call.offset, row.coord + 2 * first, count, points.x, points.y);
  place_offsets(problem, call, tables, row, first, count, points);
  read_logits(problem, call, row.weight + first, count, points.weight);
  for (std::int64_t i = 0; i < padded(count); i += lanes) {
    auto const e = exp_of_difference(d, hn::Load(d, points.weight + i), softmax.largest);
    hn::Store(hn::Div(e, hn::Set(d, softmax.sum)), d, points.weight + i);
  }
}

// Token indices (int32, -1: outside) to element offsets, half a vector at a time.
template <class D32, class V32>
HWY_INLINE void store_offsets([[maybe_unused]] D32 d32, V32 token, std::int32_t stride, std::int64_t outside,
                              std::int64_t* to) {
#if HWY_TARGET == HWY_SCALAR
  std::int64_t const at = hn::GetLane(token);
  *to = at < 0 ? outside : at * stride;
#else
  const hn::RepartitionToWide<D32> d64;
  auto const put = [&](auto half, std::int64_t* at) HWY_ATTR {
    auto const wide = hn::PromoteTo(d64, half);
    auto const offset = hn::MulEven(hn::BitCast(d32, wide), hn::Set(d32, stride));
    hn::Store(hn::IfThenElse(hn::Lt(wide, hn::Zero(d64)), hn::Set(d64, outside), offset), d64, at);
  };
  put(hn::LowerHalf(token), to);
  put(hn::UpperHalf(hn::Half<D32>(), token), to + hn::Lanes(d64));
#endif
}

// Corner offsets and weights of points [first, first + count).
HWY_INLINE void locate(Tables const& tables, std::int32_t stride, std::int64_t outside,
                       std::int64_t first, std::int64_t count, Points const& points,
                       Corners& corners) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  auto const lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto const half = hn::Set(d, 0.5f), one = hn::Set(d, 1.0f), minus_one = hn::Set(d, -1.0f);
  auto const none = hn::Set(di, -1), unit = hn::Set(di, 1);
  for (std::int64_t i = 0; i < count; i += lanes) {
    auto const x = hn::Load(d, points.x + i), y = hn::Load(d, points.y + i);
    auto const width = hn::LoadU(d, tables.width.data() + first + i);
    auto const height = hn::LoadU(d, tables.height.data() + first + i);
    auto const px = hn::MulSub(x, width, half), py = hn::MulSub(y, height, half);
    // Some corner is inside; false for NaN. Elsewhere px = -2 leaves none inside and nothing to overflow.
    auto const near = hn::And(hn::And(hn::Ge(px, minus_one), hn::Lt(px, width)),
                              hn::And(hn::Ge(py, minus_one), hn::Lt(py, height)));
    auto const far = hn::Set(d, -2.0f);
    auto const qx = hn::IfThenElse(near, px, far), qy = hn::IfThenElse(near, py, far);
    auto const floor_x = hn::Floor(qx), floor_y = hn::Floor(qy);
    auto const fx = hn::Sub(qx, floor_x), fy = hn::Sub(qy, floor_y);
    auto const x0 = hn::ConvertTo(di, floor_x), y0 = hn::ConvertTo(di, floor_y);
    auto const x1 = hn::Add(x0, unit), y1 = hn::Add(y0, unit);
    auto const columns = hn::LoadU(di, tables.columns.data() + first + i);
    auto const rows = hn::LoadU(di, tables.rows.data() + first + i);
    auto const pitch = hn::LoadU(di, tables.pitch.data() + first + i);
    auto const left = hn::Gt(x0, none), right = hn::And(hn::Gt(x1, none), hn::Lt(x1, columns));
    auto const top = hn::Gt(y0, none), bottom = hn::And(hn::Gt(y1, none), hn::Lt(y1, rows));
    auto const token = hn::Add(hn::Add(hn::Mul(y0, pitch), x0),
                               hn::LoadU(di, tables.origin.data() + first + i));
    auto const below = hn::Add(token, pitch);
    auto const put = [&](int corner, auto inside, auto at) HWY_ATTR {
      store_offsets(di, hn::IfThenElse(inside, at, none), stride, outside,
                    corners.offset[corner] + i);
    };
    put(0, hn::And(top, left), token);
    put(1, hn::And(top, right), hn::Add(token, unit));
    put(2, hn::And(bottom, left), below);
    put(3, hn::And(bottom, right), hn::Add(below, unit));
    // A coordinate that is no number takes the point's weight with it, NaN or not.
    auto const is_number = hn::And(hn::Eq(hn::Sub(x, x), hn::Zero(d)), hn::Eq(hn::Sub(y, y), hn::Zero(d)));
    auto const weight = hn::IfThenElseZero(is_number, hn::Load(d, points.weight + i));
    auto const upper = hn::Mul(weight, hn::Sub(one, fy)), lower = hn::Mul(weight, fy);
    auto const gx = hn::Sub(one, fx);
    hn::Store(hn::Mul(upper, gx), d, corners.weight[0] + i);
    hn::Store(hn::Mul(upper, fx), d, corners.weight[1] + i);
    hn::Store(hn::Mul(lower, gx), d, corners.weight[2] + i);
    hn::Store(hn::Mul(lower, fx), d, corners.weight[3] + i);
  }
}

// Corners of the points [block * kPointBlock, ...) of one (batch, query, head). Not inlined: it is the same
// for every value type and head size, and a call is little beside what it does.
[[maybe_unused]] static HWY_NOINLINE void find_corners(Problem const& problem, Call const& call, Tables const& tables,
                               Row const& row, std::int64_t outside, std::int64_t block,
                               Corners& corners) {
  std::int64_t const first = block * kPointBlock;
  std::int64_t const count = std::min(problem.point_total - first, kPointBlock);
  Points points;
  if (problem.fused()) {
    Softmax const softmax = softmax_of(problem, call, row.weight);
    read_fused(problem, call, tables, row, softmax, first, count, points);
  } else {
    read_sampled(problem, call, row, first, count, points);
  }
  locate(tables, static_cast<std::int32_t>(problem.value.row), outside, first, count, points, corners);
}

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
