#include "support/unchecked_cases.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

namespace msda::test {
namespace {

std::vector<std::string>& unchecked() {
  static std::vector<std::string> names;
  return names;
}

class UncheckedListener : public doctest::IReporter {
 public:
  explicit UncheckedListener(doctest::ContextOptions const&) {}

  void test_case_start(doctest::TestCaseData const& test) override { name_ = test.m_name; }
  void test_case_end(doctest::CurrentTestCaseStats const& stats) override {
    if (stats.numAssertsCurrentTest == 0) unchecked().push_back(name_);
  }

  void report_query(doctest::QueryData const&) override {}
  void test_run_start() override {}
  void test_run_end(doctest::TestRunStats const&) override {}
  void test_case_reenter(doctest::TestCaseData const&) override {}
  void test_case_exception(doctest::TestCaseException const&) override {}
  void test_case_skipped(doctest::TestCaseData const&) override {}
  void subcase_start(doctest::SubcaseSignature const&) override {}
  void subcase_end() override {}
  void log_assert(doctest::AssertData const&) override {}
  void log_message(doctest::MessageData const&) override {}

 private:
  std::string name_;
};

REGISTER_LISTENER("unchecked", 1, UncheckedListener);

}  // namespace

bool report_unchecked_cases() {
  for (std::string const& name : unchecked()) {
    fmt::print("[checks ] ERROR: \"{}\" ran and checked nothing\n", name);
  }
  return unchecked().empty();
}

}  // namespace msda::test
