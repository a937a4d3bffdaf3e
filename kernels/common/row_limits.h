// What the kernels that work on whole rows, one (batch, query, head) at a time, ask of a problem:
// the same questions for each family's reject().
#pragma once

#include "core/problem.h"

#include <cstdint>

namespace msda {

inline constexpr std::int32_t kLargestSide = 1 << 24;  // float32 has every pixel

// Coordinates, weights and output without gaps.
bool rows_are_packed(Problem const& problem);
// Levels that travel with the launch, with sides that float32 can count.
bool levels_are_near(Problem const& problem);
bool every_level_has(Problem const& problem, std::int64_t points);
// The largest head of a variant, `most`, serves those down to half of it.
bool head_dim_fits(std::int64_t head_dim, std::int64_t most, std::int64_t multiple);
// In bytes.
bool strides_are_multiples(Strides const& strides, msda_dtype dtype, std::int64_t alignment);
// Bytes from a row to the next fit 31 bits.
bool row_stride_fits(Strides const& strides, msda_dtype dtype);
// Strides of value in bytes, all multiples of `alignment`.
bool value_strides_are_multiples(Problem const& problem, std::int64_t alignment);

}  // namespace msda
