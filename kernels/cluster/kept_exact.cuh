// The exact path: the same sums in the same order as on the fast path, but nothing is read that is
// not part of the result, and nothing from shared memory. Any alignment. A slot's lanes all locate
// every point.
#pragma once

#include "kernels/cluster/kept_levels.cuh"

namespace msda::cluster {

using persistent::Row;

// One row, on its exact path.
template <class Config>
class ExactRow {
 public:
  __device__ ExactRow(Lane<Config> const& lane, Row const& row, const char* values)
      : lane_(lane), row_(row), values_(values) {}

  // Where fp16 sums are too large for float16, they are formed in float32.
  __device__ void sum(RowSums<Config>& sums) const {
    add_points<Config::kFp16Sums>(sums);
    if (Config::kFp16Sums && !sums.is_finite()) add_points<false>(sums);
  }

 private:
  using Sums = RowSums<Config>;

  template <bool kFp16Sums>
  __device__ void add_points(Sums& sums) const {
    sums.clear();
    // Of every lane's points first those that it prepares first.
#pragma unroll 1
    for (int k0 = 0; k0 < lane_.K; k0 += Config::kChunk) {
#pragma unroll 1
      for (int t = 0; t < Config::kBatch; ++t) {
        typename Sums::Fp16Sums pairs = {};
#pragma unroll 1
        for (int j = 0; j < Config::kLanes; ++j) {
          int const k = k0 + j * Config::kBatch + t;
          if (k < lane_.K) add_point<kFp16Sums>(sums, k, pairs);
          if (!kFp16Sums || j % 2 == 0) continue;
          sums.flush(pairs);
          Sums::clear(pairs);
        }
      }
    }
  }

  template <bool kFp16Sums>
  __device__ void add_point(Sums& sums, int k, typename Sums::Fp16Sums& pairs) const {
    Params const& p = lane_.p;
    std::int64_t const at = std::int64_t{lane_.first_of(row_)} + static_cast<std::uint32_t>(k);
    float const x = load_narrow(p.coord_dtype, p.coord, 2 * at);
    float const y = load_narrow(p.coord_dtype, p.coord, 2 * at + 1);
    float const weight = load_narrow(p.weight_dtype, p.weight, at);
    int const l = lane_.level_of(k);
    float const width = static_cast<float>(p.near_levels[l].width) * persistent::kPixel;
    float const height = static_cast<float>(p.near_levels[l].height) * persistent::kPixel;
    float2 const pixel = persistent::to_pixels(static_cast<persistent::Lane<Config> const&>(lane_),
                                               {}, width, height, x, y);
    // False where a coordinate is no number.
    constexpr float kPixel = persistent::kPixel;
    bool const inside =
        pixel.x >= -kPixel && pixel.x < width && pixel.y >= -kPixel && pixel.y < height;
    if (inside) {
      if (kFp16Sums || !is_infinite(weight)) {
        return add_inside<kFp16Sums>(sums, l, pixel, weight, pairs);
      }
      Sums sample;
      sample.clear();
      add_inside<false>(sample, l, pixel, 1.0f, pairs);
      return sums.add_sample(weight, sample);
    }
    // A weight that is NaN makes the result NaN, whatever it weighs; a coordinate that is no number
    // makes the point nothing.
    float const check = zero_if_number(x) + zero_if_number(y);
    if (check == check) sums.add_outside(weight);
  }

  template <bool kFp16Sums>
  __device__ void add_inside(Sums& sums, int l, float2 const& at, float weight,
                             typename Sums::Fp16Sums& pairs) const {
    LevelParams const& level = lane_.p.near_levels[l];
    Between const bx =
        persistent::between(at.x, static_cast<float>(level.width) * persistent::kPixel);
    Between const by =
        persistent::between(at.y, static_cast<float>(level.height) * persistent::kPixel);
    std::int32_t const x = bx.base, y = by.base;
    bool const has_x[2] = {bx.from_base < 1.0f, bx.from_base >= 0.0f && x + 1 < level.width};
    bool const has_y[2] = {by.from_base < 1.0f, by.from_base >= 0.0f && y + 1 < level.height};
    std::int64_t const in_level = y * level.row_tokens + x;
    // As locate() and RowSums::add() have it, of a slot that reads even pixels first.
    bool const is_odd = ((lane_.is_kept(l) ? x : in_level) & 1) != 0;
    int const first_x = Config::kByParity && is_odd ? 1 : 0;
    int const first_y = lane_.is_split(l) && (y & 1) != 0 ? 1 : 0;
    float const from_left =
        Config::kByParity ? persistent::in_fp16_units(bx.fraction) : bx.fraction;
    float const fraction = first_x != 0 ? 1.0f - from_left : from_left;
    float const total = weight * bx.inside * by.inside;
    float const lower = __fmul_rn(total, by.fraction);
    float const upper = __fsub_rn(total, lower);
    float const rows[2] = {first_y != 0 ? lower : upper, first_y != 0 ? upper : lower};
    persistent::Fp16Weights const weights =
        Sums::fp16_weights(__floats2half2_rn(rows[0], rows[1]), __float2half2_rn(fraction));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int const dx = i % 2 ^ first_x, dy = i / 2 ^ first_y;
      if (!(dx == 0 ? has_x[0] : has_x[1]) || !(dy == 0 ? has_y[0] : has_y[1])) continue;
      float const of_second = __fmul_rn(rows[i / 2], fraction);
      std::int64_t const token = level.origin + in_level + dy * level.row_tokens + dx;
      auto const value =
          load_vec<Config>(values_ + token * lane_.p.value_strides.row * Config::kElementBytes);
      if constexpr (kFp16Sums) {
        multiply_add_fp16<Config>(pairs[i % Sums::kColumnSums], weights.of(i), value);
      } else {
        sums.add(i % 2 != 0 ? of_second : __fsub_rn(rows[i / 2], of_second), value, 0);
      }
    }
  }

  Lane<Config> const& lane_;
  Row const& row_;
  const char* values_;
};

}  // namespace msda::cluster
