// Params is what every kernel is handed: a problem and one call's buffers as plain data, made by
// make_params(). Kernel is what a plan has of a kernel. A family's own header needs both, and none
// of CUDA's headers.
#pragma once

#include "kernels/common/elements.h"

struct CUkern_st;  // cudaKernel_t points to one

namespace msda {

inline constexpr std::int32_t kWarp = 32;
inline constexpr std::int32_t kVecBytes = 16;    // a vec: what a lane loads of a row at once
inline constexpr std::int32_t kLineBytes = 128;  // of memory

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

// Elements from a batch item, a row of heads (token or query) and a head to the next.
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
  // Inputs. Dimensions in brackets are strided where there are StrideParams, else packed.
  const void* value;         // [B][S][M][D] elements of the variant's type
  const void* coord;         // [B][Q][M][K][2] coord_dtype: 0..1 spans the map; fused: offset in
                             // pixels, or in units of half a box over P
  const void* weight;        // [B][Q][M][K] weight_dtype; fused: logit
  const void* reference;     // fused: [B][Q][L][reference_dim] reference_dtype, 0..1 spans
  const float* value_scale;  // [M] factors on values of a scaled type, or null: 1
  void* output;              // [B][Q][M][D] output_dtype
  const void* grad_output;   // [B][Q][M][D] output_dtype
  // Gradients, each of the shape and unit of its tensor, or null: not wanted.
  void* grad_value;      // [B][S][M][D] grad_value_dtype
  void* grad_coord;      // [B][Q][M][K][2] coord_dtype; fused: grad_offset
  void* grad_weight;     // [B][Q][M][K] weight_dtype; fused: grad_logit
  void* grad_reference;  // [B][Q][L][reference_dim] reference_dtype
  void* sums;            // backward, where grad_value itself cannot hold the sums: [B][S][M][D]
                         // float, or double for F64

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
  StrideParams grad_coord_strides;
  StrideParams grad_weight_strides;
  msda_dtype reference_dtype;
  void* attention;  // fused: [B][Q][M][K] weight_dtype, or null: not wanted

  // Whether some gradient of points is wanted.
  bool wants_points() const {
    return grad_coord != nullptr || grad_weight != nullptr || grad_reference != nullptr;
  }

#ifdef __CUDACC__
  // Returns a value: the near ones are read from constant memory, which an address would hide.
  __device__ LevelParams level(std::int32_t l) const {
    return far_levels == nullptr ? near_levels[l] : far_levels[l];
  }
  __device__ float scale_of(std::int64_t m) const {
    return value_scale == nullptr ? 1.0f : value_scale[m];
  }
#endif
};

// A kernel of these parameters that a plan has loaded. The handle is looked up then, not at every
// launch.
template <typename... Parameters>
struct Kernel {
  CUkern_st* handle = nullptr;
  std::int32_t code_sm = 0;  // compute capability, times ten, that its code was made for
};

#ifdef MSDA_SIMULATED  // tests/simt/runtime/kernel_launch.h
using simt::kernel_entry;
#else
template <typename... Parameters>
const void* kernel_entry(void (*kernel)(Parameters...)) {
  return reinterpret_cast<const void*>(kernel);
}
#endif

}  // namespace msda
