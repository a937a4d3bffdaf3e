// Value types and architectures, as rows of variants.inc name them.
#pragma once

#include <msda.h>

#include <cstdint>
#include <string_view>

namespace msda {

enum class ValueType : msda_dtype {
  f64 = MSDA_DTYPE_F64,
  f32 = MSDA_DTYPE_F32,
  f16 = MSDA_DTYPE_F16,
  bf16 = MSDA_DTYPE_BF16,
  f8 = MSDA_DTYPE_F8_E4M3,
};

constexpr msda_dtype dtype_of(ValueType type) { return static_cast<msda_dtype>(type); }

// Stored divided by value_scale, as core/dtype.h says too; device code cannot include that.
template <ValueType kType>
inline constexpr bool kIsScaled = kType == ValueType::f8;

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
