#include "command/problem/problem_shape.h"

#include "command/files/element_type.h"
#include "command/files/input_error.h"
#include "command/files/text_values.h"
#include "core/dtype.h"
#include "core/join.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace msda::command {
namespace {

std::string strides_word(const char* key, Strides3 const& strides) {
  return strides == Strides3{0, 0, 0} ? "" : fmt::format(" {}={}", key, join(strides, ","));
}

std::int64_t end_of(std::int64_t start, std::int64_t tokens) {
  std::int64_t end = 0;
  if (__builtin_add_overflow(start, tokens, &end)) {
    bad_input("the levels have more than 2^63 tokens");
  }
  return end;
}

using P = TensorColumns<ProblemShape>;
constexpr std::array<TensorRow, kTensorCount> kRows = {{
#define MSDA_TENSOR(name, id, axes, dtype, strides, modes, role) \
  {tensor_info(Tensor::id), member_or_null(&P::dtype), member_or_null(&P::strides##_strides)},
#include "core/tensors.inc"
#undef MSDA_TENSOR
}};

}  // namespace

std::string pairs_text(std::vector<std::int32_t> const& numbers) {
  std::vector<std::string> pairs;
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    pairs.push_back(fmt::format("{}x{}", numbers[i], numbers[i + 1]));
  }
  return join(pairs, ",");
}

std::vector<LevelShape> make_levels(std::vector<std::int32_t> const& level_hw,
                                    std::vector<std::int32_t> const& points) {
  std::vector<LevelShape> levels;
  for (std::size_t l = 0; l < level_hw.size() / 2; ++l) {
    levels.push_back({level_hw[2 * l], level_hw[2 * l + 1], points.at(points.size() == 1 ? 0 : l)});
  }
  return levels;
}

std::int64_t ProblemShape::level_tokens(LevelShape const& level) const {
  return (level.height + std::int64_t{2} * value_border) *
         (level.width + std::int64_t{2} * value_border);
}

std::vector<std::int64_t> ProblemShape::level_starts() const {
  if (!level_start.empty()) return level_start;
  std::vector<std::int64_t> starts;
  std::int64_t end = 0;
  for (LevelShape const& level : levels) {
    starts.push_back(end);
    end = end_of(end, level_tokens(level));
  }
  return starts;
}

std::int64_t ProblemShape::token_count() const {
  if (tokens != 0) return tokens;
  std::vector<std::int64_t> const starts = level_starts();
  std::int64_t last_end = 0;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    last_end = std::max(last_end, end_of(starts.at(l), level_tokens(levels[l])));
  }
  return last_end;
}

std::int64_t ProblemShape::point_total() const {
  std::int64_t count = 0;
  for (LevelShape const& level : levels) count += level.points;
  return count;
}

std::vector<std::int32_t> ProblemShape::level_hw() const {
  std::vector<std::int32_t> sizes;
  for (LevelShape const& level : levels) sizes.insert(sizes.end(), {level.height, level.width});
  return sizes;
}

std::vector<std::int32_t> ProblemShape::point_counts() const {
  std::vector<std::int32_t> counts;
  for (LevelShape const& level : levels) counts.push_back(level.points);
  return counts;
}

void ProblemShape::resolve_dtypes() {
  ProblemShape const& p = *this;
#define MSDA_DTYPE(name, otherwise) \
  if (name == MSDA_DTYPE_NONE) name = otherwise;
#include "core/problem_fields.inc"
}

void ProblemShape::set_dtypes(msda_dtype value) {
#define MSDA_DTYPE(name, otherwise) name = MSDA_DTYPE_NONE;
#include "core/problem_fields.inc"
  value_dtype = value;
  resolve_dtypes();
}

std::string ProblemShape::describe() const {
  std::string text = fmt::format(
      "batch={} queries={} heads={} channels={} levels={} points={} value_dtype={} coord_dtype={} "
      "weight_dtype={} output_dtype={}",
      batch, query_count, head_count, head_dim, pairs_text(level_hw()), join(point_counts(), ","),
      type_name(value_dtype), type_name(coord_dtype), type_name(weight_dtype),
      type_name(output_dtype));
  if (fused()) text += fmt::format(" fused={}", reference_dim);
  if (fused() && reference_dtype != coord_dtype) {
    text += fmt::format(" reference_dtype={}", type_name(reference_dtype));
  }
  if (value_border != 0) text += fmt::format(" value_border={}", value_border);
  if (!level_start.empty()) text += fmt::format(" level_start={}", join(level_start, ","));
  if (tokens != 0) text += fmt::format(" tokens={}", tokens);
  if (backward())
    text += fmt::format(" backward=1 grad_value_dtype={}", type_name(grad_value_dtype));
  if (math_mode == MSDA_MATH_FAST) text += " math=fast";
  if (determinism == MSDA_NONDETERMINISTIC) text += " determinism=none";
#define MSDA_STRIDES(name, tensors) text += strides_word(#name, name);
#include "core/problem_fields.inc"
  if (!query_hw.empty()) text += fmt::format(" query_hw={}", pairs_text(query_hw));
  if (point_locality != MSDA_POINTS_UNKNOWN) {
    text += fmt::format(" point_locality={}", locality_name(point_locality));
  }
  if (nearest()) text += " sampling=nearest";
  return text;
}

ProblemCopy ProblemShape::copy() const {
  ProblemCopy copy;
  copy.level_hw = level_hw();
  copy.point_counts = point_counts();
  copy.query_hw = query_hw;
  copy.level_start = level_start;
  msda_problem& c = copy.c;
  c.token_count = tokens;
  c.reference_dim = reference_dim;
  c.input_mode = fused() ? MSDA_INPUT_FUSED : MSDA_INPUT_SAMPLED;
#define MSDA_SIZE(name) c.name = name;
#define MSDA_STRIDES(name, tensors) std::ranges::copy(name, c.name);
#define MSDA_CHOICE(name, type, ...) c.name = name;
#define MSDA_DTYPE(name, otherwise) c.name = name;
#include "core/problem_fields.inc"
  copy.settle();
  return copy;
}

std::array<TensorRow, kTensorCount> const& tensor_rows() { return kRows; }

Shape tensor_shape(ProblemShape const& problem, TensorRow const& row) {
  constexpr std::string_view kAxes = "BSQMDLKR2";
  std::array<std::int64_t, kAxes.size()> const sizes = {
      problem.batch,         problem.token_count(), problem.query_count,
      problem.head_count,    problem.head_dim,      problem.level_count(),
      problem.point_total(), problem.reference_dim, 2};
  Shape shape;
  for (char const axis : row.axes) shape.push_back(sizes.at(kAxes.find(axis)));
  return shape;
}

msda_dtype tensor_type(ProblemShape const& problem, TensorRow const& row) {
  return row.dtype == nullptr ? MSDA_DTYPE_F32 : problem.*row.dtype;
}

std::size_t tensor_bytes(ProblemShape const& problem, TensorRow const& row) {
  return byte_count(tensor_shape(problem, row), type_bytes(tensor_type(problem, row)), row.name);
}

void set_pointer(msda_tensors& tensors, TensorId id, void* pointer) {
  auto* const fields = reinterpret_cast<std::byte*>(&tensors);
  std::memcpy(fields + tensor_info(id).field, &pointer, sizeof(pointer));
}

}  // namespace msda::command
