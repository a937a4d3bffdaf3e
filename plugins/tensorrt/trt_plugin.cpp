// The plugin and its creators. getCreators() and setLoggerFinder() are all that the shared library
// exports.

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/plan_cache.h"
#include "trt_node.h"

namespace msda::trt {
namespace {

using nvinfer1::DataType;
using nvinfer1::DimsExprs;
using nvinfer1::DynamicPluginTensorDesc;
using nvinfer1::PluginFieldCollection;
using nvinfer1::PluginTensorDesc;

constexpr const char* kVersion = "1";
constexpr const char* kNamespace = "msda";
constexpr std::int32_t kFailure = 1;

// Never ends: at the end of the process the driver may be gone before it.
plugins::PlanCache& cache() {
  static auto& plans = *new plugins::PlanCache;
  return plans;
}

// Finds where the inputs of the form stand among those given. TensorRT's documentation counts no
// shape input there; a host that counts level_hw is understood, too.
template <typename IsLevels>
std::vector<std::size_t> find_inputs(const Form& form, std::int32_t count, IsLevels is_levels) {
  const std::size_t wanted = form.inputs.size();
  std::vector<std::size_t> places;
  bool has_levels = false;
  for (std::size_t i = 0; count > 0 && i < static_cast<std::size_t>(count); ++i) {
    if (!has_levels && is_levels(i)) {
      has_levels = true;
    } else {
      places.push_back(i);
    }
  }
  if (places.size() != wanted) {
    std::string names;
    for (const char* const name : form.inputs) names += std::string(", ") + name;
    refuse("the node has " + std::to_string(places.size()) + " inputs beside level_hw: must have " +
           names.substr(2));
  }
  return places;
}

struct Call {
  std::vector<std::size_t> places;
  std::shared_ptr<const plugins::Prepared> prepared;
};

// A layer, and what its plugin shares with its clones.
struct Node {
  const Form& form;
  Settings settings;
  std::shared_ptr<Levels> levels = std::make_shared<Levels>();
  Call call;  // of the last shapes
};

// The output's shape in `shape`; one that is known to be wrong is refused.
void infer_shape(const Node& node, const DimsExprs* inputs, std::int32_t count, DimsExprs& shape) {
  const auto places = find_inputs(node.form, count, [&](std::size_t i) {
    return inputs[i].nbDims == 2;  // no other input has so few
  });
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < places.size(); ++i) {
    tensors.push_back(tensor_of(node.form.inputs[i], inputs[places[i]]));
  }
  const std::vector<std::int32_t> level_hw = node.levels->get();
  read_problem(node.form, node.settings, level_hw, tensors);
  const DimsExprs& value = inputs[places[0]];
  shape.nbDims = 4;
  shape.d[0] = value.d[0];
  shape.d[1] = inputs[places[node.form.points()]].d[1];
  shape.d[2] = value.d[2];
  shape.d[3] = value.d[3];
}

void check_output(const msda_problem& problem, const PluginTensorDesc& value,
                  const PluginTensorDesc& output) {
  const Tensor tensor = tensor_of("output", output.dims);
  const Tensor wanted{"the output of these inputs",
                      {problem.batch, problem.query_count, problem.head_count, problem.head_dim}};
  if (tensor.shape != wanted.shape) refuse(described(tensor) + ", but " + described(wanted));
  if (output.type != value.type) refuse("output has another type than value");
}

// The plan for the current device, which the plan's handle stays on.
Call plan_call(const Node& node, const PluginTensorDesc* in, std::int32_t in_count,
               const PluginTensorDesc* out, std::int32_t out_count) {
  Call call;
  call.places =
      find_inputs(node.form, in_count, [in](std::size_t i) { return is_integer(in[i].type); });
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < call.places.size(); ++i) {
    const PluginTensorDesc& given = in[call.places[i]];
    tensors.push_back(tensor_of(node.form.inputs[i], given.dims));
    for (const std::int64_t size : tensors.back().shape) {
      if (size < 0) refuse(described(tensors.back()) + ": must have known dimensions");
    }
    if (i > 0 && given.type != DataType::kFLOAT) {
      refuse(std::string(node.form.inputs[i]) + " has another type than float32");
    }
  }
  const std::vector<std::int32_t> level_hw = node.levels->get();
  if (level_hw.empty()) refuse("level_hw is not known");
  msda_problem problem = read_problem(node.form, node.settings, level_hw, tensors);
  problem.value_dtype = dtype_of(in[call.places[0]].type);
  if (problem.value_dtype == MSDA_DTYPE_NONE) refuse("value is not float32, float16 or bfloat16");
  if (out_count != 1) refuse("the node has one output");
  check_output(problem, in[call.places[0]], out[0]);
  auto options = make<msda_plan_options>();
  // TensorRT asks for the workspace of the largest shapes alone, where smaller ones may have
  // another kernel. Forward kernels of GPUs need none, and no other is taken.
  options.workspace_limit_bytes = 1;
  auto device = make<msda_handle_options>();
  device.device = current_device();
  call.prepared = cache().get(problem, options, device);
  if (call.prepared->info.workspace_bytes > 0) refuse("the kernel needs a workspace");
  return call;
}

void execute(const Node& node, const void* const* inputs, void* output, cudaStream_t stream) {
  if (node.call.prepared == nullptr) refuse("enqueue() was called before onShapeChange()");
  const auto at = [&](std::size_t i) { return inputs[node.call.places[i]]; };
  auto tensors = make<msda_tensors>();
  tensors.value = at(0);
  if (node.form.is_fused()) {
    tensors.reference = at(1);
    tensors.offset = at(2);
    tensors.logit = at(3);
  } else {
    tensors.coord = at(1);
    tensors.weight = at(2);
  }
  tensors.output = output;
  node.call.prepared->plan.execute(tensors, stream);
}

class Plugin final : public nvinfer1::IPluginV3,
                     public nvinfer1::IPluginV3OneCore,
                     public nvinfer1::IPluginV3OneBuild,
                     public nvinfer1::IPluginV3OneRuntime {
 public:
  explicit Plugin(Node node) : node_(std::move(node)) {}

  nvinfer1::IPluginCapability* getCapabilityInterface(
      nvinfer1::PluginCapabilityType type) noexcept override {
    switch (type) {
      case nvinfer1::PluginCapabilityType::kCORE:
        return static_cast<nvinfer1::IPluginV3OneCore*>(this);
      case nvinfer1::PluginCapabilityType::kBUILD:
        return static_cast<nvinfer1::IPluginV3OneBuild*>(this);
      case nvinfer1::PluginCapabilityType::kRUNTIME:
        return static_cast<nvinfer1::IPluginV3OneRuntime*>(this);
    }
    return nullptr;
  }
  nvinfer1::IPluginV3* clone() noexcept override {
    return run<nvinfer1::IPluginV3*>(nullptr, [&] { return new Plugin(node_); });
  }

  // ---- core
  const char* getPluginName() const noexcept override { return node_.form.name; }
  const char* getPluginVersion() const noexcept override { return kVersion; }
  const char* getPluginNamespace() const noexcept override { return kNamespace; }

  // ---- build
  std::int32_t getNbOutputs() const noexcept override { return 1; }
  std::int32_t configurePlugin(const DynamicPluginTensorDesc*, std::int32_t,
                               const DynamicPluginTensorDesc*, std::int32_t) noexcept override {
    return 0;  // the largest sizes of two inputs need not fit each other
  }
  std::int32_t getOutputDataTypes(DataType* outputs, std::int32_t, const DataType* inputs,
                                  std::int32_t) const noexcept override {
    outputs[0] = inputs[0];
    return 0;
  }
  std::int32_t getOutputShapes(const DimsExprs* inputs, std::int32_t input_count,
                               const DimsExprs* shape_inputs, std::int32_t shape_count,
                               DimsExprs* outputs, std::int32_t output_count,
                               nvinfer1::IExprBuilder&) noexcept override {
    return run(kFailure, [&] {
      if (output_count != 1) refuse("the node has one output");
      if (shape_count > 1) refuse("level_hw must be the one shape input");
      if (shape_count == 1) node_.levels->set(read_levels(shape_inputs[0]));
      if (node_.levels->get().empty()) {
        refuse(
            "level_hw must be a shape input: tensorrt_plugin_shape_input_indices of the node is "
            "[1]");
      }
      infer_shape(node_, inputs, input_count, outputs[0]);
      return 0;
    });
  }
  bool supportsFormatCombination(std::int32_t pos, const DynamicPluginTensorDesc* all,
                                 std::int32_t input_count,
                                 std::int32_t output_count) noexcept override {
    const auto wanted = static_cast<std::int32_t>(node_.form.inputs.size());
    const bool counts_levels = input_count == wanted + 1;
    if ((input_count != wanted && !counts_levels) || output_count != 1) return false;
    if (pos < 0 || pos > input_count) return false;
    if (all[pos].desc.format != nvinfer1::TensorFormat::kLINEAR) return false;
    const DataType type = all[pos].desc.type;
    if (pos == 0) return dtype_of(type) != MSDA_DTYPE_NONE;
    if (pos == input_count) return type == all[0].desc.type;
    bool had_levels = false;  // nothing behind pos may be looked at
    for (std::int32_t i = 1; i < pos; ++i) had_levels = had_levels || is_integer(all[i].desc.type);
    if (counts_levels && !had_levels && (is_integer(type) || pos == wanted))
      return is_integer(type);
    return type == DataType::kFLOAT;
  }

  // ---- runtime
  std::int32_t onShapeChange(const PluginTensorDesc* in, std::int32_t in_count,
                             const PluginTensorDesc* out,
                             std::int32_t out_count) noexcept override {
    return run(kFailure, [&] {
      node_.call = {};
      node_.call = plan_call(node_, in, in_count, out, out_count);
      return 0;
    });
  }
  std::int32_t enqueue(const PluginTensorDesc*, const PluginTensorDesc*, const void* const* inputs,
                       void* const* outputs, void*, cudaStream_t stream) noexcept override {
    return run(kFailure, [&] {
      execute(node_, inputs, outputs[0], stream);
      return 0;
    });
  }
  nvinfer1::IPluginV3* attachToContext(nvinfer1::IPluginResourceContext*) noexcept override {
    return clone();
  }
  const PluginFieldCollection* getFieldsToSerialize() noexcept override {
    return run<const PluginFieldCollection*>(nullptr, [&] {
      level_hw_ = node_.levels->get();
      fields_ = fields_of(node_.settings, level_hw_);
      collection_ = {static_cast<std::int32_t>(fields_.size()), fields_.data()};
      return &collection_;
    });
  }

 private:
  template <typename Result, typename Body>
  Result run(Result failure, Body&& body) const noexcept {
    return guarded<Result>(node_.form.name, failure, std::forward<Body>(body));
  }

  Node node_;
  std::vector<std::int32_t> level_hw_;  // these three live as long as the host may read the fields
  std::vector<nvinfer1::PluginField> fields_;
  PluginFieldCollection collection_;
};

class Creator final : public nvinfer1::IPluginCreatorV3One {
 public:
  explicit Creator(const Form& form) : form_(form), fields_(field_names()) {
    collection_ = {static_cast<std::int32_t>(fields_.size()), fields_.data()};
  }

  nvinfer1::IPluginV3* createPlugin(const char*, const PluginFieldCollection* fields,
                                    nvinfer1::TensorRTPhase phase) noexcept override {
    return guarded<nvinfer1::IPluginV3*>(form_.name, nullptr, [&] {
      Node node{form_, {}, std::make_shared<Levels>(), {}};
      if (fields != nullptr) read_fields(*fields, node.settings, *node.levels);
      if (phase == nvinfer1::TensorRTPhase::kRUNTIME && node.levels->get().empty()) {
        refuse("the engine does not have level_hw");
      }
      return new Plugin(std::move(node));
    });
  }
  const PluginFieldCollection* getFieldNames() noexcept override { return &collection_; }
  const char* getPluginName() const noexcept override { return form_.name; }
  const char* getPluginVersion() const noexcept override { return kVersion; }
  const char* getPluginNamespace() const noexcept override { return kNamespace; }

 private:
  const Form& form_;
  const std::vector<nvinfer1::PluginField> fields_;
  PluginFieldCollection collection_;
};

}  // namespace
}  // namespace msda::trt

/** The creators, which live as long as the library is loaded. */
extern "C" MSDA_API nvinfer1::IPluginCreatorInterface* const* getCreators(std::int32_t& count) {
  using msda::trt::Creator, msda::trt::forms;
  static auto& creators = *new std::array<Creator, 2>{Creator(forms()[0]), Creator(forms()[1])};
  static nvinfer1::IPluginCreatorInterface* const list[] = {&creators[0], &creators[1]};
  count = 2;
  return list;
}

/** Where messages go. */
extern "C" MSDA_API void setLoggerFinder(nvinfer1::ILoggerFinder* finder) {
  msda::trt::set_logger_finder(finder);
}
