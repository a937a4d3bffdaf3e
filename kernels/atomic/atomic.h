// What atomic.cpp asks of an instantiation, a row of variants.inc, and what its kernels are handed
// beside the problem.
#pragma once

#include "kernels/atomic/atomic_config.h"
#include "kernels/common/elements.h"
#include "kernels/common/launch.h"
#include "kernels/common/params.h"
#include "kernels/sorted/sorted.h"

#include <cstdint>

namespace msda::atomic {

struct AddParams {
  sorted::PointParams points;
  float* sums;               // [B][S][M][D] of the values' gradient, cleared; null: not wanted
  std::int64_t parts;        // slots that share a row
  std::int64_t part_points;  // that one of them takes, a multiple of what it locates at once
  bool vector_sums;          // sums lie at multiples of 16 bytes
  bool wants_points;         // gradients of coordinates or weights
};

struct RoundParams {
  const float* sums;    // [B][S][M][D]
  std::int64_t quads;   // of sums
  bool aligned_result;  // grad_value, to 4 elements
};

// Those of `add` by whether every row can be loaded in vectors.
struct Kernels {
  Kernel<Params, sorted::SoftmaxParams> softmax;
  Kernel<Params, AddParams> add[2];
  Kernel<Params, sorted::PointParams> finish;
  Kernel<Params, RoundParams> round;
  std::int32_t slots = 0;   // of a block of `add`
  std::int32_t points = 0;  // of a row, that one of them locates at once
};

// Loads them onto the current device. Instantiated in CUDA files.
template <ValueType kType>
Kernels load_kernels(sorted::KernelOptions options);

}  // namespace msda::atomic
