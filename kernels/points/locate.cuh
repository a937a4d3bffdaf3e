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
  float x_scale, y_scale;  // pixels that 1 of its coordinate or offset is; any where it is nowhere
  std::uint32_t corners;   // a bit each that is on the map

  // `below` and `beside` in one word.
  __device__ __forceinline__ std::uint32_t strides() const { return below << 1 | beside; }
  __device__ __forceinline__ bool inside(int corner) const { return (corners >> corner & 1) != 0; }
};

// A point as it is in memory: its loads are under way until it is located.
struct LoadedPoint {
  float2 at;             // a coordinate or, fused, an offset; NaN: there is no point
  std::uint32_t weight;  // bits of the attention's, or of its logit
  float4 reference;      // fused: x, y; of a box width and height, too
};

// ---- plain input: loads past L1, which is for the values

__device__ __forceinline__ void stream_weight(std::uint32_t& bits, const char* weight,
                                              msda_dtype dtype) {
  if (dtype == MSDA_DTYPE_F32) {
    ptx::stream_global<4, ptx::Neighbours>(weight, &bits);
  } else {
    ptx::stream_global<2, ptx::Neighbours>(weight, &bits);
  }
}
__device__ __forceinline__ float2 stream_pair(const char* at) {
  std::uint32_t words[2];
  ptx::stream_global<8, ptx::Neighbours>(at, words);
  return {__uint_as_float(words[0]), __uint_as_float(words[1])};
}
__device__ __forceinline__ float4 stream_reference(const char* at, bool is_box) {
  std::uint32_t words[4] = {};
  if (is_box) {
    ptx::stream_global<16, ptx::Neighbours>(at, words);
  } else {
    ptx::stream_global<8, ptx::Neighbours>(at, words);
  }
  return {__uint_as_float(words[0]), __uint_as_float(words[1]), __uint_as_float(words[2]),
          __uint_as_float(words[3])};
}

// ---- any input

// The reference at element `at`.
__device__ __forceinline__ float4 load_reference(Params const& p, std::int64_t at) {
  auto const element = [&](int i) { return load_narrow(p.reference_dtype, p.reference, at + i); };
  if (p.reference_dim == 2) return {element(0), element(1), 0.0f, 0.0f};
  return {element(0), element(1), element(2), element(3)};
}

// Loads the points of a row.
template <Input kInput>
class PointLoads {
 public:
  __device__ __forceinline__ PointLoads(Params const& p, PointParams const& s, RowIndex const& row)
      : p_(&p), s_(&s), row_(p, row.b, row.q, row.m) {}

  __device__ __forceinline__ bool is_fused() const {
    return kInput == Input::fused || (kInput == Input::any && p_->reference_dim != 0);
  }
  __device__ __forceinline__ LoadedPoint operator[](std::int64_t k) const {
    float const nowhere = __uint_as_float(0x7fc00000u);
    LoadedPoint point{{nowhere, nowhere}, 0, {}};
    if (k >= p_->point_total) return point;
    std::int64_t const coord = row_.coord + 2 * k;
    if constexpr (kInput == Input::any) {
      point.at = load_pair(p_->coord_dtype, p_->coord, coord, s_->coord_pairs);
    } else {
      point.at = stream_pair(static_cast<const char*>(p_->coord) + coord * 4);
    }
    if (is_fused()) {
      std::int64_t const reference =
          row_.reference + std::int64_t{s_->point_levels[k].index} * p_->reference_dim;
      if constexpr (kInput == Input::any) {
        point.reference = load_reference(*p_, reference);
      } else {
        point.reference = stream_reference(static_cast<const char*>(p_->reference) + reference * 4,
                                           p_->reference_dim == 4);
      }
    } else {
      load_weight(point.weight, k);
    }
    return point;
  }
  // The logit of point k < K, and its bits alone.
  __device__ __forceinline__ float logit(std::int64_t k) const { return weight(logit_bits(k)); }
  __device__ __forceinline__ std::uint32_t logit_bits(std::int64_t k) const {
    std::uint32_t bits;
    load_weight(bits, k);
    return bits;
  }
  __device__ __forceinline__ float weight(std::uint32_t bits) const {
    return narrow_of(p_->weight_dtype, bits);
  }
  __device__ __forceinline__ PointLevel level(std::int64_t k) const {
    return k < p_->point_total ? s_->point_levels[k] : PointLevel{};
  }

 private:
  __device__ __forceinline__ void load_weight(std::uint32_t& bits, std::int64_t k) const {
    std::int64_t const at = row_.weight + k;
    if constexpr (kInput != Input::any) {
      std::int64_t const bytes = p_->weight_dtype == MSDA_DTYPE_F32 ? 4 : 2;
      stream_weight(bits, static_cast<const char*>(p_->weight) + at * bytes, p_->weight_dtype);
    } else if (p_->weight_dtype == MSDA_DTYPE_F32) {
      bits = static_cast<const std::uint32_t*>(p_->weight)[at];
    } else {
      bits = static_cast<const std::uint16_t*>(p_->weight)[at];
    }
  }
  Params const* p_;
  PointParams const* s_;
  PointRow row_;
};

// ---- where a point lies. Input of any kind and alignment takes the same roundings.

// The position in pixels on an axis of `size` pixels. An offset from a point is in pixels; of a box
// of this extent in units of `extent` times box_scale.
__device__ __forceinline__ float fused_to_pixel(float offset, float reference, float extent,
                                                float size, float box_scale, bool is_box) {
  if (is_box) return to_pixel(product_sum(reference, offset, extent, box_scale), size);
  return __fadd_rn(to_pixel(reference, size), offset);
}
__device__ __forceinline__ float2 fused_to_pixels(float2 offset, float4 const& reference,
                                                  float width, float height, float box_scale,
                                                  bool is_box) {
  return {fused_to_pixel(offset.x, reference.x, reference.z, width, box_scale, is_box),
          fused_to_pixel(offset.y, reference.y, reference.w, height, box_scale, is_box)};
}

// Whether a position in pixels has corners on a level. NaN has none; the floor of other positions
// may not fit an integer.
__device__ __forceinline__ bool is_near(float2 point, float width, float height) {
  return point.x >= -1.0f && point.x < width && point.y >= -1.0f && point.y < height;
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

__device__ __forceinline__ LocatedPoint locate_point(LoadedPoint const& loaded,
                                                     PointLevel const& level, bool is_fused,
                                                     bool is_box) {
  auto const width = static_cast<float>(level.width);
  auto const height = static_cast<float>(level.height);
  LocatedPoint located{};
  float2 point;
  if (is_fused) {
    point = fused_to_pixels(loaded.at, loaded.reference, width, height, level.box_scale, is_box);
    located.x_scale = is_box ? width * (loaded.reference.z * level.box_scale) : 1.0f;
    located.y_scale = is_box ? height * (loaded.reference.w * level.box_scale) : 1.0f;
  } else {
    point = {to_pixel(loaded.at.x, width), to_pixel(loaded.at.y, height)};
    located.x_scale = width;
    located.y_scale = height;
  }
  // No branch is needed: pixel (0, 0) has a token on any map.
  bool const near = is_near(point, width, height);
  locate_near(located, level, near ? point : float2{0.0f, 0.0f});
  if (!near) located.corners = 0;
  return located;
}

}  // namespace msda::points
