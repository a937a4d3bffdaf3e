// The sizes of this family, what its kernels are handed beside the problem, and the kernels of a
// row of variants.inc. Host and device include it.
#pragma once

#include "kernels/points/points.h"

namespace msda::atomic {

inline constexpr std::int32_t kConvertThreads = 256;  // of a block that converts sums
inline constexpr std::int32_t kRowThreads = 256;      // of a block that takes rows of logits
inline constexpr std::int32_t kRowLanes = 8;
inline constexpr std::int32_t kQuadChannels = 4;  // of a quad of sums
inline constexpr std::int32_t kConvertQuads = 4;  // of a thread

// Threads of an SM that are wanted before a slot of lanes takes more of a row's points.
inline constexpr std::int64_t kThreadsOfSm = 2048;

struct AddParams {
  points::PointParams points;
  float* weights;            // fused: [B][Q][M][K], by softmax; else null
  float* gradients;          // fused: [B][Q][M][K] of the weights; else null
  float* sums;               // [B][S][M][D] of the values' gradient, cleared; null: not wanted
  std::int64_t parts;        // slots that divide a row's points among them
  std::int64_t part_points;  // that one of them takes, a multiple of what it locates at once
  bool vector_sums;          // sums lie at multiples of 16 bytes
  bool wants_points;         // gradients of coordinates or weights
};

// Rows of logits, [query][head].
struct LogitParams {
  float* weights;          // [rows][K]
  const float* gradients;  // [rows][K]
  std::int64_t rows;
};

struct ConvertParams {
  const float* sums;    // [B][S][M][D]
  std::int64_t quads;   // of sums
  bool aligned_result;  // grad_value lies at a multiple of 4 elements
};

struct KernelOptions {
  std::int32_t head_dim = 0;
  bool same_types = false;  // grad_output has the type of the values
};

struct Kernels {
  points::EngineKernels engine;
  Kernel<Params, LogitParams> softmax;  // fused: before and behind `add`
  Kernel<Params, LogitParams> logits;
  Kernel<Params, AddParams> add[2];  // by whether every row can be loaded in vectors
  Kernel<Params, ConvertParams> convert;
  std::int32_t slots = 0;   // of a block of `add`
  std::int32_t points = 0;  // of a row, that one of them locates at once
};

// Loads them onto the current device. Instantiated in CUDA files.
template <ValueType kType>
Kernels load_kernels(KernelOptions options);

}  // namespace msda::atomic
