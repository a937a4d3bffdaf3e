// Rows dealt to slots: a slot of lanes works on one row, its lanes share the row's channels and
// locate a point each. For packed inputs; `direct` and `pipeline` gather what is located here.
//
// Config of the templates here says
//   kLanes   lanes of a slot, kSlots of which a block has
#pragma once

#include "kernels/common/sampling.cuh"

namespace msda::rows {

// A level as locating a point needs it. A block has a table of them in shared memory.
struct alignas(16) SlotLevel {
  float width;
  float height;
  std::int32_t origin;  // token of pixel (0, 0)
  std::int32_t row_tokens;
};

__device__ __forceinline__ SlotLevel slot_level(LevelParams const& level) {
  return {static_cast<float>(level.width), static_cast<float>(level.height),
          static_cast<std::int32_t>(level.origin), static_cast<std::int32_t>(level.row_tokens)};
}

// A located point, all of whose four pixels are inside the map: an outside corner is replaced by
// its inside neighbour, which then counts half twice. So what is not part of the result, NaN or
// infinite as it may be, is never multiplied. A point that is no number has no pixels (kNothing).
struct alignas(16) InsidePoint {
  std::int32_t first;  // token of the upper left pixel << 2 | 1: there is a right one | 2: a lower
                       // one; kNothing
  float fraction;      // of the right pixel
  float upper;         // attention weight times the fraction of the upper row
  float lower;
};
inline constexpr std::int32_t kNothing = -1;

__device__ __forceinline__ InsidePoint locate(SlotLevel const& place, Point<float> const& point,
                                              float weight) {
  if (!point.is_number) return {kNothing, 0.0f, 0.0f, 0.0f};
  // An empty level has no inside, though its first and last pixel line would be half a pixel off.
  bool const inside = place.width > 0.0f && place.height > 0.0f && point.x >= -1.0f &&
                      point.x < place.width && point.y >= -1.0f && point.y < place.height;
  // A weight that is NaN makes the result NaN, whatever it weighs.
  if (!inside) return {kNothing, 0.0f, weight * 0.0f, 0.0f};
  Axis const x = axis_at(point.x, place.width);
  Axis const y = axis_at(point.y, place.height);
  std::int32_t const token = place.origin + y.first * place.row_tokens + x.first;
  float const total = weight * x.inside * y.inside;
  return {token << 2 | (x.has_second ? 1 : 0) | (y.has_second ? 2 : 0), x.fraction,
          total * (1.0f - y.fraction), total * y.fraction};
}

// The row that a slot's lanes work on together.
template <class Config>
struct Slot {
  std::int64_t b, q, m;
  std::int64_t row;  // (b Q + q) M + m
  bool is_there;

  __device__ Slot(Params const& p) {
    std::int64_t const slot =
        static_cast<std::int64_t>(blockIdx.x) * Config::kSlots + threadIdx.x / Config::kLanes;
    is_there = slot < p.batch * p.query_count * p.head_count;
    row = is_there ? slot : 0;
    auto const M = static_cast<std::uint32_t>(p.head_count);
    std::int64_t const bq = row / M;
    m = row - bq * M;
    b = bq / p.query_count;
    q = bq - b * p.query_count;
  }
};

// A point as it lies in memory.
struct RawPoint {
  float x, y, weight;
};

template <bool kAligned>
__device__ __forceinline__ float2 load_pair(msda_dtype dtype, const void* array,
                                            std::int64_t pair) {
  if constexpr (kAligned) {
    switch (dtype) {
      case MSDA_DTYPE_F16:
        return __half22float2(static_cast<const __half2*>(array)[pair]);
      case MSDA_DTYPE_BF16:
        return __bfloat1622float2(static_cast<const __nv_bfloat162*>(array)[pair]);
      default:
        return static_cast<const float2*>(array)[pair];
    }
  } else {
    return {load_element<float>(dtype, array, 2 * pair),
            load_element<float>(dtype, array, 2 * pair + 1)};
  }
}

// Returns the position of a point of the slot's row on level l, in pixels.
template <class Config>
__device__ __forceinline__ Point<float> to_pixels(Params const& p, Slot<Config> const& slot,
                                                  SlotLevel const& place, RawPoint const& raw,
                                                  int l, bool is_fused) {
  float check = zero_if_number(raw.x) + zero_if_number(raw.y);
  if (!is_fused) {
    return {fmaf(raw.x, place.width, -0.5f), fmaf(raw.y, place.height, -0.5f), check == check};
  }
  int const R = p.reference_dim;
  Reference<float> const reference(p, ((slot.b * p.query_count + slot.q) * p.level_count + l) * R);
  check += reference.check;
  if (R == 2) {
    bool const is_number = check == check && place.width > 0.0f && place.height > 0.0f;
    return {fmaf(reference.x, place.width, -0.5f) + raw.x,
            fmaf(reference.y, place.height, -0.5f) + raw.y, is_number};
  }
  float const scale = 0.5f / static_cast<float>(p.near_levels[l].point_count);
  float const x = fmaf(raw.x, reference.width * scale, reference.x);
  float const y = fmaf(raw.y, reference.height * scale, reference.y);
  return {fmaf(x, place.width, -0.5f), fmaf(y, place.height, -0.5f), check == check};
}

}  // namespace msda::rows
