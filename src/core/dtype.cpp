#include "core/dtype.h"

#include "core/float_format.h"
#include "core/numbers.h"

#include <limits>

namespace msda {
namespace {

template <typename T>
T element(const void* array, std::int64_t index) {
  return static_cast<const T*>(array)[index];
}

template <typename T>
void put(void* array, std::int64_t index, T value) {
  static_cast<T*>(array)[index] = value;
}

}  // namespace

double load_element(msda_dtype dtype, const void* array, std::int64_t index) {
  switch (dtype) {
    case MSDA_DTYPE_F32:
      return element<float>(array, index);
    case MSDA_DTYPE_F64:
      return element<double>(array, index);
    case MSDA_DTYPE_F16:
      return decode(kF16, element<std::uint16_t>(array, index));
    case MSDA_DTYPE_BF16:
      return bit_cast<float>(std::uint32_t{element<std::uint16_t>(array, index)} << 16);
    case MSDA_DTYPE_F8_E4M3:
      return decode(kF8E4m3, element<std::uint8_t>(array, index));
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

void store_element(msda_dtype dtype, void* array, std::int64_t index, double value) {
  switch (dtype) {
    case MSDA_DTYPE_F32:
      return put(array, index, static_cast<float>(value));
    case MSDA_DTYPE_F64:
      return put(array, index, value);
    case MSDA_DTYPE_F16:
      return put(array, index, static_cast<std::uint16_t>(encode(kF16, value)));
    case MSDA_DTYPE_BF16:
      return put(array, index, static_cast<std::uint16_t>(encode(kBf16, value)));
    default:
      return;
  }
}

}  // namespace msda
