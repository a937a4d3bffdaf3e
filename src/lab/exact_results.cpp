#include "lab/exact_results.h"

#include "lab/forward_bound.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace msda::lab {
namespace {

constexpr std::int64_t kBytesAtATime = std::int64_t{64} << 20;  // of float64 tensors
// Of a kernel's bound, how far two float64 kernels may be apart: a float64 rounding is 2^-29 of a
// float32 one.
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

ProblemShape in_float64(ProblemShape spec) {
  spec.value_dtype = spec.coord_dtype = spec.weight_dtype = MSDA_DTYPE_F64;
  spec.output_dtype = spec.grad_value_dtype = MSDA_DTYPE_F64;
  spec.math_mode = MSDA_MATH_ACCURATE;
  return spec;
}

// Multiplies [..][M][D] by the scales of its heads, if there are any.
void apply_scale(Case const& input, Array& array) {
  Array const* const scale = input.find("value_scale");
  if (scale == nullptr) return;
  std::vector<double> const factors = scale->decode();
  std::span<double> const elements = float64_elements(array);
  auto const channels = static_cast<std::size_t>(input.spec.head_dim);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] *= factors[i / channels % factors.size()];
  }
}

// The same numbers; a scale is multiplied into the values.
Case in_float64(Case input) {
  std::int64_t overflow_count = 0;  // there is none
  for (auto& [name, array] : input.arrays) {
    if (name != "value_scale") array = convert(std::move(array), MSDA_DTYPE_F64, overflow_count);
  }
  apply_scale(input, input.arrays.find("value")->second);
  input.arrays.erase("value_scale");
  input.spec = in_float64(std::move(input.spec));
  return input;
}

std::int64_t items_at_a_time(ProblemShape const& full) {
  ProblemShape item = in_float64(full);
  item.batch = 1;
  std::size_t bytes = 1;
  for (TensorRow const& row : tensor_rows()) {
    if (row.is_optional() || !row.belongs_to(item)) continue;
    bytes += byte_count(tensor_shape(item, row), sizeof(double), row.name);
  }
  return std::max<std::int64_t>(1, kBytesAtATime / static_cast<std::int64_t>(bytes));
}

std::vector<NamedArray> run(Case const& input, Engine const& engine, std::string const& kernel_id) {
  Runner runner(engine, input.spec, kernel_id);
  auto results = make_results(input.spec, {});
  runner.bind(input, results);
  runner.execute();
  runner.fetch();
  return results;
}

// With |value| and |weight| the output is sum |w c v|. Logits stay: what the softmax makes of them
// is positive.
Array forward_bounds(ForwardBound const& bound, Case const& part, Engine const& engine,
                     std::string const& kernel_id) {
  Case absolute = part;
  for (auto& [name, array] : absolute.arrays) {
    if (name != "value" && name != "weight") continue;
    for (double& x : float64_elements(array)) x = std::fabs(x);
  }
  Array bounds = std::move(run(absolute, engine, kernel_id)[0].second);
  add_bound(bound, part, float64_elements(bounds));
  return bounds;
}

// Of a gradient's largest element, how far any may be off: by the sums, and by the coordinates. Two
// roundings move a pixel position by at most 2 u max(W, H), which changes a derivative by at most
// that times the difference of the derivatives at two pixels, twice the largest.
double gradient_tolerance(ProblemShape const& spec) {
  bool const is_f64 = spec.value_dtype == MSDA_DTYPE_F64;
  std::int32_t side = 0;
  for (auto const& level : spec.levels) side = std::max({side, level.height, level.width});
  return (is_f64 ? 1e-13 : 1e-5) +
         4.0 * side * unit_roundoff(is_f64 ? MSDA_DTYPE_F64 : MSDA_DTYPE_F32);
}

// Of all elements the same: a share of the largest.
void set_gradient_bound(Expected& expected, double tolerance) {
  std::ranges::fill(float64_elements(expected.bound),
                    tolerance * largest_magnitude(float64_elements(expected.exact)));
}

// Batch items of an array, from the first on.
void copy_items(Array const& items, std::int64_t first, Array& full) {
  if (items.bytes.empty()) return;
  std::size_t const item_bytes = items.bytes.size() / static_cast<std::size_t>(items.shape[0]);
  std::ranges::copy(items.bytes,
                    full.bytes.begin() + static_cast<std::ptrdiff_t>(item_bytes) * first);
}

}  // namespace

ExactResults::ExactResults(Case const& input, Engine const& engine, Case const& whole)
    : kernel_id_(float64_kernel(engine)) {
  ProblemShape const& spec = input.spec;
  for (TensorRow const& row : tensor_rows()) {
    if (!row.is_result() || !row.belongs_to(spec)) continue;
    Shape const shape = tensor_shape(spec, row);
    expected_.push_back({std::string(row.name), tensor_type(spec, row),
                         Array(MSDA_DTYPE_F64, shape), Array(MSDA_DTYPE_F64, shape)});
  }
  std::optional<ForwardBound> bound;
  if (!spec.backward()) bound = forward_bound(whole);
  std::int64_t const step = items_at_a_time(spec);
  for (std::int64_t first = 0; first < spec.batch; first += step) {
    Part const items = batch_range(spec, first, std::min(first + step, spec.batch));
    Case const part = in_float64(take_part(input, items));
    auto exact = run(part, engine, kernel_id_);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (expected_[i].name == "grad_value") apply_scale(input, exact[i].second);
      copy_items(exact[i].second, first, expected_[i].exact);
    }
    if (!bound) continue;
    copy_items(forward_bounds(*bound, part, engine, kernel_id_), first, expected_[0].bound);
  }
  for (Expected& expected : expected_) {
    if (spec.backward()) set_gradient_bound(expected, gradient_tolerance(spec));
  }
}

Accuracy ExactResults::compare(std::vector<NamedArray> const& results) const {
  Accuracy accuracy;
  for (auto const& [name, result] : results) {
    for (Expected const& expected : expected_) {
      if (name == expected.name) accuracy.merge(lab::compare(result, expected));
    }
  }
  return accuracy;
}

ExactResults ExactResults::rows(Part const& part) const {
  ExactResults result;
  result.kernel_id_ = kernel_id_;
  for (Expected const& expected : expected_) {
    result.expected_.push_back({expected.name, expected.type, take_part(expected.exact, part, true),
                                take_part(expected.bound, part, true)});
  }
  return result;
}

Accuracy ExactResults::agreement(ExactResults const& others) const {
  Accuracy accuracy;
  for (std::size_t i = 0; i < expected_.size(); ++i) {
    auto const& [name, type, exact, bound] = others.expected_[i];
    Expected const results = {"the sample's " + name, MSDA_DTYPE_F64, exact, bound};
    Expected const bounds = {"the bound of the sample's " + name, MSDA_DTYPE_F64, bound, bound};
    accuracy.merge(lab::compare(expected_[i].exact, results, kAgreement));
    accuracy.merge(lab::compare(expected_[i].bound, bounds, kAgreement));
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

}  // namespace msda::lab
