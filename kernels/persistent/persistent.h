// The persistent family: how many threads and how much shared memory its blocks have, and what a
// plan loads. rows/layout.h has the names of variants.inc. Host and device read it.
#pragma once

#include "kernels/rows/layout.h"

#include <array>

namespace msda::persistent {

using namespace rows;  // the engine, of whose kernels the family is one

// Shared memory that levels may be cached in. What is left are records and, of 228 KB, L1.
inline constexpr std::int64_t kMaxCachedBytes = 172 << 10;

// The properties of a kernel on which the threads of its blocks depend.
struct BlockKind {
  ValueType type;
  Channels channels;
  Points points;
  Spread spread;
  bool fused;
  bool aligned;  // values
  bool known;    // heads
};

// Blocks have as many threads as there are registers for without spilling, in code for a compute
// capability (times ten). Fewer threads leave more of L1 where levels are cached.
constexpr std::int32_t threads_of(BlockKind const& kind, std::int32_t sm) {
  bool const is_f8 = kind.type == ValueType::f8, is_f32 = kind.type == ValueType::f32;
  bool const fp16_sums = has_fp16_sums(kind.spread), cached = caches_levels(kind.spread);
  bool const points_are_known = kind.points > 0;
  bool const is_large = slots_of(kind.spread) == 4 || (fp16_sums && kind.channels > 32) ||
                        (is_f32 && !kind.known && points_are_known);
  bool const is_lean = kind.known && (kind.points == pfew || (points_are_known && !is_f8));
  std::int32_t const threads = !kind.aligned                       ? 256
                               : is_large || (cached && fp16_sums) ? 512
                               : is_lean && !cached                ? 768
                                                                   : 640;
  // Code for 10.0 and later takes more registers where it converts float8 or fused input.
  bool const takes_more = sm >= 100 && (is_f8 || kind.fused);
  return takes_more ? std::min(threads, std::max(threads - 128, 512)) : threads;
}

// The options choose among the kernels of an instantiation.
struct KernelOptions {
  bool fused = false;
  bool grouped = false;  // heads come in whole lines, see layout_of()
  bool aligned = false;  // vecs of value lie at multiples of 16 bytes
  Heads heads = heads_any;
  InputTypes inputs = inputs_any;  // where they can be loaded in vectors
};

struct RowsKernel {
  Kernel<Params, ScheduleParams> kernel;
  std::int32_t threads = 0;
  bool caches_levels = false;  // in ScheduleParams::shared_bytes
};
// The kernels that the calls of a plan start, by `aligned` and by whether inputs can be loaded in
// vectors.
using Kernels = std::array<std::array<RowsKernel, 2>, 2>;

// Loads them onto the current device. Instantiated in CUDA files.
template <ValueType kType, Channels kMax, Points kPoints, Spread kSpread>
Kernels load_kernels(KernelOptions options);

}  // namespace msda::persistent
