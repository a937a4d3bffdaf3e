// The position of a point and its weight: the same few lines for every kernel that reads one point
// at a time. Formulas: include/msda.h, "WHAT IT COMPUTES".
#pragma once

#include "kernels/common/elements.cuh"

namespace msda {

// A point in pixels of its level.
template <typename Real>
struct Point {
  Real x;
  Real y;
  bool is_number;  // none of its coordinates is NaN or infinite
};

// size * coord - 1/2 with two roundings. Contracted to one operation it would put points that lie
// on a pixel line beside it, on either side, and the derivative there with them.
__device__ __forceinline__ float to_pixel(float coord, float size) {
  return __fadd_rn(__fmul_rn(coord, size), -0.5f);
}
__device__ __forceinline__ double to_pixel(double coord, double size) {
  return __dadd_rn(__dmul_rn(coord, size), -0.5);
}

// centre + offset * extent * scale. A huge extent times a huge offset must not overflow before the
// small scale makes the product small again.
__device__ __forceinline__ float product_sum(float centre, float offset, float extent,
                                             float scale) {
  return __fadd_rn(centre, __fmul_rn(offset, __fmul_rn(extent, scale)));
}
__device__ __forceinline__ double product_sum(double centre, double offset, double extent,
                                              double scale) {
  return __dadd_rn(centre, __dmul_rn(__dmul_rn(offset, extent), scale));
}

template <typename Real>
__device__ __forceinline__ Real zero_if_number(Real x) {
  return x - x;
}

// An infinite weight belongs to the sample, not to the corners: times one that weighs nothing it
// would be no number, and so would the sum of corners of either sign.
__device__ __forceinline__ bool is_infinite(float weight) { return fabsf(weight) == INFINITY; }

// Row offsets of one (batch, query, head) in the point tensors.
struct PointRow {
  std::int64_t coord;
  std::int64_t weight;
  std::int64_t reference;

  __device__ PointRow(Params const& p, std::int64_t b, std::int64_t q, std::int64_t m)
      : coord(p.coord_strides.at(b, q, m)),
        weight(p.weight_strides.at(b, q, m)),
        reference((b * p.query_count + q) * p.level_count * p.reference_dim) {}
};

// A reference point, or a box with its extent, at element `at` of the reference tensor.
template <typename Real>
struct Reference {
  Real x, y, width, height;
  Real check;  // no number where one of them is none

  __device__ __forceinline__ Reference(Params const& p, std::int64_t at)
      : x(component(p, at)), y(component(p, at + 1)), width(0), height(0) {
    check = zero_if_number(x) + zero_if_number(y);
    if (p.reference_dim == 2) return;
    width = component(p, at + 2);
    height = component(p, at + 3);
    check += zero_if_number(width) + zero_if_number(height);
  }

 private:
  static __device__ __forceinline__ Real component(Params const& p, std::int64_t at) {
    // Kernels whose coordinates are float32 refuse F64.
    if constexpr (sizeof(Real) == 4) return load_narrow(p.reference_dtype, p.reference, at);
    return load_element<Real>(p.reference_dtype, p.reference, at);
  }
};

// Point k, which is on level l. Fused: reference points with offsets in pixels, or boxes with
// offsets in units of half their size over P_l.
template <typename Real>
__device__ __forceinline__ Point<Real> point_at(Params const& p, PointRow const& row,
                                                LevelParams const& level, std::int32_t l,
                                                std::int64_t k) {
  auto const width = static_cast<Real>(level.width);
  auto const height = static_cast<Real>(level.height);
  auto const x = load_element<Real>(p.coord_dtype, p.coord, row.coord + 2 * k);
  auto const y = load_element<Real>(p.coord_dtype, p.coord, row.coord + 2 * k + 1);
  Real check = zero_if_number(x) + zero_if_number(y);
  if (p.reference_dim == 0) return {to_pixel(x, width), to_pixel(y, height), check == check};

  Reference<Real> const reference(p,
                                  row.reference + static_cast<std::int64_t>(l) * p.reference_dim);
  check += reference.check;
  if (p.reference_dim == 2) {
    // An offset in pixels of an empty map is divided by zero: no number.
    bool const is_number = check == check && level.width > 0 && level.height > 0;
    return {to_pixel(reference.x + x / width, width), to_pixel(reference.y + y / height, height),
            is_number};
  }
  Real const scale = static_cast<Real>(0.5) / static_cast<Real>(level.point_count);
  return {to_pixel(product_sum(reference.x, x, reference.width, scale), width),
          to_pixel(product_sum(reference.y, y, reference.height, scale), height), check == check};
}

// Nearest sampling: the pixel of a point.
struct Pixel {
  std::int32_t x;
  std::int32_t y;
  bool is_number;  // none of the point's coordinates is NaN or infinite
};

// size * coord + 1/2 with two roundings: these choose the pixel.
__device__ __forceinline__ float to_nearest(float coord, float size) {
  return __fadd_rn(__fmul_rn(coord, size), 0.5f);
}
__device__ __forceinline__ double to_nearest(double coord, double size) {
  return __dadd_rn(__dmul_rn(coord, size), 0.5);
}

// The pixel along an axis of `size` pixels, the first or last one for what lies outside.
template <typename Real>
__device__ __forceinline__ std::int32_t nearest_pixel(Real coord, std::int32_t size) {
  auto const n = static_cast<Real>(size);
  Real const position = to_nearest(coord, n);
  if (!(position >= 1)) return 0;
  // float32 may have a larger size than there is.
  return position < n ? min(static_cast<std::int32_t>(position), size - 1) : size - 1;
}

// As point_at(), but in the arithmetic of the coordinates: all kernels find the same pixel.
template <typename Real>
__device__ __forceinline__ Pixel nearest_at(Params const& p, PointRow const& row,
                                            LevelParams const& level, std::int32_t l,
                                            std::int64_t k) {
  if constexpr (sizeof(Real) == 8) {
    bool const is_f64 = p.coord_dtype == MSDA_DTYPE_F64 ||
                        (p.reference_dim != 0 && p.reference_dtype == MSDA_DTYPE_F64);
    if (!is_f64) return nearest_at<float>(p, row, level, l, k);
  }
  auto x = load_element<Real>(p.coord_dtype, p.coord, row.coord + 2 * k);
  auto y = load_element<Real>(p.coord_dtype, p.coord, row.coord + 2 * k + 1);
  Real check = zero_if_number(x) + zero_if_number(y);
  if (p.reference_dim != 0) {
    Reference<Real> const reference(p,
                                    row.reference + static_cast<std::int64_t>(l) * p.reference_dim);
    check += reference.check;
    if (p.reference_dim == 2) {
      // An offset in pixels of an empty map is divided by zero: no number.
      if (level.width == 0 || level.height == 0) return {0, 0, false};
      x = reference.x + x / static_cast<Real>(level.width);
      y = reference.y + y / static_cast<Real>(level.height);
    } else {
      Real const scale = static_cast<Real>(0.5) / static_cast<Real>(level.point_count);
      x = product_sum(reference.x, x, reference.width, scale);
      y = product_sum(reference.y, y, reference.height, scale);
    }
  }
  return {nearest_pixel(x, level.width), nearest_pixel(y, level.height), check == check};
}

// The Point of a mode of sampling, or its Pixel.
template <typename Real, bool kNearest>
__device__ __forceinline__ auto place_of(Params const& p, PointRow const& row,
                                         LevelParams const& level, std::int32_t l, std::int64_t k) {
  if constexpr (kNearest) {
    return nearest_at<Real>(p, row, level, l, k);
  } else {
    return point_at<Real>(p, row, level, l, k);
  }
}

// Softmax of a row of logits: weight = exp(logit - largest) / sum.
template <typename Real>
struct Softmax {
  Real largest;
  Real sum;

  __device__ Real weight(Real logit) const { return exp(logit - largest) / sum; }
};

template <typename Real>
__device__ Softmax<Real> softmax_of(Params const& p, PointRow const& row) {
  Softmax<Real> result{-INFINITY, 0};
  for (std::int64_t k = 0; k < p.point_total; ++k) {
    auto const logit = load_element<Real>(p.weight_dtype, p.weight, row.weight + k);
    result.largest = logit > result.largest ? logit : result.largest;
  }
  for (std::int64_t k = 0; k < p.point_total; ++k) {
    auto const logit = load_element<Real>(p.weight_dtype, p.weight, row.weight + k);
    result.sum += exp(logit - result.largest);
  }
  return result;
}

// Joins the numbers of kLanes neighbouring lanes, a power of two of them, in a tree: all end with
// the same one.
template <int kLanes, typename T, class Join>
__device__ __forceinline__ T join_lanes(T x, Join join) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    x = join(x, __shfl_xor_sync(0xffffffffu, x, distance));
  }
  return x;
}

// Kernels whose lanes share a row deal its K logits, from element `first` on, to kLanes of them. K
// is a reference: a copy costs instructions where it is among the parameters of a kernel.
template <typename Real, int kLanes, typename Index>
__device__ Softmax<Real> softmax_of_lanes(Params const& p, std::int64_t first, Index lane,
                                          Index const& K) {
  Softmax<Real> result{-INFINITY, 0};
  for (Index k = lane; k < K; k += kLanes) {
    auto const logit = load_element<Real>(p.weight_dtype, p.weight, first + k);
    result.largest = logit > result.largest ? logit : result.largest;
  }
  result.largest = join_lanes<kLanes>(
      result.largest, [](Real own, Real other) { return other > own ? other : own; });
  for (Index k = lane; k < K; k += kLanes) {
    auto const logit = load_element<Real>(p.weight_dtype, p.weight, first + k);
    result.sum += exp(logit - result.largest);
  }
  result.sum = join_lanes<kLanes>(result.sum, [](Real own, Real other) { return own + other; });
  return result;
}

// The level of entry i of a block's table of places, which has a level each where all levels have
// kPoints points, else a point each.
template <class Config>
__device__ __forceinline__ int level_of_place(Params const& p, int i) {
  int l = i;
  if constexpr (Config::kPoints == 0) {
    l = 0;
    while (i >= p.near_levels[l].point_start + p.near_levels[l].point_count) ++l;
  }
  return l;
}

// A point on an axis of n pixels, at least half inside. Where one of its two pixels is outside, the
// other stands for both with half of its weight each: what is not part of the result, NaN or
// infinite as it may be, is never read.
struct Axis {
  std::int32_t first;  // pixel
  bool has_second;
  float fraction;  // of the second
  float inside;    // 1, or what the border leaves
};

__device__ __forceinline__ Axis axis_at(float x, float n) {
  float const floor_x = floorf(x);
  float const fraction = x - floor_x;
  auto const i = static_cast<std::int32_t>(floor_x);
  bool const is_before = i < 0;
  bool const has_second = !is_before && floor_x + 1.0f < n;
  float const left_over = is_before ? fraction : 1.0f - fraction;
  return {max(i, 0), has_second, has_second ? fraction : 0.5f, has_second ? 1.0f : left_over};
}

// The four corners of a point: (y0, x0), (y0, x0 + 1), (y0 + 1, x0), (y0 + 1, x0 + 1).
template <typename Real>
struct Corners {
  std::int64_t first;       // token of (y0, x0), which may be outside
  std::int64_t row_tokens;  // of the level
  bool inside[4];
  bool any_inside;
  Real fx, fy;

  __device__ std::int64_t token(int i) const { return first + (i & 1) + (i >> 1) * row_tokens; }
  __device__ Real weight(int i) const {
    Real const one = 1;
    return (i & 1 ? fx : one - fx) * (i & 2 ? fy : one - fy);
  }
};

template <typename Real>
__device__ __forceinline__ Corners<Real> corners_of(LevelParams const& level,
                                                    Point<Real> const& point) {
  Corners<Real> corners{0, level.row_tokens, {}, false, 0, 0};
  // Written so that NaN is outside. Beyond these bounds the floor may not fit an integer.
  if (!(point.x >= -1 && point.x < static_cast<Real>(level.width))) return corners;
  if (!(point.y >= -1 && point.y < static_cast<Real>(level.height))) return corners;
  Real const left = floor(point.x);
  Real const top = floor(point.y);
  corners.fx = point.x - left;
  corners.fy = point.y - top;
  auto const x0 = static_cast<std::int32_t>(left);
  auto const y0 = static_cast<std::int32_t>(top);
  bool const has_x[2] = {x0 >= 0, x0 < level.width - 1};
  bool const has_y[2] = {y0 >= 0, y0 < level.height - 1};
  corners.first = level.origin + y0 * level.row_tokens + x0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    corners.inside[i] = has_x[i & 1] && has_y[i >> 1];
    corners.any_inside = corners.any_inside || corners.inside[i];
  }
  return corners;
}

// A nearest point is its first corner, of weight 1.
template <typename Real>
__device__ __forceinline__ Corners<Real> corners_of(LevelParams const& level, Pixel const& pixel) {
  Corners<Real> corners{0, level.row_tokens, {}, false, 0, 0};
  if (level.width == 0 || level.height == 0) return corners;
  corners.first = level.origin + pixel.y * level.row_tokens + pixel.x;
  corners.inside[0] = corners.any_inside = true;
  return corners;
}

}  // namespace msda
