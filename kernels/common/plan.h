// Host code that all families share: limits of the problems that kernels take, the amount of work
// in a problem, and what kernels are handed. It needs no device code, and brings
// what families need of core/.
#pragma once

#include "core/dtype.h"
#include "core/family.h"
#include "kernels/common/params.h"

#include <vector>

namespace msda {

// The variant of a row of a variants.inc. name: what its id has behind the type, such as ".d32.p4".
#define MSDA_VARIANT_OF(family, type, name, revision, sm, architecture, ...)                       \
  Variant {                                                                                        \
    .id = family ".sm" #sm "." #type name "@" #revision, .value_dtype = dtype_of(ValueType::type), \
    .sm_min = sm, .sm_max = last_sm(#architecture, 0) __VA_OPT__(, .__VA_ARGS__ = true)            \
  }

// ---- limits

inline constexpr std::int32_t kLargestSide = 1 << 24;  // float32 has every pixel
inline constexpr std::int64_t kMaxBlocks = 1 << 30;    // of a launch of a backward

// The first questions of all: of the device, its compute capability, and the type of the values.
// has_features: what the family needs of the device beside that.
Reason reject_basics(Variant const& variant, Problem const& problem, Device const& device,
                     bool has_features = true);
// Coordinates or weights of float64, which only the generic kernels of direct load.
Reason reject_f64_points(Problem const& problem);
// The first questions of forwards by rows: those above, the operation and the sampling mode.
Reason reject_forward(Variant const& variant, Problem const& problem, Device const& device,
                      bool has_features = true);
// float32 can count the pixels of every side.
bool sides_fit(Problem const& problem);
// Coordinates, weights and output without gaps.
bool rows_are_packed(Problem const& problem);
// Levels that travel with the launch, and whose sides fit.
bool levels_are_near(Problem const& problem);
bool every_level_has(Problem const& problem, std::int64_t points);
// A record of a point can count tokens, 32 bits the bytes from a pixel to the one below, and 31
// bits heads: for forwards whose records have a token.
bool tokens_fit(Problem const& problem);
// The largest head of a variant, `most`, serves those down to half of it.
bool head_dim_fits(std::int64_t head_dim, std::int64_t most, std::int64_t multiple);
// Strides in bytes are multiples of `alignment`.
inline bool strides_are_multiples(Strides const& strides, msda_dtype dtype,
                                  std::int64_t alignment) {
  return (strides.batch | strides.row | strides.head) * dtype_bytes(dtype) % alignment == 0;
}
// Bytes from a row to the next fit 31 bits.
inline bool row_stride_fits(Strides const& strides, msda_dtype dtype) {
  return strides.row >= 0 && strides.row * dtype_bytes(dtype) <= INT32_MAX;
}
// Strides of value in bytes, all multiples of `alignment`.
inline bool value_strides_are_multiples(Problem const& problem, std::int64_t alignment) {
  return strides_are_multiples(problem.value, problem.value_dtype, alignment);
}

// Both at least 0, `of_one` more.
constexpr std::int64_t divide_up(std::int64_t items, std::int64_t of_one) {
  return (items + of_one - 1) / of_one;
}

// Numbers as kernels, predictions and arenas take them.
constexpr std::int32_t i32(std::int64_t n) { return static_cast<std::int32_t>(n); }
constexpr std::uint32_t u32(std::int64_t n) { return static_cast<std::uint32_t>(n); }
constexpr std::size_t count_of(std::int64_t n) { return static_cast<std::size_t>(n); }
constexpr double number(std::int64_t n) { return static_cast<double>(n); }

inline std::int32_t element_bytes(Problem const& problem) {
  return i32(dtype_bytes(problem.value_dtype));
}

// ---- the work of a problem

// A row is one (batch, query, head), a value one channel of a token and head.
inline std::int64_t row_count(Problem const& problem) {
  return problem.batch * problem.query_count * problem.head_count;
}
inline std::int64_t value_count(Problem const& problem) {
  return problem.batch * problem.token_count * problem.head_count * problem.head_dim;
}

// Rows as a number without an upper limit.
inline double rows_of(Problem const& problem) {
  return number(problem.batch) * number(problem.query_count) * number(problem.head_count);
}
// Sampling points of all rows.
inline double points_of(Problem const& problem) {
  return rows_of(problem) * number(problem.point_total);
}
// A factor on work whose values are float32; 1 for others.
inline double f32_factor(Problem const& problem, double factor) {
  return problem.value_dtype == MSDA_DTYPE_F32 ? factor : 1.0;
}
// Bytes that a forward cannot do without: every tensor once.
double forward_bytes(Problem const& problem);
// A forward's bytes of inputs, output and values; of a level's values no more pixels than its
// points have corners.
Counts counts_of_tensors(Problem const& problem);

// ---- what kernels are handed

// The levels of a problem with more of them than Params holds, which a plan then keeps in device
// memory; else none.
std::vector<LevelParams> far_levels_of(Problem const& problem);
// Everything but the buffers. far_levels: those of the problem, in device memory, or null.
Params make_params(Problem const& problem, const LevelParams* far_levels = nullptr);
// With the buffers of a call.
Params with_buffers(Params params, Call const& call);

inline bool is_aligned(const void* pointer, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) == 0;
}

}  // namespace msda
