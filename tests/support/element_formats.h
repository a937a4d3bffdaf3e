// Element types as the tests see them. Shares nothing with src/core/dtype: a narrow type is the
// list of its numbers in order, and rounding is a search for the nearest.
#pragma once

#include <msda.h>

#include <cstddef>
#include <cstdint>

namespace msda::test {

inline constexpr msda_dtype kAllDtypes[] = {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16,
                                            MSDA_DTYPE_F8_E4M3, MSDA_DTYPE_F64};

std::size_t element_bytes(msda_dtype dtype);

double decode(msda_dtype dtype, const void* element);
// To nearest, ties to even. Too large: infinity, or NaN in F8_E4M3, which has none.
void encode(msda_dtype dtype, void* element, double value);
double round_to(msda_dtype dtype, double value);

// Half the distance from |value| to the next larger number of the type.
double half_ulp(msda_dtype dtype, double value);

// A NaN that no arithmetic makes. An element that still holds it was not written.
std::uint64_t poison_bits(msda_dtype dtype);
std::uint64_t raw_bits(msda_dtype dtype, const void* element);
void store_bits(msda_dtype dtype, void* element, std::uint64_t bits);

}  // namespace msda::test
