#include "contract/argument_rules.h"

#include "core/build_config.h"
#include "support/gpu_memory.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

namespace msda::test {
namespace {

constexpr std::int64_t kLargestStruct = 4096;
// Sizes up to here leave every tensor of the test's problem addressable, 2^62 of anything does not.
constexpr std::int64_t kLargestSize = std::int64_t{1} << 40;

Verdict right_if(bool right) {
  return right ? Verdict{MSDA_SUCCESS} : Verdict{MSDA_ERROR_INVALID_ARGUMENT};
}

Rule anything() {
  return [](std::int64_t) { return Verdict{MSDA_SUCCESS}; };
}
Rule between(std::int64_t least, std::int64_t most) {
  return [=](std::int64_t value) { return right_if(value >= least && value <= most); };
}
Rule one_of(std::initializer_list<std::int64_t> allowed) {
  return [list = std::vector<std::int64_t>(allowed)](std::int64_t value) {
    return right_if(std::find(list.begin(), list.end(), value) != list.end());
  };
}
// Bytes behind the struct that this version knows are zero in these tests.
template <typename T>
Rule struct_size(std::size_t first_size = sizeof(T)) {
  return between(static_cast<std::int64_t>(first_size), kLargestStruct);
}
// Bytes of the structs in 0.1, before they grew.
constexpr std::size_t kFirstProblemSize = 216;
constexpr std::size_t kFirstTensorsSize = 144;

bool aligned(std::int64_t address, std::int64_t to) { return address % to == 0; }
// The highest addresses: no tensor of the test fits behind them.
bool at_the_end(std::int64_t address) { return address < 0; }

Rule required_pointer(std::int64_t alignment) {
  return [=](std::int64_t address) {
    return right_if(address != 0 && aligned(address, alignment) && !at_the_end(address));
  };
}
Rule optional_pointer(std::int64_t alignment) {
  return [=](std::int64_t address) {
    return right_if(address == 0 || (aligned(address, alignment) && !at_the_end(address)));
  };
}
Rule null_only(std::string names = "") {
  return [=](std::int64_t address) {
    return address == 0 ? Verdict{MSDA_SUCCESS} : Verdict{MSDA_ERROR_INVALID_ARGUMENT, names};
  };
}

}  // namespace

Rules handle_options_rules() {
  return {
      {"struct_size", struct_size<msda_handle_options>()},
      {"log_fn", anything()},  // log_level is MSDA_LOG_OFF: never called
      {"log_user", anything()},
      {"alloc_fn", null_only()},  // without the other
      {"free_fn", null_only()},
      {"alloc_user", anything()},
      {"log_level", between(MSDA_LOG_OFF, MSDA_LOG_TRACE)},
      {"device",
       [](std::int64_t value) {
         if (value == MSDA_DEVICE_CPU) return Verdict{MSDA_SUCCESS};
         if (value < 0) return Verdict{MSDA_ERROR_INVALID_ARGUMENT};
         if (gpu_count() == 0) return Verdict{MSDA_ERROR_CUDA};
         return right_if(value < gpu_count());
       }},
      {"thread_count", between(0, 1024)},
      {"flags", one_of({0})},
  };
}

Rules problem_rules() {
  Rule const size = between(0, kLargestSize);
  Rule const wide_dtype =
      one_of({MSDA_DTYPE_NONE, MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16, MSDA_DTYPE_F64});
  return {
      {"struct_size", struct_size<msda_problem>(kFirstProblemSize)},
      {"level_hw", required_pointer(4)},
      {"point_counts", optional_pointer(4)},
      {"query_hw", null_only()},  // query_grid_count is 0
      {"batch",
       [size](std::int64_t v) {
         // Too large, it is the tensor that is named.
         return Verdict{size(v).status, v > 0 ? "bytes" : ""};
       }},
      {"query_count",
       [size](std::int64_t v) { return Verdict{size(v).status, v > 0 ? "bytes" : ""}; }},
      {"head_count",
       [size](std::int64_t v) { return Verdict{size(v).status, v > 0 ? "bytes" : ""}; }},
      {"head_dim",
       [size](std::int64_t v) { return Verdict{size(v).status, v > 0 ? "bytes" : ""}; }},
      {"value_strides",
       [size](std::int64_t v) { return Verdict{size(v).status, v > 0 ? "value" : ""}; }},
      {"coord_strides",
       [size](std::int64_t v) { return Verdict{size(v).status, v > 0 ? "coord" : ""}; }},
      {"weight_strides",
       [size](std::int64_t v) { return Verdict{size(v).status, v > 0 ? "weight" : ""}; }},
      // One of the three is set: what the other two leave at 0 would overlap.
      {"output_strides",
       [](std::int64_t v) { return Verdict{right_if(v == 0).status, v > 0 ? "output" : ""}; }},
      {"level_count", between(0, 65536)},
      {"point_count", between(0, INT32_MAX)},
      {"value_border", one_of({0, 1})},
      {"reference_dim", one_of({0})},
      {"operation", one_of({MSDA_FORWARD, MSDA_BACKWARD})},
      // Fused, a problem would need a reference_dim.
      {"input_mode",
       [](std::int64_t v) {
         return Verdict{right_if(v == MSDA_INPUT_SAMPLED).status,
                        v == MSDA_INPUT_FUSED ? "reference_dim" : ""};
       }},
      {"value_dtype", between(MSDA_DTYPE_F32, MSDA_DTYPE_F64)},
      {"coord_dtype", wide_dtype},
      {"weight_dtype", wide_dtype},
      {"output_dtype", wide_dtype},
      {"grad_value_dtype", wide_dtype},
      {"math_mode", one_of({MSDA_MATH_ACCURATE, MSDA_MATH_FAST})},
      {"determinism", one_of({MSDA_DETERMINISTIC, MSDA_NONDETERMINISTIC})},
      {"query_grid_count",
       [](std::int64_t v) { return Verdict{right_if(v == 0).status, v > 0 ? "query_hw" : ""}; }},
      {"point_locality", between(MSDA_POINTS_UNKNOWN, MSDA_POINTS_SCATTERED)},
      {"flags", one_of({0})},
      {"level_start", optional_pointer(8)},
      // The levels end at token 24. Too large, it is the tensor that is named.
      {"token_count",
       [](std::int64_t v) {
         return Verdict{right_if(v == 0 || (v >= 24 && v <= kLargestSize)).status,
                        v > kLargestSize ? "bytes" : ""};
       }},
      // One of the three is set: what the other two leave at 0 would overlap.
      {"grad_coord_strides",
       [](std::int64_t v) { return Verdict{right_if(v == 0).status, v > 0 ? "grad_coord" : ""}; }},
      {"grad_weight_strides",
       [](std::int64_t v) { return Verdict{right_if(v == 0).status, v > 0 ? "grad_weight" : ""}; }},
      {"sampling_mode", one_of({MSDA_SAMPLING_BILINEAR, MSDA_SAMPLING_NEAREST})},
      {"reference_dtype", wide_dtype},
  };
}

Rules plan_options_rules(std::int64_t right_text, std::size_t workspace_bytes) {
  bool const on_gpu = right_text == kGpuText;
  return {
      {"struct_size", struct_size<msda_plan_options>()},
      {"kernel_id",
       [=](std::int64_t text) {
         // The other device's kernel is one of the library's.
         bool const is_other =
             text == (on_gpu ? kCpuText : kGpuText) && (on_gpu || MSDA_HAS_CUDA != 0);
         if (is_other) return Verdict{MSDA_ERROR_UNSUPPORTED};
         return right_if(text == right_text);
       }},
      {"workspace_limit_bytes",
       [=](std::int64_t v) {
         bool const enough = v == 0 || static_cast<std::size_t>(v) >= workspace_bytes;
         return Verdict{enough ? MSDA_SUCCESS : MSDA_ERROR_UNSUPPORTED};
       }},
      {"mode",
       [](std::int64_t v) {
         bool const known = v >= MSDA_PLAN_HEURISTIC && v <= MSDA_PLAN_FORCED;
         return Verdict{right_if(v == MSDA_PLAN_FORCED).status, known ? "kernel_id" : ""};
       }},
      {"sm_count_limit", on_gpu ? between(0, INT32_MAX) : one_of({0})},
  };
}

Rules tuning_options_rules(std::int64_t right_text) {
  Rules rules = plan_options_rules(right_text, 0);
  rules["kernel_id"] = one_of({0});  // tuning chooses the kernel itself
  rules["mode"] = one_of({MSDA_PLAN_HEURISTIC, MSDA_PLAN_TUNED});
  return rules;
}

Rules plan_info_rules() {
  return {
      {"struct_size", struct_size<msda_plan_info>()},
      {"kernel_id", anything()},
      {"workspace_bytes", anything()},
      {"workspace_alignment", anything()},
      {"predicted_us", anything()},
      {"launch_count", anything()},
      {"is_deterministic", anything()},
  };
}

Rules kernel_info_rules() {
  return {
      {"struct_size", struct_size<msda_kernel_info>()},
      {"kernel_id", anything()},
      {"family", anything()},
      {"sm_min", anything()},
      {"sm_max", anything()},
  };
}

Rules tensors_rules(TensorsOf call, std::size_t workspace_bytes, std::int64_t grad_value_bytes) {
  bool const backward = call == TensorsOf::kBackward || call == TensorsOf::kFusedBackward;
  bool const fused = call == TensorsOf::kFusedForward || call == TensorsOf::kFusedBackward;
  Rule const sampled_input = fused ? anything() : required_pointer(4);
  Rule const fused_input = fused ? required_pointer(4) : anything();
  Rule const sampled_gradient = !backward ? anything() : fused ? null_only() : optional_pointer(4);
  Rule const fused_gradient = !backward ? anything() : fused ? optional_pointer(4) : null_only();
  return {
      {"struct_size", struct_size<msda_tensors>(kFirstTensorsSize)},
      {"value", required_pointer(4)},
      {"coord", sampled_input},
      {"weight", sampled_input},
      {"reference", fused_input},
      {"offset", fused_input},
      {"logit", fused_input},
      {"value_scale", null_only()},  // values are float32
      {"output", backward ? anything() : required_pointer(4)},
      {"grad_output", backward ? required_pointer(4) : anything()},
      {"grad_value", backward ? optional_pointer(grad_value_bytes) : anything()},
      {"grad_coord", sampled_gradient},
      {"grad_weight", sampled_gradient},
      {"grad_reference", fused_gradient},
      {"grad_offset", fused_gradient},
      {"grad_logit", fused_gradient},
      {"workspace", workspace_bytes > 0 ? required_pointer(256) : anything()},
      {"workspace_bytes",
       [=](std::int64_t v) {
         bool const enough = static_cast<std::size_t>(v) >= workspace_bytes;
         return Verdict{enough ? MSDA_SUCCESS : MSDA_ERROR_BUFFER_TOO_SMALL};
       }},
      {"attention", backward ? anything()
                    : fused  ? optional_pointer(4)
                             : null_only()},
  };
}

Rules sample_rules(bool has_workspace) {
  Rules rules = tensors_rules(TensorsOf::kForward, 0, 4);
  if (has_workspace) {
    rules["workspace"] = required_pointer(256);
  } else {
    rules["workspace_bytes"] = one_of({0});
  }
  return rules;
}

}  // namespace msda::test
