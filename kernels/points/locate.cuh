// Rows of points that slots of lanes take, and where their points lie.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/common/sampling.cuh"
#include "kernels/points/lanes.cuh"

namespace msda::points {

// A row, one (query, head) of a pass over queries. Rows are in the order [head / heads_together]
// [query][head % heads_together]. B Q and the rows of a pass fit 32 bits.
struct RowIndex {
  std::uint32_t query;  // of the pass
  std::uint32_t b, q, m;
  bool is_there;  // else it is an earlier row once more, and nothing is stored

  __device__ RowIndex(Params const& p, PointParams const& s, std::int64_t i) {
    std::int64_t const rows = s.queries * p.head_count;
    is_there = i < rows;
    auto const row = static_cast<std::uint32_t>(is_there ? i : rows - 1);
    std::uint32_t const row_of_all = row / s.heads_together;
    auto const queries = static_cast<std::uint32_t>(s.queries);
    std::uint32_t const group = row_of_all / queries;
    m = group * s.heads_together + row % s.heads_together;
    set_query(p, s, row_of_all - group * queries);
  }
  // Its number in the order [query][head].
  __device__ __forceinline__ std::int64_t index(Params const& p) const {
    return query * p.head_count + m;
  }
  // Goes on to the row `query_stride` queries behind it.
  __device__ __forceinline__ void advance(Params const& p, PointParams const& s) {
    if (!is_there) return;
    auto const queries = static_cast<std::uint32_t>(s.queries);
    std::uint32_t next = query + s.query_stride;
    if (next < queries) {
      query = next;
      q += s.query_stride;
      for (; q >= p.query_count; ++b) q -= static_cast<std::uint32_t>(p.query_count);
      return;
    }
    std::uint32_t head = m;
    for (; next >= queries; next -= queries) head += s.heads_together;
    is_there = head < p.head_count;
    if (!is_there) return;
    m = head;
    set_query(p, s, next);
  }

 private:
  __device__ __forceinline__ void set_query(Params const& p, PointParams const& s,
                                            std::uint32_t query_of_run) {
    query = query_of_run;
    std::uint32_t const of_all = static_cast<std::uint32_t>(s.first_query) + query;
    auto const queries = static_cast<std::uint32_t>(p.query_count);
    b = of_all / queries;
    q = of_all - b * queries;
  }
};

// A point on its map, as the lane that has located it knows it.
struct LocatedPoint {
  std::uint32_t token;   // of the first corner, moved onto the map; any where no corner is on it
  std::uint32_t beside;  // tokens from it to the corner beside it: 1, or 0 beyond the map
  std::uint32_t below;   // tokens to the corner below
  float fx, fy;
  float width, height;
  std::uint32_t corners;  // a bit each that is on the map

  // `below` and `beside` in one word.
  __device__ __forceinline__ std::uint32_t strides() const { return below << 1 | beside; }
  __device__ __forceinline__ bool inside(int corner) const { return (corners >> corner & 1) != 0; }
};

// A point as it is in memory: its loads are under way until it is located.
struct LoadedPoint {
  float2 at;  // in pixels, unless coordinates are pairs of F32; NaN: nowhere
  std::uint32_t weight;
  PointLevel level;  // kPlain
};

// The attention weight whose bits a LoadedPoint has.
__device__ __forceinline__ float weight_of(msda_dtype dtype, std::uint32_t bits) {
  if (dtype == MSDA_DTYPE_F32) return __uint_as_float(bits);
  if (dtype == MSDA_DTYPE_BF16) return __uint_as_float(bits << 16);
  return __half2float(__ushort_as_half(static_cast<std::uint16_t>(bits)));
}

// Loads a pair of F32 and a weight past L1, which is for the values.
__device__ __forceinline__ void stream_point(LoadedPoint& point, const char* coord,
                                             const char* weight, msda_dtype weight_dtype) {
  std::uint32_t at[2];
  ptx::stream_global<8>(coord, at);
  point.at = {__uint_as_float(at[0]), __uint_as_float(at[1])};
  if (weight_dtype == MSDA_DTYPE_F32) {
    ptx::stream_global<4>(weight, &point.weight);
  } else {
    ptx::stream_global<2>(weight, &point.weight);
  }
}

// Loads the points of a row. kPlain: as in PointConfig.
template <bool kPlain>
class PointLoads {
 public:
  __device__ __forceinline__ PointLoads(Params const& p, PointParams const& s, RowIndex const& row)
      : p_(&p), s_(&s), row_(p, row.b, row.q, row.m), weights_(row.index(p) * p.point_total) {}

  __device__ __forceinline__ LoadedPoint operator[](std::int64_t k) const {
    float const nowhere = __uint_as_float(0x7fc00000u);
    LoadedPoint point{{nowhere, nowhere}, 0, {}};
    if (k >= p_->point_total) return point;
    if constexpr (kPlain) {
      point.level = level(k);
      stream_point(point, static_cast<const char*>(p_->coord) + (row_.coord + 2 * k) * 4,
                   static_cast<const char*>(p_->weight) +
                       (row_.weight + k) * (p_->weight_dtype == MSDA_DTYPE_F32 ? 4 : 2),
                   p_->weight_dtype);
      return point;
    }
    if (has_pixels()) {
      std::int32_t const l = s_->level_of_point[k];
      Point<float> const at = point_at<float>(*p_, row_, p_->level(l), l, k);
      if (at.is_number) point.at = {at.x, at.y};
    } else {
      point.at = *reinterpret_cast<const float2*>(static_cast<const float*>(p_->coord) +
                                                  row_.coord + 2 * k);
    }
    if (has_computed_weights()) {
      point.weight = __float_as_uint(s_->weights[weights_ + k]);
    } else if (p_->weight_dtype == MSDA_DTYPE_F32) {
      point.weight = static_cast<const std::uint32_t*>(p_->weight)[row_.weight + k];
    } else {
      point.weight = static_cast<const std::uint16_t*>(p_->weight)[row_.weight + k];
    }
    return point;
  }
  __device__ __forceinline__ PointLevel level(std::int64_t k) const {
    return k < p_->point_total ? s_->point_levels[k] : PointLevel{};
  }
  // Its position in pixels.
  __device__ __forceinline__ float2 pixel(LoadedPoint const& point, float width,
                                          float height) const {
    if (has_pixels()) return point.at;
    return {to_pixel(point.at.x, width), to_pixel(point.at.y, height)};
  }
  __device__ __forceinline__ float weight(LoadedPoint const& point) const {
    return weight_of(has_computed_weights() ? MSDA_DTYPE_F32 : p_->weight_dtype, point.weight);
  }

 private:
  __device__ __forceinline__ bool has_computed_weights() const {
    return !kPlain && s_->weights != nullptr;
  }
  __device__ __forceinline__ bool has_pixels() const {
    if (kPlain) return false;
    return p_->reference_dim != 0 || p_->coord_dtype != MSDA_DTYPE_F32 || !s_->coord_pairs;
  }
  Params const* p_;
  PointParams const* s_;
  PointRow row_;
  std::int64_t weights_;
};

// Whether a position in pixels has corners on a level of the size of `located`. NaN has none; the
// floor of other positions may not fit an integer.
__device__ __forceinline__ bool is_near(LocatedPoint const& located, float2 point) {
  return point.x >= -1.0f && point.x < located.width && point.y >= -1.0f &&
         point.y < located.height;
}

// Finds the corners of a position that is near.
__device__ __forceinline__ void locate_near(LocatedPoint& located, PointLevel const& level,
                                            float2 point) {
  float const left = floorf(point.x);
  float const top = floorf(point.y);
  located.fx = point.x - left;
  located.fy = point.y - top;
  auto const x = static_cast<std::int32_t>(left);
  auto const y = static_cast<std::int32_t>(top);
  // Columns, then rows: a bit each.
  std::uint32_t const across = (x >= 0 ? 1u : 0u) | (x < level.width - 1 ? 2u : 0u);
  bool const has_top = y >= 0;
  bool const has_bottom = y < level.height - 1;
  located.corners = (has_top ? across : 0u) | (has_bottom ? across << 2 : 0u);
  located.token =
      static_cast<std::uint32_t>(level.origin + max(y, 0) * level.row_tokens + max(x, 0));
  located.beside = across >> 1 & across;
  located.below = static_cast<std::uint32_t>(has_top && has_bottom ? level.row_tokens : 0);
}

template <bool kPlain>
__device__ __forceinline__ LocatedPoint locate_point(PointLoads<kPlain> const& loads,
                                                     LoadedPoint const& ahead, std::int64_t k) {
  LocatedPoint located{};
  PointLevel const level = kPlain ? ahead.level : loads.level(k);
  located.width = static_cast<float>(level.width);
  located.height = static_cast<float>(level.height);
  float2 const point = loads.pixel(ahead, located.width, located.height);
  if (is_near(located, point)) locate_near(located, level, point);
  return located;
}

}  // namespace msda::points
