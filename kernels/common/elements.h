// The value types as variants.inc names them.
#pragma once

#include <msda.h>

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

}  // namespace msda
