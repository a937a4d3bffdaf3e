// From msda_problem to the canonical Problem: every field is checked here and nowhere else.

#include "api/objects.h"
#include "api/structs.h"
#include "core/dtype.h"
#include "core/join.h"
#include "core/tensor_sizes.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <vector>

namespace msda::api {
namespace {

constexpr std::int64_t kLargestLevelCount = 65536;

void check_not_negative(std::string_view field, std::int64_t value) {
  if (value < 0) invalid("problem.{} is {}: must be 0 or more", field, value);
}

template <typename T>
void check_aligned(std::string_view field, const T* array) {
  if (reinterpret_cast<std::uintptr_t>(array) % alignof(T) == 0) return;
  invalid("problem.{} is {}: must be aligned to {} bytes", field, static_cast<const void*>(array),
          alignof(T));
}

void check_one_of(std::string_view field, std::int64_t value,
                  std::initializer_list<std::int64_t> allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  invalid("problem.{} is {}: must be one of {}", field, value, join(allowed, ", "));
}

// The dtype, with NONE replaced by `otherwise`.
msda_dtype resolve_dtype(std::string_view field, msda_dtype dtype, msda_dtype otherwise,
                         bool may_be_scaled) {
  msda_dtype const resolved = dtype == MSDA_DTYPE_NONE ? otherwise : dtype;
  std::string list;
  for (DtypeInfo const& choice : kDtypes) {
    if (choice.is_scaled && !may_be_scaled) continue;
    if (choice.dtype == resolved) return resolved;
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", choice.dtype, choice.name);
  }
  invalid("problem.{} is {} ({}): must be one of {}", field, dtype, dtype_name(dtype), list);
}

void read_scalars(msda_problem const& in, Problem& out) {
#define MSDA_SIZE(name) check_not_negative(#name, out.name = in.name);
#define MSDA_CHOICE(name, type, ...) check_one_of(#name, out.name = in.name, {__VA_ARGS__});
#include "core/problem_fields.inc"
  check_one_of("input_mode", in.input_mode, {MSDA_INPUT_SAMPLED, MSDA_INPUT_FUSED});
  if (in.input_mode == MSDA_INPUT_FUSED) {
    check_one_of("reference_dim", in.reference_dim, {2, 4});
  } else if (in.reference_dim != 0) {
    invalid("problem.reference_dim is {}: must be 0 when input_mode is MSDA_INPUT_SAMPLED",
            in.reference_dim);
  }
  if (in.flags != 0) invalid("problem.flags is {}: must be 0", in.flags);
  out.input_mode = in.input_mode;
  out.reference_dim = in.reference_dim;
}

void read_dtypes(msda_problem const& in, Problem& out) {
  Problem const& p = out;
#define MSDA_DTYPE(name, otherwise) \
  out.name = resolve_dtype(#name, in.name, otherwise, &p.name == &p.value_dtype);
#include "core/problem_fields.inc"
}

void read_levels(msda_problem const& in, Problem& out) {
  if (in.level_count < 0 || in.level_count > kLargestLevelCount) {
    invalid("problem.level_count is {}: must be 0 to {}", in.level_count, kLargestLevelCount);
  }
  if (in.level_count > 0 && in.level_hw == nullptr) {
    invalid("problem.level_hw is NULL: must point to [{}][2] = (H, W), level_count is {}",
            in.level_count, in.level_count);
  }
  check_aligned("level_hw", in.level_hw);
  check_aligned("point_counts", in.point_counts);
  if (in.point_counts == nullptr) check_not_negative("point_count", in.point_count);
  out.levels.reserve(static_cast<std::size_t>(in.level_count));
  std::int64_t const border = in.value_border;
  for (std::int32_t l = 0; l < in.level_count; ++l) {
    std::int64_t const height = in.level_hw[2 * l];
    std::int64_t const width = in.level_hw[2 * l + 1];
    std::int64_t const points = in.point_counts != nullptr ? in.point_counts[l] : in.point_count;
    check_not_negative(fmt::format("level_hw[{}][0]", l), height);
    check_not_negative(fmt::format("level_hw[{}][1]", l), width);
    check_not_negative(fmt::format("point_counts[{}]", l), points);
    Level level;
    level.height = height;
    level.width = width;
    level.row_tokens = width + 2 * border;
    level.token_count = (height + 2 * border) * level.row_tokens;
    level.point_start = out.point_total;
    level.point_count = points;
    out.levels.push_back(level);
    out.point_total += points;
  }
}

// After this no sum of a start and a level's tokens overflows. `end`: of the levels before it.
std::int64_t read_level_start(msda_problem const& in, std::size_t l, Level const& level,
                              std::int64_t end) {
  std::int64_t const before = in.level_start == nullptr ? end : 0;
  if (level.token_count > kLargestByteCount - before) {
    invalid("problem.level_hw[{}] is ({}, {}): the token count of all levels must be at most {}", l,
            level.height, level.width, kLargestByteCount);
  }
  if (in.level_start == nullptr) return end;
  std::int64_t const start = in.level_start[l];
  std::int64_t const most = kLargestByteCount - level.token_count;
  if (start >= 0 && start <= most) return start;
  invalid("problem.level_start[{}] is {}: must be 0 to {}", l, start, most);
}

bool any_overlap(std::vector<Level> levels) {
  std::erase_if(levels, [](Level const& level) { return level.token_count == 0; });
  std::ranges::sort(levels, {}, &Level::token_start);
  auto const ends_in_next = [](Level const& level, Level const& next) {
    return level.token_start + level.token_count > next.token_start;
  };
  return std::ranges::adjacent_find(levels, ends_in_next) != levels.end();
}

void place_levels(msda_problem const& in, Problem& out) {
  check_not_negative("token_count", in.token_count);
  check_aligned("level_start", in.level_start);
  std::int64_t last_end = 0;
  std::int64_t end = 0;
  for (std::size_t l = 0; l < out.levels.size(); ++l) {
    Level& level = out.levels[l];
    level.token_start = read_level_start(in, l, level, end);
    level.origin = level.token_start + in.value_border * (level.row_tokens + 1);
    end = level.token_start + level.token_count;
    if (in.token_count != 0 && end > in.token_count) {
      invalid(
          "problem.token_count is {}: must be 0 or at least {}, since level {} is tokens {} to {}",
          in.token_count, end, l, level.token_start, end - 1);
    }
    last_end = std::max(last_end, end);
  }
  out.token_count = in.token_count == 0 ? last_end : in.token_count;
  out.levels_overlap =
      in.level_start != nullptr && any_overlap({out.levels.begin(), out.levels.end()});
}

void read_grids(msda_problem const& in, Problem& out) {
  check_not_negative("query_grid_count", in.query_grid_count);
  if (in.query_grid_count > 0 && in.query_hw == nullptr) {
    invalid("problem.query_hw is NULL: must point to [{}][2] = (H, W), query_grid_count is {}",
            in.query_grid_count, in.query_grid_count);
  }
  if (in.query_grid_count == 0 && in.query_hw != nullptr) {
    invalid("problem.query_grid_count is 0: must be 1 or more when query_hw is given");
  }
  if (in.query_grid_count == 0) return;
  check_aligned("query_hw", in.query_hw);
  std::int64_t pixels = 0;
  out.query_grids.reserve(static_cast<std::size_t>(in.query_grid_count));
  for (std::int32_t g = 0; g < in.query_grid_count; ++g) {
    Grid const grid{in.query_hw[2 * g], in.query_hw[2 * g + 1]};
    check_not_negative(fmt::format("query_hw[{}][0]", g), grid.height);
    check_not_negative(fmt::format("query_hw[{}][1]", g), grid.width);
    out.query_grids.push_back(grid);
    pixels = std::min(pixels + grid.height * grid.width, kLargestByteCount);
  }
  if (pixels != in.query_count) {
    invalid("problem.query_hw has {} pixels in all: must be query_count, which is {}", pixels,
            in.query_count);
  }
}

// Replaces an all-zero group by the packed strides. A stride that leads to no second element may be
// any number: a tensor that is packed but for those of dimensions of 1 gets the packed ones, so
// that it has the kernel of its twin. Products with a large one would overflow: of a dimension of 1
// it becomes less, but not 0: three of these would be packed to who reads a plan's bytes. Those of
// an empty tensor become the packed ones.
Strides read_strides(std::string_view field, const std::int64_t (&given)[3],
                     TensorShape const& shape) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  Strides const packed = packed_strides(shape.rows, shape.heads, shape.inner);
  std::int64_t const packed_stride[] = {packed.batch, packed.row, packed.head};
  std::int64_t const count[] = {shape.batch, shape.rows, shape.heads};
  bool is_zero = true, is_packed = true, overflows = false;
  std::int64_t stride[3];
  for (int i = 0; i < 3; ++i) {
    check_not_negative(fmt::format("{}[{}]", field, i), given[i]);
    is_zero &= given[i] == 0;
    is_packed &= count[i] == 1 || given[i] == packed_stride[i];
    overflows |= given[i] > kLargestByteCount / 8 / std::max(count[i], std::int64_t{1});
    bool const has_second = count[i] != 1 && !shape.is_empty();
    stride[i] = has_second ? given[i] : std::min(given[i], kLarge);
  }
  if (is_zero || is_packed || (shape.is_empty() && overflows)) return packed;
  return {stride[0], stride[1], stride[2]};
}

// Two rows of a result must not share an element: sorted by stride, each dimension must step over
// all of the inner ones.
void check_rows_apart(std::string_view field, TensorShape const& shape) {
  if (shape.is_empty()) return;
  struct Dimension {
    std::int64_t stride;
    std::int64_t count;
    int index;
  };
  std::array<Dimension, 3> dimensions = {{{shape.strides.batch, shape.batch, 0},
                                          {shape.strides.row, shape.rows, 1},
                                          {shape.strides.head, shape.heads, 2}}};
  std::ranges::sort(dimensions, {}, &Dimension::stride);
  std::int64_t extent = shape.inner;
  for (Dimension const& dimension : dimensions) {
    if (dimension.count <= 1) continue;
    if (dimension.stride < extent) {
      invalid("problem.{}[{}] is {}: must be at least {}, or {} rows would overlap", field,
              dimension.index, dimension.stride, extent, shape.name);
    }
    extent += dimension.stride * (dimension.count - 1);
  }
}

using Group = Strides Problem::*;

// The tensors of a group have one shape.
TensorShape shape_of_group(Problem const& problem, Group group) {
  auto const* const first = std::ranges::find(
      kTensors, group, [](TensorInfo const& info) { return tensor_strides(info.id); });
  return tensor_shape(problem, first->id);
}

void check_results_apart(std::string_view field, Problem const& problem, Group group) {
  for (TensorInfo const& info : kTensors) {
    bool const is_of_mode = info.belongs_to((info.modes & kBackward) != 0, problem.fused());
    if (!info.is_result() || !is_of_mode || tensor_strides(info.id) != group) continue;
    check_rows_apart(field, tensor_shape(problem, info.id));
  }
}

}  // namespace

Problem canonical_problem(const msda_problem* problem, std::pmr::memory_resource* memory) {
  msda_problem const in = read_struct(problem, "msda_problem");
  Problem out(memory);
  read_scalars(in, out);
  read_dtypes(in, out);
  read_levels(in, out);
  place_levels(in, out);
  read_grids(in, out);
  check_packed_sizes(out);
#define MSDA_STRIDES(name, tensors) \
  out.tensors = read_strides(#name, in.name, shape_of_group(out, &Problem::tensors));
#include "core/problem_fields.inc"
  check_strided_sizes(out);
#define MSDA_STRIDES(name, tensors) check_results_apart(#name, out, &Problem::tensors);
#include "core/problem_fields.inc"
  return out;
}

}  // namespace msda::api
