#include "support/unchecked_cases.h"

#include "support/case_listener.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace msda::test {
namespace {

std::vector<std::string>& unchecked() {
  static std::vector<std::string> names;
  return names;
}

class UncheckedListener : public CaseListener {
 public:
  explicit UncheckedListener(doctest::ContextOptions const&) {}

  void test_case_start(doctest::TestCaseData const& test) override { name_ = test.m_name; }
  void test_case_end(doctest::CurrentTestCaseStats const& stats) override {
    if (stats.numAssertsCurrentTest == 0) unchecked().push_back(name_);
  }

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
