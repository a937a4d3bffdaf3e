#include "support/json_summary.h"

#include "support/case_listener.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>

namespace msda::test {
namespace {

using nlohmann::json;

json& summary() {
  static json object = {{"cases", json::array()}};
  return object;
}

void add_case(doctest::TestCaseData const& test, const char* result) {
  summary()["cases"].push_back(
      {{"suite", test.m_test_suite}, {"name", test.m_name}, {"result", result}});
}

class SummaryListener : public CaseListener {
 public:
  explicit SummaryListener(doctest::ContextOptions const&) {}

  void report_query(doctest::QueryData const& query) override {
    for (unsigned i = 0; i < query.num_data; ++i) add_case(*query.data[i], "listed");
  }
  void test_case_start(doctest::TestCaseData const& test) override { test_ = &test; }
  void test_case_end(doctest::CurrentTestCaseStats const& stats) override {
    add_case(*test_, stats.testCaseSuccess ? "passed" : "failed");
  }
  // Also told of those that the filters leave out.
  void test_case_skipped(doctest::TestCaseData const& test) override {
    if (test.m_skip) add_case(test, "skipped");
  }
  void test_run_end(doctest::TestRunStats const& stats) override {
    summary()["assertions"] = stats.numAsserts;
    summary()["failed_assertions"] = stats.numAssertsFailed;
  }

 private:
  doctest::TestCaseData const* test_ = nullptr;
};

REGISTER_LISTENER("json", 1, SummaryListener);

}  // namespace

void note_random_problems(std::string const& operation, std::string const& kernel, int problems,
                          double largest_error) {
  summary()["random"].push_back({{"operation", operation},
                                 {"kernel", kernel},
                                 {"problems", problems},
                                 {"largest_error", largest_error}});
}

bool write_json_summary() {
  const char* const path = std::getenv("MSDA_TEST_JSON");
  if (path == nullptr || *path == '\0') return true;
  std::ofstream file(path);
  file << summary().dump(1) << '\n';
  file.close();
  if (!file) fmt::print(stderr, "MSDA_TEST_JSON={}: cannot be written\n", path);
  return static_cast<bool>(file);
}

}  // namespace msda::test
