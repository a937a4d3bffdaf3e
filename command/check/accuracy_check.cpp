#include "command/check/accuracy_check.h"

#include <fmt/core.h>

namespace msda::command {

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
  Runner runner(engine_, sample_input_->spec, kernel_id);
  auto part = make_results(sample_input_->spec, {});
  runner.bind(*sample_input_, part);
  runner.execute();
  runner.fetch();
  return sample_->compare(part);
}

std::string AccuracyCheck::reference_id() const {
  return whole_ ? whole_->kernel_id() : sample_ ? sample_->kernel_id() : "";
}

}  // namespace msda::command
