// From the coordinates of a point to its record. Operations are written out: fast path and exact
// path are of the same numbers.
#pragma once

#include "kernels/persistent/inputs.cuh"

namespace msda::persistent {

// Of fused input: a reference point, and what an offset of 1 moves a point of a box.
struct Frame {
  float x, y, x_scale, y_scale;
  float check;  // no number where the reference has none
};

// Half the size of a box is divided by the points of the level.
template <class Config>
__device__ float box_scale(Lane<Config> const& lane, int k) {
  if constexpr (Config::kPoints > 0) return 0.5f / Config::kPoints;
  return 0.5f / static_cast<float>(lane.p.near_levels[lane.level_of(k)].point_count);
}

// Fused: what a query's coordinates on the level of point k are relative to.
template <class Config>
__device__ __forceinline__ Frame frame_of(Lane<Config> const& lane, Row const& row, int k) {
  if constexpr (!Config::kFused) return {};
  Reference<float> const reference(
      lane.p,
      static_cast<std::int64_t>(reference_number(lane, row.query, k)) * lane.p.reference_dim);
  float const scale = box_scale(lane, k);
  return {reference.x, reference.y, reference.width * scale, reference.height * scale,
          reference.check};
}
// The same of a reference that has been read; the check is not made.
template <class Config>
__device__ __forceinline__ Frame frame_of(Lane<Config> const& lane,
                                          std::uint32_t const (&reference)[4], int k) {
  auto const element = [&](int i) {
    if (lane.coord_dtype() == MSDA_DTYPE_F32) return __uint_as_float(reference[i]);
    float2 const pair = pair_of(lane.coord_dtype(), reference[i / 2]);
    return i % 2 == 0 ? pair.x : pair.y;
  };
  // Of a box; else nothing reads them.
  float const scale = box_scale(lane, k);
  return {element(0), element(1), element(2) * scale, element(3) * scale, 0.0f};
}

template <bool kBox>
__device__ __forceinline__ float2 fused_to_pixels(Frame const& frame, float width, float height,
                                                  float x, float y) {
  if constexpr (kBox) {
    return {fmaf(fmaf(x, frame.x_scale, frame.x), width, -0.5f * kPixel),
            fmaf(fmaf(y, frame.y_scale, frame.y), height, -0.5f * kPixel)};
  } else {
    return {fmaf(x, kPixel, fmaf(frame.x, width, -0.5f * kPixel)),
            fmaf(y, kPixel, fmaf(frame.y, height, -0.5f * kPixel))};
  }
}
// A point in pixels of its level; sizes and places are in units of 2^22 pixels.
template <class Config>
__device__ __forceinline__ float2 to_pixels(Lane<Config> const& lane, Frame const& frame,
                                            float width, float height, float x, float y) {
  if constexpr (!Config::kFused) {
    return {fmaf(x, width, -0.5f * kPixel), fmaf(y, height, -0.5f * kPixel)};
  } else {
    return lane.p.reference_dim == 2 ? fused_to_pixels<false>(frame, width, height, x, y)
                                     : fused_to_pixels<true>(frame, width, height, x, y);
  }
}
// Of a batch on one level.
template <class Config>
__device__ __forceinline__ void batch_to_pixels(Lane<Config> const& lane, Frame const& frame,
                                                Place const& place, Batch<Config::kBatch>& points) {
  auto const convert = [&](auto is_box) {
#pragma unroll
    for (int t = 0; t < Config::kBatch; ++t) {
      float2 const at = fused_to_pixels<decltype(is_box)::value>(frame, place.width, place.height,
                                                                 points.x[t], points.y[t]);
      points.x[t] = at.x;
      points.y[t] = at.y;
    }
  };
  if (lane.p.reference_dim == 2) {
    convert(std::false_type());
  } else {
    convert(std::true_type());
  }
}

// Of a slot's row; pixel_stride in vecs.
template <class Config>
__device__ __forceinline__ RecordOf<Config> locate(Place const& place, float2 const& at,
                                                   float weight, unsigned slot,
                                                   std::uint32_t pixel_stride) {
  Between const bx = between<Config::kIsKnown>(at.x, place.width);
  Between const by = between<Config::kIsKnown>(at.y, place.height);
  std::uint32_t pixel =
      static_cast<std::uint32_t>(by.base) * place.row_tokens + static_cast<std::uint32_t>(bx.base);
  float fraction = bx.fraction;
  bool turned = false;
  if constexpr (Config::kByParity) {
    // Pixels are 64 bytes: parity says which half of a line they are. Of two neighbouring slots
    // one reads the even pixels of a row first, the other the odd ones.
    turned = (pixel & 1) != (slot & 1);
    pixel += turned && (Config::kIsKnown || place.width > kPixel) ? 1 : 0;
    fraction = in_fp16_units(fraction);
    fraction = turned ? 1.0f - fraction : fraction;
  }
  float const total = weight * bx.inside * by.inside;
  float const lower = __fmul_rn(total, by.fraction), upper = __fsub_rn(total, lower);
  if constexpr (Config::kFp16Sums) {
    return Fp16Record::of<Config::kByParity>(pixel, turned, fraction, upper, lower);
  } else {
    return {pixel * pixel_stride + place.origin, fraction, upper, lower};
  }
}

// From a pixel to the next one on the level of point k, in vecs, where the level is read.
template <class Config>
__device__ __forceinline__ std::uint32_t pixel_stride_of(Lane<Config> const& lane, int k) {
  if constexpr (Config::kCachesLevels) {
    if (lane.is_cached(lane.level_of(min(k, lane.K - 1))))
      return Config::kCachedPixelBytes / kVecBytes;
  }
  return lane.pixel_stride();
}

}  // namespace msda::persistent
