// The element types: what the library asks of one, and conversion of single elements to and from
// float64.
#pragma once

#include <msda.h>

#include <cstdint>
#include <string_view>

namespace msda {

struct DtypeInfo {
  msda_dtype dtype;
  std::string_view name;
  std::int64_t bytes;
  bool is_scaled;  // a type of value alone, stored divided by value_scale
};
// In the order in which messages list them.
inline constexpr DtypeInfo kDtypes[] = {
    {MSDA_DTYPE_F32, "F32", 4, false},   {MSDA_DTYPE_F16, "F16", 2, false},
    {MSDA_DTYPE_BF16, "BF16", 2, false}, {MSDA_DTYPE_F8_E4M3, "F8_E4M3", 1, true},
    {MSDA_DTYPE_F64, "F64", 8, false},
};

constexpr DtypeInfo dtype_info(msda_dtype dtype) {
  for (DtypeInfo const& info : kDtypes) {
    if (info.dtype == dtype) return info;
  }
  return {dtype, dtype == MSDA_DTYPE_NONE ? "NONE" : "unknown", 0, false};
}
// Bytes of one element; 0 for MSDA_DTYPE_NONE and unknown values.
constexpr std::int64_t dtype_bytes(msda_dtype dtype) { return dtype_info(dtype).bytes; }
// "F32" and so on; "NONE"; "unknown".
constexpr std::string_view dtype_name(msda_dtype dtype) { return dtype_info(dtype).name; }
constexpr bool is_scaled(msda_dtype dtype) { return dtype_info(dtype).is_scaled; }

// The type that MSDA_DTYPE_NONE stands for beside values of a type: for outputs and the gradient of
// value, and for coordinates and weights.
constexpr msda_dtype default_result_dtype(msda_dtype value) {
  return is_scaled(value) ? MSDA_DTYPE_F32 : value;
}
constexpr msda_dtype default_point_dtype(msda_dtype value) {
  return value == MSDA_DTYPE_F64 ? MSDA_DTYPE_F64 : MSDA_DTYPE_F32;
}

// Element `index` of an array, exactly.
double load_element(msda_dtype dtype, const void* array, std::int64_t index);
// Rounds once, to nearest even; overflow becomes infinity. Scaled types are not stored.
void store_element(msda_dtype dtype, void* array, std::int64_t index, double value);

}  // namespace msda
