// What hears of test cases as they run: a listener overrides what it wants to know.
#pragma once

#include <doctest/doctest.h>

namespace msda::test {

class CaseListener : public doctest::IReporter {
 public:
  void report_query(doctest::QueryData const&) override {}
  void test_run_start() override {}
  void test_run_end(doctest::TestRunStats const&) override {}
  void test_case_start(doctest::TestCaseData const&) override {}
  void test_case_end(doctest::CurrentTestCaseStats const&) override {}
  void test_case_reenter(doctest::TestCaseData const&) override {}
  void test_case_exception(doctest::TestCaseException const&) override {}
  void test_case_skipped(doctest::TestCaseData const&) override {}
  void subcase_start(doctest::SubcaseSignature const&) override {}
  void subcase_end() override {}
  void log_assert(doctest::AssertData const&) override {}
  void log_message(doctest::MessageData const&) override {}
};

}  // namespace msda::test
