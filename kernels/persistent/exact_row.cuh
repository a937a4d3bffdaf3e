// The exact path: the same sums in the same order as on the fast path, but nothing is read that is
// not part of the result. Any level, any alignment. A slot's lanes all locate every point.
#pragma once

#include "kernels/persistent/persistent.h"
#include "kernels/persistent/row_softmax.cuh"
#include "kernels/rows/row_points.cuh"

namespace msda::persistent {

template <class Config>
struct WarpState;

template <bool kFp16Sums, class Config>
__device__ void add_inside(WarpState<Config> const& state, LevelParams const& level,
                           float2 const& at, float weight, RowSums<Config>& sums,
                           typename RowSums<Config>::Fp16Sums& pairs) {
  using Sums = RowSums<Config>;
  Between const bx = between(at.x, static_cast<float>(level.width) * kPixel);
  Between const by = between(at.y, static_cast<float>(level.height) * kPixel);
  std::int32_t const x = bx.base, y = by.base;
  bool const has_left = bx.from_base < 1.0f;
  bool const has_right = bx.from_base >= 0.0f && x + 1 < level.width;
  bool const has_upper = by.from_base < 1.0f;
  bool const has_lower = by.from_base >= 0.0f && y + 1 < level.height;
  std::int64_t const in_level = y * level.row_tokens + x;
  // As in locate() and RowSums::add(), of a slot that reads even pixels first.
  bool const turned = Config::kByParity && (in_level & 1) != 0;
  float const from_left = Config::kByParity ? in_fp16_units(bx.fraction) : bx.fraction;
  float const fraction = turned ? 1.0f - from_left : from_left;
  float const total = weight * bx.inside * by.inside;
  float const lower = __fmul_rn(total, by.fraction);
  float const upper = __fsub_rn(total, lower);
  Fp16Weights const weights =
      Sums::fp16_weights(__floats2half2_rn(upper, lower), __float2half2_rn(fraction));
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {
    bool const second = i & 1;
    int const dx = second != turned ? 1 : 0, dy = i / 2;
    if (!(dx == 0 ? has_left : has_right) || !(dy == 0 ? has_upper : has_lower)) continue;
    float const of_row = dy == 0 ? upper : lower;
    float const of_second = __fmul_rn(of_row, fraction);
    float const corner = second ? of_second : __fsub_rn(of_row, of_second);
    std::int64_t const token = level.origin + in_level + dy * level.row_tokens + dx;
#pragma unroll
    for (int n = 0; n < Config::kVecs; ++n) {
      auto const value = load_vec<Config>(
          state.gather.values(n) + token * state.lane.p.value_strides.row * Config::kElementBytes);
      if constexpr (kFp16Sums) {
        multiply_add_fp16<Config>(pairs[i % Sums::kColumnSums], weights.of(i), value);
      } else {
        sums.add(corner, value, n);
      }
    }
  }
}

template <bool kFp16Sums, class Config>
__device__ void add_point(WarpState<Config>& state, Row const& row, int k, float weight,
                          typename RowSums<Config>::Fp16Sums& pairs) {
  Lane<Config> const& lane = state.lane;
  Params const& p = lane.p;
  std::int64_t const at = lane.first_of(row) + static_cast<std::uint32_t>(k);
  float const x = load_narrow(p.coord_dtype, p.coord, 2 * at);
  float const y = load_narrow(p.coord_dtype, p.coord, 2 * at + 1);
  LevelParams const& level = p.near_levels[lane.level_of(k)];
  float const width = static_cast<float>(level.width) * kPixel;
  float const height = static_cast<float>(level.height) * kPixel;
  Frame const frame = frame_of(lane, row, k);
  float2 const pixel = to_pixels(lane, frame, width, height, x, y);
  // False where a coordinate is no number, and in an empty level.
  bool const inside = pixel.x >= -kPixel && pixel.x < width && pixel.y >= -kPixel &&
                      pixel.y < height && width > 0.0f && height > 0.0f;
  if (inside) {
    if (kFp16Sums || Config::kFused || !is_infinite(weight)) {
      return add_inside<kFp16Sums>(state, level, pixel, weight, state.sums, pairs);
    }
    RowSums<Config> sample;
    sample.clear();
    add_inside<false>(state, level, pixel, 1.0f, sample, pairs);
    return state.sums.add_sample(weight, sample);
  }
  // A weight that is NaN makes the result NaN, whatever it weighs; a coordinate that is no number
  // makes the point nothing.
  float check = zero_if_number(x) + zero_if_number(y);
  if constexpr (Config::kFused) {
    check += frame.check;
    if (p.reference_dim == 2 && !(width > 0.0f && height > 0.0f)) return;
  }
  if (check != check) return;
  state.sums.add_outside(weight);
}

// The weight of a row's point k; a logit where input is fused.
template <class Config>
__device__ float weight_in_memory(Lane<Config> const& lane, Row const& row, int k) {
  return load_narrow(lane.p.weight_dtype, lane.p.weight,
                     std::int64_t{lane.first_of(row)} + static_cast<std::uint32_t>(k));
}

// Adds the row's points, whose weights `weigh` makes from what is in memory.
template <bool kFp16Sums, class Config, class BeforeChunk, class Weigh>
__device__ void add_points(WarpState<Config>& state, Row const& row, BeforeChunk before_chunk,
                           Weigh weigh) {
  // Every lane's points are added in the order of the fast path: first those that each prepares
  // first.
  constexpr int kTurns = Config::kInOrder ? 1 : Config::kGroup;
#pragma unroll 1
  for (int k0 = 0; k0 < state.lane.K; k0 += Config::kChunk) {
    before_chunk(k0);
#pragma unroll 1
    for (int t = 0; t < kTurns; ++t) {
      typename RowSums<Config>::Fp16Sums pairs = {};
#pragma unroll 1
      for (int j = 0; j < Config::kOfSlot / kTurns; ++j) {
        int const k = k0 + static_cast<int>(state.lane.part) * Config::kOfSlot + j * kTurns + t;
        if (k < state.lane.K) {
          add_point<kFp16Sums>(state, row, k, weigh(weight_in_memory(state.lane, row, k)), pairs);
        }
        if (!kFp16Sums || j % 2 == 0) continue;
        state.sums.flush(pairs);
        RowSums<Config>::clear(pairs);
      }
    }
  }
}

// Multiplies the sums of the row that the lane prepares as its number i.
template <class Config>
__device__ __forceinline__ void multiply_sums(WarpState<Config>& state, int i, float factor) {
  if constexpr (Config::kInLines) {
    float factors[Config::kRowsOfLane] = {1.0f, 1.0f};
    factors[i] = factor;
    factor = state.lane.of_slot(factors);
  }
  state.sums.multiply(factor);
}

// Moves the shift of the powers, before a chunk's points are added, as the fast path does.
template <class Config>
__device__ void start_chunk(WarpState<Config>& state, Row const& row, int k0) {
#pragma unroll
  for (int i = 0; i < Config::kRowsOfLane; ++i) {
    Row prepared = row;
    prepared.row = state.lane.of_prepared(i, row.row);
    float logits[Config::kGroup];
#pragma unroll
    for (int t = 0; t < Config::kGroup; ++t) {
      int const k = state.lane.first_point(k0) + t;
      logits[t] = k < state.lane.K ? weight_in_memory(state.lane, prepared, k) : -INFINITY;
    }
    if (k0 == 0) state.softmax[i].start(logits);
    state.softmax[i].to_powers(logits, k0 == 0,
                               [&](float factor) { multiply_sums(state, i, factor); });
  }
}

// Returns what `number_of` says of the softmax of the slot's row.
template <class Config, class Fn>
__device__ __forceinline__ float of_softmax(WarpState<Config> const& state, Fn number_of) {
  float numbers[Config::kRowsOfLane];
#pragma unroll
  for (int i = 0; i < Config::kRowsOfLane; ++i) numbers[i] = number_of(state.softmax[i]);
  return state.lane.of_slot(numbers);
}

// The factor of the slot's sums behind the last chunk.
template <class Config>
__device__ __forceinline__ float inverse_of_powers(WarpState<Config> const& state) {
  return of_softmax(state, [](auto const& softmax) { return softmax.inverse_of_powers(); });
}

// Makes weights from logits, whatever they are.
template <class Config>
__device__ auto weights_of_row(Lane<Config> const& lane, Row const& row) {
  float largest = -INFINITY, sum = 0.0f;
#pragma unroll 1
  for (int k = 0; k < lane.K; ++k) largest = fmaxf(largest, weight_in_memory(lane, row, k));
#pragma unroll 1
  for (int k = 0; k < lane.K; ++k) sum += expf(weight_in_memory(lane, row, k) - largest);
  return [largest, sum](float logit) { return expf(logit - largest) / sum; };
}

// Sums a row exactly. Sums that float16, or powers, take beyond what holds them are formed of
// weights and in float32.
template <class Config>
__device__ void sum_exact(WarpState<Config>& state, Row const& row) {
  auto const nothing = [](int) {};
  auto const itself = [](float weight) { return weight; };
  state.sums.clear();
  if constexpr (Config::kFused) {
    float shift = 0.0f;
    add_points<Config::kFp16Sums>(
        state, row,
        [&](int k0) {
          start_chunk(state, row, k0);
          shift = of_softmax(state, [](auto const& softmax) { return softmax.shift(); });
        },
        [&](float logit) { return RowSoftmax<Config>::power_of(logit, shift); });
    state.sums.multiply(inverse_of_powers(state));
  } else {
    add_points<Config::kFp16Sums>(state, row, nothing, itself);
  }
  if (!(Config::kFp16Sums || Config::kFused) || state.sums.is_finite()) return;
  state.sums.clear();
  if constexpr (Config::kFused) {
    add_points<false>(state, row, nothing, weights_of_row(state.lane, row));
  } else {
    add_points<false>(state, row, nothing, itself);
  }
}

}  // namespace msda::persistent
