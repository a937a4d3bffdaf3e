// One dimension is 0 and another one huge, so that nothing is computed: each kernel plans and runs
// such a problem at once and takes little memory for it.

#include "api/objects.h"
#include "plan/selector.h"

#include "support/allocation_watch.h"
#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/h200.h"
#include "support/kernel_cases.h"
#include "support/kernel_limits.h"
#include "support/runner.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

using namespace msda::test;

namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 40;
constexpr std::int32_t kHugeSide = 1 << 30;  // the kernels of the family simd take no larger ones
constexpr std::int32_t kHugePoints = std::numeric_limits<std::int32_t>::max();
// Small problems take as much.
constexpr std::size_t kMaxBytes = 1 << 20;

struct Dimension {
  const char* name;
  std::int64_t huge;
  void (*set)(ProblemShape&, std::int64_t);
};

template <std::int32_t LevelShape::* kField>
void set_all_levels(ProblemShape& shape, std::int64_t size) {
  for (LevelShape& level : shape.levels) level.*kField = static_cast<std::int32_t>(size);
}

constexpr Dimension kDimensions[] = {
    {"B", kHuge, [](ProblemShape& s, std::int64_t size) { s.batch = size; }},
    {"Q", kHuge, [](ProblemShape& s, std::int64_t size) { s.query_count = size; }},
    {"M", kHuge, [](ProblemShape& s, std::int64_t size) { s.head_count = size; }},
    {"D", kHuge, [](ProblemShape& s, std::int64_t size) { s.head_dim = size; }},
    {"P", kHugePoints, set_all_levels<&LevelShape::points>},
    {"H", kHugeSide, set_all_levels<&LevelShape::height>},
    {"W", kHugeSide, set_all_levels<&LevelShape::width>},
    {"P of a level", kHugePoints,
     [](ProblemShape& s, std::int64_t size) {
       s.levels.back().points = static_cast<std::int32_t>(size);
     }},
    {"S", kHuge, [](ProblemShape& s, std::int64_t size) { s.tokens = size; }},
};

struct HugeShape {
  std::string name;
  ProblemShape shape;
};

// Each of the first seven dimensions is 0 in turn, and each other one huge. Without pixels an
// output still has a number for each channel, and a plan a row of zeros.
std::vector<HugeShape> huge_shapes(ProblemShape const& base) {
  std::vector<HugeShape> all;
  for (std::int32_t const border : {0, 1}) {
    for (Dimension const& empty : std::span(kDimensions).first(7)) {
      for (Dimension const& huge : kDimensions) {
        bool const has_no_pixels = empty.name[0] == 'H' || empty.name[0] == 'W';
        if (empty.name[0] == huge.name[0] || (has_no_pixels && huge.name[0] == 'D')) continue;
        ProblemShape shape = base;
        shape.value_border = border;
        empty.set(shape, 0);
        huge.set(shape, huge.huge);
        all.push_back(
            {fmt::format("{} empty, {} huge, border {}", empty.name, huge.name, border), shape});
      }
    }
  }
  return all;
}

template <typename Check>
void for_operations(Check check) {
  for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
    for (std::int32_t const reference_dim : {0, 2, 4}) check(operation, reference_dim);
  }
}

// A tensor may be huge though another one is empty; then there is no call to make.
bool has_small_tensors(ProblemShape const& shape) {
  return std::ranges::all_of(tensor_rows(), [&](TensorRow const& row) {
    return !row.belongs_to(shape) || layout_of(shape, row.id).span() < (1 << 16);
  });
}

// All inputs are 0, and so are all results.
void check_zeros(msda_plan const* plan, ProblemShape const& shape) {
  TestProblem problem{shape, {}};
  for (TensorRow const& row : tensor_rows()) {
    if (row.is_result() || row.is_optional() || !row.belongs_to(shape)) continue;
    problem.inputs[row.id].resize(
        static_cast<std::size_t>(layout_of(shape, row.id).element_count()));
  }
  RunResult const result = run_plan(plan, problem, 5);
  CHECK(result.failure == "");
  for (TensorRow const& row : tensor_rows()) {
    CAPTURE(row.name);
    CHECK(std::ranges::count(result.values[row.id], 0.0) == std::ssize(result.values[row.id]));
  }
}

struct Counts {
  int plans = 0, calls = 0;
};

void check_huge(TestHandle const& handle, std::string const& id, HugeShape const& huge,
                Counts& counts) {
  CAPTURE(id);
  CAPTURE(huge.name);
  AllocationWatch const watch;
  PlanResult const plan = make_plan(handle, huge.shape, id);
  CHECK(watch.bytes() < static_cast<std::int64_t>(kMaxBytes));
  // Which problems a GPU's kernel takes depends on more than what is empty.
  bool const is_refused = plan.status == MSDA_ERROR_UNSUPPORTED;
  bool const may_refuse = handle.on_gpu() || expected_reason(handle, id, huge.shape) != "";
  CHECK((plan.status == MSDA_SUCCESS || (is_refused && may_refuse)));
  if (plan.status != MSDA_SUCCESS) return;
  ++counts.plans;
  if (!has_small_tensors(huge.shape)) return;
  CHECK(plan_info(plan.plan.get()).workspace_bytes < kMaxBytes);
  check_zeros(plan.plan.get(), huge.shape);
  ++counts.calls;
}

// Checks every stride-th problem of each kernel, in the order of kernels.
void check_kernels(TestHandle const& handle, std::size_t stride) {
  std::map<std::string, Counts> families;
  std::size_t place = 0;
  for (std::string const& id : kernel_ids(handle)) {
    for_operations([&](msda_operation operation, std::int32_t reference_dim) {
      std::optional<ProblemShape> const base = shape_for(handle, id, operation, reference_dim);
      if (!base) return;
      for (HugeShape const& huge : huge_shapes(*base)) {
        if (++place % stride != 0) continue;
        check_huge(handle, id, huge, families[KernelId(id).family()]);
      }
    });
  }
  for (auto const& [family, counts] : families) {
    fmt::print("[huge   ] {}: {} plans, {} calls\n", family, counts.plans, counts.calls);
    // The family atomic counts in 32 bits, and an empty dimension as 1.
    CHECK((counts.calls > 0) == (family != "atomic"));
  }
}

}  // namespace

TEST_CASE("an empty dimension beside a huge one") { check_kernels(TestHandle(), 1); }
TEST_CASE("an empty dimension beside a huge one on the GPU" * needs_gpu()) {
  check_kernels(TestHandle(gpu_options()), kGpuIsSimulated ? 7 : 1);
}

TEST_CASE("an H200's kernels are ranked for an empty dimension beside a huge one") {
  int accepted = 0;
  for_operations([&](msda_operation operation, std::int32_t reference_dim) {
    ProblemShape base;
    base.levels = {{3, 4, 4}, {2, 3, 4}};
    base.batch = 2;
    base.query_count = 3;
    base.head_count = 8;
    base.head_dim = 32;
    base.reference_dim = reference_dim;
    base.operation = operation;
    base.math_mode = MSDA_MATH_FAST;
    base.determinism = MSDA_NONDETERMINISTIC;
    for (msda_dtype const dtype : {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_F8_E4M3}) {
      base.set_dtypes(dtype);
      for (HugeShape const& huge : huge_shapes(base)) {
        CAPTURE(huge.name);
        ProblemCopy const view = huge.shape.copy();
        AllocationWatch const watch;
        msda::Problem const problem =
            msda::api::canonical_problem(&view.c, std::pmr::new_delete_resource());
        std::vector<msda::Ranked> const ranking = msda::rank_kernels(problem, h200(), 0);
        CHECK(watch.bytes() < static_cast<std::int64_t>(kMaxBytes));
        accepted += static_cast<int>(
            std::ranges::count(ranking, msda::Reason::kNone, &msda::Ranked::rejected));
      }
    }
  });
  fmt::print("[huge   ] {} rankings' kernels of an H200 accept\n", accepted);
}

// Inputs that repeat one row are small, however many rows there are.
TEST_CASE("no result is asked for that has elements") {
  TestHandle const handle;
  std::vector<std::byte> const memory(1 << 12);
  std::vector<std::byte> workspace(kMaxBytes + 256);
  int calls = 0;
  for (std::string const& id : kernel_ids(handle)) {
    for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
      CAPTURE(id);
      std::optional<ProblemShape> shape = shape_for(handle, id, operation, 0);
      if (!shape) continue;  // of a GPU
      shape->head_dim = 0;
      shape->query_count = kHuge;
      shape->coord_strides = shape->weight_strides = {0, 0, 1};
      if (!expected_reason(handle, id, *shape).empty()) continue;
      PlanResult const plan = make_plan(handle, *shape, id);
      REQUIRE(plan.status == MSDA_SUCCESS);
      msda_tensors tensors{};
      tensors.struct_size = sizeof(tensors);
      tensors.coord = tensors.weight = memory.data();
      tensors.workspace_bytes = plan_info(plan.plan.get()).workspace_bytes;
      REQUIRE(tensors.workspace_bytes <= kMaxBytes);
      void* place = workspace.data();
      std::size_t space = workspace.size();
      tensors.workspace = std::align(256, tensors.workspace_bytes, place, space);
      CHECK(msda_execute(plan.plan.get(), &tensors, nullptr) == MSDA_SUCCESS);
      ++calls;
    }
  }
  CHECK(calls > 2);
}
