// Element types as the command's user sees them: names, sizes, and conversion between them.
#pragma once

#include "core/dtype.h"
#include "core/numbers.h"

#include <msda.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msda::command {

// "f64", "f32", "f16", "bf16", "f8_e4m3".
std::string_view type_name(msda_dtype type);
std::optional<msda_dtype> type_from_name(std::string_view name);
// "f64, f32, f16, bf16 or f8_e4m3", for messages; without types that value alone can have.
std::string type_name_list(bool with_scaled);

inline std::size_t type_bytes(msda_dtype type) {
  return static_cast<std::size_t>(dtype_bytes(type));
}
// Whether it is a type of numpy's own; ml_dtypes saves its types as raw bytes.
bool is_numpy_type(msda_dtype type);
// The one with elements of so many bytes; NONE where there is none.
msda_dtype type_of_width(std::size_t bytes, bool is_numpys);

// The distance of 1 and the next larger number, halved: the relative error of one rounding.
double unit_roundoff(msda_dtype type);
// Half the distance of the numbers of a type around a value; 0 if that is not finite.
class HalfUlp {
 public:
  explicit HalfUlp(msda_dtype type);
  double operator()(double value) const {
    constexpr std::uint64_t kExponent = 0x7FF0000000000000u;
    auto const power = bit_cast<double>(bit_cast<std::uint64_t>(value) & kExponent);
    return std::isfinite(value) ? std::max(power, min_normal_) * unit_roundoff_ : 0.0;
  }

 private:
  double min_normal_;
  double unit_roundoff_;
};
// `value` as the type stores it.
double round_to_type(msda_dtype type, double value);

// Elements to float64, exactly.
std::vector<double> decode_elements(msda_dtype type, std::span<const std::byte> bytes);
// Rounds once, to nearest even. Too large becomes infinity, or NaN in f8_e4m3, which has no
// infinity. Returns how many finite numbers became so.
std::int64_t encode_elements(msda_dtype type, std::span<const double> values,
                             std::span<std::byte> bytes);

}  // namespace msda::command
