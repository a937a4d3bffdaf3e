#include "forms.h"

#include <cstring>
#include <limits>

namespace msda::ort {
namespace {

using plugins::check_dim;
using plugins::check_rank;
using plugins::described;
using plugins::read_points;
using plugins::refuse;

msda_dtype check_type(const Tensor& tensor, bool takes_float8) {
  const msda_dtype dtype = dtype_of(tensor.type);
  if (dtype == MSDA_DTYPE_NONE || (dtype == MSDA_DTYPE_F8_E4M3 && !takes_float8)) {
    refuse(std::string(tensor.name) + " is " + type_name(tensor.type) +
           ": must be float, float16, bfloat16" +
           (takes_float8 ? ", double or float8e4m3fn" : " or double"));
  }
  return dtype;
}

// The numbers of an integer tensor, 0 to `largest`.
std::vector<std::int64_t> read_integers(const Tensor& tensor, std::int64_t largest) {
  const bool is_wide = tensor.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
  if (!is_wide && tensor.type != ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32) {
    refuse(std::string(tensor.name) + " is " + type_name(tensor.type) + ": must be int32 or int64");
  }
  std::size_t count = 1;
  for (const std::int64_t dim : tensor.shape) count *= static_cast<std::size_t>(dim);
  std::vector<std::int64_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = is_wide ? static_cast<const std::int64_t*>(tensor.data)[i]
                         : static_cast<const std::int32_t*>(tensor.data)[i];
    if (numbers[i] < 0 || numbers[i] > largest) {
      refuse(std::string(tensor.name) + "[" + std::to_string(i) + "] is " +
             std::to_string(numbers[i]) + ": must be 0 to " + std::to_string(largest));
    }
  }
  return numbers;
}

void read_levels(const Inputs& inputs, OwnedProblem& out) {
  check_rank(inputs.levels, 2, "[L, 2], the height and width of each level");
  check_dim(inputs.levels, 1, 2, "height and width");
  for (const std::int64_t size :
       read_integers(inputs.levels, std::numeric_limits<std::int32_t>::max())) {
    out.level_hw.push_back(static_cast<std::int32_t>(size));
  }
  const std::size_t level_count = out.level_hw.size() / 2;
  std::int64_t end = 0;
  for (std::size_t l = 0; l < level_count; ++l) {
    std::int64_t tokens = 0;
    if (__builtin_mul_overflow(std::int64_t{out.level_hw[2 * l]}, out.level_hw[2 * l + 1],
                               &tokens) ||
        __builtin_add_overflow(end, tokens, &end)) {
      refuse(std::string(inputs.levels.name) + " has more pixels than an int64 counts");
    }
  }
  if (inputs.starts.value == nullptr) {
    check_dim(inputs.value, 1, end, (std::string("the pixels of ") + inputs.levels.name).c_str());
  } else {
    check_rank(inputs.starts, 1, "[L], the token at which each level starts");
    check_dim(inputs.starts, 0, static_cast<std::int64_t>(level_count), "one for each level");
    out.level_start = read_integers(inputs.starts, std::numeric_limits<std::int64_t>::max());
  }
}

// References of groups, which the points of each level take in turn.
void check_groups(const Tensor& reference, const msda_problem& problem) {
  const char* const wanted = "[B, Q, 1, 2 G]";
  check_rank(reference, 4, wanted);
  check_dim(reference, 0, problem.batch, "the batch of value");
  check_dim(reference, 1, problem.query_count, "the queries");
  check_dim(reference, 2, 1, "as points are the same on each level");
  const std::int64_t last = reference.shape[3];
  if (last < 2 || last % 2 != 0 || problem.point_count % (last / 2) != 0) {
    refuse(described(reference) + ": must be " + wanted + ", with G such that it divides the " +
           std::to_string(problem.point_count) + " points of a level");
  }
}

}  // namespace

const std::vector<Form>& forms() {
  using R = Role;
  static const std::vector<Form> list{
      {"MSDeformAttn",
       {"msda"},
       {R::kValue, R::kLevels, R::kCoord, R::kWeight, R::kScale},
       4,
       false,
       true},
      {"MSDeformAttnFused",
       {"msda"},
       {R::kValue, R::kLevels, R::kReference, R::kOffset, R::kLogit, R::kScale},
       5,
       false,
       true},
      // NVIDIA's plugin, of TAO's exports and hand-written ones. Not in com.microsoft, where some
      // have it: the host would no longer find operators of its own there, such as FusedConv.
      // libmsda.onnx.rewrite() takes those.
      {"MultiscaleDeformableAttnPlugin_TRT",
       {"", "TRT", "nvidia"},
       {R::kValue, R::kLevels, R::kStarts, R::kCoord, R::kWeight},
       5,
       false,
       true},
      {"MMCVMultiScaleDeformableAttention",
       {"mmdeploy", "mmcv", ""},
       {R::kValue, R::kLevels, R::kStarts, R::kCoord, R::kWeight},
       5,
       true,
       true},
      // BEVFormer_tensorrt, UniAD. With four inputs locations and weights; with five references,
      // offsets and logits. Where the library has no kernel for references of groups, a model on
      // CUDA runs them on the CPU.
      {"MultiScaleDeformableAttnTRT",
       {""},
       {R::kValue, R::kLevels, R::kReference, R::kOffset, R::kFifth},
       4,
       false,
       false},
      {"MultiScaleDeformableAttnTRT2",
       {""},
       {R::kValue, R::kLevels, R::kReference, R::kOffset, R::kFifth},
       4,
       false,
       false},
  };
  return list;
}

Inputs sort_inputs(const Form& form, const std::vector<Tensor>& given) {
  Inputs inputs;
  const auto at = [&](Role role) -> Tensor& {
    switch (role) {
      case Role::kValue:
        return inputs.value;
      case Role::kLevels:
        return inputs.levels;
      case Role::kStarts:
        return inputs.starts;
      case Role::kCoord:
        return inputs.coord;
      case Role::kWeight:
        return inputs.weight;
      case Role::kReference:
        return inputs.reference;
      case Role::kOffset:
        return inputs.offset;
      case Role::kScale:
        return inputs.scale;
      default:
        return inputs.logit;
    }
  };
  const bool is_grouped_form = form.inputs.back() == Role::kFifth;
  const bool has_five = given.size() == 5 && given[4].value != nullptr;
  for (std::size_t i = 0; i < form.inputs.size() && i < given.size(); ++i) {
    Role role = form.inputs[i];
    if (is_grouped_form && !has_five && role == Role::kReference) role = Role::kCoord;
    if (is_grouped_form && !has_five && role == Role::kOffset) role = Role::kWeight;
    at(role) = given[i];
  }
  inputs.is_grouped = is_grouped_form && has_five;
  inputs.is_fused = inputs.is_grouped || (!is_grouped_form && form.inputs[2] == Role::kReference);
  inputs.value.name = "value";
  inputs.levels.name = form.domains[0] == std::string("msda") ? "level_hw" : "spatial_shapes";
  inputs.starts.name = "level_start_index";
  inputs.coord.name = form.domains[0] == std::string("msda") ? "coord" : "sampling_locations";
  inputs.weight.name = form.domains[0] == std::string("msda") ? "weight" : "attention_weights";
  inputs.reference.name = "reference";
  inputs.offset.name = "offset";
  inputs.logit.name = "logit";
  inputs.scale.name = "value_scale";
  return inputs;
}

void read_problem(const Inputs& inputs, const Attributes& attributes, OwnedProblem& out) {
  check_rank(inputs.value, 4, "[B, S, M, D]");
  read_levels(inputs, out);
  msda_problem& problem = out.problem;
  problem.level_hw = out.level_hw.data();
  problem.level_count = static_cast<std::int32_t>(out.level_hw.size() / 2);
  if (!out.level_start.empty()) problem.level_start = out.level_start.data();
  problem.batch = inputs.value.shape[0];
  problem.token_count = inputs.value.shape[1];
  problem.head_count = inputs.value.shape[2];
  problem.head_dim = inputs.value.shape[3];
  problem.value_dtype = check_type(inputs.value, true);
  problem.math_mode = attributes.math_mode;
  problem.point_locality = attributes.point_locality;
  problem.sampling_mode = attributes.sampling_mode;

  const Tensor& point = inputs.is_fused ? inputs.offset : inputs.coord;
  const Tensor& weight = inputs.is_fused ? inputs.logit : inputs.weight;
  problem.coord_dtype = check_type(point, false);
  problem.weight_dtype = check_type(weight, false);
  std::int64_t total = 0;
  if (inputs.is_grouped) {  // [B, Q, M, L P 2] and [B, Q, M, L P]
    check_rank(point, 4, "[B, Q, M, 2 L P]");
    problem.query_count = point.shape[1];
    total = read_points(weight, 0, problem);
    check_dim(point, 0, problem.batch, "the batch of value");
    check_dim(point, 2, problem.head_count, "the heads of value");
    check_dim(point, 3, 2 * total, "two for each number of logit");
    problem.coord_dtype = problem.weight_dtype = MSDA_DTYPE_F32;  // they are computed here
    check_type(inputs.reference, false);
  } else {
    if (point.shape.size() < 2) check_rank(point, 5, "[B, Q, M, K, 2] or [B, Q, M, L, P, 2]");
    problem.query_count = point.shape[1];
    total = read_points(point, 1, problem);
    if (read_points(weight, 0, problem) != total) {
      refuse(described(weight) + ": must have the " + std::to_string(total) + " points of " +
             point.name);
    }
  }
  plugins::share_points(point, total, attributes.points, problem);
  if (inputs.is_grouped) {
    check_groups(inputs.reference, problem);
  } else if (inputs.is_fused) {
    plugins::read_reference(inputs.reference, problem);
    problem.reference_dtype = check_type(inputs.reference, false);
  }
  if (inputs.scale.value != nullptr) {
    check_rank(inputs.scale, 1, "[M]");
    check_dim(inputs.scale, 0, problem.head_count, "the heads of value");
    if (inputs.scale.type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
      refuse(std::string("value_scale is ") + type_name(inputs.scale.type) + ": must be float");
    }
  }
}

Tensor output_of(const Form& form, const Inputs& inputs) {
  const Tensor& point = inputs.is_fused ? inputs.offset : inputs.coord;
  Tensor output;
  for (const ValueType& type : kValueTypes) {
    if (type.value == inputs.value.type) output.type = type.output;
  }
  const auto add = [&output](const Tensor& tensor, std::size_t axis) {
    const bool is_known = axis < tensor.shape.size();
    output.shape.push_back(is_known ? tensor.shape[axis] : -1);
    output.symbols.push_back(is_known && axis < tensor.symbols.size() ? tensor.symbols[axis] : "");
  };
  add(inputs.value, 0);
  add(point, 1);
  add(inputs.value, 2);
  add(inputs.value, 3);
  // BEVFormer's first version, which has four inputs, merges heads, too.
  const bool is_first_trt = form.inputs.back() == Role::kFifth && !inputs.is_grouped;
  if (form.merges_heads || is_first_trt) {
    const bool is_known = output.shape[2] >= 0 && output.shape[3] >= 0;
    output.shape[2] = is_known ? output.shape[2] * output.shape[3] : -1;
    output.symbols[2].clear();
    output.shape.pop_back();
    output.symbols.pop_back();
  }
  return output;
}

}  // namespace msda::ort
