// Questions that the reject() of several families asks.
#pragma once

#include "core/family.h"
#include "core/problem.h"

#include <cstdint>

namespace msda {

inline constexpr std::int32_t kLargestSide = 1 << 24;  // float32 has every pixel

// The first questions of all: of the device, its compute capability, and the type of the values.
Reason reject_basics(Variant const& variant, Problem const& problem, Device const& device);
// float32 can count the pixels of every side.
bool sides_fit(Problem const& problem);
// Coordinates, weights and output without gaps.
bool rows_are_packed(Problem const& problem);
// Levels that travel with the launch, and whose sides fit.
bool levels_are_near(Problem const& problem);
bool every_level_has(Problem const& problem, std::int64_t points);
// The largest head of a variant, `most`, serves those down to half of it.
bool head_dim_fits(std::int64_t head_dim, std::int64_t most, std::int64_t multiple);
// Strides in bytes are multiples of `alignment`.
bool strides_are_multiples(Strides const& strides, msda_dtype dtype, std::int64_t alignment);
// Bytes from a row to the next fit 31 bits.
bool row_stride_fits(Strides const& strides, msda_dtype dtype);
// Strides of value in bytes, all multiples of `alignment`.
bool value_strides_are_multiples(Problem const& problem, std::int64_t alignment);

}  // namespace msda
