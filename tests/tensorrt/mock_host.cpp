// A program that plays TensorRT: mock_host DRIVER PLUGIN CASE [FILE]. What it finds wrong it
// prints, and ends with status 1. DRIVER is libcuda.so.1 or the mock of it.

#include "mock_host.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <random>

namespace {

struct Host {
  Host(const char* driver_path, const char* path, const char* its_file)
      : driver(driver_path), library(path), file(its_file) {
    library.set_logger_finder(finder_of_major(finder));
  }

  IPluginCreatorV3One& creator(bool fused) const { return *library.creators.at(fused ? 1 : 0); }

  std::unique_ptr<IPluginV3> create(bool fused, const std::vector<PluginField>& fields = {},
                                    TensorRTPhase phase = TensorRTPhase::kBUILD) const {
    const PluginFieldCollection collection{static_cast<std::int32_t>(fields.size()), fields.data()};
    return std::unique_ptr<IPluginV3>(creator(fused).createPlugin("layer", &collection, phase));
  }

  /** Whether the last call was refused with one line to the logger that has these words. */
  bool said(const std::string& words) {
    const std::string line = finder.log.take();
    const bool is_so =
        line.rfind("1 MSDeformAttn", 0) == 0 && line.find(words) != std::string::npos;
    if (!is_so) std::printf("the logger has '%s', not '%s'\n", line.c_str(), words.c_str());
    return is_so;
  }

  Finder finder;
  Driver driver;  // before the library, which looks for one of its name
  Library library;
  std::string file;
};

template <typename Capability>
Capability& part(IPluginV3& plugin) {
  const auto type = std::is_same_v<Capability, IPluginV3OneCore> ? PluginCapabilityType::kCORE
                    : std::is_same_v<Capability, IPluginV3OneBuild>
                        ? PluginCapabilityType::kBUILD
                        : PluginCapabilityType::kRUNTIME;
  return *static_cast<Capability*>(plugin.getCapabilityInterface(type));
}

/** A problem: by default two levels of 3 x 4 and 2 x 2 pixels. */
struct Shapes {
  bool fused = false;
  std::int64_t batch = 2, queries = 5, heads = 2, dim = 8, reference = 2;
  std::vector<std::int64_t> level_hw{3, 4, 2, 2};
  std::vector<std::int64_t> points{4};  // axes: K, or L and P

  std::vector<std::vector<std::int64_t>> inputs() const {
    std::vector<std::int64_t> weight{batch, queries, heads};
    weight.insert(weight.end(), points.begin(), points.end());
    std::vector<std::int64_t> point = weight;
    point.push_back(2);
    std::int64_t pixels = 0;
    for (std::size_t i = 0; i < level_hw.size(); i += 2) pixels += level_hw[i] * level_hw[i + 1];
    const std::vector<std::int64_t> value{batch, pixels, heads, dim};
    const auto levels = static_cast<std::int64_t>(level_hw.size() / 2);
    if (fused) return {value, {batch, queries, levels, reference}, point, weight};
    return {value, point, weight};
  }
  std::vector<std::int64_t> output() const { return {batch, queries, heads, dim}; }
};

/** getOutputShapes(), level_hw being a shape input. */
struct Inferred {
  Builder builder;
  std::vector<DimsExprs> inputs;
  DimsExprs output{};
  std::int32_t status;

  Inferred(IPluginV3& plugin, const std::vector<std::vector<std::int64_t>>& shapes,
           const std::vector<std::int64_t>& level_hw) {
    for (const auto& shape : shapes) inputs.push_back(builder.dims(shape));
    const DimsExprs levels = builder.dims(level_hw);
    status = part<IPluginV3OneBuild>(plugin).getOutputShapes(
        inputs.data(), static_cast<std::int32_t>(inputs.size()), &levels, level_hw.empty() ? 0 : 1,
        &output, 1, builder);
  }
};

std::vector<PluginField> copy_of(const PluginFieldCollection* fields,
                                 std::deque<std::string>& memory) {
  std::vector<PluginField> copies;
  for (std::int32_t i = 0; i < fields->nbFields; ++i) {
    PluginField field = fields->fields[i];
    const std::size_t item = field.type == PluginFieldType::kINT32 ? 4 : 1;
    memory.emplace_back(static_cast<const char*>(field.data),
                        item * static_cast<std::size_t>(field.length));
    field.data = memory.back().data();
    copies.push_back(field);
  }
  return copies;
}

std::map<std::string, std::string> bytes_of(const PluginFieldCollection* fields) {
  std::deque<std::string> memory;
  std::map<std::string, std::string> bytes;
  for (const PluginField& field : copy_of(fields, memory)) {
    bytes[field.name] = memory[bytes.size()];
  }
  return bytes;
}

std::string ints(const std::vector<std::int32_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), 4 * numbers.size()};
}

void creators(Host& host) {
  CHECK(host.library.creators.size() == 2);
  for (const bool fused : {false, true}) {
    IPluginCreatorV3One& creator = host.creator(fused);
    CHECK(std::string(creator.getInterfaceInfo().kind) == "PLUGIN CREATOR_V3ONE");
    const std::string name = fused ? "MSDeformAttnFused" : "MSDeformAttn";
    CHECK(creator.getPluginName() == name);
    CHECK(std::string(creator.getPluginVersion()) == "1");
    CHECK(std::string(creator.getPluginNamespace()) == "msda");
    std::string fields;
    for (std::int32_t i = 0; i < creator.getFieldNames()->nbFields; ++i) {
      fields += std::string(creator.getFieldNames()->fields[i].name) + " ";
    }
    CHECK(fields == "points level_hw math_mode point_locality sampling_mode ");

    const auto plugin = host.create(fused);
    CHECK(std::string(plugin->getInterfaceInfo().kind) == "PLUGIN");
    auto& core = part<IPluginV3OneCore>(*plugin);
    CHECK(std::string(core.getInterfaceInfo().kind) == "PLUGIN_V3ONE_CORE");
    CHECK(core.getPluginName() == name);
    CHECK(std::string(core.getPluginVersion()) == "1");
    CHECK(std::string(core.getPluginNamespace()) == "msda");
    auto& build = part<IPluginV3OneBuild>(*plugin);
    CHECK(std::string(build.getInterfaceInfo().kind) == "PLUGIN_V3ONE_BUILD");
    CHECK(build.getNbOutputs() == 1);
    const DataType types[] = {DataType::kBF16, DataType::kFLOAT, DataType::kFLOAT};
    DataType output = DataType::kINT8;
    CHECK(build.getOutputDataTypes(&output, 1, types, 3) == 0 && output == DataType::kBF16);
    CHECK(std::string(part<IPluginV3OneRuntime>(*plugin).getInterfaceInfo().kind) ==
          "PLUGIN_V3ONE_RUNTIME");
    CHECK(plugin->getCapabilityInterface(static_cast<PluginCapabilityType>(9)) == nullptr);
  }
  CHECK(host.finder.log.lines.empty());
}

void output_shapes(Host& host) {
  for (const bool fused : {false, true}) {
    for (const std::vector<std::int64_t>& points :
         {std::vector<std::int64_t>{4}, {2, 2}, {kAny}, {2, kAny}}) {
      const Shapes known{.fused = fused, .points = points};
      Shapes dynamic = known;
      dynamic.batch = dynamic.queries = kAny;
      for (const Shapes& shapes : {known, dynamic}) {
        for (int place : {-1, 1, fused ? 4 : 3}) {  // where level_hw is counted, or not at all
          auto inputs = shapes.inputs();
          if (place > 0) inputs.insert(inputs.begin() + place, {2, 2});
          const auto plugin = host.create(fused);
          const Inferred made(*plugin, inputs, shapes.level_hw);
          CHECK(made.status == 0 && made.output.nbDims == 4);
          const std::size_t point = (fused ? 2U : 1U) + (place == 1 ? 1U : 0U);
          for (int axis : {0, 2, 3}) CHECK(made.output.d[axis] == made.inputs[0].d[axis]);
          CHECK(made.output.d[1] == made.inputs[point].d[1]);
        }
      }
    }
  }
  CHECK(host.finder.log.lines.empty());
}

void wrong_shapes(Host& host) {
  struct Case {
    bool fused;
    std::function<void(std::vector<std::vector<std::int64_t>>&, std::vector<std::int64_t>&)> change;
    const char* words;
  };
  const Case cases[] = {
      {false, [](auto& in, auto&) { in[0] = {2, 16, 16}; },
       "value is [2, 16, 16]: must be [B, S, M, D]"},
      {false, [](auto& in, auto&) { in[0] = {kAny}; }, "value is [?]: must be [B, S, M, D]"},
      {false, [](auto& in, auto&) { in[0][1] = 17; },
       "dimension 1 must be 16, the pixels of level_hw"},
      {false, [](auto& in, auto&) { in[1] = {2, 5, 2, 4}; },
       "coord is [2, 5, 2, 4]: must be [B, Q, M, K, 2]"},
      {false, [](auto& in, auto&) { in[1] = {2}; }, "coord is [2]: must be"},
      {false, [](auto& in, auto&) { in[1][4] = 3; }, "dimension 4 must be 2, x and y"},
      {false, [](auto& in, auto&) { in[1][0] = 3; }, "dimension 0 must be 2, the batch of value"},
      {false, [](auto& in, auto&) { in[2][1] = 6; },
       "weight is [2, 6, 2, 4]: dimension 1 must be 5"},
      {false, [](auto& in, auto&) { in[2][2] = 3; }, "the heads of value"},
      {false, [](auto& in, auto&) { in[2][3] = 6; }, "must have the 4 points of coord"},
      {false, [](auto& in, auto&) { in[1][3] = in[2][3] = 5; },
       "its 5 points must be as many on each of the 2"},
      {false,
       [](auto& in, auto&) {
         in[1][3] = INT64_MAX - 1;
         in[2][3] = INT64_MAX - 1;
       },
       "points of a level"},
      {false, [](auto& in, auto&) { in.pop_back(); },
       "2 inputs beside level_hw: must have value, coord, weight"},
      {false, [](auto& in, auto&) { in.clear(); }, "0 inputs beside level_hw"},
      {false, [](auto& in, auto&) { in.push_back(in[2]); }, "4 inputs beside level_hw"},
      {false, [](auto&, auto& hw) { hw.clear(); }, "tensorrt_plugin_shape_input_indices"},
      {false, [](auto&, auto& hw) { hw = {3, 4, 2}; },
       "level_hw has 3 numbers: must have two for each level"},
      {false, [](auto&, auto& hw) { hw[2] = kAny; }, "level_hw[2] is not a constant"},
      {false, [](auto&, auto& hw) { hw[1] = -4; }, "level_hw[1] is -4: must be 0 to 2147483647"},
      {false, [](auto&, auto& hw) { hw[3] = INT64_MAX; },
       "level_hw[3] is 9223372036854775807: must be"},
      {false, [](auto&, auto& hw) { hw.assign(9, 1); },
       "level_hw has a number of dimensions that is not known"},
      {true, [](auto& in, auto&) { in[1] = {2, 5, 2, 3}; },
       "reference is [2, 5, 2, 3]: must be [B, Q, L, 2] or"},
      {true, [](auto& in, auto&) { in[1] = {2, 5, 1, 2}; }, "dimension 2 must be 2, the levels"},
      {true, [](auto& in, auto&) { in[2][0] = 1; }, "offset is [1, 5, 2, 4, 2]: dimension 0"},
      {true, [](auto& in, auto&) { in.erase(in.begin() + 1); },
       "must have value, reference, offset, logit"},
  };
  for (const Case& one : cases) {
    auto inputs = Shapes{.fused = one.fused}.inputs();
    std::vector<std::int64_t> level_hw = Shapes{}.level_hw;
    one.change(inputs, level_hw);
    const auto plugin = host.create(one.fused);
    CHECK(Inferred(*plugin, inputs, level_hw).status != 0);
    CHECK(host.said(one.words));
  }
}

/** The combinations of types that a plugin takes, asked for as TensorRT does: position by position.
 */
std::vector<std::string> combinations(IPluginV3OneBuild& build, std::int32_t inputs) {
  const DataType types[] = {DataType::kFLOAT, DataType::kHALF,  DataType::kBF16, DataType::kINT8,
                            DataType::kINT32, DataType::kINT64, DataType::kBOOL};
  const char letters[] = "fhb8iIo";
  std::vector<std::string> taken{""};
  for (std::int32_t pos = 0; pos <= inputs; ++pos) {
    std::vector<std::string> longer;
    for (const std::string& before : taken) {
      for (const char letter : {'f', 'h', 'b', '8', 'i', 'I', 'o'}) {
        std::vector<DynamicPluginTensorDesc> all(static_cast<std::size_t>(inputs) + 1);
        const std::string letters_of = before + letter;
        for (std::size_t i = 0; i < all.size(); ++i) {
          all[i].desc = desc(DataType::kUINT8, {});  // what lies behind has no meaning
          if (i < letters_of.size()) {
            all[i].desc.type = types[std::strchr(letters, letters_of[i]) - letters];
          }
        }
        const auto place = static_cast<std::size_t>(pos);
        if (build.supportsFormatCombination(pos, all.data(), inputs, 1))
          longer.push_back(letters_of);
        all[place].desc.format = TensorFormat::kCHW32;
        CHECK(!build.supportsFormatCombination(pos, all.data(), inputs, 1));
      }
    }
    taken = longer;
  }
  return taken;
}

void formats(Host& host) {
  using Words = std::vector<std::string>;
  const auto sampled = host.create(false), fused = host.create(true);
  auto& build = part<IPluginV3OneBuild>(*sampled);
  CHECK(combinations(build, 3) == Words{"ffff", "hffh", "bffb"});
  CHECK(combinations(build, 2).empty() && combinations(build, 5).empty());
  const Words counted = combinations(build, 4);  // level_hw, of either type, at one of three places
  CHECK(counted.size() == 18);
  for (const char* const one : {"fifff", "hIffh", "bffib", "fffIf"}) {
    CHECK(std::count(counted.begin(), counted.end(), one) == 1);
  }
  CHECK(combinations(part<IPluginV3OneBuild>(*fused), 4) == Words{"fffff", "hfffh", "bfffb"});
  DynamicPluginTensorDesc all[5]{};
  for (const std::int32_t pos : {-1, 4, 99})
    CHECK(!build.supportsFormatCombination(pos, all, 3, 1));
  CHECK(!build.supportsFormatCombination(0, all, 3, 2));
  CHECK(build.configurePlugin(all, 3, all + 3, 1) == 0);
  CHECK(build.getWorkspaceSize(all, 3, all + 3, 1) == 0);
}

void fields(Host& host) {
  const std::int64_t points[] = {1, 3};
  const char words[] = {'s', 'c', 'a', 't', 't', 'e', 'r', 'e', 'd'};
  const std::vector<PluginField> given{
      {"points", points, PluginFieldType::kINT64, 2},
      {"math_mode", "fast", PluginFieldType::kCHAR, 5},  // with its NUL
      {"point_locality", words, PluginFieldType::kCHAR, 9},
      {"plugin_version", "1", PluginFieldType::kCHAR, 1},  // of no meaning here
      {nullptr, nullptr, PluginFieldType::kUNKNOWN, 0}};
  const auto plugin = host.create(false, given);
  // The sizes of levels go to all clones, whichever is asked.
  const std::unique_ptr<IPluginV3> clone(plugin->clone());
  const std::unique_ptr<IPluginV3> attached(
      part<IPluginV3OneRuntime>(*clone).attachToContext(nullptr));
  CHECK(Inferred(*clone, Shapes{}.inputs(), Shapes{}.level_hw).status == 0);
  std::deque<std::string> memory;
  for (IPluginV3* const one : {plugin.get(), clone.get(), attached.get()}) {
    const PluginFieldCollection* const kept =
        part<IPluginV3OneRuntime>(*one).getFieldsToSerialize();
    const std::map<std::string, std::string> expected{{"points", ints({1, 3})},
                                                      {"level_hw", ints({3, 4, 2, 2})},
                                                      {"math_mode", "fast"},
                                                      {"point_locality", "scattered"},
                                                      {"sampling_mode", "bilinear"}};
    CHECK(bytes_of(kept) == expected);
    const auto again = host.create(false, copy_of(kept, memory), TensorRTPhase::kRUNTIME);
    CHECK(again != nullptr);
    CHECK(bytes_of(part<IPluginV3OneRuntime>(*again).getFieldsToSerialize()) == expected);
  }
  // The sizes may be an attribute, which may not differ from the input.
  const std::int32_t level_hw[] = {3, 4, 2, 2};
  const auto said = host.create(false, {{"level_hw", level_hw, PluginFieldType::kINT32, 4}});
  CHECK(Inferred(*said, Shapes{}.inputs(), {}).status == 0);
  CHECK(Inferred(*said, Shapes{}.inputs(), Shapes{}.level_hw).status == 0);
  CHECK(host.finder.log.lines.empty());
  CHECK(Inferred(*said, Shapes{}.inputs(), {4, 3, 2, 2}).status != 0);
  CHECK(host.said("level_hw differs from that of an earlier use of this plugin"));
}

void wrong_fields(Host& host) {
  const std::int32_t negative[] = {2, -1}, odd[] = {3, 4, 2};
  const float number = 1;
  struct Case {
    PluginField field;
    const char* words;
  };
  const Case cases[] = {
      {{"points", negative, PluginFieldType::kINT32, 2},
       "attribute points[1] is -1: must be 0 to 2147483647"},
      {{"points", &number, PluginFieldType::kFLOAT32, 1},
       "attribute points has field type 1: must be int32 or int64"},
      {{"points", nullptr, PluginFieldType::kINT32, 1}, "attribute points has no data"},
      {{"points", odd, PluginFieldType::kINT32, -1}, "attribute points has no data"},
      {{"level_hw", odd, PluginFieldType::kINT32, 3},
       "level_hw has 3 numbers: must have two for each level"},
      {{"math_mode", "quick", PluginFieldType::kCHAR, 5},
       "math_mode is 'quick': must be one of accurate, fast"},
      {{"math_mode", odd, PluginFieldType::kINT32, 1},
       "attribute math_mode has field type 5: must be text"},
      {{"point_locality", "", PluginFieldType::kCHAR, 0},
       "is '': must be one of unknown, local, scattered"},
      {{"sampling_mode", "cubic", PluginFieldType::kCHAR, 5}, "must be one of bilinear, nearest"},
  };
  for (const Case& one : cases) {
    CHECK(host.create(false, {one.field}) == nullptr);
    CHECK(host.said(one.words));
  }
  CHECK(host.create(true, {}, TensorRTPhase::kRUNTIME) == nullptr);
  CHECK(host.said("MSDeformAttnFused: the engine does not have level_hw"));
  const std::int32_t points[] = {1, 2};
  const auto plugin = host.create(false, {{"points", points, PluginFieldType::kINT32, 2}});
  CHECK(Inferred(*plugin, Shapes{}.inputs(), Shapes{}.level_hw).status != 0);
  CHECK(host.said(
      "attribute points has 2 numbers with the sum 3: must have one for each of the 2 levels"));
  // A host without a logger, or with one that throws, gets the status alone.
  host.finder.throws = true;
  CHECK(host.create(false, {cases[0].field}) == nullptr);
  host.library.set_logger_finder(nullptr);
  CHECK(host.create(false, {cases[0].field}) == nullptr);
  CHECK(host.finder.log.lines.empty());
}

/** One problem with numbers: run by the plugin, and by the C interface. */
struct Numbers {
  Shapes shapes;
  DataType type;
  std::vector<std::vector<char>> memory;
  std::vector<char> output;

  Numbers(const Shapes& its_shapes, DataType its_type) : shapes(its_shapes), type(its_type) {
    unsigned state = 12345;
    for (const auto& shape : shapes.inputs()) {
      std::size_t count = 1;
      for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
      const bool is_value = memory.empty();
      std::vector<char> bytes(count * (is_value ? item() : 4));
      for (std::size_t i = 0; i < count; ++i) {
        state = state * 1664525 + 1013904223;
        float number = static_cast<float>(state >> 8) / 16777216.0F;
        if (!is_value && i % 17 == 3) number = NAN;
        if (is_value && type != DataType::kFLOAT) {  // any finite 16 bits
          const auto bits = static_cast<std::uint16_t>(0x3000 | (state >> 20 & 0x0BFF));
          std::memcpy(&bytes[2 * i], &bits, 2);
        } else {
          std::memcpy(&bytes[4 * i], &number, 4);
        }
      }
      memory.push_back(bytes);
    }
    std::size_t count = item();
    for (const std::int64_t size : shapes.output()) count *= static_cast<std::size_t>(size);
    output.assign(count, '\x55');
  }
  std::size_t item() const { return type == DataType::kFLOAT ? 4 : 2; }

  std::vector<PluginTensorDesc> descriptions() const {
    std::vector<PluginTensorDesc> all;
    for (const auto& shape : shapes.inputs()) {
      all.push_back(desc(all.empty() ? type : DataType::kFLOAT, shape));
    }
    return all;
  }

  /** The C interface's result on the driver's device. */
  std::vector<char> expected(const Driver& driver, const std::vector<std::int32_t>& points,
                             msda_sampling_mode mode) const {
    const std::vector<std::int32_t> level_hw(shapes.level_hw.begin(), shapes.level_hw.end());
    auto problem = msda::make<msda_problem>();
    problem.level_hw = level_hw.data();
    problem.level_count = static_cast<std::int32_t>(shapes.level_hw.size() / 2);
    problem.point_count = 2;
    if (!points.empty()) problem.point_counts = points.data();
    problem.batch = shapes.batch;
    problem.query_count = shapes.queries;
    problem.head_count = shapes.heads;
    problem.head_dim = shapes.dim;
    problem.sampling_mode = mode;
    problem.value_dtype = type == DataType::kFLOAT  ? MSDA_DTYPE_F32
                          : type == DataType::kHALF ? MSDA_DTYPE_F16
                                                    : MSDA_DTYPE_BF16;
    auto tensors = msda::make<msda_tensors>();
    std::deque<DeviceArray> arrays;
    for (const auto& bytes : memory) arrays.emplace_back(driver, bytes);
    tensors.value = arrays[0].data();
    if (shapes.fused) {
      problem.input_mode = MSDA_INPUT_FUSED;
      problem.reference_dim = static_cast<std::int32_t>(shapes.reference);
      tensors.reference = arrays[1].data();
      tensors.offset = arrays[2].data();
      tensors.logit = arrays[3].data();
    } else {
      tensors.coord = arrays[1].data();
      tensors.weight = arrays[2].data();
    }
    std::vector<char> result(output.size());
    const DeviceArray on_device(driver, result);
    tensors.output = on_device.data();
    auto options = msda::make<msda_handle_options>();
    options.device = driver.device();
    msda::Plan(msda::Handle(options), problem).execute(tensors, driver.stream());
    on_device.read(result);
    return result;
  }
};

/** onShapeChange() and enqueue(); level_hw counted at a place, or not. Its memory cannot be read.
 */
bool run(const Host& host, IPluginV3& plugin, Numbers& numbers, int place) {
  auto in = numbers.descriptions();
  const PluginTensorDesc out = desc(numbers.type, numbers.shapes.output());
  std::deque<DeviceArray> arrays;
  std::vector<const void*> inputs;
  for (const auto& bytes : numbers.memory) {
    inputs.push_back(arrays.emplace_back(host.driver, bytes).data());
  }
  if (place > 0) {
    in.insert(in.begin() + place, desc(DataType::kINT64, {2, 2}));
    inputs.insert(inputs.begin() + place, reinterpret_cast<const void*>(8));
  }
  const DeviceArray output(host.driver, numbers.output);
  void* const outputs[] = {output.data()};
  auto& runtime = part<IPluginV3OneRuntime>(plugin);
  if (runtime.onShapeChange(in.data(), static_cast<std::int32_t>(in.size()), &out, 1) != 0 ||
      runtime.enqueue(in.data(), &out, inputs.data(), outputs, nullptr, host.driver.stream()) !=
          0) {
    return false;
  }
  output.read(numbers.output);
  return true;
}

void results(Host& host) {
  const std::int32_t ragged[] = {1, 3};
  for (const bool fused : {false, true}) {
    for (const bool has_points : {false, true}) {
      std::vector<PluginField> fields{{"sampling_mode", has_points ? "nearest" : "bilinear",
                                       PluginFieldType::kCHAR, has_points ? 7 : 8}};
      std::vector<std::int32_t> points;
      if (has_points) {
        fields.emplace_back("points", ragged, PluginFieldType::kINT32, 2);
        points.assign(ragged, ragged + 2);
      }
      const auto built = host.create(fused, fields);
      CHECK(Inferred(*built, Shapes{.fused = fused}.inputs(), Shapes{}.level_hw).status == 0);
      std::deque<std::string> memory;
      const auto engine = host.create(
          fused, copy_of(part<IPluginV3OneRuntime>(*built).getFieldsToSerialize(), memory),
          TensorRTPhase::kRUNTIME);
      const std::unique_ptr<IPluginV3> context(
          part<IPluginV3OneRuntime>(*engine).attachToContext(nullptr));
      for (const DataType type : {DataType::kFLOAT, DataType::kHALF, DataType::kBF16}) {
        for (const std::int64_t queries : {5, 1, 70, 0}) {  // one plugin, other shapes
          Shapes shapes{.fused = fused, .queries = queries, .reference = queries == 1 ? 4 : 2};
          if (!has_points && queries == 70) shapes.points = {2, 2};
          for (const int place : {-1, 1, fused ? 4 : 3}) {
            Numbers numbers(shapes, type);
            CHECK(run(host, *context, numbers, place));
            const auto mode = has_points ? MSDA_SAMPLING_NEAREST : MSDA_SAMPLING_BILINEAR;
            CHECK(numbers.output == numbers.expected(host.driver, points, mode));
          }
        }
      }
    }
  }
  CHECK(host.finder.log.lines.empty());
}

void refusals(Host& host) {
  const auto plugin = host.create(false);
  auto& runtime = part<IPluginV3OneRuntime>(*plugin);
  Numbers numbers(Shapes{}, DataType::kFLOAT);
  const std::vector<char> untouched = numbers.output;
  const auto fails = [&](const char* words) {
    void* const outputs[] = {numbers.output.data()};
    const void* const inputs[] = {nullptr, nullptr, nullptr};
    CHECK(runtime.enqueue(nullptr, nullptr, inputs, outputs, nullptr, nullptr) != 0);
    CHECK(host.said(words));
  };
  CHECK(!run(host, *plugin, numbers, -1));
  CHECK(host.said("level_hw is not known"));
  fails("enqueue() was called before onShapeChange()");
  CHECK(Inferred(*plugin, Shapes{}.inputs(), Shapes{}.level_hw).status == 0);

  struct Case {
    std::function<void(std::vector<PluginTensorDesc>&, PluginTensorDesc&)> change;
    const char* words;
  };
  const Case cases[] = {
      {[](auto& in, auto&) { in[0].dims.d[1] = 15; },
       "value is [2, 15, 2, 8]: dimension 1 must be 16"},
      {[](auto& in, auto&) { in[0].dims.d[0] = -1; },
       "value is [?, 16, 2, 8]: must have known dimensions"},
      {[](auto& in, auto&) { in[1].dims.d[3] = -7; },
       "coord is [2, 5, 2, -7, 2]: must have known dimensions"},
      {[](auto& in, auto&) { in[1].dims.nbDims = 99; },
       "coord has a number of dimensions that is not known"},
      {[](auto& in, auto&) { in[1].dims.nbDims = -1; },
       "coord has a number of dimensions that is not known"},
      {[](auto& in, auto&) { in[2].type = DataType::kHALF; },
       "weight has another type than float32"},
      {[](auto& in, auto&) { in[0].type = DataType::kINT8; },
       "value is not float32, float16 or bfloat16"},
      {[](auto& in, auto&) { in.pop_back(); }, "2 inputs beside level_hw"},
      {[](auto&, auto& out) { out.dims.d[1] = 6; }, "output is [2, 6, 2, 8], but"},
      {[](auto&, auto& out) { out.type = DataType::kHALF; }, "output has another type than value"},
  };
  for (const Case& one : cases) {
    CHECK(run(host, *plugin, numbers, -1));
    numbers.output = untouched;
    auto in = numbers.descriptions();
    PluginTensorDesc out = desc(DataType::kFLOAT, Shapes{}.output());
    one.change(in, out);
    CHECK(runtime.onShapeChange(in.data(), static_cast<std::int32_t>(in.size()), &out, 1) != 0);
    CHECK(host.said(one.words));
    fails("enqueue() was called before onShapeChange()");  // the plan before is gone
    CHECK(numbers.output == untouched);
  }
  CHECK(run(host, *plugin, numbers, -1));
  fails("value");  // a null pointer, which msda_execute() refuses
  const auto finds_no_device = [&](const char* words) {
    const auto in = numbers.descriptions();
    const PluginTensorDesc out = desc(DataType::kFLOAT, Shapes{}.output());
    CHECK(runtime.onShapeChange(in.data(), static_cast<std::int32_t>(in.size()), &out, 1) != 0);
    CHECK(host.said(words));
  };
  host.driver.make_current(false);
  finds_no_device("no current CUDA device: cuCtxGetDevice() returned 201");
  host.driver.make_current(true);
  if (int* const device = host.driver.mock_device()) {
    *device = 4711;
    finds_no_device("handle_options.device is 4711");
  }
}

/** Shapes, sizes of levels and types that are changed at random: a call has a result, or says one
 * line. */
void damaged(Host& host) {
  std::mt19937 random(1);
  const auto below = [&](std::size_t count) { return std::size_t{random()} % count; };
  const std::int64_t sizes[] = {kAny, INT64_MIN, -7, 0, 1, 3, INT32_MAX, 1LL << 31, INT64_MAX};
  const DataType types[] = {DataType::kHALF, DataType::kINT64, static_cast<DataType>(99)};
  std::map<bool, int> inferred, planned;  // how many of them were taken, and not
  for (int round = 0; round < 3000; ++round) {
    const Shapes shapes{.fused = below(2) == 0, .reference = below(2) == 0 ? 2 : 4};
    auto inputs = shapes.inputs();
    auto level_hw = shapes.level_hw;
    for (std::size_t changes = below(3); changes > 0; --changes) {
      auto& shape = below(4) == 0 ? level_hw : inputs[below(inputs.size())];
      const std::size_t kind = below(8);
      if (kind == 0) {
        shape.push_back(2);
      } else if (kind == 1) {
        shape.pop_back();
      } else if (kind == 2) {
        inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(below(inputs.size())));
      } else if (!shape.empty()) {
        shape[below(shape.size())] = sizes[below(std::size(sizes))];
      }
    }
    const auto plugin = host.create(shapes.fused);
    const auto is_right = [&](bool is_taken, std::map<bool, int>& counts) {
      ++counts[is_taken];
      CHECK(is_taken ? host.finder.log.lines.empty() : host.said(""));
    };
    is_right(Inferred(*plugin, inputs, level_hw).status == 0, inferred);
    std::vector<PluginTensorDesc> in;
    for (const auto& shape : inputs) in.push_back(desc(DataType::kFLOAT, shape));
    if (below(4) == 0) in[below(in.size())].type = types[below(std::size(types))];
    PluginTensorDesc out = desc(in[0].type, shapes.output());
    if (below(2) == 0) std::copy_n(in[0].dims.d, 4, out.dims.d);  // with as many queries as it has
    out.dims.d[1] = in.back().dims.d[1];
    // A plan of the mock's CPU for 2^31 channels has gigabytes of scratch.
    if (in[0].dims.d[3] > INT16_MAX) continue;
    const auto count = static_cast<std::int32_t>(in.size());
    auto& runtime = part<IPluginV3OneRuntime>(*plugin);
    is_right(runtime.onShapeChange(in.data(), count, &out, 1) == 0, planned);
  }
  CHECK(std::min({inferred[false], inferred[true], planned[false], planned[true]}) > 300);
}

/** Runs the problem of the file, and writes its output to FILE.out. The file has int32 numbers:
 * fused, DataType, batch, queries, heads, channels, reference's components, levels, level_hw,
 * points; then the inputs. */
void golden(Host& host) {
  std::ifstream from(host.file, std::ios::binary);
  const auto read = [&](std::size_t count) {
    std::vector<std::int32_t> numbers(count);
    from.read(reinterpret_cast<char*>(numbers.data()), static_cast<std::streamsize>(4 * count));
    return numbers;
  };
  const std::vector<std::int32_t> head = read(8);
  const auto levels = static_cast<std::size_t>(head[7]);
  const std::vector<std::int32_t> level_hw = read(2 * levels), points = read(levels);
  Shapes shapes{.fused = head[0] != 0,
                .batch = head[2],
                .queries = head[3],
                .heads = head[4],
                .dim = head[5],
                .reference = head[6]};
  shapes.level_hw.assign(level_hw.begin(), level_hw.end());
  shapes.points = {0};
  for (const std::int32_t count : points) shapes.points[0] += count;
  Numbers numbers(shapes, static_cast<DataType>(head[1]));
  for (auto& bytes : numbers.memory) {
    from.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  CHECK(from.good() && from.peek() == std::ifstream::traits_type::eof());
  const auto count = static_cast<std::int32_t>(levels);
  const auto plugin = host.create(
      shapes.fused, {{"points", points.data(), PluginFieldType::kINT32, count},
                     {"level_hw", level_hw.data(), PluginFieldType::kINT32, 2 * count}});
  CHECK(run(host, *plugin, numbers, -1));
  CHECK(numbers.output == numbers.expected(host.driver, points, MSDA_SAMPLING_BILINEAR));
  std::ofstream(host.file + ".out", std::ios::binary)
      .write(numbers.output.data(), static_cast<std::streamsize>(numbers.output.size()));
}

const std::map<std::string, void (*)(Host&)> kCases{
    {"creators", creators},
    {"damaged", damaged},
    {"output_shapes", output_shapes},
    {"wrong_shapes", wrong_shapes},
    {"formats", formats},
    {"fields", fields},
    {"golden", golden},
    {"wrong_fields", wrong_fields},
    {"results", results},
    {"refusals", refusals},
};

}  // namespace

int main(int count, char** arguments) {
  if ((count != 4 && count != 5) || kCases.count(arguments[3]) == 0) {
    for (const auto& [name, body] : kCases) std::printf("%s\n", name.c_str());
    return 2;
  }
  try {
    Host host(arguments[1], arguments[2], count == 5 ? arguments[4] : "");
    kCases.at(arguments[3])(host);
  } catch (const std::exception& error) {
    std::printf("thrown: %s\n", error.what());
    return 1;
  }
  return faults == 0 ? 0 : 1;
}
