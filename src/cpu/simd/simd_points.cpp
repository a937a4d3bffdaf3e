// Locating points: from the inputs of one row, or of short ones that share a vector, to the offsets
// and weights of their corners, a vector of points at a time. Compiled once a target.

#include "cpu/simd/simd_kernel.h"

#define HWY_DISABLED_TARGETS MSDA_SIMD_DISABLED_TARGETS
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/simd_points.cpp"
#include <hwy/foreach_target.h>
// After foreach_target:
#include "cpu/simd/simd_references-inl.h"
#include "cpu/simd/simd_sums-inl.h"
#include "cpu/simd/simd_weights-inl.h"

#include "core/dtype.h"

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
PointReaders point_readers(Problem const&) { return {}; }
#else
// Left of and above every map: all four corners of such a point are outside.
constexpr float kOutside = -2.0f;

// ---- coordinates

// Pixel positions of one axis, before anything is said about numbers that are none.
template <int kReference, class V>
HWY_INLINE V to_pixels(V coord, V size, [[maybe_unused]] V half_step, [[maybe_unused]] V centre,
                       [[maybe_unused]] V extent) {
  const Floats d;
  auto const half = hn::Set(d, 0.5f);
  if constexpr (kReference == 0) {
    return hn::MulSub(coord, size, half);
  } else if constexpr (kReference == 2) {
    // (centre + offset / size) size - 1/2
    return hn::MulAdd(centre, size, hn::Sub(coord, half));
  } else {
    // (centre + offset / P extent / 2) size - 1/2; extent and 1 / P first, which cannot overflow
    auto const from_centre = hn::Mul(coord, hn::Mul(extent, half_step));
    return hn::MulAdd(from_centre, size, hn::MulSub(centre, size, half));
  }
}

// The pixel of nearest sampling, rounded as include/msda.h says: no fused multiply-add, and a
// quotient where it has one.
template <int kReference, class V>
HWY_INLINE V to_nearest(V coord, V size, [[maybe_unused]] V half_step, [[maybe_unused]] V centre,
                        [[maybe_unused]] V extent) {
  const Floats d;
  if constexpr (kReference == 2) coord = hn::Add(centre, hn::Div(coord, size));
  if constexpr (kReference == 4) {
    coord = hn::Add(centre, hn::Mul(coord, hn::Mul(extent, half_step)));
  }
  auto const pixel = hn::Floor(hn::Add(hn::Mul(coord, size), hn::Set(d, 0.5f)));
  return hn::Min(hn::Max(pixel, hn::Zero(d)), hn::Sub(size, hn::Set(d, 1.0f)));
}

template <class V>
HWY_INLINE V zero_if_number(V v) {
  return hn::Sub(v, v);
}

// A coordinate that is no number takes the point's weight with it, NaN or not. All others are
// clamped so that what is far outside stays outside and fits an integer.
template <int kReference, bool kNearest, typename T>
HWY_INLINE void read_coords(HeadSource const& source, PointRange const& range, const T* coord,
                            Points& points) {
  const Floats d;
  std::int64_t const count = range.size();
  PointLevels const& levels = source.tables.levels[range.first];
  const BlockReferences<kReference> references(source, range);
  HWY_ALIGN float copy[2 * kPointBlock];
  const float* pairs = copy;
  if (range.rows > 1) {
    copy_rows(coord, source.problem.coord.row, range.rows, 2 * range.count, copy);
  } else {
    pairs = as_floats(coord, 2 * count, copy);
  }
  for (std::int64_t i = 0; i < count; i += kLanes) {
    auto const a = load_first(d, pairs + 2 * i, 2 * (count - i));
    auto const b = load_first(d, pairs + 2 * i + kLanes, 2 * (count - i) - kLanes);
    auto const x = hn::ConcatEven(d, b, a), y = hn::ConcatOdd(d, b, a);
    auto const width = hn::Load(d, levels.width + i);
    auto const height = hn::Load(d, levels.height + i);
    auto const half_step = hn::Load(d, levels.half_step + i);
    auto check = hn::Add(zero_if_number(x), zero_if_number(y));
    auto const to_axis = [&](auto coord, auto size, int axis) HWY_ATTR {
      auto centre = hn::Zero(d), extent = hn::Zero(d);
      if constexpr (kReference != 0) {
        centre = references.component(axis, i);
        check = hn::Add(check, zero_if_number(centre));
      }
      if constexpr (kReference == 4) {
        extent = references.component(2 + axis, i);
        check = hn::Add(check, zero_if_number(extent));
      }
      if constexpr (kNearest) {
        return to_nearest<kReference>(coord, size, half_step, centre, extent);
      } else {
        return to_pixels<kReference>(coord, size, half_step, centre, extent);
      }
    };
    auto const px = to_axis(x, width, 0), py = to_axis(y, height, 1);
    if constexpr (kReference == 2) {
      // offset / 0 is no number: the table has NaN there.
      check = hn::Add(check, hn::Add(zero_if_number(width), zero_if_number(height)));
    }
    auto const is_number = hn::Eq(check, check);
    auto const outside = hn::Set(d, kOutside);
    auto const clamped_x = hn::Min(hn::Max(px, outside), width);
    auto const clamped_y = hn::Min(hn::Max(py, outside), height);
    hn::Store(hn::IfThenElse(is_number, clamped_x, outside), d, points.x + i);
    hn::Store(hn::IfThenElse(is_number, clamped_y, outside), d, points.y + i);
    hn::Store(hn::IfThenElseZero(is_number, hn::Load(d, points.weight + i)), d, points.weight + i);
  }
}

// Elements as float64: the array itself, or a copy.
HWY_INLINE const double* as_doubles(msda_dtype dtype, const void* array, std::int64_t first,
                                    std::int64_t count, double* copy) {
  if (dtype == MSDA_DTYPE_F64) return static_cast<const double*>(array) + first;
  for (std::int64_t i = 0; i < count; ++i) copy[i] = load_element(dtype, array, first + i);
  return copy;
}

// Coordinates that are float64, or relative to float64 references, are turned into pixels in
// float64: in float32 they would lose the bound. `row` is the element of the first one.
template <int kReference, bool kNearest>
HWY_INLINE void read_wide_coords(HeadSource const& source, PointRange const& range,
                                 std::int64_t row, Points& points) {
  Problem const& problem = source.problem;
  std::int64_t const q = range.q, first = range.first, count = range.count;
  auto const& levels = problem.levels;
  double pairs[2 * kPointBlock];
  const double* const coord = as_doubles(
      problem.coord_dtype, source.call[kReference == 0 ? Tensor::kCoord : Tensor::kOffset], row,
      2 * count, pairs);
  std::int64_t box = source.reference + q * static_cast<std::int64_t>(levels.size()) * kReference;
  for (std::size_t l = 0; l < levels.size(); ++l, box += kReference) {
    std::int64_t const begin = std::max(levels[l].point_start - first, std::int64_t{0});
    std::int64_t const end = std::min(levels[l].point_start + levels[l].point_count - first, count);
    double const size[2] = {static_cast<double>(levels[l].width),
                            static_cast<double>(levels[l].height)};
    double copy[4];
    const double* reference = nullptr;
    if constexpr (kReference != 0) {
      reference = as_doubles(problem.reference_dtype, source.call[Tensor::kReference], box,
                             kReference, copy);
    }
    for (std::int64_t i = begin; i < end; ++i) {
      double at[2] = {coord[2 * i], coord[2 * i + 1]};
      bool is_number = std::isfinite(at[0]) && std::isfinite(at[1]);
      for (int axis = 0; axis < 2; ++axis) {
        if constexpr (kReference == 2) at[axis] = reference[axis] + at[axis] / size[axis];
        if constexpr (kReference == 4) {
          auto const count = static_cast<double>(levels[l].point_count);
          double const step =
              kNearest ? reference[2 + axis] * (0.5 / count) : 0.5 * reference[2 + axis] / count;
          at[axis] = reference[axis] + at[axis] * step;
        }
        if constexpr (kNearest) {  // a sum beyond float64 is of numbers, too
          for (int n = axis; n < kReference; n += 2)
            is_number = is_number && std::isfinite(reference[n]);
          if constexpr (kReference == 2) is_number = is_number && size[axis] > 0;
        } else {
          is_number = is_number && std::isfinite(at[axis]);
        }
      }
      auto const pixel = [&](int axis) HWY_ATTR {
        if constexpr (kNearest) {
          double const position = std::floor(at[axis] * size[axis] + 0.5);
          return is_number && size[axis] > 0
                     ? static_cast<float>(std::clamp(position, 0.0, size[axis] - 1))
                     : kOutside;
        }
        double const position = at[axis] * size[axis] - 0.5;
        return is_number ? static_cast<float>(std::clamp(position, -2.0, size[axis])) : kOutside;
      };
      points.x[i] = pixel(0);
      points.y[i] = pixel(1);
      points.weight[i] = is_number ? points.weight[i] : 0.0f;
    }
  }
}

// ---- corners

HWY_INLINE void store_weights(V fx, V fy, V weight, std::int64_t i, Corners& corners) {
  V to[4];
  find_corner_weights(fx, fy, weight, to);
  for (int c = 0; c < 4; ++c) hn::Store(to[c], Floats(), corners.weight[c] + i);
}

// Byte offsets, half a vector of points at a time because they take 64 bits.
template <class V32, class Half>
HWY_INLINE void store_offsets(HeadSource const& source, std::int64_t first, std::int64_t i, V32 x0,
                              V32 y0, V32 const (&inside)[4], Half half, Corners& corners) {
  using D32 = hn::RebindToSigned<Floats>;
  using D64 = hn::RepartitionToWide<D32>;
  const D32 d32;
  const D64 d64;
  PointLevels const& levels = source.tables.levels[first];
  Tables const& tables = source.tables;
  auto const widen = [&](V32 v) HWY_ATTR { return hn::PromoteTo(d64, half(v)); };
  auto const times = [&](hn::Vec<D64> a, hn::Vec<D64> b)
                         HWY_ATTR { return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b)); };
  auto const x = widen(x0), y = widen(y0);
  auto const pixel = hn::Set(d64, tables.pixel_bytes);
  auto const row = hn::Load(d64, levels.row_bytes + i);
  auto offset = hn::Add(hn::Load(d64, levels.origin + i), hn::Set(d64, source.value));
  if (HWY_LIKELY(!tables.wide_strides)) {
    offset = hn::Add(offset, hn::Add(times(y, row), times(x, pixel)));
  } else {
    // 31 bits of a stride at a time; the products of the upper ones need no bits above 64.
    auto const low = hn::Set(d64, 0x7FFFFFFF);
    auto const product = [&](auto a, auto stride) HWY_ATTR {
      return hn::Add(times(a, hn::And(stride, low)),
                     hn::ShiftLeft<31>(times(a, hn::ShiftRight<31>(stride))));
    };
    offset = hn::Add(offset, hn::Add(product(y, row), product(x, pixel)));
  }
  auto const below = hn::Add(offset, row);
  hn::Store(hn::And(offset, widen(inside[0])), d64, corners.offset[0] + i);
  hn::Store(hn::And(hn::Add(offset, pixel), widen(inside[1])), d64, corners.offset[1] + i);
  hn::Store(hn::And(below, widen(inside[2])), d64, corners.offset[2] + i);
  hn::Store(hn::And(hn::Add(below, pixel), widen(inside[3])), d64, corners.offset[3] + i);
}

// For a block whose weights are not all finite, see Corners.
HWY_NOINLINE void keep_weights_apart(std::int64_t count, Points const& points, Corners& corners) {
  const Floats d;
  for (std::int64_t i = 0; i < count; ++i) {
    corners.has_infinite_weight = corners.has_infinite_weight || std::isinf(points.weight[i]);
  }
  if (!corners.has_infinite_weight) return;
  for (std::int64_t i = 0; i < count; i += kLanes) {
    auto const px = hn::Load(d, points.x + i), py = hn::Load(d, points.y + i);
    store_weights(hn::Sub(px, hn::Floor(px)), hn::Sub(py, hn::Floor(py)), hn::Set(d, 1.0f), i,
                  corners);
    hn::Store(hn::Load(d, points.weight + i), d, corners.attention + i);
  }
}

template <bool kNearest>
HWY_INLINE void find_corners(HeadSource const& source, PointRange const& range,
                             Points const& points, Corners& corners) {
  std::int64_t const first = range.first, count = range.size();
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const hn::RebindToUnsigned<Floats> du;
  PointLevels const& levels = source.tables.levels[first];
  auto check = hn::Zero(d);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    auto const px = hn::Load(d, points.x + i), py = hn::Load(d, points.y + i);
    auto const floor_x = hn::Floor(px), floor_y = hn::Floor(py);
    auto const weight = hn::Load(d, points.weight + i);
    check = hn::Add(check, zero_if_number(weight));
    store_weights(hn::Sub(px, floor_x), hn::Sub(py, floor_y), weight, i, corners);
    auto const x0 = hn::ConvertTo(di, floor_x), y0 = hn::ConvertTo(di, floor_y);
    auto const x1 = hn::Add(x0, hn::Set(di, 1)), y1 = hn::Add(y0, hn::Set(di, 1));
    auto const columns = hn::BitCast(du, hn::Load(di, levels.columns + i));
    auto const rows = hn::BitCast(du, hn::Load(di, levels.rows + i));
    // As unsigned numbers the negative ones are beyond every size.
    auto const left = hn::Lt(hn::BitCast(du, x0), columns),
               right = hn::Lt(hn::BitCast(du, x1), columns);
    auto const top = hn::Lt(hn::BitCast(du, y0), rows), bottom = hn::Lt(hn::BitCast(du, y1), rows);
    auto const ones = [&](auto a, auto b)
                          HWY_ATTR { return hn::BitCast(di, hn::VecFromMask(du, hn::And(a, b))); };
    hn::Vec<decltype(di)> inside[4] = {ones(top, left), ones(top, right), ones(bottom, left),
                                       ones(bottom, right)};
    if constexpr (kNearest) {  // a point is its first corner
      for (int corner = 1; corner < 4; ++corner) inside[corner] = hn::Zero(di);
    }
    const hn::Half<decltype(di)> dh;
    store_offsets(
        source, first, i, x0, y0, inside, [](auto v) HWY_ATTR { return hn::LowerHalf(v); },
        corners);
    store_offsets(
        source, first, i + kLanes / 2, x0, y0, inside,
        [dh](auto v) HWY_ATTR { return hn::UpperHalf(dh, v); }, corners);
  }
  corners.has_infinite_weight = false;
  if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Eq(check, check))))
    keep_weights_apart(count, points, corners);
}

// ---- the functions of a plan

template <int kReference, bool kNearest, typename T>
void read_points(HeadSource const& source, PointRange const& range, Softmax& known,
                 Points& points) {
  if constexpr (kReference == 0) {
    read_weights(source, range, points.weight);
  } else {
    read_softmax(source, range, known, points.weight);
  }
  std::int64_t const row = source.coord + range.q * source.problem.coord.row + 2 * range.first;
  if constexpr (std::is_same_v<T, double>) {
    read_wide_coords<kReference, kNearest>(source, range, row, points);
  } else {
    const void* const coord = source.call[kReference == 0 ? Tensor::kCoord : Tensor::kOffset];
    read_coords<kReference, kNearest>(source, range, static_cast<const T*>(coord) + row, points);
  }
}

template <int kReference, bool kNearest>
ReadPoints reader_by_dtype(msda_dtype coord_dtype) {
  return with_element(coord_dtype, [](auto element) HWY_ATTR -> ReadPoints {
    return read_points<kReference, kNearest, typename decltype(element)::Type>;
  });
}

template <bool kNearest>
ReadPoints reader_by_input(Problem const& problem) {
  if (!problem.fused()) return reader_by_dtype<0, kNearest>(problem.coord_dtype);
  msda_dtype const dtype =
      problem.reference_dtype == MSDA_DTYPE_F64 ? MSDA_DTYPE_F64 : problem.coord_dtype;
  if (problem.reference_dim == 2) return reader_by_dtype<2, kNearest>(dtype);
  return reader_by_dtype<4, kNearest>(dtype);
}

template <bool kNearest>
void locate(HeadSource const& source, PointRange const& range, Softmax& softmax, Corners& corners) {
  Points points;
  source.tables.read.points(source, range, softmax, points);
  find_corners<kNearest>(source, range, points, corners);
}

void softmax_weights(HeadSource const& source, PointRange const& range, Softmax& known,
                     Points& points) {
  read_softmax(source, range, known, points.weight);
}

void store_attention(HeadSource const& source, std::int64_t q, std::int64_t to, Softmax& softmax) {
  std::int64_t const K = source.problem.point_total;
  for (std::int64_t k = 0; k < K; k += kPointBlock) {
    std::int64_t const count = std::min(K - k, kPointBlock);
    Points points;
    read_softmax(source, {q, 1, k, count}, softmax, points.weight);
    store_row(points.weight, count, source.problem.weight_dtype, source.call[Tensor::kAttention],
              to + k);
  }
}

// See PointReaders::rows. In float64 points are read one by one.
std::int64_t rows_together(Problem const& problem) {
  for (msda_dtype const dtype :
       {problem.coord_dtype, problem.reference_dtype, problem.weight_dtype}) {
    if (dtype == MSDA_DTYPE_F64) return 1;
  }
  std::int64_t const references =
      static_cast<std::int64_t>(problem.levels.size()) * problem.reference_dim;
  std::int64_t const K = problem.point_total;
  if (!std::has_single_bit(static_cast<std::uint64_t>(K))) return 1;
  return std::max(kLanes / std::max(K, references), std::int64_t{1});
}

PointReaders point_readers(Problem const& problem) {
  return {problem.nearest() ? reader_by_input<true>(problem) : reader_by_input<false>(problem),
          softmax_weights, store_attention, problem.nearest() ? locate<true> : locate<false>,
          rows_together(problem)};
}
#endif  // HWY_TARGET

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msda::simd {

HWY_EXPORT(point_readers);
PointReaders choose_readers(Problem const& problem) {
  return HWY_DYNAMIC_DISPATCH(point_readers)(problem);
}

}  // namespace msda::simd
#endif
