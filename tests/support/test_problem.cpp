#include "support/test_problem.h"

#include <fmt/core.h>

#include <algorithm>

namespace msda::test {
namespace {

const std::array<TensorRow, kTensorIdCount> kTensorRows = {{
    // id, name, forward, backward, sampled, fused, result
    {TensorId::kValue, "value", true, true, true, true, false},
    {TensorId::kCoord, "coord", true, true, true, false, false},
    {TensorId::kWeight, "weight", true, true, true, false, false},
    {TensorId::kReference, "reference", true, true, false, true, false},
    {TensorId::kOffset, "offset", true, true, false, true, false},
    {TensorId::kLogit, "logit", true, true, false, true, false},
    {TensorId::kValueScale, "value_scale", true, true, true, true, false},
    {TensorId::kGradOutput, "grad_output", false, true, true, true, false},
    {TensorId::kOutput, "output", true, false, true, true, true},
    {TensorId::kGradValue, "grad_value", false, true, true, true, true},
    {TensorId::kGradCoord, "grad_coord", false, true, true, false, true},
    {TensorId::kGradWeight, "grad_weight", false, true, true, false, true},
    {TensorId::kGradReference, "grad_reference", false, true, false, true, true},
    {TensorId::kGradOffset, "grad_offset", false, true, false, true, true},
    {TensorId::kGradLogit, "grad_logit", false, true, false, true, true},
}};

std::string list(std::vector<std::int32_t> const& numbers, const char* separators) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    text += fmt::format("{}{}", numbers[i], i + 1 == numbers.size() ? ' ' : separators[i % 2]);
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::string strides_word(const char* key, Strides3 const& strides) {
  if (strides == Strides3{0, 0, 0}) return "";
  return fmt::format(" {}={},{},{}", key, strides[0], strides[1], strides[2]);
}

}  // namespace

std::int64_t ProblemShape::level_tokens(LevelShape const& level) const {
  return (level.height + std::int64_t{2} * value_border) *
         (level.width + std::int64_t{2} * value_border);
}

std::int64_t ProblemShape::token_count() const {
  std::int64_t count = 0;
  for (LevelShape const& level : levels) count += level_tokens(level);
  return count;
}

std::int64_t ProblemShape::point_total() const {
  std::int64_t count = 0;
  for (LevelShape const& level : levels) count += level.points;
  return count;
}

void ProblemShape::set_dtypes(msda_dtype value) {
  value_dtype = value;
  coord_dtype = weight_dtype = value == MSDA_F64 ? MSDA_F64 : MSDA_F32;
  output_dtype = grad_value_dtype = value == MSDA_F8_E4M3 ? MSDA_F32 : value;
}

std::string ProblemShape::describe() const {
  std::vector<std::int32_t> hw, points;
  for (LevelShape const& level : levels) {
    hw.insert(hw.end(), {level.height, level.width});
    points.push_back(level.points);
  }
  std::string text = fmt::format(
      "batch={} queries={} heads={} channels={} levels={} points={} value_dtype={} coord_dtype={} "
      "weight_dtype={} output_dtype={}",
      batch, query_count, head_count, head_dim, list(hw, "x,"), list(points, ",,"),
      type_name(value_dtype), type_name(coord_dtype), type_name(weight_dtype),
      type_name(output_dtype));
  if (fused()) text += fmt::format(" fused={}", reference_dim);
  if (value_border != 0) text += fmt::format(" value_border={}", value_border);
  if (backward())
    text += fmt::format(" backward=1 grad_value_dtype={}", type_name(grad_value_dtype));
  if (math_mode == MSDA_MATH_FAST) text += " math=fast";
  text += strides_word("value_strides", value_strides);
  text += strides_word("coord_strides", coord_strides);
  text += strides_word("weight_strides", weight_strides);
  text += strides_word("output_strides", output_strides);
  if (!query_hw.empty()) text += fmt::format(" query_hw={}", list(query_hw, "x,"));
  return text;
}

std::array<TensorRow, kTensorIdCount> const& tensor_rows() { return kTensorRows; }

TensorLayout layout_of(ProblemShape const& s, TensorId id) {
  auto const make = [](msda_dtype dtype, std::array<std::int64_t, 4> dims, Strides3 strides = {}) {
    return TensorLayout{dtype, dims, strides == Strides3{0, 0, 0} ? packed(dims) : strides};
  };
  std::int64_t const B = s.batch, Q = s.query_count, M = s.head_count, D = s.head_dim;
  std::int64_t const K = s.point_total(), L = static_cast<std::int64_t>(s.levels.size());
  switch (id) {
    case TensorId::kValue:
      return make(s.value_dtype, {B, s.token_count(), M, D}, s.value_strides);
    case TensorId::kCoord:
    case TensorId::kOffset:
      return make(s.coord_dtype, {B, Q, M, 2 * K}, s.coord_strides);
    case TensorId::kWeight:
    case TensorId::kLogit:
      return make(s.weight_dtype, {B, Q, M, K}, s.weight_strides);
    case TensorId::kReference:
    case TensorId::kGradReference:
      return make(s.coord_dtype, {B, Q, L, s.reference_dim});
    case TensorId::kValueScale:
      return make(MSDA_F32, {1, 1, 1, M});
    case TensorId::kOutput:
    case TensorId::kGradOutput:
      return make(s.output_dtype, {B, Q, M, D}, s.output_strides);
    case TensorId::kGradValue:
      return make(s.grad_value_dtype, {B, s.token_count(), M, D});
    case TensorId::kGradCoord:
    case TensorId::kGradOffset:
      return make(s.coord_dtype, {B, Q, M, 2 * K});
    case TensorId::kGradWeight:
    case TensorId::kGradLogit:
      return make(s.weight_dtype, {B, Q, M, K});
  }
  return {};
}

void set_pointer(msda_tensors& t, TensorId id, void* pointer) {
  switch (id) {
    case TensorId::kValue:
      t.value = pointer;
      return;
    case TensorId::kCoord:
      t.coord = pointer;
      return;
    case TensorId::kWeight:
      t.weight = pointer;
      return;
    case TensorId::kReference:
      t.reference = pointer;
      return;
    case TensorId::kOffset:
      t.offset = pointer;
      return;
    case TensorId::kLogit:
      t.logit = pointer;
      return;
    case TensorId::kValueScale:
      t.value_scale = static_cast<const float*>(pointer);
      return;
    case TensorId::kGradOutput:
      t.grad_output = pointer;
      return;
    case TensorId::kOutput:
      t.output = pointer;
      return;
    case TensorId::kGradValue:
      t.grad_value = pointer;
      return;
    case TensorId::kGradCoord:
      t.grad_coord = pointer;
      return;
    case TensorId::kGradWeight:
      t.grad_weight = pointer;
      return;
    case TensorId::kGradReference:
      t.grad_reference = pointer;
      return;
    case TensorId::kGradOffset:
      t.grad_offset = pointer;
      return;
    case TensorId::kGradLogit:
      t.grad_logit = pointer;
      return;
  }
}

void TestProblem::settle() {
  for (TensorRow const& row : kTensorRows) {
    if (row.is_result || inputs[row.id].empty()) continue;
    HostTensor storage(layout_of(shape, row.id));
    storage.set_values(inputs[row.id]);
    inputs[row.id] = storage.values();
  }
}

ProblemView::ProblemView(ProblemShape const& shape) : c{}, query_hw_(shape.query_hw) {
  for (LevelShape const& level : shape.levels) {
    level_hw_.insert(level_hw_.end(), {level.height, level.width});
    point_counts_.push_back(level.points);
  }
  c.struct_size = sizeof(c);
  c.level_hw = level_hw_.data();
  c.point_counts = point_counts_.data();
  c.query_hw = query_hw_.empty() ? nullptr : query_hw_.data();
  c.batch = shape.batch;
  c.query_count = shape.query_count;
  c.head_count = shape.head_count;
  c.head_dim = shape.head_dim;
  std::copy_n(shape.value_strides.begin(), 3, c.value_strides);
  std::copy_n(shape.coord_strides.begin(), 3, c.coord_strides);
  std::copy_n(shape.weight_strides.begin(), 3, c.weight_strides);
  std::copy_n(shape.output_strides.begin(), 3, c.output_strides);
  c.level_count = static_cast<std::int32_t>(shape.levels.size());
  c.value_border = shape.value_border;
  c.reference_dim = shape.reference_dim;
  c.operation = shape.operation;
  c.input_mode = shape.fused() ? MSDA_INPUT_FUSED : MSDA_INPUT_SAMPLED;
  c.value_dtype = shape.value_dtype;
  c.coord_dtype = shape.coord_dtype;
  c.weight_dtype = shape.weight_dtype;
  c.output_dtype = shape.output_dtype;
  c.grad_value_dtype = shape.grad_value_dtype;
  c.math_mode = shape.math_mode;
  c.determinism = shape.determinism;
  c.query_grid_count = static_cast<std::int32_t>(query_hw_.size() / 2);
}

}  // namespace msda::test
