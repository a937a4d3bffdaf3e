// RegisterCustomOps() is all that the shared library exports: it puts the operators into a
// session's options.

#include <atomic>
#include <deque>
#include <map>
#include <mutex>

#include "split_call.h"

namespace msda::ort {
namespace {

constexpr std::uint32_t kApiVersion =
    17;  // of ONNX Runtime 1.17, the oldest that has all that is used here
static_assert(ORT_API_VERSION == kApiVersion,
              "the vendored header is the contract with the oldest host");

constexpr const char* kCpu = "CPUExecutionProvider";
constexpr const char* kCuda = "CUDAExecutionProvider";

// One name of the operator on one provider for one type of values, as old hosts ask for an output's
// type before they have a node. The host calls it by the functions of OrtCustomOp.
struct Operator : OrtCustomOp {
  const Form& form;
  const OrtApi& api;
  const char* provider;
  ValueType type;

  Operator(const Form& its_form, const OrtApi& its_api, const char* its_provider,
           ValueType its_type);
};

const Operator& self(const OrtCustomOp* op) { return *static_cast<const Operator*>(op); }

// A node of a session.
struct Kernel {
  const Operator& op;
  Attributes attributes;
  std::mutex mutex;
  std::shared_ptr<const plugins::Prepared>
      captured;  // the last plan on CUDA: a graph may have captured it

  void compute(OrtKernelContext* context) {
    const OrtApi& api = op.api;
    std::size_t count = 0;
    check(api.KernelContext_GetInputCount(context, &count));
    std::vector<Tensor> given(count);
    for (std::size_t i = 0; i < count; ++i) read_input(context, i, given[i]);
    const Inputs inputs = sort_inputs(op.form, given);
    OwnedProblem owned;
    read_problem(inputs, attributes, owned);

    const Tensor output = output_of(op.form, inputs);
    OrtValue* value = nullptr;
    check(
        api.KernelContext_GetOutput(context, 0, output.shape.data(), output.shape.size(), &value));
    void* data = nullptr;
    check(api.GetTensorMutableData(value, &data));
    if (op.provider == kCpu) {
      run_on_cpu(api, context, inputs, owned, data);
    } else {
      auto plan = run_on_cuda(api, context, inputs, owned, data);
      const std::lock_guard lock(mutex);
      captured.swap(plan);
    }
  }

 private:
  void read_input(const OrtKernelContext* context, std::size_t index, Tensor& out) const {
    const OrtValue* value = nullptr;
    check(op.api.KernelContext_GetInput(context, index, &value));
    if (value == nullptr) return;  // an optional one
    OrtTensorTypeAndShapeInfo* info = nullptr;
    check(op.api.GetTensorTypeAndShape(value, &info));
    const OwnedDescription own(info, op.api.ReleaseTensorTypeAndShapeInfo);
    out = read_description(op.api, info);
    out.value = value;
    void* data = nullptr;
    check(op.api.GetTensorMutableData(const_cast<OrtValue*>(value), &data));
    out.data = data;
  }
};

// The attribute, or nothing where the node has none of that name and type.
std::vector<std::int64_t> integers(const Operator& op, const OrtKernelInfo* info,
                                   const char* name) {
  std::size_t count = 0;
  if (OrtStatus* const absent =
          op.api.KernelInfoGetAttributeArray_int64(info, name, nullptr, &count)) {
    op.api.ReleaseStatus(absent);
    return {};
  }
  std::vector<std::int64_t> numbers(count);
  check(op.api.KernelInfoGetAttributeArray_int64(info, name, numbers.data(), &count));
  return numbers;
}

// Which of `allowed` the text attribute is; 0 where the node has none.
std::int32_t choice(const Operator& op, const OrtKernelInfo* info, const char* name,
                    const std::vector<const char*>& allowed) {
  std::size_t bytes = 0;
  if (OrtStatus* const absent = op.api.KernelInfoGetAttribute_string(info, name, nullptr, &bytes)) {
    op.api.ReleaseStatus(absent);
    return 0;
  }
  std::string text(bytes, '\0');
  check(op.api.KernelInfoGetAttribute_string(info, name, text.data(), &bytes));
  text.resize(bytes - 1);
  std::string list;
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (text == allowed[i]) return static_cast<std::int32_t>(i);
    list += std::string(i == 0 ? "" : ", ") + allowed[i];
  }
  throw std::invalid_argument(std::string("attribute ") + name + " is '" + text +
                              "': must be one of " + list);
}

Attributes read_attributes(const Operator& op, const OrtKernelInfo* info) {
  Attributes attributes;
  if (op.form.domains[0] != std::string("msda"))
    return attributes;  // those of other projects mean nothing here
  for (const std::int64_t points : integers(op, info, "points")) {
    if (points < 0 || points > INT32_MAX) {
      throw std::invalid_argument("attribute points has " + std::to_string(points) +
                                  ": must have numbers from 0 to 2147483647");
    }
    attributes.points.push_back(static_cast<std::int32_t>(points));
  }
  attributes.math_mode = choice(op, info, "math_mode", {"accurate", "fast"});
  attributes.point_locality = choice(op, info, "point_locality", {"unknown", "local", "scattered"});
  attributes.sampling_mode = choice(op, info, "sampling_mode", {"bilinear", "nearest"});
  return attributes;
}

OrtStatus* create(const OrtCustomOp* op, const OrtApi*, const OrtKernelInfo* info, void** kernel) {
  return guarded(self(op).api, self(op).form.name,
                 [&] { *kernel = new Kernel{self(op), read_attributes(self(op), info), {}, {}}; });
}

OrtStatus* compute(void* kernel, OrtKernelContext* context) {
  auto& node = *static_cast<Kernel*>(kernel);
  return guarded(node.op.api, node.op.form.name, [&] { node.compute(context); });
}

OrtStatus* infer(const OrtCustomOp* op, OrtShapeInferContext* context) {
  const OrtApi& api = self(op).api;
  return guarded(api, self(op).form.name, [&] {
    std::size_t count = 0;
    check(api.ShapeInferContext_GetInputCount(context, &count));
    std::vector<Tensor> given(count);
    for (std::size_t i = 0; i < count; ++i) {
      OrtTensorTypeAndShapeInfo* info = nullptr;  // stays the host's
      check(api.ShapeInferContext_GetInputTypeShape(context, i, &info));
      given[i] = read_description(api, info);
      given[i].value = reinterpret_cast<const OrtValue*>(info);  // not null: the input is there
    }
    Tensor output = output_of(self(op).form, sort_inputs(self(op).form, given));
    OrtTensorTypeAndShapeInfo* info = nullptr;
    check(api.CreateTensorTypeAndShapeInfo(&info));
    const OwnedDescription own(info, api.ReleaseTensorTypeAndShapeInfo);
    std::vector<const char*> symbols;
    static std::atomic<std::uint64_t> unnamed{
        0};  // of all nodes: equal names would mean equal dimensions
    for (std::size_t i = 0; i < output.shape.size(); ++i) {
      std::string& symbol = output.symbols[i];
      if (output.shape[i] < 0 && symbol.empty()) symbol = "msda_dim_" + std::to_string(++unnamed);
      symbols.push_back(symbol.c_str());
    }
    check(api.SetTensorElementType(info, output.type));
    check(api.SetDimensions(info, output.shape.data(), output.shape.size()));
    check(api.SetSymbolicDimensions(info, symbols.data(), symbols.size()));
    check(api.ShapeInferContext_SetOutputTypeShape(context, 0, info));
  });
}

Operator::Operator(const Form& its_form, const OrtApi& its_api, const char* its_provider,
                   ValueType its_type)
    : OrtCustomOp{}, form(its_form), api(its_api), provider(its_provider), type(its_type) {
  version = kApiVersion;
  GetName = [](const OrtCustomOp* op) { return self(op).form.name; };
  GetExecutionProviderType = [](const OrtCustomOp* op) { return self(op).provider; };
  GetInputTypeCount = [](const OrtCustomOp* op) { return self(op).form.inputs.size(); };
  GetInputType = [](const OrtCustomOp* op, std::size_t index) {
    return index == 0 ? self(op).type.value : ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  };
  GetInputCharacteristic = [](const OrtCustomOp* op, std::size_t index) {
    return index < self(op).form.needed_count ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
  };
  GetInputMemoryType = [](const OrtCustomOp* op, std::size_t index) {
    const Role role = self(op).form.inputs[index];
    return role == Role::kLevels || role == Role::kStarts ? OrtMemTypeCPUInput : OrtMemTypeDefault;
  };
  GetOutputTypeCount = [](const OrtCustomOp*) { return std::size_t{1}; };
  GetOutputType = [](const OrtCustomOp* op, std::size_t) { return self(op).type.output; };
  GetOutputCharacteristic = [](const OrtCustomOp*, std::size_t) { return INPUT_OUTPUT_REQUIRED; };
  GetVariadicInputMinArity = [](const OrtCustomOp*) { return 0; };
  GetVariadicInputHomogeneity = [](const OrtCustomOp*) { return 0; };
  GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 0; };
  GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 0; };
  GetStartVersion = [](const OrtCustomOp*) { return 1; };
  GetEndVersion = [](const OrtCustomOp*) { return INT32_MAX; };
  CreateKernelV2 = create;
  KernelComputeV2 = compute;
  KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
  InferOutputShapeFn = infer;
}

// The operators of a host, which keeps pointers to them: they live as long as the library is
// loaded.
struct Registry {
  std::deque<Operator> operators;
  std::vector<OrtCustomOpDomain*> domains;

  explicit Registry(const OrtApi& api) {
    std::map<std::string, OrtCustomOpDomain*> by_name;
    for (const Form& form : forms()) {
      for (const char* const provider : {kCpu, kCuda}) {
        if (provider == kCuda && !form.runs_on_cuda) continue;
        for (const ValueType& type : kValueTypes) {
          operators.emplace_back(form, api, provider, type);
          for (const char* const name : form.domains) {
            OrtCustomOpDomain*& domain = by_name[name];
            if (domain == nullptr) {
              check(api.CreateCustomOpDomain(name, &domain));
              domains.push_back(domain);
            }
            check(api.CustomOpDomain_Add(domain, &operators.back()));
          }
        }
      }
    }
  }
};

Registry& registry(const OrtApi& api) {
  static std::mutex mutex;
  static auto& of_hosts =
      *new std::map<const OrtApi*, std::unique_ptr<Registry>>;  // a process may have two hosts
  const std::lock_guard lock(mutex);
  auto& found = of_hosts[&api];
  if (found == nullptr) found = std::make_unique<Registry>(api);
  return *found;
}

}  // namespace
}  // namespace msda::ort

/** Adds the operators to a session's options. Called by the host's functions that register a
 * library. */
extern "C" MSDA_API OrtStatus* RegisterCustomOps(OrtSessionOptions* options,
                                                 const OrtApiBase* base) {
  using namespace msda::ort;
  const OrtApi* const api = base->GetApi(kApiVersion);
  if (api == nullptr) {  // CreateStatus is the first entry of the table of every version
    const std::string message =
        std::string("libmsda_ort needs ONNX Runtime 1.17 or newer, this is ") +
        base->GetVersionString();
    return base->GetApi(1)->CreateStatus(ORT_FAIL, message.c_str());
  }
  return guarded(*api, "libmsda_ort", [&] {
    for (OrtCustomOpDomain* const domain : registry(*api).domains) {
      check(api->AddCustomOpDomain(options, domain));
    }
  });
}
