#include "cli/input_arrays.h"

#include "cli/case_input.h"
#include "lab/input_error.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace msda::cli {

using namespace lab;
namespace {

template <typename T>
std::vector<std::int64_t> widen(StoredArray const& array, std::string const& label) {
  std::vector<std::int64_t> values(array.bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T element;
    std::memcpy(&element, array.bytes.data() + i * sizeof(T), sizeof(T));
    if (!std::in_range<std::int64_t>(element)) {
      bad_input("{} holds {}: must be less than 2^63", label, element);
    }
    values[i] = static_cast<std::int64_t>(element);
  }
  return values;
}

msda_dtype float_of_width(std::size_t bytes) {
  return bytes == 8 ? MSDA_F64 : bytes == 4 ? MSDA_F32 : bytes == 2 ? MSDA_F16 : MSDA_DTYPE_NONE;
}

// The type of the elements, or NONE where the file does not say it and nobody else does.
msda_dtype stored_type(StoredArray const& array, TypeWish const& wish) {
  if (array.kind == 'f') return float_of_width(array.item_bytes);
  bool const is_stated =
      wish.stored != MSDA_DTYPE_NONE && type_bytes(wish.stored) == array.item_bytes;
  // ml_dtypes saves its types as raw bytes.
  if (array.kind == 'V' && !is_stated) {
    return array.item_bytes == 2   ? MSDA_BF16
           : array.item_bytes == 1 ? MSDA_F8_E4M3
                                   : MSDA_DTYPE_NONE;
  }
  bool const is_bits = array.kind == 'V' || array.kind == 'u';
  return is_bits && array.item_bytes <= 2 && is_stated ? wish.stored : MSDA_DTYPE_NONE;
}

msda_dtype first_of(std::optional<msda_dtype> const& first,
                    std::optional<msda_dtype> const& second) {
  return first ? *first : second.value_or(MSDA_DTYPE_NONE);
}

void require_equal(Options const& options, std::string_view name,
                   std::optional<std::int64_t> const& stated, std::int64_t actual) {
  if (!stated || *stated == actual) return;
  bad_input("{} is {}, but the input has {}", options.label(name), *stated, actual);
}

msda_dtype widest(Case const& input, TypeRole role) {
  msda_dtype type = MSDA_DTYPE_NONE;
  for (TensorRow const& row : tensor_table()) {
    Array const* const array = input.find(row.name);
    if (array == nullptr || row.type != role || row.use == Use::kResult) continue;
    if (type == MSDA_DTYPE_NONE || type_bytes(array->type) > type_bytes(type)) type = array->type;
  }
  return type;
}

// Times, or divided by, the scale of each element's head: value is [B][S][M][D].
void apply_scale(Array& value, Array const& scale, bool divide) {
  std::vector<double> numbers = value.decode();
  std::vector<double> const factors = scale.decode();
  auto const channels = static_cast<std::size_t>(value.shape.back());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    double const factor = factors[i / channels % factors.size()];
    numbers[i] = divide ? numbers[i] / factor : numbers[i] * factor;
  }
  value = Array(MSDA_F64, value.shape);
  encode_elements(MSDA_F64, numbers, value.bytes);
}

// value_scale belongs to f8_e4m3 alone: conversion from or to another type applies it.
void settle_scale(Case& input, msda_dtype wanted) {
  auto const scale = input.arrays.find("value_scale");
  if (scale == input.arrays.end()) return;
  Array& value = input.arrays.at("value");
  if (value.type == MSDA_F8_E4M3 && wanted != MSDA_F8_E4M3) {
    apply_scale(value, scale->second, false);
  } else if (value.type != MSDA_F8_E4M3 && wanted == MSDA_F8_E4M3) {
    apply_scale(value, scale->second, true);
  }
  if (wanted != MSDA_F8_E4M3) input.arrays.erase(scale);
}

}  // namespace

TypeWish type_wish(Options const& options, TypeRole role) {
  // --dtype speaks of value; what it implies for the others is no statement about files.
  switch (role) {
    case TypeRole::kValue:
      return {options.stored_value_dtype.value_or(wanted_value_type(options)),
              "--stored-value-dtype"};
    case TypeRole::kCoord:
      return {first_of(options.stored_coord_dtype, options.coord_dtype), "--stored-coord-dtype"};
    case TypeRole::kWeight:
      return {first_of(options.stored_weight_dtype, options.weight_dtype), "--stored-weight-dtype"};
    default:
      return {options.output_dtype.value_or(MSDA_DTYPE_NONE), "--output-dtype"};
  }
}

std::vector<std::int64_t> to_integers(StoredArray const& array, std::string const& label) {
  bool const is_signed = array.kind == 'i';
  if (is_signed || array.kind == 'u') {
    switch (array.item_bytes) {
      case 1:
        return is_signed ? widen<std::int8_t>(array, label) : widen<std::uint8_t>(array, label);
      case 2:
        return is_signed ? widen<std::int16_t>(array, label) : widen<std::uint16_t>(array, label);
      case 4:
        return is_signed ? widen<std::int32_t>(array, label) : widen<std::uint32_t>(array, label);
      case 8:
        return is_signed ? widen<std::int64_t>(array, label) : widen<std::uint64_t>(array, label);
      default:
        break;
    }
  }
  bad_input("{} has dtype '{}': must be an integer type", label, array.descr());
}

Array to_floats(StoredArray array, TypeWish const& wish, std::string const& label) {
  msda_dtype const type = stored_type(array, wish);
  if (type == MSDA_DTYPE_NONE) {
    bool const is_bits = array.kind == 'u' && array.item_bytes <= 2;
    if (is_bits) {
      bad_input("{} has dtype '{}': say what its bits are with {} {}", label, array.descr(),
                wish.flag, array.item_bytes == 2 ? "bf16 or f16" : "f8_e4m3");
    }
    bad_input("{} has dtype '{}': must be float64, float32, float16, bfloat16 or float8_e4m3",
              label, array.descr());
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

std::int32_t find_border(ProblemSpec const& spec, Options const& options,
                         BorderEvidence const& evidence) {
  auto const starts = [&spec](std::int32_t border) {
    std::vector<std::int64_t> result;
    ProblemSpec part;
    for (std::size_t l = 0; l < spec.point_counts.size(); ++l) {
      result.push_back(part.token_count(border));
      part.level_hw.insert(part.level_hw.end(), {spec.level_hw[2 * l], spec.level_hw[2 * l + 1]});
      part.point_counts.push_back(0);
    }
    return result;
  };
  for (std::int32_t const border : {0, 1}) {
    bool const is_allowed = options.value_border.value_or(border) == border;
    bool const tokens_agree =
        evidence.token_count.value_or(spec.token_count(border)) == spec.token_count(border);
    bool const starts_agree =
        !evidence.level_start_index || *evidence.level_start_index == starts(border);
    if (is_allowed && tokens_agree && starts_agree) return border;
  }
  std::string const wanted = options.value_border
                                 ? fmt::format("value_border {}", *options.value_border)
                                 : std::string("value_border 0 or 1");
  std::string found;
  if (evidence.token_count) found += fmt::format(" {} tokens", *evidence.token_count);
  if (evidence.level_start_index) {
    found += fmt::format("{} level starts {}", found.empty() ? "" : " and",
                         shape_text(*evidence.level_start_index));
  }
  bad_input(
      "{}:{} do not fit the levels with {}: without border {} tokens and starts {}, with "
      "border {} tokens and starts {}",
      evidence.label, found, wanted, spec.token_count(0), shape_text(starts(0)),
      spec.token_count(1), shape_text(starts(1)));
}

void require_options_agree(ProblemSpec const& spec, Options const& options) {
  require_equal(options, "batch", options.batch, spec.batch);
  require_equal(options, "queries", options.queries, spec.query_count);
  require_equal(options, "heads", options.heads, spec.head_count);
  require_equal(options, "channels", options.channels, spec.head_dim);
  auto const text = [](std::vector<std::int32_t> const& values) {
    return shape_text({values.begin(), values.end()});
  };
  if (options.levels && *options.levels != spec.level_hw) {
    bad_input("{} is {} as (H, W), but the input has {}", options.label("levels"),
              text(*options.levels), text(spec.level_hw));
  }
  if (options.points) {
    std::vector<std::int32_t> stated = *options.points;
    if (stated.size() == 1) stated.resize(spec.point_counts.size(), stated[0]);
    if (stated != spec.point_counts) {
      bad_input("{} is {}, but the input has {}", options.label("points"), text(*options.points),
                text(spec.point_counts));
    }
  }
}

void settle_types(Case& input, Options const& options) {
  ProblemSpec& spec = input.spec;
  auto const pick = [&input](msda_dtype wanted, TypeRole role) {
    return wanted != MSDA_DTYPE_NONE ? wanted : widest(input, role);
  };
  spec.value_dtype = pick(wanted_value_type(options), TypeRole::kValue);
  spec.coord_dtype = pick(wanted_coord_type(options), TypeRole::kCoord);
  spec.weight_dtype = pick(wanted_weight_type(options), TypeRole::kWeight);
  spec.output_dtype = options.output_dtype.value_or(MSDA_DTYPE_NONE);
  spec.grad_value_dtype = options.grad_value_dtype.value_or(MSDA_DTYPE_NONE);
  spec.resolve_dtypes();
  settle_scale(input, spec.value_dtype);
  for (TensorRow const& row : tensor_table()) {
    auto const found = input.arrays.find(row.name);
    if (found == input.arrays.end()) continue;
    msda_dtype const type = tensor_type(spec, row);
    std::int64_t overflow_count = 0;
    found->second = convert(std::move(found->second), type, overflow_count);
    if (overflow_count > 0) {
      input.remarks.push_back(fmt::format("warning: {}: {} of {} numbers are too large for {}",
                                          row.name, overflow_count, found->second.element_count(),
                                          type_name(type)));
    }
  }
}

}  // namespace msda::cli
