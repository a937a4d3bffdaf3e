#include "command/check/exact_results.h"

#include "command/check/forward_bound.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace msda::command {
namespace {

// A part's tensors have a quarter of the inputs' own bytes, within these limits.
constexpr std::size_t kLeastBytes = std::size_t{4} << 20;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
// Two float64 kernels may be apart by this part of a kernel's bound: a float64 rounding is 2^-29 of
// a float32 one.
constexpr double kAgreement = 0x1p-24;

std::string float64_kernel(Engine const& engine) {
  for (msda_kernel_info const& kernel : engine.handle.kernels()) {
    std::string_view const id = kernel.kernel_id;
    std::string_view const family = kernel.family;
    bool const is_generic = engine.device == MSDA_DEVICE_CPU
                                ? family == "ref"
                                : family == "direct" && id.find(".f64.dany.pany@") != id.npos;
    if (is_generic) return std::string(id);
  }
  throw std::runtime_error("the library has no float64 kernel to check with");
}

// The problem that the exact kernel gets. ref.cpu computes in float64 whatever the types, but its
// gradients have the types of what they are of. The type of coordinates decides which pixel is the
// nearest.
ProblemShape exact_problem(ProblemShape spec, bool is_cpu) {
  if (!is_cpu) spec.value_dtype = MSDA_DTYPE_F64;
  if (!is_cpu || spec.backward()) {
    spec.weight_dtype = MSDA_DTYPE_F64;
    if (!spec.nearest()) spec.coord_dtype = spec.reference_dtype = MSDA_DTYPE_F64;
  }
  spec.output_dtype = spec.grad_value_dtype = MSDA_DTYPE_F64;
  spec.math_mode = MSDA_MATH_ACCURATE;
  return spec;
}

// Clears the signs of all elements, whatever their type: it is the highest bit of the last byte.
void clear_signs(Array& array) {
  std::size_t const step = type_bytes(array.type);
  for (std::size_t i = step - 1; i < array.bytes.size(); i += step)
    array.bytes[i] &= std::byte{0x7F};
}

// One bound for all elements.
Array one_bound(double bound) {
  Array array(MSDA_DTYPE_F64, {1});
  float64_elements(array)[0] = bound;
  return array;
}

// 0 .. size - 1 in parts of at most `step`; one empty part where there is nothing.
std::vector<std::vector<std::int64_t>> ranges(std::int64_t size, std::int64_t step) {
  std::vector<std::vector<std::int64_t>> parts;
  for (std::int64_t first = 0; first < size; first += step) {
    parts.push_back(number_range(first, std::min(first + step, size)));
  }
  if (parts.empty()) parts.emplace_back();
  return parts;
}

// The most, from 1 to `size`, of which `bytes_of` says that they are no more than `bytes`. It grows
// by the same for each.
template <typename BytesOf>
std::int64_t most_within(std::size_t bytes, std::int64_t size, BytesOf const& bytes_of) {
  std::size_t const none = bytes_of(0);
  std::size_t const each = std::max<std::size_t>(1, bytes_of(1) - none);
  auto const count = static_cast<std::int64_t>((bytes - std::min(bytes, none)) / each);
  return std::clamp<std::int64_t>(count, 1, std::max<std::int64_t>(size, 1));
}

// Bytes that the exact kernel needs for a problem: its inputs once, results with the sums of parts
// and the bounds beside them.
std::size_t needed_bytes(ProblemShape const& spec) {
  constexpr std::size_t kCopiesOfResults = 3;
  std::size_t bytes = 0;
  for (TensorRow const& row : tensor_rows()) {
    if (row.is_optional() || !row.belongs_to(spec)) continue;
    bytes += (row.is_result() ? kCopiesOfResults : 1) * tensor_bytes(spec, row);
  }
  return bytes;
}

std::size_t bytes_of(Case const& input) {
  std::size_t bytes = 0;
  for (auto const& [name, array] : input.arrays) bytes += array.bytes.size();
  return bytes;
}

// How many of each a part has. Half of its bytes are for value and its gradient, of which channels
// are taken one by one only where one head has more; the other half is for what queries have.
ProblemShape part_sizes(ProblemShape const& spec, std::size_t bytes) {
  ProblemShape sizes = spec;
  auto const bytes_with = [&sizes](std::int64_t ProblemShape::* size) {
    return [&sizes, size](std::int64_t count) {
      ProblemShape changed = sizes;
      changed.*size = count;
      return needed_bytes(changed);
    };
  };
  sizes.batch = most_within(bytes, spec.batch, bytes_with(&ProblemShape::batch));
  if (needed_bytes(sizes) <= bytes) return sizes;
  sizes.query_count = 0;
  sizes.head_count = most_within(bytes / 2, spec.head_count, bytes_with(&ProblemShape::head_count));
  sizes.head_dim = most_within(bytes / 2, spec.head_dim, bytes_with(&ProblemShape::head_dim));
  sizes.query_count = most_within(std::max(bytes, needed_bytes(sizes) + bytes / 2),
                                  spec.query_count, bytes_with(&ProblemShape::query_count));
  return sizes;
}

// Any element of a gradient may be off by this part of the largest: by the sums, and by the
// coordinates. Two roundings move a pixel position by at most 2 u max(W, H), which changes a
// derivative by at most that times the difference of the derivatives at two pixels, twice the
// largest.
double gradient_tolerance(ProblemShape const& spec) {
  bool const is_f64 = spec.value_dtype == MSDA_DTYPE_F64;
  std::int32_t side = 0;
  for (auto const& level : spec.levels) side = std::max({side, level.height, level.width});
  return (is_f64 ? 1e-13 : 1e-5) +
         4.0 * side * unit_roundoff(is_f64 ? MSDA_DTYPE_F64 : MSDA_DTYPE_F32);
}

// Every element of every result comes once. Bounds of gradients, which the largest element decides,
// are 1.
using Visit = std::function<void(TensorRow const& row, Part const& part, Expected const& expected)>;

// The results by the kernel that takes every problem of the engine's device: ref.cpu, or on a GPU
// the generic one. It computes a part at a time (batch items, heads, channels, queries), so that it
// needs about as much memory as the inputs: ref.cpu takes values as they are, what else has to be
// float64 is converted, to which every type converts exactly. Results of parts that differ in what
// a result sums over (queries for grad_value; channels for gradients of points, and heads for that
// of references) are added up until all have come.
class ExactParts {
 public:
  ExactParts(Case const& input, Engine const& engine, Case const& whole, Visit const& visit)
      : input_(input), engine_(engine), visit_(visit) {
    if (!input_.spec.backward()) bound_ = forward_bound(whole);
  }

  void run() {
    ProblemShape const& spec = input_.spec;
    for (auto const& items : ranges(spec.batch, sizes_.batch)) {
      part_.batch_items = items;
      for (auto const& heads : ranges(spec.head_count, sizes_.head_count)) {
        part_.heads = heads;
        for (auto const& channels : ranges(spec.head_dim, sizes_.head_dim)) {
          part_.channels = channels;
          run_values();
        }
      }
    }
    for (auto& [name, sum] : sums_) finish(sum);
  }

 private:
  struct Sum {
    TensorRow const* row = nullptr;
    Part part;
    Array array;
  };

  // The values of the part with all its queries.
  void run_values() {
    Case values = take_values();
    std::vector<double> differences;
    if (bound_) differences = largest_differences(values);
    make_exact(values);
    auto const parts = ranges(input_.spec.query_count, sizes_.query_count);
    for (auto const& queries : parts) {
      part_.queries = queries;
      take_queries(values);
      std::vector<NamedArray> results = run_kernel(values, engine_, kernel_id_);
      if (bound_) {
        bool const is_last = &queries == &parts.back();
        Array bounds = magnitude_sums(is_last ? std::move(values) : values, differences);
        finish(tensor_row(TensorId::kOutput), part_, std::move(results[0].second),
               std::move(bounds));
      } else {
        for (auto& [name, array] : results) add(name, std::move(array));
      }
    }
  }

  // The bounds, from sum |w c v|: with |value| and |weight| it is the output. Logits keep their
  // signs: what the softmax makes of them is positive.
  Array magnitude_sums(Case magnitudes, std::vector<double> const& differences) const {
    for (auto& [name, array] : magnitudes.arrays) {
      if (name == "value" || name == "value_scale" || name == "weight") clear_signs(array);
    }
    Array bounds = std::move(run_kernel(magnitudes, engine_, kernel_id_)[0].second);
    add_bound(*bound_, magnitudes, differences, float64_elements(bounds));
    return bounds;
  }

  Case take_values() const {
    Case values;
    values.spec = take_part(input_.spec, part_);
    for (TensorId const id : {TensorId::kValue, TensorId::kValueScale}) {
      TensorRow const& row = tensor_row(id);
      Array const* const array = input_.find(row.name);
      if (array != nullptr) values.arrays.emplace(row.name, take_part(*array, row.axes, part_));
    }
    return values;
  }

  // A kernel of a GPU gets values in float64, which have no scale.
  void make_exact(Case& values) const {
    if (is_cpu_) return;
    Array& value = values.arrays.find("value")->second;
    value = convert(std::move(value), MSDA_DTYPE_F64);
    apply_scale(values, float64_elements(value));
    values.arrays.erase("value_scale");
  }

  // Puts what the queries of the part have into the case.
  void take_queries(Case& values) const {
    values.spec = exact_problem(take_part(input_.spec, part_), is_cpu_);
    for (TensorRow const& row : tensor_rows()) {
      bool const has_queries = row.axes.starts_with("BQ") && row.is_input();
      if (!has_queries || !row.belongs_to(values.spec)) continue;
      values.arrays[std::string(row.name)] = convert(
          take_part(*input_.find(row.name), row.axes, part_), tensor_type(values.spec, row));
    }
  }

  // The elements of a result to which the part's results are added.
  Part place_of(TensorRow const& row) const {
    auto const has = [&row](char axis) { return row.axes.find(axis) != row.axes.npos; };
    Part const whole = whole_part(input_.spec);
    Part place = part_;
    if (!has('M')) place.heads = whole.heads;
    if (!has('D')) place.channels = whole.channels;
    bool const comes_again = (!has('M') && sizes_.head_count < input_.spec.head_count) ||
                             (!has('D') && sizes_.head_dim < input_.spec.head_dim);
    if (!has('Q') || comes_again) place.queries = whole.queries;
    return place;
  }

  void add(std::string const& name, Array array) {
    TensorRow const& row = *std::ranges::find(tensor_rows(), name, &TensorRow::name);
    array = convert(std::move(array), MSDA_DTYPE_F64);
    if (name == "grad_value" && !is_cpu_) apply_scale(take_values(), float64_elements(array));
    Part place = place_of(row);
    Sum& sum = sums_[name];
    bool const is_new = sum.row == nullptr || sum.part != place;
    Shape const shape = tensor_shape(take_part(input_.spec, place), row);
    if (is_new) {
      finish(sum);
      bool const is_all = array.shape == shape;
      sum = {&row, place, is_all ? std::move(array) : Array(MSDA_DTYPE_F64, shape)};
      if (is_all) return;
    }
    auto const add_to = [&array](Array& total) {
      std::span<double> const sums = float64_elements(total);
      std::ranges::transform(sums, float64_elements(array), sums.begin(), std::plus<>());
    };
    if (array.shape == shape) return add_to(sum.array);
    Part inside = whole_part(take_part(input_.spec, place));
    inside.queries = part_.queries;
    Array total = take_part(sum.array, row.axes, inside);
    add_to(total);
    put_part(sum.array, row.axes, inside, total);
  }

  void finish(Sum& sum) const {
    if (sum.row == nullptr) return;
    finish(*sum.row, sum.part, std::move(sum.array), one_bound(1));
  }

  void finish(TensorRow const& row, Part const& part, Array exact, Array bound) const {
    Expected expected{std::string(row.name), tensor_type(input_.spec, row), std::move(exact),
                      std::move(bound)};
    for (char const axis : row.axes) {
      auto const* const numbers = part.of(axis);
      expected.origin.push_back(numbers == nullptr || numbers->empty() ? 0 : numbers->front());
    }
    visit_(row, part, expected);
  }

  Case const& input_;
  Engine const& engine_;
  Visit const& visit_;
  std::string kernel_id_ = float64_kernel(engine_);
  bool is_cpu_ = engine_.device == MSDA_DEVICE_CPU;
  ProblemShape sizes_ =  // of a part, at most
      part_sizes(exact_problem(input_.spec, is_cpu_),
                 std::clamp(bytes_of(input_) / 4, kLeastBytes, kMostBytes));
  std::optional<ForwardBound> bound_;
  Part part_;
  std::map<std::string, Sum> sums_;  // of gradients, by name
};

}  // namespace

Accuracy compare_parts(Case const& input, Engine const& engine,
                       std::vector<NamedArray> const& results) {
  ProblemShape const& spec = input.spec;
  std::map<std::string, double> bounds;        // of gradients, once they are known
  std::map<std::string, double> largest;       // of their exact elements
  std::map<std::string, Accuracy> accuracies;  // of forward results, or by bounds of 1
  auto const compare_all = [&](std::map<std::string, Accuracy>& out) {
    Visit const visit = [&](TensorRow const& row, Part const& part, Expected const& expected) {
      auto const result = std::ranges::find(results, row.name, &NamedArray::first);
      if (result == results.end()) return;
      double& most = largest[expected.name];
      most = std::max(most, largest_magnitude(float64_elements(expected.exact)));
      double const factor = bounds.empty() ? 1 : bounds.at(expected.name);
      out[expected.name].merge(
          compare(take_part(result->second, row.axes, part), expected, factor));
    };
    ExactParts(input, engine, input, visit).run();
  };
  compare_all(accuracies);
  Accuracy all;
  for (auto& [name, accuracy] : accuracies) {
    if (spec.backward()) {
      double const bound = bounds[name] = gradient_tolerance(spec) * largest[name];
      double& share = accuracy.max_bound_share;  // of 1
      if (share > 0) share = bound > 0 ? share / bound : std::numeric_limits<double>::infinity();
      accuracy.wrong_count = share > 1;
    }
    all.merge(accuracy);
  }
  if (all.passed() || !spec.backward()) return all;
  // Once more with the bounds, for the wrong elements and their number.
  std::map<std::string, Accuracy> exactly;
  compare_all(exactly);
  all = {};
  for (TensorRow const& row : tensor_rows()) {
    auto const found = exactly.find(std::string(row.name));
    if (found != exactly.end()) all.merge(found->second);
  }
  return all;
}

ExactResults::ExactResults(Case const& input, Engine const& engine, Case const& whole)
    : kernel_id_(float64_kernel(engine)) {
  bool const backward = input.spec.backward();
  for (TensorRow const& row : tensor_rows()) {
    if (!row.is_result() || !row.belongs_to(input.spec)) continue;
    Shape const shape = tensor_shape(input.spec, row);
    expected_.push_back({std::string(row.name), tensor_type(input.spec, row),
                         Array(MSDA_DTYPE_F64, shape),
                         backward ? Array() : Array(MSDA_DTYPE_F64, shape)});
  }
  Visit const put = [this, backward](TensorRow const& row, Part const& part,
                                     Expected const& expected) {
    Expected& all = *std::ranges::find(expected_, expected.name, &Expected::name);
    put_part(all.exact, row.axes, part, expected.exact);
    if (!backward) put_part(all.bound, row.axes, part, expected.bound);
  };
  ExactParts(input, engine, whole, put).run();
  for (Expected& expected : expected_) {
    if (!backward) continue;
    expected.bound = one_bound(gradient_tolerance(input.spec) *
                               largest_magnitude(float64_elements(expected.exact)));
  }
}

Accuracy ExactResults::compare(std::vector<NamedArray> const& results) const {
  Accuracy accuracy;
  for (auto const& [name, result] : results) {
    for (Expected const& expected : expected_) {
      if (name == expected.name) accuracy.merge(command::compare(result, expected));
    }
  }
  return accuracy;
}

ExactResults ExactResults::rows(Part const& part) const {
  std::string_view const axes = tensor_row(TensorId::kOutput).axes;
  ExactResults result;
  result.kernel_id_ = kernel_id_;
  for (Expected const& expected : expected_) {
    result.expected_.push_back({expected.name, expected.type, take_part(expected.exact, axes, part),
                                take_part(expected.bound, axes, part)});
  }
  return result;
}

Accuracy ExactResults::agreement(ExactResults const& others) const {
  Accuracy accuracy;
  for (std::size_t i = 0; i < expected_.size(); ++i) {
    auto const& [name, type, exact, bound, origin] = others.expected_[i];
    Expected const results = {"the sample's " + name, MSDA_DTYPE_F64, exact, bound};
    Expected const bounds = {"the bound of the sample's " + name, MSDA_DTYPE_F64, bound, bound};
    accuracy.merge(command::compare(expected_[i].exact, results, kAgreement));
    accuracy.merge(command::compare(expected_[i].bound, bounds, kAgreement));
  }
  return accuracy;
}

Accuracy ExactResults::finiteness() const {
  Accuracy accuracy;
  for (Expected const& expected : expected_) {
    accuracy.merge(check_finite(expected.name, expected.exact));
  }
  return accuracy;
}

}  // namespace msda::command
