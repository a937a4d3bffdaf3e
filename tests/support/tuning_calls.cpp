#include "support/tuning_calls.h"

#include "support/guarded_buffer.h"

#include <algorithm>
#include <stdexcept>

namespace msda::test {
namespace {

PlanResult plan_result(msda_status status, msda_plan* plan) {
  auto* const untouched = reinterpret_cast<msda_plan*>(0x5);
  if (status == MSDA_SUCCESS) return {PlanPtr(plan), status, ""};
  if (plan != untouched) throw std::runtime_error("a call that failed has set its plan");
  return {nullptr, status, msda_last_error()};
}

}  // namespace

msda_plan_options plan_options(msda_plan_mode mode) {
  msda_plan_options options{};
  options.struct_size = sizeof(options);
  options.mode = mode;
  return options;
}

PlanResult make_plan(TestHandle const& handle, ProblemShape const& shape,
                     msda_plan_options const& options) {
  ProblemCopy const view = shape.copy();
  auto* plan = reinterpret_cast<msda_plan*>(0x5);
  msda_status const status = msda_plan_create(handle.get(), &view.c, &options, &plan);
  return plan_result(status, plan);
}

PlanResult tune_plan(TestHandle const& handle, ProblemShape const& shape,
                     msda_tensors const& sample, TuneRequest const& request) {
  ProblemCopy const view = shape.copy();
  auto* plan = reinterpret_cast<msda_plan*>(0x5);
  msda_status const status = msda_plan_tune(handle.get(), &view.c, &request.options, &sample,
                                            request.stream, request.budget_ms, &plan);
  return plan_result(status, plan);
}

std::string export_records(TestHandle const& handle) {
  std::size_t bytes = 0;
  if (msda_tuning_export(handle.get(), nullptr, &bytes) != MSDA_SUCCESS) {
    throw std::runtime_error(msda_last_error());
  }
  std::string text;
  msda_status status = MSDA_ERROR_BUFFER_TOO_SMALL;
  // Another thread may add or replace records between two calls.
  while (status == MSDA_ERROR_BUFFER_TOO_SMALL) {
    text.assign(bytes, 'x');
    status = msda_tuning_export(handle.get(), text.data(), &bytes);
  }
  if (status != MSDA_SUCCESS) throw std::runtime_error(msda_last_error());
  if (bytes == 0 || text.find('\0') != bytes - 1) {
    throw std::runtime_error("an exported text does not end where it says");
  }
  text.resize(bytes - 1);
  return text;
}

Answer import_records(TestHandle const& handle, std::string const& text) {
  GuardedBuffer const memory(text.size(), 1);
  std::transform(text.begin(), text.end(), memory.data(), [](char c) { return std::byte(c); });
  auto const* const bytes = reinterpret_cast<const char*>(memory.data());
  msda_status const status = msda_tuning_import(handle.get(), bytes, text.size());
  return {status, status == MSDA_SUCCESS ? "" : msda_last_error()};
}

}  // namespace msda::test
