// The errors of every kernel on some shapes beside those kept in tests/cases/errors.csv.
//
// MSDA_TEST_WRITE_ERRORS=FILE writes the file anew, with the entries of kernels that do not run on
// this machine as they are.

#include "support/case_file.h"
#include "support/error_store.h"
#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/only_target.h"
#include "support/runner.h"
#include "support/source_path.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <set>

using namespace msda::test;

namespace {

// Shapes of models, and sums of few, many and uneven terms.
constexpr const char* kCases[] = {"encoder",     "decoder",      "rtdetr",    "dfine",
                                  "rfdetr",      "bev",          "bev_heads", "bordered",
                                  "one_channel", "odd_channels", "wide_head", "many_points",
                                  "many_levels", "far_outside",  "fast",      "fast_f8"};

std::string errors_path() { return source_path("tests/cases/errors.csv"); }

ResultErrors errors_of(TestHandle const& handle, TestProblem const& problem,
                       ExpectationsByArithmetic& expected, std::string const& kernel_id) {
  RunResult const result = run(handle, problem, kernel_id);
  REQUIRE(result.failure == "");
  ErrorSum sum;
  for (TensorRow const& row : tensor_rows()) {
    if (!row.is_result() || !row.belongs_to(problem.shape)) continue;
    Comparison const comparison =
        compare(expected[arithmetic_of(kernel_id)][row.id], result.values[row.id]);
    REQUIRE(comparison.failure == "");
    sum.add(comparison);
  }
  return sum.total();
}

// Instruction sets add in other orders: where there are several, the largest error counts.
void measure(msda_handle_options const& options, std::vector<std::int64_t> const& targets,
             ErrorStore& found) {
  for (const char* const name : kCases) {
    for (ProblemShape shape : corpus_case(name).shapes()) {
      for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
        shape.operation = operation;
        TestProblem const problem = corpus_case(name).make(shape);
        ExpectationsByArithmetic expected(problem);
        for (std::size_t i = 0; i < targets.size(); ++i) {
          OnlyTarget const only(targets[i]);
          TestHandle const handle(options);
          for (std::string const& id : accepting_kernels(handle, shape)) {
            if (i > 0 && !id.starts_with("simd.")) continue;
            CAPTURE(id);
            std::string const key = fmt::format("{},{},{},{}", name, type_name(shape.value_dtype),
                                                shape.backward() ? "backward" : "forward", id);
            found.keep(key, errors_of(handle, problem, expected, id));
          }
        }
      }
    }
  }
}

// Entries of kernels for the GPU or for the CPU. True where they were written and there is nothing
// to compare.
bool write_if_asked(ErrorStore const& found, bool on_gpu) {
  const char* const path = std::getenv("MSDA_TEST_WRITE_ERRORS");
  if (path == nullptr || *path == '\0') return false;
  ErrorStore all = ErrorStore::read(errors_path());
  all.forget_if([=](std::string_view id) { return is_for_gpu(std::string(id)) == on_gpu; });
  for (std::string const& key : found.keys()) all.keep(key, *found.find(key));
  all.write(path);
  MESSAGE(found.keys().size(), " entries written to ", path);
  return true;
}

// The keys found that the file does not have.
std::vector<std::string> compare_stores(ErrorStore const& kept, ErrorStore const& found) {
  std::vector<std::string> missing;
  for (std::string const& key : found.keys()) {
    CAPTURE(key);
    ResultErrors const* const before = kept.find(key);
    if (before == nullptr) {
      missing.push_back(key);
    } else {
      CHECK(worse_than(*before, *found.find(key)) == "");
    }
  }
  return missing;
}

}  // namespace

TEST_CASE("errors are at most 3 times those kept") {
  ErrorStore found;
  measure(cpu_options(), vector_targets(), found);
  REQUIRE(!found.keys().empty());
  if (write_if_asked(found, false)) return;
  ErrorStore const kept = ErrorStore::read(errors_path());
  std::vector<std::string> const missing = compare_stores(kept, found);
  for (std::string const& key : missing) FAIL_CHECK(key, " is not in ", errors_path());
  for (std::string const& key : kept.keys()) {
    if (is_for_gpu(std::string(kernel_of_key(key))) || found.find(key) != nullptr) continue;
    FAIL_CHECK(key, " is in ", errors_path(), ", and no kernel and case is that");
  }
}

TEST_CASE("errors are at most 3 times those kept, on the GPU" * needs_gpu()) {
  ErrorStore found;
  measure(gpu_options(), {0}, found);
  REQUIRE(!found.keys().empty());
  if (write_if_asked(found, true)) return;
  std::vector<std::string> const missing = compare_stores(ErrorStore::read(errors_path()), found);
  std::set<std::string_view> kernels;
  for (std::string const& key : missing) kernels.insert(kernel_of_key(key));
  fmt::print("[errors ] {} of {} results on the GPU have no entry in tests/cases/errors.csv{}\n",
             missing.size(), found.keys().size(),
             missing.empty() ? "" : fmt::format(", of {} kernels: not compared", kernels.size()));
}
