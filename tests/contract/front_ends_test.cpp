// The golden vectors through C99 and through msda.hpp: the same bits as through the tests' own
// calls.

#include "contract/c_client.h"
#include "support/case_file.h"
#include "support/golden.h"
#include "support/runner.h"

#include <doctest/doctest.h>
#include <msda.hpp>

#include <cstring>

using namespace msda::test;

namespace {

// What both front ends are handed: the arrays of a golden file and room for its results.
struct Client {
  GoldenCase const& golden;
  std::vector<std::int32_t> level_hw, points;
  Arrays results;

  explicit Client(GoldenCase const& from) : golden(from) {
    for (LevelShape const& level : golden.problem.shape.levels) {
      level_hw.insert(level_hw.end(), {level.height, level.width});
      points.push_back(level.points);
    }
    for (TensorRow const& row : tensor_rows()) {
      if (row.is_result()) results[row.id].assign(golden.results[row.id].size(), -1.0);
    }
  }
  const double* input(TensorId id) const { return pointer(golden.problem.inputs[id]); }
  double* result(TensorId id) { return results[id].empty() ? nullptr : results[id].data(); }

  void check(TestHandle const& handle) {
    for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
      TestProblem problem = golden.problem;
      problem.shape.operation = operation;
      RunResult const expected = run(handle, problem, "");
      REQUIRE(expected.failure == "");
      for (TensorRow const& row : tensor_rows()) {
        if (!row.is_result() || !row.belongs_to(problem.shape)) continue;
        CAPTURE(row.name);
        std::vector<double> const& actual = results[row.id];
        REQUIRE(actual.size() == expected.values[row.id].size());
        CHECK(std::memcmp(actual.data(), expected.values[row.id].data(),
                          actual.size() * sizeof(double)) == 0);
      }
    }
  }

 private:
  static const double* pointer(std::vector<double> const& array) {
    return array.empty() ? nullptr : array.data();
  }
};

void run_through_c(Client& client) {
  ProblemShape const& shape = client.golden.problem.shape;
  c_client_case input{};
  input.level_hw = client.level_hw.data();
  input.points = client.points.data();
  input.level_count = static_cast<std::int32_t>(client.points.size());
  input.reference_dim = shape.reference_dim;
  input.batch = shape.batch;
  input.query_count = shape.query_count;
  input.head_count = shape.head_count;
  input.head_dim = shape.head_dim;
  input.value = client.input(TensorId::kValue);
  input.coord = client.input(TensorId::kCoord);
  input.weight = client.input(TensorId::kWeight);
  input.reference = client.input(TensorId::kReference);
  input.offset = client.input(TensorId::kOffset);
  input.logit = client.input(TensorId::kLogit);
  input.grad_output = client.input(TensorId::kGradOutput);
  input.output = client.result(TensorId::kOutput);
  input.grad_value = client.result(TensorId::kGradValue);
  input.grad_coord = client.result(TensorId::kGradCoord);
  input.grad_weight = client.result(TensorId::kGradWeight);
  input.grad_reference = client.result(TensorId::kGradReference);
  input.grad_offset = client.result(TensorId::kGradOffset);
  input.grad_logit = client.result(TensorId::kGradLogit);
  CHECK(c_client_run(&input) == MSDA_SUCCESS);
}

void run_through_cpp(Client& client) {
  msda::Handle const handle = msda::Handle::cpu(2);
  for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
    ProblemShape shape = client.golden.problem.shape;
    shape.operation = operation;
    ProblemCopy const view = shape.copy();
    msda::Plan const plan(handle, view.c);
    msda::Workspace workspace(plan);
    auto tensors = msda::make<msda_tensors>();
    for (TensorRow const& row : tensor_rows()) {
      set_pointer(
          tensors, row.id,
          row.is_result() ? client.result(row.id) : const_cast<double*>(client.input(row.id)));
    }
    workspace.attach(tensors);
    plan.execute(tensors);
    // The same plan from its bytes.
    msda::Plan const again = msda::Plan::deserialize(handle, plan.serialize());
    CHECK(std::string(again.info().kernel_id) == plan.info().kernel_id);
    again.execute(tensors);
  }
}

}  // namespace

TEST_CASE("golden vectors through C") {
  TestHandle const handle;
  for (GoldenCase const& golden : golden_cases()) {
    CAPTURE(golden.name);
    Client client(golden);
    run_through_c(client);
    client.check(handle);
  }
}

TEST_CASE("golden vectors through msda.hpp") {
  TestHandle const handle;
  for (GoldenCase const& golden : golden_cases()) {
    CAPTURE(golden.name);
    Client client(golden);
    run_through_cpp(client);
    client.check(handle);
  }
}

TEST_CASE("msda.hpp throws what the library says") {
  auto options = msda::make<msda_handle_options>();
  options.device = -7;
  try {
    msda::Handle const handle(options);
    FAIL("no handle was to be made");
  } catch (msda::Error const& error) {
    CHECK(error.status() == MSDA_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(error.what()).find("handle_options.device is -7") != std::string::npos);
  }
  msda::Handle const handle = msda::Handle::cpu(1);
  ProblemCopy const view = corpus_case("encoder").shape.copy();
  CHECK(handle.kernels().size() == kernel_ids(TestHandle(1)).size());
  std::string const text = handle.explain(view.c);
  CHECK(text.starts_with("1  "));
  CHECK(text.back() == '\n');
  auto forced = msda::make<msda_plan_options>();
  forced.mode = MSDA_PLAN_FORCED;
  forced.kernel_id = "no such kernel";
  CHECK_THROWS_AS(msda::Plan(handle, view.c, forced), msda::Error);
  CHECK_THROWS_AS(msda::Plan::deserialize(handle, {1, 2, 3}), msda::Error);
  msda::Plan plan(handle, view.c);
  CHECK_THROWS_AS(plan.execute(msda::make<msda_tensors>()), msda::Error);
  // Moving leaves nothing behind that is destroyed twice.
  msda::Plan const moved = std::move(plan);
  CHECK(plan.get() == nullptr);
  CHECK(moved.info().struct_size == sizeof(msda_plan_info));
}
