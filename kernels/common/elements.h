// What rows of variants.inc name: value types, and architectures to compile for.
#pragma once

#include <msda.h>

#include <cstdint>
#include <string_view>

namespace msda {

enum class ValueType { f64, f32, f16, bf16, f8 };

constexpr msda_dtype dtype_of(ValueType type) {
  switch (type) {
    case ValueType::f64:
      return MSDA_F64;
    case ValueType::f32:
      return MSDA_F32;
    case ValueType::f16:
      return MSDA_F16;
    case ValueType::bf16:
      return MSDA_BF16;
    case ValueType::f8:
      return MSDA_F8_E4M3;
  }
  return MSDA_DTYPE_NONE;
}

// The last compute capability, times ten, that code for an architecture runs on: 90 for "90a", 109
// for "100f"; `otherwise` for "90", which runs on later ones too.
constexpr std::int32_t last_sm(std::string_view architecture, std::int32_t otherwise) {
  std::int32_t sm = 0;
  for (char const c : architecture) {
    if (c == 'a') return sm;
    if (c == 'f') return sm / 10 * 10 + 9;
    sm = 10 * sm + (c - '0');
  }
  return otherwise;
}
static_assert(last_sm("90a", 0) == 90 && last_sm("100f", 0) == 109 && last_sm("80", 90) == 90);

}  // namespace msda
