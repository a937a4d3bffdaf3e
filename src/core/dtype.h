// The element types: names, sizes, and conversion of single elements to and from float64.
#pragma once

#include <msda.h>

#include <cstdint>
#include <string_view>

namespace msda {

// Bytes of one element; 0 for MSDA_DTYPE_NONE and unknown values.
std::int64_t dtype_bytes(msda_dtype dtype);
// "F32" and so on; "NONE"; "unknown".
std::string_view dtype_name(msda_dtype dtype);

// Element `index` of an array, exactly.
double load_element(msda_dtype dtype, const void* array, std::int64_t index);
// Rounds once, to nearest even; overflow becomes infinity. F8_E4M3 is an input type only: not
// stored.
void store_element(msda_dtype dtype, void* array, std::int64_t index, double value);

}  // namespace msda
