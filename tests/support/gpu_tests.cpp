#include "support/gpu_tests.h"

#include "support/case_listener.h"

#include <msda.h>

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace msda::test {

// The test cases that need so many devices.
struct GpuSuite {
  GpuSuite(const char* suite_name, int devices) : name(suite_name) {
    msda_handle_options options{};
    options.struct_size = sizeof(options);
    options.device = devices - 1;
    msda_handle* handle = nullptr;
    available = msda_handle_create(&options, &handle) == MSDA_SUCCESS;
    if (!available) absence = msda_last_error();
    msda_handle_destroy(handle);
  }

  const char* name;
  bool available = false;
  std::string absence;
  int case_count = 0;
  int ran_count = 0;
};

namespace {

GpuSuite& one_gpu() {
  static GpuSuite suite("gpu", 1);
  return suite;
}

GpuSuite& two_gpus() {
  static GpuSuite suite("two gpus", 2);
  return suite;
}

// Sees which cases run.
class GpuListener : public CaseListener {
 public:
  explicit GpuListener(doctest::ContextOptions const&) {}

  void test_case_start(doctest::TestCaseData const& test) override {
    for (GpuSuite* const suite : {&one_gpu(), &two_gpus()}) {
      if (std::string(test.m_test_suite) == suite->name) ++suite->ran_count;
    }
  }
};

REGISTER_LISTENER("gpu", 1, GpuListener);

}  // namespace

void NeedsGpus::fill(doctest::detail::TestCase& test) const {
  test.m_test_suite = suite_->name;
  test.m_skip = test.m_skip || !suite_->available;
  ++suite_->case_count;
}

bool gpu_available() { return one_gpu().available; }

NeedsGpus needs_gpu() { return NeedsGpus(one_gpu()); }

NeedsGpus needs_gpus(int count) {
  if (count != 2) throw std::invalid_argument("needs_gpus: there is a suite for 2 devices only");
  return NeedsGpus(two_gpus());
}

void report_gpu_tests() {
  for (GpuSuite const* const suite : {&one_gpu(), &two_gpus()}) {
    if (suite->case_count == 0) continue;
    bool const skipped = !suite->available && suite->ran_count == 0;
    fmt::print("[gpu    ] suite \"{}\": {} cases, {} ran, {} skipped{}{}\n", suite->name,
               suite->case_count, suite->ran_count, skipped ? suite->case_count : 0,
               skipped ? ": " : "", skipped ? suite->absence : "");
  }
}

}  // namespace msda::test
