// What every kernel is handed: a problem and one call's buffers as plain data, made by
// make_params().
#pragma once

#include <msda.h>

#include <cstdint>

namespace msda {

// One level. Tokens and points as in core/problem.h.
struct LevelParams {
  std::int32_t height;
  std::int32_t width;
  std::int64_t origin;      // token of pixel (0, 0)
  std::int64_t row_tokens;  // from a pixel to the one below
  std::int64_t point_start;
  std::int64_t point_count;
};

// Levels that travel with the launch; a problem that has more keeps all of them in device memory.
inline constexpr std::int32_t kInlineLevels = 16;

struct StrideParams {
  std::int64_t batch;
  std::int64_t row;
  std::int64_t head;

#ifdef __CUDACC__
  __device__ std::int64_t at(std::int64_t b, std::int64_t r, std::int64_t m) const {
    return b * batch + r * row + m * head;
  }
#endif
};

struct Params {
  const void* value;
  const void* coord;      // fused: offset
  const void* weight;     // fused: logit
  const void* reference;  // fused
  const float* value_scale;
  void* output;
  const void* grad_output;
  void* grad_value;
  void* grad_coord;   // fused: grad_offset
  void* grad_weight;  // fused: grad_logit
  void* grad_reference;
  void* sums;  // backward, where grad_value itself cannot hold the sums: [B][S][M][D]

  std::int64_t batch;
  std::int64_t token_count;
  std::int64_t query_count;
  std::int64_t head_count;
  std::int64_t head_dim;
  std::int64_t point_total;
  StrideParams value_strides;
  StrideParams coord_strides;
  StrideParams weight_strides;
  StrideParams output_strides;

  msda_dtype coord_dtype;
  msda_dtype weight_dtype;
  msda_dtype output_dtype;
  msda_dtype grad_value_dtype;
  std::int32_t reference_dim;  // 0: sampled
  std::int32_t level_count;
  const LevelParams* far_levels;  // [level_count] in device memory, or null
  LevelParams near_levels[kInlineLevels];

#ifdef __CUDACC__
  // By value: the near ones are read from constant memory, which an address would hide.
  __device__ LevelParams level(std::int32_t l) const {
    return far_levels == nullptr ? near_levels[l] : far_levels[l];
  }
  __device__ float scale_of(std::int64_t m) const {
    return value_scale == nullptr ? 1.0f : value_scale[m];
  }
#endif
};

}  // namespace msda
