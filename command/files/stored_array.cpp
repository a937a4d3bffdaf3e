#include "command/files/stored_array.h"

#include "command/files/element_type.h"
#include "command/files/input_error.h"

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

namespace msda::command {
namespace {

// The type of the elements, or NONE where the file does not say it and nobody else does.
msda_dtype stored_type(StoredArray const& array, TypeWish const& wish) {
  if (array.kind == 'f') return type_of_width(array.item_bytes, true);
  bool const is_stated =
      wish.stored != MSDA_DTYPE_NONE && type_bytes(wish.stored) == array.item_bytes;
  // ml_dtypes saves its types as raw bytes.
  if (array.kind == 'V' && !is_stated) {
    msda_dtype const type = type_of_width(array.item_bytes, false);
    return is_scaled(type) && !wish.takes_scaled ? MSDA_DTYPE_NONE : type;
  }
  bool const is_bits = array.kind == 'V' || array.kind == 'u';
  return is_bits && array.item_bytes <= 2 && is_stated ? wish.stored : MSDA_DTYPE_NONE;
}

}  // namespace

std::string StoredArray::descr() const {
  return fmt::format("{}{}{}", item_bytes == 1 ? '|' : is_big_endian ? '>' : '<', kind, item_bytes);
}

std::vector<std::int64_t> to_integers(StoredArray const& array, std::string const& label) {
  bool const is_signed = array.kind == 'i';
  std::size_t const size = array.item_bytes;
  if ((!is_signed && array.kind != 'u') || size > sizeof(std::int64_t) ||
      !std::has_single_bit(size)) {
    bad_input("{} has dtype '{}': must be an integer type", label, array.descr());
  }
  std::vector<std::int64_t> values(array.bytes.size() / size);
  std::size_t const missing_bits = 8 * (sizeof(std::int64_t) - size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint64_t bits = 0;  // the array and the machine are little endian
    std::memcpy(&bits, array.bytes.data() + i * size, size);
    auto const value = static_cast<std::int64_t>(bits << missing_bits);
    values[i] = is_signed ? value >> missing_bits : static_cast<std::int64_t>(bits);
    if (!is_signed && values[i] < 0) bad_input("{} holds {}: must be less than 2^63", label, bits);
  }
  return values;
}

Array to_floats(StoredArray array, TypeWish const& wish, std::string const& label) {
  msda_dtype const type = stored_type(array, wish);
  if (type == MSDA_DTYPE_NONE) {
    bool const is_bits = array.kind == 'u' && !wish.flag.empty() &&
                         (array.item_bytes == 2 || (array.item_bytes == 1 && wish.takes_scaled));
    if (is_bits) {
      bad_input("{} has dtype '{}': say what its bits are with {} {}", label, array.descr(),
                wish.flag, array.item_bytes == 2 ? "bf16 or f16" : "f8_e4m3");
    }
    bad_input("{} has dtype '{}': must be {}", label, array.descr(),
              wish.takes_scaled ? "float64, float32, float16, bfloat16 or float8_e4m3"
                                : "float64, float32, float16 or bfloat16");
  }
  Array typed;
  typed.type = type;
  typed.shape = std::move(array.shape);
  typed.bytes = std::move(array.bytes);
  return typed;
}

std::vector<std::int32_t> to_sizes(std::vector<std::int64_t> const& values,
                                   std::string const& label) {
  std::vector<std::int32_t> sizes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] > std::numeric_limits<std::int32_t>::max()) {
      bad_input("{} holds {} at position {}: must be from 0 to {}", label, values[i], i,
                std::numeric_limits<std::int32_t>::max());
    }
    sizes.push_back(static_cast<std::int32_t>(values[i]));
  }
  return sizes;
}

}  // namespace msda::command
