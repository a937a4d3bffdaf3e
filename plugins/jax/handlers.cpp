/**
 * @file handlers.cpp
 * libmsda as custom calls of XLA, for libmsda.jax: a handler for each platform, operation and way
 * to give the points.
 *
 *     msda_jax_cpu_forward     msda_jax_cpu_backward     msda_jax_cpu_forward_fused
 * ..._backward_fused msda_jax_cuda_forward    msda_jax_cuda_backward    ...
 *
 * Operands, packed: value, then coord and weight or reference, offset and logit; grad_output where
 * gradients are computed; value_scale [M] where there is one. Results: output, or those gradients
 * that the attribute `wanted` has a bit for, in the order of their inputs; then the workspace, as
 * bytes. It is a result and no scratch memory of the call, because a command buffer runs the
 * kernels again when scratch memory has another owner. The other attributes are fields of
 * msda_problem, and `kernel_id` and `threads`.
 *
 * Only XLA's C interface is used, of which every release has had the same layout. With it one file
 * serves all of them; XLA's C++ headers serve the release that they came with.
 */
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>

#include "common/plan_cache.h"
#include "msda.hpp"
#include "xla/ffi/api/c_api.h"

namespace {

struct Target {
  bool on_cuda;
  msda_operation operation;
  msda_input_mode input_mode;
};

/** A failure that is XLA's or the caller's of a handler, not the library's. */
class CallError : public std::runtime_error {
 public:
  explicit CallError(const std::string& message) : std::runtime_error("libmsda.jax: " + message) {}
};

XLA_FFI_Error* make_error(const XLA_FFI_Api* api, XLA_FFI_Error_Code code, const char* message) {
  XLA_FFI_Error_Create_Args args{XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, message, code};
  return api->XLA_FFI_Error_Create(&args);
}

XLA_FFI_Error_Code code_of(msda_status status) {
  switch (status) {
    case MSDA_ERROR_INVALID_ARGUMENT:
      return XLA_FFI_Error_Code_INVALID_ARGUMENT;
    case MSDA_ERROR_UNSUPPORTED:
      return XLA_FFI_Error_Code_UNIMPLEMENTED;
    case MSDA_ERROR_OUT_OF_MEMORY:
      return XLA_FFI_Error_Code_RESOURCE_EXHAUSTED;
    default:
      return XLA_FFI_Error_Code_INTERNAL;
  }
}

/** A failure that XLA reported, and gets back. */
struct XlaError {
  XLA_FFI_Error* error;
};

void check_xla(XLA_FFI_Error* error) {
  if (error != nullptr) throw XlaError{error};
}

// ---- attributes
// ----------------------------------------------------------------------------------

template <typename T>
struct Array {
  const T* data;
  std::int64_t size;
};

class Attributes {
 public:
  explicit Attributes(const XLA_FFI_Attrs& attrs) : attrs_(attrs) {}

  std::int32_t number(std::string_view name) const {
    const auto* scalar = static_cast<XLA_FFI_Scalar*>(find(name, XLA_FFI_AttrType_SCALAR));
    check_type(name, scalar->dtype, XLA_FFI_DataType_S32);
    return *static_cast<const std::int32_t*>(scalar->value);
  }

  /** An array that is empty is no array. */
  template <typename T>
  Array<T> array(std::string_view name) const {
    const auto* array = static_cast<XLA_FFI_Array*>(find(name, XLA_FFI_AttrType_ARRAY));
    check_type(name, array->dtype, sizeof(T) == 4 ? XLA_FFI_DataType_S32 : XLA_FFI_DataType_S64);
    const auto size = static_cast<std::int64_t>(array->size);
    return {size == 0 ? nullptr : static_cast<const T*>(array->data), size};
  }

  std::string text(std::string_view name) const {
    const auto* span = static_cast<XLA_FFI_ByteSpan*>(find(name, XLA_FFI_AttrType_STRING));
    return {span->ptr, span->len};
  }

 private:
  void* find(std::string_view name, XLA_FFI_AttrType type) const {
    for (std::int64_t i = 0; i < attrs_.size; ++i) {
      const XLA_FFI_ByteSpan& found = *attrs_.names[i];
      if (std::string_view(found.ptr, found.len) == name && attrs_.types[i] == type) {
        return attrs_.attrs[i];
      }
    }
    throw CallError("there is no attribute '" + std::string(name) +
                    "' of the right kind: libmsda_jax.so is of another version than the package");
  }

  static void check_type(std::string_view name, XLA_FFI_DataType found, XLA_FFI_DataType wanted) {
    if (found != wanted)
      throw CallError("the attribute '" + std::string(name) + "' has a wrong type");
  }

  const XLA_FFI_Attrs& attrs_;
};

// ---- buffers
// -------------------------------------------------------------------------------------

using Shape = std::initializer_list<std::int64_t>;

msda_dtype dtype_of(const char* name, XLA_FFI_DataType type) {
  switch (type) {
    case XLA_FFI_DataType_F64:
      return MSDA_DTYPE_F64;
    case XLA_FFI_DataType_F32:
      return MSDA_DTYPE_F32;
    case XLA_FFI_DataType_F16:
      return MSDA_DTYPE_F16;
    case XLA_FFI_DataType_BF16:
      return MSDA_DTYPE_BF16;
    case XLA_FFI_DataType_F8E4M3FN:
      return MSDA_DTYPE_F8_E4M3;
    default:
      throw CallError(std::string(name) + " has an element type that the library does not know");
  }
}

/** Operands or results, taken one after the other. */
class Buffers {
 public:
  Buffers(std::int64_t count, void** buffers) : count_(count), buffers_(buffers) {}

  const XLA_FFI_Buffer& next(const char* name, std::int64_t rank) {
    if (taken_ == count_) throw CallError(std::string(name) + " is missing");
    const auto& buffer = *static_cast<XLA_FFI_Buffer*>(buffers_[taken_++]);
    if (buffer.rank != rank) {
      throw CallError(std::string(name) + " has " + std::to_string(buffer.rank) +
                      " axes: must have " + std::to_string(rank));
    }
    return buffer;
  }

  std::int64_t left() const { return count_ - taken_; }

 private:
  std::int64_t count_, taken_ = 0;
  void** buffers_;
};

void check_shape(const char* name, const XLA_FFI_Buffer& buffer, Shape shape) {
  const std::int64_t* dim = buffer.dims;
  for (const std::int64_t size : shape) {
    if (*dim++ != size) {
      throw CallError("axis " + std::to_string(dim - buffer.dims - 1) + " of " + name + " is " +
                      std::to_string(dim[-1]) + ": must be " + std::to_string(size));
    }
  }
}

// ---- a call
// --------------------------------------------------------------------------------------

/** A call's problem with the arrays that it points to, and its tensors without the workspace. */
struct Call {
  msda_problem problem = msda::make<msda_problem>();
  msda_tensors tensors = msda::make<msda_tensors>();
  XLA_FFI_Buffer workspace{};
};

void read_attributes(const Attributes& attributes, msda_problem& problem) {
  const auto level_hw = attributes.array<std::int32_t>("level_hw");
  const auto points = attributes.array<std::int32_t>("point_counts");
  const auto grids = attributes.array<std::int32_t>("query_hw");
  const auto starts = attributes.array<std::int64_t>("level_start");
  if (level_hw.size != 2 * points.size || grids.size % 2 != 0 ||
      (starts.size != 0 && starts.size != points.size)) {
    throw CallError("level_hw, point_counts, level_start and query_hw do not fit one another");
  }
  problem.level_hw = level_hw.data;
  problem.point_counts = points.data;
  problem.level_count = static_cast<std::int32_t>(points.size);
  problem.query_hw = grids.data;
  problem.query_grid_count = static_cast<std::int32_t>(grids.size / 2);
  problem.level_start = starts.data;
  problem.value_border = attributes.number("value_border");
  problem.math_mode = attributes.number("math_mode");
  problem.point_locality = attributes.number("point_locality");
  problem.determinism = attributes.number("determinism");
  problem.sampling_mode = attributes.number("sampling_mode");
}

void take_inputs(Buffers& operands, Call& call) {
  auto& [problem, tensors, workspace] = call;
  const bool fused = problem.input_mode == MSDA_INPUT_FUSED;
  const char *const point_name = fused ? "offset" : "coord", *const weight_name =
                                                                 fused ? "logit" : "weight";
  const XLA_FFI_Buffer& value = operands.next("value", 4);
  const XLA_FFI_Buffer* reference = fused ? &operands.next("reference", 4) : nullptr;
  const XLA_FFI_Buffer& point = operands.next(point_name, 5);
  const XLA_FFI_Buffer& weight = operands.next(weight_name, 4);
  const std::int64_t B = problem.batch = value.dims[0], M = problem.head_count = value.dims[2];
  const std::int64_t Q = problem.query_count = point.dims[1];
  const std::int64_t K = std::accumulate(
      problem.point_counts, problem.point_counts + problem.level_count, std::int64_t{0});
  problem.token_count = value.dims[1];
  problem.head_dim = value.dims[3];
  problem.value_dtype = dtype_of("value", value.dtype);
  problem.coord_dtype = dtype_of(point_name, point.dtype);
  problem.weight_dtype = dtype_of(weight_name, weight.dtype);
  check_shape(point_name, point, {B, Q, M, K, 2});
  check_shape(weight_name, weight, {B, Q, M, K});
  tensors.value = value.data;
  (fused ? tensors.offset : tensors.coord) = point.data;
  (fused ? tensors.logit : tensors.weight) = weight.data;
  if (reference != nullptr) {
    problem.reference_dim = static_cast<std::int32_t>(reference->dims[3]);
    check_shape("reference", *reference, {B, Q, problem.level_count});
    problem.reference_dtype = dtype_of("reference", reference->dtype);
    tensors.reference = reference->data;
  }
}

/** Gradients are results in the order of their inputs; bit i of `wanted` is that of input i. */
void take_gradients(Buffers& results, std::int32_t wanted, Call& call) {
  auto& [problem, tensors, workspace] = call;
  const std::int64_t B = problem.batch, Q = problem.query_count, M = problem.head_count;
  const std::int64_t K = std::accumulate(
      problem.point_counts, problem.point_counts + problem.level_count, std::int64_t{0});
  const auto take = [&](const char* name, msda_dtype dtype, Shape shape) -> void* {
    const bool is_wanted = (wanted & 1) != 0;
    wanted >>= 1;
    if (!is_wanted) return nullptr;
    const XLA_FFI_Buffer& found = results.next(name, static_cast<std::int64_t>(shape.size()));
    check_shape(name, found, shape);
    if (dtype == MSDA_DTYPE_NONE) {
      problem.grad_value_dtype = dtype_of(name, found.dtype);
    } else if (dtype_of(name, found.dtype) != dtype) {
      throw CallError(std::string(name) + " has not the type of its input");
    }
    return found.data;
  };
  tensors.grad_value =
      take("grad_value", MSDA_DTYPE_NONE, {B, problem.token_count, M, problem.head_dim});
  if (problem.input_mode == MSDA_INPUT_SAMPLED) {
    tensors.grad_coord = take("grad_coord", problem.coord_dtype, {B, Q, M, K, 2});
    tensors.grad_weight = take("grad_weight", problem.weight_dtype, {B, Q, M, K});
  } else {
    tensors.grad_reference = take("grad_reference", problem.reference_dtype,
                                  {B, Q, problem.level_count, problem.reference_dim});
    tensors.grad_offset = take("grad_offset", problem.coord_dtype, {B, Q, M, K, 2});
    tensors.grad_logit = take("grad_logit", problem.weight_dtype, {B, Q, M, K});
  }
}

Call read_call(const Target& target, const XLA_FFI_CallFrame& frame, const Attributes& attributes) {
  Call call;
  auto& [problem, tensors, workspace] = call;
  problem.operation = target.operation;
  problem.input_mode = target.input_mode;
  read_attributes(attributes, problem);
  Buffers operands(frame.args.size, frame.args.args), results(frame.rets.size, frame.rets.rets);
  take_inputs(operands, call);
  const bool backward = target.operation == MSDA_BACKWARD;
  const char* const name = backward ? "grad_output" : "output";
  const XLA_FFI_Buffer& output = (backward ? operands : results).next(name, 4);
  check_shape(name, output,
              {problem.batch, problem.query_count, problem.head_count, problem.head_dim});
  problem.output_dtype = dtype_of(name, output.dtype);
  if (backward) {
    tensors.grad_output = output.data;
    take_gradients(results, attributes.number("wanted"), call);
  } else {
    tensors.output = output.data;
  }
  if (operands.left() > 0) {
    const XLA_FFI_Buffer& scale = operands.next("value_scale", 1);
    check_shape("value_scale", scale, {problem.head_count});
    if (scale.dtype != XLA_FFI_DataType_F32) throw CallError("value_scale is not of float32");
    tensors.value_scale = static_cast<const float*>(scale.data);
  }
  workspace = results.next("workspace", 1);
  if (operands.left() + results.left() > 0) throw CallError("there are more buffers than expected");
  return call;
}

/** The CPU, or the GPU that XLA runs the call on. */
msda_handle_options device_of(const Target& target, const XLA_FFI_CallFrame& frame,
                              std::int32_t threads) {
  auto options = msda::make<msda_handle_options>();
  if (!target.on_cuda) {
    options.device = MSDA_DEVICE_CPU;
    options.thread_count = threads;
    return options;
  }
  if (frame.api->struct_size < XLA_FFI_Api_STRUCT_SIZE) {
    throw CallError("this release of JAX does not tell which GPU a call runs on: use a newer one");
  }
  XLA_FFI_DeviceOrdinal_Get_Args get{XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE, nullptr, frame.ctx,
                                     0};
  check_xla(frame.api->XLA_FFI_DeviceOrdinal_Get(&get));
  options.device = get.device_ordinal;
  return options;
}

msda_stream stream_of(const Target& target, const XLA_FFI_CallFrame& frame) {
  if (!target.on_cuda) return nullptr;
  XLA_FFI_Stream_Get_Args get{XLA_FFI_Stream_Get_Args_STRUCT_SIZE, nullptr, frame.ctx, nullptr};
  check_xla(frame.api->XLA_FFI_Stream_Get(&get));
  return static_cast<msda_stream>(get.stream);
}

/** Neither cache is ever destroyed: when the process ends, the driver may be gone before. A plan of
 *  a GPU is never dropped, since a command buffer may run its kernels again at any time. */
msda::plugins::PlanCache& plans_of(const Target& target) {
  static auto& of_cpu = *new msda::plugins::PlanCache;
  static auto& of_cuda = *new msda::plugins::PlanCache(std::numeric_limits<std::size_t>::max());
  return target.on_cuda ? of_cuda : of_cpu;
}

/** Plans the call, and but for XLA's stage before the execution runs it. */
void run(const Target& target, const XLA_FFI_CallFrame& frame) {
  const bool executes = frame.stage == XLA_FFI_ExecutionStage_EXECUTE;
  if (!executes && frame.args.size == 0)
    return;  // a release of XLA without arguments in that stage
  const Attributes attributes(frame.attrs);
  Call call = read_call(target, frame, attributes);
  auto options = msda::make<msda_plan_options>();
  const std::string kernel_id = attributes.text("kernel_id");
  if (!kernel_id.empty()) {
    options.mode = MSDA_PLAN_FORCED;
    options.kernel_id = kernel_id.c_str();
  }
  const auto device = device_of(target, frame, attributes.number("threads"));
  const auto prepared = plans_of(target).get(call.problem, options, device);
  if (!executes) return;
  const msda_plan_info& info = prepared->info;
  if (info.workspace_bytes > 0) {
    call.tensors.workspace = call.workspace.data;
    std::size_t space = static_cast<std::size_t>(call.workspace.dims[0]);
    if (std::align(info.workspace_alignment, info.workspace_bytes, call.tensors.workspace, space) ==
        nullptr) {
      throw CallError("the workspace has " + std::to_string(call.workspace.dims[0]) +
                      " bytes, and " + info.kernel_id + " needs " +
                      std::to_string(info.workspace_bytes) +
                      " here: the program was compiled for another device or number of threads");
    }
    call.tensors.workspace_bytes = space;
  }
  prepared->plan.execute(call.tensors, stream_of(target, frame));
}

/** The minor version of XLA's interface that handlers are said to be of. */
std::atomic<int> interface_minor = XLA_FFI_API_MINOR;

/** Tells XLA what the handler is. Nothing of the frame but the extension is set by then in jaxlib
 * 0.4.36. */
XLA_FFI_Error* describe(const Target& target, XLA_FFI_Metadata& metadata) {
  metadata.api_version.major_version = XLA_FFI_API_MAJOR;
  metadata.api_version.minor_version = interface_minor;
  if (target.on_cuda) metadata.traits = XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE;
  return nullptr;
}

XLA_FFI_Error* handle(const Target& target, XLA_FFI_CallFrame* frame) noexcept {
  const XLA_FFI_Extension_Base* const extension = frame->extension_start;
  if (extension != nullptr && extension->type == XLA_FFI_Extension_Metadata) {
    return describe(target,
                    *reinterpret_cast<const XLA_FFI_Metadata_Extension*>(extension)->metadata);
  }
  try {
    run(target, *frame);
    return nullptr;
  } catch (const msda::Error& error) {
    return make_error(frame->api, code_of(error.status()), error.what());
  } catch (const XlaError& error) {
    return error.error;
  } catch (const CallError& error) {
    return make_error(frame->api, XLA_FFI_Error_Code_INTERNAL, error.what());
  } catch (const std::exception& error) {  // std::bad_alloc, say
    return make_error(frame->api, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, error.what());
  }
}

}  // namespace

/** To be called before the handlers are registered, with the version of the XLA that is there: a
 * release may refuse handlers of another one. Of older versions nothing is used that they lack, so
 * they get their own. */
extern "C" __attribute__((visibility("default"))) void msda_jax_use_interface(int minor) {
  interface_minor = std::min(minor, XLA_FFI_API_MINOR);
}

#define MSDA_HANDLER(name, on_cuda, operation, input_mode)                          \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* msda_jax_##name( \
      XLA_FFI_CallFrame* frame) {                                                   \
    return handle({on_cuda, operation, input_mode}, frame);                         \
  }
MSDA_HANDLER(cpu_forward, false, MSDA_FORWARD, MSDA_INPUT_SAMPLED)
MSDA_HANDLER(cpu_backward, false, MSDA_BACKWARD, MSDA_INPUT_SAMPLED)
MSDA_HANDLER(cpu_forward_fused, false, MSDA_FORWARD, MSDA_INPUT_FUSED)
MSDA_HANDLER(cpu_backward_fused, false, MSDA_BACKWARD, MSDA_INPUT_FUSED)
MSDA_HANDLER(cuda_forward, true, MSDA_FORWARD, MSDA_INPUT_SAMPLED)
MSDA_HANDLER(cuda_backward, true, MSDA_BACKWARD, MSDA_INPUT_SAMPLED)
MSDA_HANDLER(cuda_forward_fused, true, MSDA_FORWARD, MSDA_INPUT_FUSED)
MSDA_HANDLER(cuda_backward_fused, true, MSDA_BACKWARD, MSDA_INPUT_FUSED)
