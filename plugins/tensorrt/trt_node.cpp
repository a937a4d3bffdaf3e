#include "trt_node.h"

#include <cstring>
#include <limits>
#include <string_view>

namespace msda::trt {
namespace {

using nvinfer1::PluginField;
using nvinfer1::PluginFieldType;

constexpr const char* kPoints = "points";
constexpr const char* kLevels = "level_hw";

// An attribute that is one of some words; the field of Settings is the word's number.
struct Choice {
  const char* name;
  std::vector<const char*> words;
  std::int32_t Settings::* field;
};

const std::array<Choice, 3>& choices() {
  static const std::array<Choice, 3> list{{
      {"math_mode", {"accurate", "fast"}, &Settings::math_mode},
      {"point_locality", {"unknown", "local", "scattered"}, &Settings::point_locality},
      {"sampling_mode", {"bilinear", "nearest"}, &Settings::sampling_mode},
  }};
  return list;
}

std::int32_t checked_size(const std::string& name, std::int64_t number) {
  if (number < 0 || number > std::numeric_limits<std::int32_t>::max()) {
    refuse(name + " is " + std::to_string(number) + ": must be 0 to 2147483647");
  }
  return static_cast<std::int32_t>(number);
}

void check_data(const PluginField& field) {
  if (field.length < 0 || (field.length > 0 && field.data == nullptr)) {
    refuse(std::string("attribute ") + field.name + " has no data");
  }
}

std::vector<std::int32_t> read_sizes(const PluginField& field) {
  check_data(field);
  const bool is_wide = field.type == PluginFieldType::kINT64;
  if (!is_wide && field.type != PluginFieldType::kINT32) {
    refuse(std::string("attribute ") + field.name + " has field type " +
           std::to_string(static_cast<std::int32_t>(field.type)) + ": must be int32 or int64");
  }
  std::vector<std::int32_t> sizes;
  for (std::int32_t i = 0; i < field.length; ++i) {
    const std::int64_t number = is_wide ? static_cast<const std::int64_t*>(field.data)[i]
                                        : static_cast<const std::int32_t*>(field.data)[i];
    const std::string name = std::string("attribute ") + field.name + "[" + std::to_string(i) + "]";
    sizes.push_back(checked_size(name, number));
  }
  return sizes;
}

std::int32_t read_choice(const PluginField& field, const Choice& choice) {
  check_data(field);
  if (field.type != PluginFieldType::kCHAR) {
    refuse(std::string("attribute ") + field.name + " has field type " +
           std::to_string(static_cast<std::int32_t>(field.type)) + ": must be text");
  }
  std::string_view text(static_cast<const char*>(field.data),
                        static_cast<std::size_t>(field.length));
  text = text.substr(0, text.find('\0'));  // with the NUL at its end, or without
  std::string list;
  for (std::size_t i = 0; i < choice.words.size(); ++i) {
    if (text == choice.words[i]) return static_cast<std::int32_t>(i);
    list += std::string(i == 0 ? "" : ", ") + choice.words[i];
  }
  refuse(std::string("attribute ") + field.name + " is '" + std::string(text) +
         "': must be one of " + list);
}

void check_level_count(std::size_t count) {
  if (count == 0 || count % 2 != 0) {
    refuse("level_hw has " + std::to_string(count) + " numbers: must have two for each level");
  }
}

std::int64_t pixels_of(const std::vector<std::int32_t>& level_hw) {
  std::int64_t end = 0;
  for (std::size_t i = 0; i < level_hw.size(); i += 2) {
    const std::int64_t pixels = std::int64_t{level_hw[i]} * level_hw[i + 1];
    if (__builtin_add_overflow(end, pixels, &end)) {
      refuse("level_hw has more pixels than an int64 counts");
    }
  }
  return end;
}

}  // namespace

const std::array<Form, 2>& forms() {
  static const std::array<Form, 2> list{{
      {"MSDeformAttn", {"value", "coord", "weight"}},
      {"MSDeformAttnFused", {"value", "reference", "offset", "logit"}},
  }};
  return list;
}

void Levels::set(const std::vector<std::int32_t>& level_hw) {
  check_level_count(level_hw.size());
  const std::lock_guard lock(mutex_);
  if (!level_hw_.empty() && level_hw_ != level_hw) {
    refuse(
        "level_hw differs from that of an earlier use of this plugin: create one for each layer");
  }
  level_hw_ = level_hw;
}

std::vector<std::int32_t> Levels::get() const {
  const std::lock_guard lock(mutex_);
  return level_hw_;
}

std::vector<PluginField> field_names() {
  std::vector<PluginField> fields{{kPoints, nullptr, PluginFieldType::kINT32, 0},
                                  {kLevels, nullptr, PluginFieldType::kINT32, 0}};
  for (const Choice& choice : choices()) {
    fields.emplace_back(choice.name, nullptr, PluginFieldType::kCHAR, 0);
  }
  return fields;
}

void read_fields(const nvinfer1::PluginFieldCollection& fields, Settings& settings,
                 Levels& levels) {
  for (std::int32_t i = 0; i < fields.nbFields; ++i) {
    const PluginField& field = fields.fields[i];
    const std::string_view name = field.name == nullptr ? "" : field.name;
    if (name == kPoints) settings.points = read_sizes(field);
    if (name == kLevels) levels.set(read_sizes(field));
    for (const Choice& choice : choices()) {
      if (name == choice.name) settings.*choice.field = read_choice(field, choice);
    }
  }
}

std::vector<PluginField> fields_of(const Settings& settings,
                                   const std::vector<std::int32_t>& level_hw) {
  std::vector<PluginField> fields;
  const auto add = [&fields](const char* name, const std::vector<std::int32_t>& numbers) {
    if (numbers.empty()) return;
    fields.emplace_back(name, numbers.data(), PluginFieldType::kINT32,
                        static_cast<std::int32_t>(numbers.size()));
  };
  add(kPoints, settings.points);
  add(kLevels, level_hw);
  for (const Choice& choice : choices()) {
    const char* const word = choice.words[static_cast<std::size_t>(settings.*choice.field)];
    fields.emplace_back(choice.name, word, PluginFieldType::kCHAR,
                        static_cast<std::int32_t>(std::strlen(word)));
  }
  return fields;
}

std::vector<std::int32_t> read_levels(const nvinfer1::DimsExprs& values) {
  const Tensor known = tensor_of("level_hw", values);
  std::vector<std::int32_t> level_hw;
  for (std::size_t i = 0; i < known.shape.size(); ++i) {
    const std::string name = "level_hw[" + std::to_string(i) + "]";
    if (values.d[i] == nullptr || !values.d[i]->isConstant()) {
      refuse(name +
             " is not a constant: the sizes of levels must be known when an engine is built");
    }
    level_hw.push_back(checked_size(name, known.shape[i]));
  }
  check_level_count(level_hw.size());
  return level_hw;
}

msda_problem read_problem(const Form& form, const Settings& settings,
                          const std::vector<std::int32_t>& level_hw,
                          const std::vector<Tensor>& inputs) {
  const Tensor &value = inputs[0], &points = inputs[form.points()], &weights = inputs.back();
  plugins::check_rank(value, 4, "[B, S, M, D]");
  auto problem = make<msda_problem>();
  problem.level_hw = level_hw.data();
  problem.level_count = static_cast<std::int32_t>(level_hw.size() / 2);
  plugins::check_dim(value, 1, pixels_of(level_hw), "the pixels of level_hw");
  problem.batch = value.shape[0];
  problem.token_count = value.shape[1];
  problem.head_count = value.shape[2];
  problem.head_dim = value.shape[3];
  problem.query_count = points.shape.size() < 2 ? kUnknown : points.shape[1];
  problem.math_mode = settings.math_mode;
  problem.point_locality = settings.point_locality;
  problem.sampling_mode = settings.sampling_mode;
  const std::int64_t total = plugins::read_points(points, 1, problem);
  const std::int64_t weight_total = plugins::read_points(weights, 0, problem);
  if (total != kUnknown && weight_total != kUnknown && total != weight_total) {
    refuse(described(weights) + ": must have the " + std::to_string(total) + " points of " +
           points.name);
  }
  plugins::share_points(points, total, settings.points, problem);
  if (form.is_fused()) plugins::read_reference(inputs[1], problem);
  return problem;
}

}  // namespace msda::trt
