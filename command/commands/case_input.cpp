#include "command/commands/case_input.h"

#include "command/commands/input_arrays.h"
#include "command/files/input_error.h"
#include "command/files/stored_array.h"
#include "command/files/text_values.h"
#include "core/join.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <map>

namespace msda::command {

namespace {

namespace fs = std::filesystem;

// The names that models use, with their shapes: [K] is [L][P] there.
struct UsualName {
  std::string_view tensor;
  std::string_view file;
  std::string_view axes;
};
constexpr UsualName kUsualNames[] = {{"coord", "sampling_locations", "BQMLP2"},
                                     {"weight", "attention_weights", "BQMLP"}};

// Null: the file has the tensor's own name.
UsualName const* usual_name(std::string_view tensor, bool usual) {
  auto const* const found = std::ranges::find(kUsualNames, tensor, &UsualName::tensor);
  return usual && found != std::end(kUsualNames) ? found : nullptr;
}

std::string file_name(std::string_view tensor, bool usual) {
  UsualName const* const name = usual_name(tensor, usual);
  return std::string(name == nullptr ? tensor : name->file);
}

msda_point_locality told_locality(Options const& options) {
  if (options.point_locality == kOfPattern) {
    bad_input("{} is pattern: only workloads have one; must be unknown, local or scattered",
              options.label("point-locality"));
  }
  return parse_locality(options.point_locality);
}

// Arrays that a file may hold; others get a note, so that a misspelt optional one is seen.
bool is_known(std::string_view name) {
  constexpr std::string_view kOthers[] = {
      "level_hw",          "level_start",        "points",           "query_hw", "spatial_shapes",
      "level_start_index", "sampling_locations", "attention_weights"};
  auto const& rows = tensor_rows();
  return std::ranges::find(kOthers, name) != std::end(kOthers) ||
         std::ranges::find(rows, name, &TensorRow::name) != rows.end();
}

class NpzCase {
 public:
  NpzCase(fs::path const& path, Options const& options)
      : npz_(path),
        options_(options),
        usual_(!npz_.has("coord") &&
               (npz_.has("sampling_locations") || npz_.has("spatial_shapes"))) {}

  Case load() {
    note_unknown();
    ProblemShape& spec = case_.spec;
    set_computation(options_, spec);
    spec.point_locality = told_locality(options_);
    read_levels();
    read_tensors();
    read_sizes();
    for (TensorRow const& row : tensor_rows()) check_shape(row);
    return std::move(case_);
  }

 private:
  std::string label(std::string_view name) const {
    return fmt::format("{}: {}", npz_.path(), name);
  }

  void note_unknown() {
    for (std::string const& name : npz_.names()) {
      if (!is_known(name))
        case_.remarks.push_back(fmt::format("note: {} is not used", label(name)));
    }
  }

  std::vector<std::int32_t> read_pairs(std::string const& name) const {
    StoredArray const array = npz_.read(name);
    auto const values = to_integers(array, label(name));
    if (array.shape.size() != 2 || array.shape[1] != 2) {
      bad_input("{} has shape {}: must be [levels, 2] = (H, W)", label(name),
                shape_text(array.shape));
    }
    return to_sizes(values, label(name));
  }

  void read_levels() {
    ProblemShape& spec = case_.spec;
    spec.levels = make_levels(read_pairs(usual_ ? "spatial_shapes" : "level_hw"), {0});
    if (npz_.has("query_hw")) spec.query_hw = read_pairs("query_hw");
  }

  void read_tensors() {
    // Only here, where the file is open, can fused be told from sampled.
    bool const is_fused = !usual_ && !npz_.has("coord") && npz_.has("offset");
    if (is_fused) case_.spec.reference_dim = 2;
    for (TensorRow const& row : tensor_rows()) {
      std::string const name = file_name(row.name, usual_);
      bool const is_wanted = row.is_input() && (!row.is_optional() || npz_.has(name));
      if (!is_wanted || !row.belongs_to(case_.spec)) continue;
      Array array = to_floats(npz_.read(name), type_wish(options_, row), label(name));
      file_shapes_.emplace(row.name, array.shape);
      if (usual_) array.shape = flat_shape(row, array.shape);
      case_.arrays.emplace(row.name, std::move(array));
    }
    if (usual_) require_head_axis();
  }

  // There is one head where an array has no head axis: no other may have more.
  void require_head_axis() const {
    for (TensorRow const& row : tensor_rows()) {
      auto const shape = file_shapes_.find(row.name);
      std::string const axes = file_axes(row);
      if (shape == file_shapes_.end() || shape->second.size() + 1 != axes.size()) continue;
      for (auto const& [tensor, array] : case_.arrays) {
        bool const has_heads = array.shape.size() > 2 && array.shape[2] != 1;
        if (!has_heads) continue;
        bad_input("{} has shape {}: must be [{}] with M = {}, which {} of shape {} has",
                  label(file_name(row.name, usual_)), shape_text(shape->second), join(axes, ", "),
                  array.shape[2], file_name(tensor, usual_), shape_text(file_shapes_.at(tensor)));
      }
    }
  }

  std::string file_axes(TensorRow const& row) const {
    UsualName const* const name = usual_name(row.name, usual_);
    return std::string(name == nullptr ? row.axes : name->axes);
  }

  // The shape that a tensor should have in the file: [L][P] for [K] by the usual names, and no head
  // axis where it has none.
  Shape expected_shape(TensorRow const& row) const {
    Shape expected = tensor_shape(case_.spec, row);
    std::string const axes = file_axes(row);
    Shape const& shape = file_shapes_.find(row.name)->second;
    if (axes != row.axes) {
      std::int64_t const levels = case_.spec.level_count();
      expected[3] = levels == 0 ? 0 : case_.spec.point_total() / levels;
      expected.insert(expected.begin() + 3, levels);
    }
    if (usual_ && shape.size() + 1 == expected.size()) expected.erase(expected.begin() + 2);
    return expected;
  }

  // The usual names have [L][P] for [K], and old files have no head axis when there is one head.
  Shape flat_shape(TensorRow const& row, Shape shape) {
    if (row.name == "value" || row.name == "grad_output") {
      if (shape.size() == 3) shape.insert(shape.begin() + 2, 1);
      return shape;
    }
    UsualName const* const name = usual_name(row.name, true);
    if (name == nullptr) return shape;
    Shape const stored = shape;
    if (shape.size() + 1 == name->axes.size()) shape.insert(shape.begin() + 2, 1);
    if (shape.size() != name->axes.size()) {
      bad_input("{} has shape {}: must be [{}]", label(name->file), shape_text(stored),
                join(name->axes, ", "));
    }
    auto const levels = case_.spec.level_count();
    if (shape[3] != levels) {
      bad_input("{} has shape {}: spatial_shapes has {} levels", label(name->file),
                shape_text(stored), levels);
    }
    shape[3] *= to_sizes({shape[4]}, label(name->file))[0];
    shape.erase(shape.begin() + 4);
    return shape;
  }

  Shape const& shape_of(std::string_view tensor, std::size_t rank) const {
    Shape const& shape = case_.arrays.find(tensor)->second.shape;
    if (shape.size() != rank) {
      bad_input("{} has shape {}: must have {} dimensions", label(file_name(tensor, usual_)),
                shape_text(file_shapes_.find(tensor)->second), rank);
    }
    return shape;
  }

  void read_sizes() {
    ProblemShape& spec = case_.spec;
    Shape const& value = shape_of("value", 4);
    Shape const& weight = shape_of(spec.fused() ? "logit" : "weight", 4);
    spec.batch = value[0];
    spec.head_count = value[2];
    spec.head_dim = value[3];
    spec.query_count = weight[1];
    read_points(weight[3]);
    if (spec.fused()) {
      spec.reference_dim = static_cast<std::int32_t>(shape_of("reference", 4)[3]);
      if (spec.reference_dim != 2 && spec.reference_dim != 4) {
        bad_input("{} has shape {}: the last dimension must be 2 or 4", label("reference"),
                  shape_text(shape_of("reference", 4)));
      }
    }
    LevelEvidence evidence{value[1], options_.level_start, label("value")};
    char const* const starts = usual_ ? "level_start_index" : "level_start";
    if (npz_.has(starts)) {
      evidence.level_start_index = to_integers(npz_.read(starts), label(starts));
      evidence.label = fmt::format("{}: value and {}", npz_.path(), starts);
    }
    place_levels(case_, options_, evidence);
  }

  void read_points(std::int64_t total) {
    ProblemShape& spec = case_.spec;
    std::int64_t const levels = spec.level_count();
    if (!usual_ && npz_.has("points")) {
      auto const stored = to_integers(npz_.read("points"), label("points"));
      spec.levels = levels_with(to_sizes(stored, label("points")), spec.level_hw(), label("points"),
                                "entries: level_hw has");
    } else if (options_.points && options_.points->size() > 1) {
      spec.levels = levels_with(*options_.points, spec.level_hw(), options_.label("points"),
                                "numbers: the input has");
    } else if (levels > 0) {
      if (total % levels != 0) {
        bad_input(
            "{}: {} points do not divide by {} levels: an array 'points' or --points must say "
            "how many each level has",
            npz_.path(), total, levels);
      }
      spec.levels = make_levels(spec.level_hw(), to_sizes({total / levels}, "points"));
    }
  }

  void check_shape(TensorRow const& row) const {
    Array const* const array = case_.find(row.name);
    if (array == nullptr) return;
    Shape const expected = tensor_shape(case_.spec, row);
    if (array->shape == expected) return;
    Shape const& shape = file_shapes_.find(row.name)->second;
    std::string axes = file_axes(row);
    if (usual_ && shape.size() + 1 == axes.size()) axes.erase(2, 1);
    bad_input("{} has shape {}: must be [{}] = {}", label(file_name(row.name, usual_)),
              shape_text(shape), join(axes, ", "), shape_text(expected_shape(row)));
  }

  NpzReader npz_;
  Options const& options_;
  bool usual_;
  Case case_;
  std::map<std::string, Shape, std::less<>> file_shapes_;  // as the file has them
};

// A folder of raw files, which say nothing of themselves but their length.
class FolderCase {
 public:
  FolderCase(fs::path folder, Options const& options)
      : folder_(std::move(folder)), options_(options) {}

  Case load() {
    ProblemShape& spec = case_.spec;
    std::error_code error;
    if (!fs::is_directory(folder_, error)) {
      bool const is_known = !error || error == std::errc::no_such_file_or_directory ||
                            error == std::errc::not_a_directory;
      bad_input("{} {}", folder_.string(),
                is_known ? "is not a folder" : "cannot be read: " + error.message());
    }
    set_computation(options_, spec);
    spec.point_locality = told_locality(options_);
    spec.batch = require("batch", options_.batch);
    spec.query_count = require("queries", options_.queries);
    spec.head_count = options_.heads.value_or(kHeads);
    spec.head_dim = options_.channels.value_or(kChannels);
    read_levels();
    for (TensorRow const& row : tensor_rows()) {
      if (row.is_input() && !row.is_optional() && row.belongs_to(spec)) read_tensor(row);
    }
    return std::move(case_);
  }

 private:
  // The old data contract: one head of 32 channels, 8 points a level, f16 values.
  static constexpr std::int64_t kHeads = 1;
  static constexpr std::int64_t kChannels = 32;
  static constexpr std::int32_t kPoints = 8;
  static constexpr msda_dtype kValueType = MSDA_DTYPE_F16;

  fs::path path(std::string_view name) const { return folder_ / fmt::format("{}.bin", name); }

  std::int64_t require(const char* name, std::optional<std::int64_t> const& value) const {
    if (!value) bad_input("--{} is missing: raw files do not say their sizes", name);
    return *value;
  }

  std::vector<std::int64_t> read_int64(const char* name, std::size_t row_bytes) const {
    StoredArray array{'i', 8, {}, read_file(path(name))};
    if (array.bytes.size() % row_bytes != 0) {
      bad_input("{} has {} bytes: must be a multiple of {} (int64{})", path(name).string(),
                array.bytes.size(), row_bytes, row_bytes == 16 ? " height and width" : "");
    }
    return to_integers(array, path(name).string());
  }

  void read_levels() {
    ProblemShape& spec = case_.spec;
    auto const shapes = read_int64("spatial_shapes", 16);
    refuse_int32(shapes);
    auto const level_hw = to_sizes(shapes, path("spatial_shapes").string());
    auto const points = options_.points.value_or(std::vector<std::int32_t>{kPoints});
    spec.levels =
        levels_with(points, level_hw, options_.label("points"), "numbers: spatial_shapes.bin has");
    LevelEvidence evidence{std::nullopt, std::nullopt, path("value").string()};
    std::error_code error;
    if (fs::exists(path("level_start_index"), error)) {
      auto const starts = read_int64("level_start_index", 8);
      if (starts.size() != spec.levels.size()) {
        bad_input("{} has {} entries of int64: spatial_shapes.bin has {} levels",
                  path("level_start_index").string(), starts.size(), spec.levels.size());
      }
      evidence.level_start_index = starts;
      evidence.label = path("level_start_index").string();
    }
    evidence.token_count = value_tokens(evidence.level_start_index);
    place_levels(case_, options_, evidence);
  }

  // Pairs of int32, read as int64, have a height or width of 2^32 or more.
  void refuse_int32(std::vector<std::int64_t> const& shapes) const {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    bool is_int32 = !shapes.empty();
    std::string pairs;
    for (std::int64_t const both : shapes) {
      std::int64_t const height = both & 0xFFFFFFFF, width = both >> 32;
      is_int32 = is_int32 && width > 0 && height <= kMost;
      pairs += fmt::format("{}[{}, {}]", pairs.empty() ? "" : ", ", height, width);
    }
    if (!is_int32) return;
    bad_input("{} must be int64: its bytes look like int32, {}", path("spatial_shapes").string(),
              pairs);
  }

  // The size of value.bin tells S where the starts do not: without starts, with one level, which
  // starts at 0 with a border and without, and with levels in another order or with gaps.
  std::optional<std::int64_t> value_tokens(
      std::optional<std::vector<std::int64_t>> const& starts) const {
    TypeWish const wish = type_wish(options_, tensor_row(TensorId::kValue));
    msda_dtype const type = wish.stored == MSDA_DTYPE_NONE ? kValueType : wish.stored;
    Shape const token = {case_.spec.batch, case_.spec.head_count, case_.spec.head_dim};
    std::size_t const bytes = byte_count(token, type_bytes(type), "a token of value");
    std::error_code error;
    auto const size = fs::file_size(path("value"), error);
    if (error || bytes == 0 || size % bytes != 0) return std::nullopt;
    auto const tokens = static_cast<std::int64_t>(size / bytes);
    if (starts && !follow_each_other(case_.spec, *starts)) return tokens;
    if (starts && starts->size() != 1) return std::nullopt;
    bool const fits =
        tokens == token_count_with(case_.spec, 0) || tokens == token_count_with(case_.spec, 1);
    return fits ? std::optional(tokens) : std::nullopt;
  }

  void read_tensor(TensorRow const& row) {
    fs::path const file = path(file_name(row.name, true));
    Shape const shape = tensor_shape(case_.spec, row);
    TypeWish const wish = type_wish(options_, row);
    Bytes bytes = read_file(file);
    for (msda_dtype const type : candidate_types(row, wish)) {
      if (byte_count(shape, type_bytes(type), file.string()) != bytes.size()) continue;
      case_.arrays.emplace(row.name, Array(type, shape, std::move(bytes)));
      return;
    }
    refuse_size(row, wish, file, shape, bytes.size());
  }

  std::vector<msda_dtype> candidate_types(TensorRow const& row, TypeWish const& wish) const {
    if (wish.stored != MSDA_DTYPE_NONE) return {wish.stored};
    if (row.dtype == &ProblemShape::value_dtype) return {kValueType};
    if (row.dtype == &ProblemShape::output_dtype) {
      msda_dtype const value = wanted_value_type(options_);
      msda_dtype const type = value == MSDA_DTYPE_NONE ? case_.arrays.at("value").type : value;
      return {default_result_dtype(type)};
    }
    return {MSDA_DTYPE_F32, MSDA_DTYPE_F16};
  }

  [[noreturn]] void refuse_size(TensorRow const& row, TypeWish const& wish, fs::path const& file,
                                Shape const& shape, std::size_t bytes) const {
    std::vector<std::string> choices;
    for (msda_dtype const type : candidate_types(row, wish)) {
      choices.push_back(fmt::format(
          "{} bytes of {}", byte_count(shape, type_bytes(type), file.string()), type_name(type)));
    }
    bad_input("{} has {} bytes: [{}] = {} is {} (sizes are set by options, the type by {})",
              file.string(), bytes, join(row.axes, ", "), shape_text(shape), join(choices, " or "),
              wish.flag);
  }

  fs::path folder_;
  Options const& options_;
  Case case_;
};

// Few numbers, in rows of `columns` if these are more than one. They stand behind the header.
template <typename T>
FileArray number_array(std::string name, std::vector<T> const& numbers, std::size_t columns = 1) {
  Shape shape = {static_cast<std::int64_t>(numbers.size() / columns)};
  if (columns > 1) shape.push_back(static_cast<std::int64_t>(columns));
  std::string header = npy_header(fmt::format("<i{}", sizeof(T)), shape);
  header.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
  return {std::move(name), std::move(header), {}};
}

}  // namespace

msda_dtype wanted_value_type(Options const& options) {
  return options.value_dtype.value_or(options.dtype.value_or(MSDA_DTYPE_NONE));
}

void set_computation(Options const& options, ProblemShape& spec) {
  spec.operation = options.backward ? MSDA_BACKWARD : MSDA_FORWARD;
  spec.math_mode = options.fast_math ? MSDA_MATH_FAST : MSDA_MATH_ACCURATE;
  spec.sampling_mode = options.sampling;
  if (options.any_order) spec.determinism = MSDA_NONDETERMINISTIC;
  msda_dtype points = MSDA_DTYPE_NONE;  // what --dtype stands for in coordinates and weights
  if (options.dtype) points = *options.dtype == MSDA_DTYPE_F64 ? MSDA_DTYPE_F64 : MSDA_DTYPE_F32;
  spec.value_dtype = wanted_value_type(options);
  spec.coord_dtype = options.coord_dtype.value_or(points);
  spec.reference_dtype = options.reference_dtype.value_or(spec.coord_dtype);
  spec.weight_dtype = options.weight_dtype.value_or(points);
  spec.output_dtype = options.output_dtype.value_or(MSDA_DTYPE_NONE);
  spec.grad_value_dtype = options.grad_value_dtype.value_or(MSDA_DTYPE_NONE);
}

std::vector<FileArray> case_arrays(Case const& input) {
  ProblemShape const& spec = input.spec;
  std::vector<FileArray> arrays = {number_array("level_hw", spec.level_hw(), 2),
                                   number_array("points", spec.point_counts())};
  if (!spec.level_start.empty() || spec.tokens != 0) {
    arrays.push_back(number_array("level_start", spec.level_starts()));
  }
  if (!spec.query_hw.empty()) arrays.push_back(number_array("query_hw", spec.query_hw, 2));
  for (auto const& [name, array] : input.arrays) arrays.push_back(file_array(name, array));
  return arrays;
}

bool has_file(Options const& options) {
  bool const is_named = options.input || options.npz;
  if (is_named && !options.workloads.empty()) bad_input("give a file or --workload, not both");
  return is_named;
}

Case load_case(Options const& options) {
  if (options.input.has_value() + options.npz.has_value() + options.dir.has_value() != 1) {
    bad_input(
        "give one input: an .npz file, or --dir with a folder of .bin files; "
        "`msda bench --workload dec --save-inputs tensors.npz` writes a file to begin with");
  }
  std::string const path = options.dir ? *options.dir : options.npz ? *options.npz : *options.input;
  std::error_code error;
  bool const is_folder = options.dir || (options.input && fs::is_directory(path, error));
  Case input = is_folder ? FolderCase(path, options).load() : NpzCase(path, options).load();
  require_options_agree(input.spec, options);
  settle_types(input);
  return input;
}

}  // namespace msda::command
