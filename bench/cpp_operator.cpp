// An operator of torch in C++ over the C API, with gradients in C++: what python_calls.py --cpp
// measures libmsda.torch beside. float32 contiguous tensors, value [B][S][M][D], coord
// [B][Q][M][L][P][2], weight [B][Q][M][L][P]; one plan for each shape.
#include <torch/extension.h>
#ifdef MSDA_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#endif

#include <map>
#include <mutex>
#include <vector>

#include "msda.h"

namespace {

using at::Tensor;

void check(msda_status status) { TORCH_CHECK(status == MSDA_SUCCESS, msda_last_error()); }

struct Planned {
  msda_plan* plan = nullptr;
  int64_t workspace_bytes = 0;
  int64_t workspace_alignment = 0;
};

Planned make_plan(const Tensor& value, at::IntArrayRef level_hw, const Tensor& coord,
                  bool backward) {
  msda_handle_options options{};
  options.struct_size = sizeof options;
  options.device = value.is_cuda() ? value.get_device() : MSDA_DEVICE_CPU;
  options.thread_count = value.is_cuda() ? 0 : 1;
  msda_handle* handle = nullptr;  // lives as long as the plan, which is as long as the process
  check(msda_handle_create(&options, &handle));
  std::vector<int32_t> levels(level_hw.begin(), level_hw.end());
  msda_problem problem{};
  problem.struct_size = sizeof problem;
  problem.level_hw = levels.data();
  problem.level_count = static_cast<int32_t>(levels.size() / 2);
  problem.batch = value.size(0);
  problem.query_count = coord.size(1);
  problem.head_count = value.size(2);
  problem.head_dim = value.size(3);
  problem.point_count = static_cast<int32_t>(coord.size(4));
  problem.value_dtype = MSDA_DTYPE_F32;
  problem.operation = backward ? MSDA_BACKWARD : MSDA_FORWARD;
  Planned planned;
  check(msda_plan_create(handle, &problem, nullptr, &planned.plan));
  msda_plan_info info{};
  info.struct_size = sizeof info;
  check(msda_plan_get_info(planned.plan, &info));
  planned.workspace_bytes = static_cast<int64_t>(info.workspace_bytes);
  planned.workspace_alignment = static_cast<int64_t>(info.workspace_alignment);
  return planned;
}

Planned find_plan(const Tensor& value, at::IntArrayRef level_hw, const Tensor& coord,
                  bool backward) {
  static std::mutex mutex;
  static std::map<std::vector<int64_t>, Planned> plans;
  std::vector<int64_t> key{backward, value.is_cuda() ? value.get_device() : -1};
  for (const at::IntArrayRef part : {value.sizes(), coord.sizes(), level_hw})
    key.insert(key.end(), part.begin(), part.end());
  const std::lock_guard<std::mutex> guard(mutex);
  auto place = plans.find(key);
  if (place == plans.end())
    place = plans.emplace(key, make_plan(value, level_hw, coord, backward)).first;
  return place->second;
}

void execute(const Planned& planned, msda_tensors& tensors, const Tensor& value) {
  tensors.struct_size = sizeof tensors;
  Tensor workspace;
  if (planned.workspace_bytes != 0) {
    const int64_t alignment = planned.workspace_alignment;
    workspace = at::empty({planned.workspace_bytes + alignment}, value.options().dtype(at::kByte));
    const auto address = reinterpret_cast<uintptr_t>(workspace.data_ptr());
    tensors.workspace = reinterpret_cast<void*>((address + alignment - 1) / alignment * alignment);
    tensors.workspace_bytes = planned.workspace_bytes;
  }
  msda_stream stream = nullptr;
#ifdef MSDA_WITH_CUDA
  if (value.is_cuda()) stream = at::cuda::getCurrentCUDAStream();
#endif
  check(msda_execute(planned.plan, &tensors, stream));
}

Tensor forward(const Tensor& value, const Tensor& coord, const Tensor& weight,
               at::IntArrayRef level_hw) {
#ifdef MSDA_WITH_CUDA
  const c10::cuda::OptionalCUDAGuard guard(at::device_of(value));
#endif
  Tensor output =
      at::empty({value.size(0), coord.size(1), value.size(2), value.size(3)}, value.options());
  msda_tensors tensors{};
  tensors.value = value.data_ptr();
  tensors.coord = coord.data_ptr();
  tensors.weight = weight.data_ptr();
  tensors.output = output.data_ptr();
  execute(find_plan(value, level_hw, coord, false), tensors, value);
  return output;
}

std::tuple<Tensor, Tensor, Tensor> backward(const Tensor& grad_output, const Tensor& value,
                                            const Tensor& coord, const Tensor& weight,
                                            at::IntArrayRef level_hw) {
#ifdef MSDA_WITH_CUDA
  const c10::cuda::OptionalCUDAGuard guard(at::device_of(value));
#endif
  Tensor grad_value = at::empty_like(value), grad_coord = at::empty_like(coord),
         grad_weight = at::empty_like(weight);
  msda_tensors tensors{};
  tensors.value = value.data_ptr();
  tensors.coord = coord.data_ptr();
  tensors.weight = weight.data_ptr();
  tensors.grad_output = grad_output.data_ptr();
  tensors.grad_value = grad_value.data_ptr();
  tensors.grad_coord = grad_coord.data_ptr();
  tensors.grad_weight = grad_weight.data_ptr();
  execute(find_plan(value, level_hw, coord, true), tensors, value);
  return {grad_value, grad_coord, grad_weight};
}

template <class Function>
auto operator_of(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

struct Node : torch::autograd::Function<Node> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& value,
                        const Tensor& coord, const Tensor& weight,
                        const std::vector<int64_t>& level_hw) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({value, coord, weight});
    context->saved_data["level_hw"] = level_hw;
    static const auto call = operator_of<decltype(::forward)>("msda_cpp::forward");
    return call.call(value, coord, weight, level_hw);
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& grads) {
    const auto saved = context->get_saved_variables();
    static const auto call = operator_of<decltype(::backward)>("msda_cpp::backward");
    const auto [value, coord, weight] = call.call(grads[0], saved[0], saved[1], saved[2],
                                                  context->saved_data["level_hw"].toIntVector());
    return {value, coord, weight, Tensor()};
  }
};

Tensor forward_with_gradients(const Tensor& value, const Tensor& coord, const Tensor& weight,
                              at::IntArrayRef level_hw) {
  return Node::apply(value, coord, weight, level_hw.vec());
}

}  // namespace

TORCH_LIBRARY(msda_cpp, library) {
  library.def("forward(Tensor value, Tensor coord, Tensor weight, int[] level_hw) -> Tensor");
  library.def(
      "backward(Tensor grad_output, Tensor value, Tensor coord, Tensor weight, int[] level_hw) -> "
      "(Tensor, Tensor, Tensor)");
  for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA}) {
    library.impl("forward", torch::dispatch(key, &forward));
    library.impl("backward", torch::dispatch(key, &backward));
  }
  library.impl("forward", torch::dispatch(c10::DispatchKey::Autograd, &forward_with_gradients));
}
