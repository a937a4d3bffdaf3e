#include "command/commands/input_arrays.h"

#include "command/commands/case_input.h"
#include "command/files/input_error.h"
#include "core/dtype.h"

#include <algorithm>
#include <span>
#include <utility>

namespace msda::command {

namespace {

std::string text_of(std::int64_t number) { return std::to_string(number); }

template <typename T>
std::string text_of(std::vector<T> const& numbers) {
  return shape_text({numbers.begin(), numbers.end()});
}

template <typename T>
void require_equal(Options const& options, std::string_view name, std::optional<T> const& stated,
                   T const& actual, std::string_view what = "") {
  if (!stated || *stated == actual) return;
  bad_input("{} is {}{}, but the input has {}", options.label(name), text_of(*stated), what,
            text_of(actual));
}

msda_dtype widest(Case const& input, msda_dtype ProblemShape::* dtype) {
  msda_dtype type = MSDA_DTYPE_NONE;
  for (TensorRow const& row : tensor_rows()) {
    Array const* const array = input.find(row.name);
    if (array == nullptr || row.dtype != dtype || row.is_result()) continue;
    if (type == MSDA_DTYPE_NONE || type_bytes(array->type) > type_bytes(type)) type = array->type;
  }
  return type;
}

// Converts value to the type wanted. value_scale belongs to scaled types alone: conversion from or
// to another type multiplies or divides by the scale of each element's head, value is [B][S][M][D].
Array convert_value(Case& input, Array value, msda_dtype wanted, std::int64_t* overflow_count) {
  auto const scale = input.arrays.find("value_scale");
  if (scale == input.arrays.end()) return convert(std::move(value), wanted, overflow_count);
  bool const divide = is_scaled(wanted);
  if (!is_scaled(value.type) && !divide) {
    auto const scaled = std::ranges::find_if(kDtypes, &DtypeInfo::is_scaled);
    bad_input("value_scale is there, and value is {}: only {} has a scale", type_name(value.type),
              type_name(scaled->dtype));
  }
  if (is_scaled(value.type) && divide) return value;
  std::vector<double> const factors = scale->second.decode();
  auto const channels = static_cast<std::size_t>(value.shape.back());
  auto const apply = [&](std::size_t first, std::span<double> numbers) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      double const factor = factors[(first + i) / channels % factors.size()];
      numbers[i] = divide ? numbers[i] / factor : numbers[i] * factor;
    }
  };
  if (!divide) input.arrays.erase(scale);
  return convert(std::move(value), wanted, overflow_count, apply);
}

std::vector<std::int64_t> starts_with(ProblemShape spec, std::int32_t border) {
  spec.value_border = border;
  return spec.level_starts();
}

// Whether the starts are one for each level, and each level ends within the tokens there are.
bool levels_fit(ProblemShape spec, Options const& options, LevelEvidence const& evidence) {
  if (!evidence.level_start_index || !evidence.token_count) return false;
  std::vector<std::int64_t> const& starts = *evidence.level_start_index;
  if (starts.size() != spec.levels.size()) return false;
  spec.value_border = options.value_border.value_or(0);
  for (std::size_t l = 0; l < starts.size(); ++l) {
    std::int64_t const last_start = *evidence.token_count - spec.level_tokens(spec.levels[l]);
    if (starts[l] < 0 || starts[l] > last_start) return false;
  }
  return true;
}

// How many tokens are of no level, as it would be where the sizes of an input are wrong.
std::int64_t other_tokens(ProblemShape const& spec) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (std::size_t l = 0; l < spec.levels.size(); ++l) {
    ranges.emplace_back(spec.level_start[l],
                        spec.level_start[l] + spec.level_tokens(spec.levels[l]));
  }
  std::ranges::sort(ranges);
  std::int64_t count = 0, end = 0;
  for (auto const& [begin, range_end] : ranges) {
    count += std::max<std::int64_t>(begin - end, 0);
    end = std::max(end, range_end);
  }
  return count + spec.tokens - end;
}

}  // namespace

TypeWish type_wish(Options const& options, TensorRow const& row) {
  using Type = std::optional<msda_dtype>;
  // --dtype speaks of value; what it implies for the others is no statement about files.
  struct {
    msda_dtype ProblemShape::* dtype;
    Type stored;
    Type wanted;
    const char* flag;
  } const wishes[] = {
      {&ProblemShape::value_dtype, options.stored_value_dtype, wanted_value_type(options),
       "--stored-value-dtype"},
      {&ProblemShape::coord_dtype, options.stored_coord_dtype, options.coord_dtype,
       "--stored-coord-dtype"},
      {&ProblemShape::reference_dtype, options.stored_coord_dtype,
       options.reference_dtype ? options.reference_dtype : options.coord_dtype,
       "--stored-coord-dtype"},
      {&ProblemShape::weight_dtype, options.stored_weight_dtype, options.weight_dtype,
       "--stored-weight-dtype"},
      {&ProblemShape::output_dtype, std::nullopt, options.output_dtype, "--output-dtype"}};
  for (auto const& [dtype, stored, wanted, flag] : wishes) {
    if (row.dtype != dtype) continue;
    return {stored ? *stored : wanted.value_or(MSDA_DTYPE_NONE), flag,
            dtype == &ProblemShape::value_dtype};
  }
  return {MSDA_DTYPE_NONE, "", false};
}

std::vector<LevelShape> levels_with(std::vector<std::int32_t> const& points,
                                    std::vector<std::int32_t> const& level_hw,
                                    std::string_view label, std::string_view rule) {
  std::size_t const level_count = level_hw.size() / 2;
  if (points.size() != 1 && points.size() != level_count) {
    bad_input("{} has {} {} {} levels", label, points.size(), rule, level_count);
  }
  return make_levels(level_hw, points);
}

std::int64_t token_count_with(ProblemShape spec, std::int32_t border) {
  spec.value_border = border;
  return spec.token_count();
}

bool follow_each_other(ProblemShape const& spec, std::vector<std::int64_t> const& starts) {
  return starts == starts_with(spec, 0) || starts == starts_with(spec, 1);
}

void place_levels(Case& input, Options const& options, LevelEvidence const& evidence) {
  ProblemShape& spec = input.spec;
  for (std::int32_t const border : {0, 1}) {
    bool const is_allowed = options.value_border.value_or(border) == border;
    bool const tokens_agree = evidence.token_count.value_or(token_count_with(spec, border)) ==
                              token_count_with(spec, border);
    bool const starts_agree =
        !evidence.level_start_index || *evidence.level_start_index == starts_with(spec, border);
    if (!is_allowed || !tokens_agree || !starts_agree) continue;
    spec.value_border = border;
    return;
  }
  if (levels_fit(spec, options, evidence)) {
    spec.value_border = options.value_border.value_or(0);
    spec.level_start = *evidence.level_start_index;
    spec.tokens = *evidence.token_count;
    std::int64_t const count = other_tokens(spec);
    if (count > 0) {
      input.remarks.push_back(fmt::format("note: {}: {} of {} tokens are of no level",
                                          evidence.label, count, spec.tokens));
    }
    return;
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
      evidence.label, found, wanted, token_count_with(spec, 0), shape_text(starts_with(spec, 0)),
      token_count_with(spec, 1), shape_text(starts_with(spec, 1)));
}

void require_options_agree(ProblemShape const& spec, Options const& options) {
  require_equal(options, "tokens", options.tokens, spec.token_count());
  require_equal(options, "batch", options.batch, spec.batch);
  require_equal(options, "queries", options.queries, spec.query_count);
  require_equal(options, "heads", options.heads, spec.head_count);
  require_equal(options, "channels", options.channels, spec.head_dim);
  require_equal(options, "level-start", options.level_start, spec.level_starts());
  require_equal(options, "levels", options.levels, spec.level_hw(), " as (H, W)");
  std::vector<std::int32_t> const points = spec.point_counts();
  bool const is_one_for_all =
      options.points && options.points->size() == 1 &&
      points == std::vector<std::int32_t>(points.size(), options.points->front());
  if (!is_one_for_all) require_equal(options, "points", options.points, points);
}

void settle_types(Case& input) {
  ProblemShape& spec = input.spec;
  for (auto const dtype : {&ProblemShape::value_dtype, &ProblemShape::coord_dtype,
                           &ProblemShape::reference_dtype, &ProblemShape::weight_dtype}) {
    if (spec.*dtype == MSDA_DTYPE_NONE) spec.*dtype = widest(input, dtype);
  }
  spec.resolve_dtypes();
  for (TensorRow const& row : tensor_rows()) {
    auto const found = input.arrays.find(row.name);
    if (found == input.arrays.end()) continue;
    msda_dtype const type = tensor_type(spec, row);
    std::int64_t overflow_count = 0;
    Array array = std::move(found->second);
    found->second = row.id == TensorId::kValue
                        ? convert_value(input, std::move(array), type, &overflow_count)
                        : convert(std::move(array), type, &overflow_count);
    if (overflow_count > 0) {
      input.remarks.push_back(fmt::format("warning: {}: {} of {} numbers are too large for {}",
                                          row.name, overflow_count, found->second.element_count(),
                                          type_name(type)));
    }
  }
}

}  // namespace msda::command
