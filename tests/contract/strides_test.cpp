// Strides that lead to no second element may be any number, however large: those of a tensor
// without elements, and those of a dimension of 1.

#include "support/random_problem.h"
#include "support/runner.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

using namespace msda::test;

namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

struct Group {
  const char* name;
  Strides3 ProblemShape::* strides;
  TensorId tensor;
};
constexpr Group kGroups[] = {
    {"value", &ProblemShape::value_strides, TensorId::kValue},
    {"coord", &ProblemShape::coord_strides, TensorId::kCoord},
    {"weight", &ProblemShape::weight_strides, TensorId::kWeight},
    {"output", &ProblemShape::output_strides, TensorId::kOutput},
    {"grad_coord", &ProblemShape::grad_coord_strides, TensorId::kGradCoord},
    {"grad_weight", &ProblemShape::grad_weight_strides, TensorId::kGradWeight},
};

void check_same_results(TestHandle const& handle, ProblemShape const& shape,
                        ProblemShape const& packed) {
  Rng rng(3);
  TestProblem problem = fill_problem(packed, {}, rng);
  for (std::string const& id : accepting_kernels(handle, packed)) {
    CAPTURE(id);
    PlanResult const plan = make_plan(handle, shape, id);
    CHECK(plan.message == "");
    if (plan.plan == nullptr) continue;
    // The buffers are those of the packed problem: nothing lies where the strides would lead.
    RunResult const found = run_plan(plan.plan.get(), problem, 1);
    CHECK(found.failure == "");
    CHECK(found.same_bits(run(handle, problem, id, 1)));
  }
}

void check_plans(TestHandle const& handle, ProblemShape const& shape) {
  for (std::string const& id : kernel_ids(handle)) {
    PlanResult const plan = make_plan(handle, shape, id);
    CHECK((plan.status == MSDA_SUCCESS || plan.status == MSDA_ERROR_UNSUPPORTED));
  }
}

template <typename Check>
void for_shapes(Check check) {
  for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
    ProblemShape shape;
    shape.levels = {{2, 3, 2}};
    shape.batch = 2;
    shape.query_count = 3;
    shape.head_count = 2;
    shape.head_dim = 8;
    shape.operation = operation;
    check(shape);
  }
}

}  // namespace

TEST_CASE("a stride of a dimension of 1 may be any number") {
  TestHandle const handle(1);
  for_shapes([&](ProblemShape packed) {
    packed.batch = packed.head_count = 1;
    for (Group const& group : kGroups) {
      CAPTURE(group.name);
      ProblemShape shape = packed;
      Strides3 strides = layout_of(packed, group.tensor).strides;
      strides[0] = strides[2] = kLargest;
      shape.*group.strides = strides;
      check_same_results(handle, shape, packed);
    }
  });
}

// Strides of 0 besides repeat a row; three of 0 in a plan's bytes would be packed ones.
TEST_CASE("a large stride of a dimension of 1 survives a plan's bytes") {
  TestHandle const handle(1);
  ProblemShape shape;
  shape.levels = {{2, 3, 3}};
  shape.query_count = 4;
  shape.head_dim = 8;
  shape.weight_strides = {1, 0, 0};
  Rng rng(3);
  TestProblem problem = fill_problem(shape, {}, rng);
  for (std::string const& id : accepting_kernels(handle, shape)) {
    CAPTURE(id);
    RunResult const expected = run(handle, problem, id, 1);
    shape.weight_strides = {kLargest, 0, 0};
    PlanResult const plan = make_plan(handle, shape, id);
    REQUIRE(plan.plan != nullptr);
    std::size_t size = 0;
    REQUIRE(msda_plan_serialize(plan.plan.get(), nullptr, &size) == MSDA_SUCCESS);
    std::vector<std::byte> bytes(size);
    REQUIRE(msda_plan_serialize(plan.plan.get(), bytes.data(), &size) == MSDA_SUCCESS);
    msda_plan* read = nullptr;
    REQUIRE(msda_plan_deserialize(handle.get(), bytes.data(), size, &read) == MSDA_SUCCESS);
    PlanPtr const again(read);
    CHECK(run_plan(again.get(), problem, 1).same_bits(expected));
  }
}

TEST_CASE("strides of a tensor without elements may be any numbers") {
  TestHandle const handle(1);
  std::int64_t ProblemShape::* const dimensions[] = {
      &ProblemShape::batch, &ProblemShape::query_count, &ProblemShape::head_count,
      &ProblemShape::head_dim};
  for_shapes([&](ProblemShape const& base) {
    for (auto const dimension : dimensions) {
      for (Group const& group : kGroups) {
        CAPTURE(group.name);
        ProblemShape packed = base;
        packed.*dimension = 0;
        if (layout_of(packed, group.tensor).element_count() > 0) continue;
        ProblemShape shape = packed;
        shape.*group.strides = {kLargest, kLargest, kLargest};
        check_same_results(handle, shape, packed);
      }
    }
  });
}

// A level of a huge side and none has no pixels: a row of it is far longer than the tensor.
TEST_CASE("wide levels without pixels may stand beside large strides") {
  TestHandle const handle(1);
  for_shapes([&](ProblemShape packed) {
    packed.levels.push_back({0, std::numeric_limits<std::int32_t>::max() - 257, 2});
    ProblemShape shape = packed;
    for (std::int64_t const stride : {std::int64_t{1} << 40, std::int64_t{1} << 30, kLargest}) {
      shape.batch = packed.batch = 1;
      shape.value_strides = layout_of(packed, TensorId::kValue).strides;
      shape.value_strides[0] = stride;
      check_same_results(handle, shape, packed);
    }
    // No address is this far, but a plan can be made.
    shape.value_strides[1] = std::int64_t{1} << 55;
    check_plans(handle, shape);
  });
}

// The products of such strides would overflow, which the undefined-behaviour sanitizer sees.
TEST_CASE("wide levels of a tensor without elements may stand beside large strides") {
  TestHandle const handle(1);
  for_shapes([&](ProblemShape shape) {
    shape.levels = {{4, 1 << 24, 2}};
    shape.head_dim = 0;
    for (std::int64_t const stride : {std::int64_t{1} << 40, std::int64_t{1} << 30, kLargest}) {
      shape.value_strides = {stride, stride, stride};
      check_plans(handle, shape);
    }
  });
}
