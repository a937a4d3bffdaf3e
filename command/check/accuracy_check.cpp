#include "command/check/accuracy_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace msda::command {
namespace {

constexpr std::int64_t kLogitsAtATime = std::int64_t{1} << 20;
// exp(-x) of a larger x is no normal float32 number.
constexpr double kLargestDistance = 128;
constexpr double kSmallestNormal = 0x1p-126;

void take_softmax(std::span<double> row, std::span<double> bounds, double u) {
  double const largest = *std::ranges::max_element(row);
  double sum = 0;
  for (double const logit : row) sum += std::exp(logit - largest);
  for (std::size_t k = 0; k < row.size(); ++k) {
    double const distance = std::fmin(largest - row[k], kLargestDistance);
    row[k] = std::exp(row[k] - largest) / sum;
    double const bound = row[k] * u * (8 + static_cast<double>(row.size()) + 2 * distance);
    bounds[k] = std::isfinite(bound) ? bound + kSmallestNormal : 0;
  }
}

Expected softmax_of(Array const& logit, msda_dtype type, double u) {
  Shape const& shape = logit.shape;
  Expected expected{"attention", type, Array(MSDA_DTYPE_F64, shape), Array(MSDA_DTYPE_F64, shape)};
  std::vector<double> const logits = logit.decode();
  std::span<double> const exact = float64_elements(expected.exact);
  std::ranges::copy(logits, exact.begin());
  auto const K = static_cast<std::size_t>(shape.back());
  for (std::size_t first = 0; first < exact.size(); first += K) {
    take_softmax(exact.subspan(first, K), float64_elements(expected.bound).subspan(first, K), u);
  }
  return expected;
}

}  // namespace

AccuracyCheck::AccuracyCheck(Case const& input, Engine const& engine, CheckOptions const& options)
    : input_(input), engine_(engine) {
  if (options.mode == CheckMode::kNone) return;
  Engine const cpu(MSDA_DEVICE_CPU, options.thread_count);
  if (options.mode == CheckMode::kSample && options.query_count == 0) {
    whole_.emplace(input, cpu, input);
    return;
  }
  part_ = choose_part(input.spec, options.query_count, options.seed);
  sample_input_ = take_part(input, part_);
  sample_.emplace(*sample_input_, cpu, input);
  if (options.mode == CheckMode::kSample) return;
  // A float64 kernel of the device would be compared with itself.
  Engine const& other = input.spec.value_dtype == MSDA_DTYPE_F64 ? cpu : engine;
  whole_.emplace(input, other, input);
  reference_accuracy_ = whole_->finiteness();
  reference_accuracy_.merge(input.spec.backward()
                                ? ExactResults(*sample_input_, other, input).agreement(*sample_)
                                : whole_->rows(part_).agreement(*sample_));
  if (!reference_accuracy_.passed()) {
    reference_accuracy_.value_count = 0;  // of the kernels' results
    reference_accuracy_.first_wrong =
        fmt::format("the reference {} is wrong itself: {}", whole_->kernel_id(),
                    reference_accuracy_.first_wrong);
  }
}

Accuracy AccuracyCheck::check(std::vector<NamedArray> const& results,
                              std::string const& kernel_id) const {
  if (!reference_accuracy_.passed()) return reference_accuracy_;
  if (whole_) return whole_->compare(results);
  if (!sample_) return {};
  if (!input_.spec.backward()) {
    return sample_->compare(
        {{results[0].first,
          take_part(results[0].second, tensor_row(TensorId::kOutput).axes, part_)}});
  }
  return sample_->compare(run_kernel(*sample_input_, engine_, kernel_id));
}

std::string AccuracyCheck::reference_id() const {
  return whole_ ? whole_->kernel_id() : sample_ ? sample_->kernel_id() : "";
}

Accuracy check_attention(Case const& input, Array const& attention) {
  ProblemShape const& spec = input.spec;
  bool const is_f64 = spec.value_dtype == MSDA_DTYPE_F64 && spec.weight_dtype == MSDA_DTYPE_F64;
  double const u = is_f64 ? 0x1p-53 : 0x1p-24;
  std::string_view const axes = tensor_row(TensorId::kAttention).axes;
  std::int64_t const of_query = std::max<std::int64_t>(spec.head_count * spec.point_total(), 1);
  std::int64_t const step = std::max<std::int64_t>(kLogitsAtATime / of_query, 1);
  Part part = whole_part(spec);
  Accuracy accuracy;
  for (std::int64_t b = 0; b < spec.batch; ++b) {
    part.batch_items = {b};
    for (std::int64_t q = 0; q < spec.query_count; q += step) {
      part.queries = number_range(q, std::min(q + step, spec.query_count));
      Expected expected =
          softmax_of(take_part(*input.find("logit"), axes, part), spec.weight_dtype, u);
      expected.origin = {b, q, 0, 0};
      accuracy.merge(compare(take_part(attention, axes, part), expected));
    }
  }
  return accuracy;
}

}  // namespace msda::command
