// The attention weights as a result of a fused forward: the softmax of the logits, from every
// kernel that takes one. Whether a call asks for them changes no bit of its output.

#include "core/build_config.h"
#include "support/cuda_watch.h"
#include "support/expected_reason.h"
#include "support/gpu_memory.h"
#include "support/gpu_tests.h"
#include "support/kernel_cases.h"
#include "support/random_problem.h"
#include "support/runner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace msda::test;

namespace {

const std::vector<const char*> kCases = {"mixed_fused_f16", "softmax_long_one", "softmax_steep_h",
                                         "few_wide_fused",  "known_half_8",     "decoder",
                                         "no_pixels_logits"};

// exp(logit - largest) of a float32 kernel is as wrong as the difference, which is rounded, and its
// exponential; a sum of K of them as K roundings. F64 logits may be computed in float32, too.
Expected softmax_of(TestProblem const& problem) {
  ProblemShape const& shape = problem.shape;
  auto const K = static_cast<std::size_t>(shape.point_total());
  std::vector<double> const& logits = problem.inputs[TensorId::kLogit];
  Expected expected{shape.weight_dtype, std::vector<double>(logits.size()),
                    std::vector<double>(logits.size())};
  for (std::size_t row = 0; row + K <= logits.size() && K > 0; row += K) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::size_t k = row; k < row + K; ++k) largest = std::fmax(largest, logits[k]);
    for (std::size_t k = row; k < row + K; ++k) sum += std::exp(logits[k] - largest);
    for (std::size_t k = row; k < row + K; ++k) {
      double const exact = std::exp(logits[k] - largest) / sum;
      double const distance = std::isfinite(exact) ? std::min(largest - logits[k], 128.0) : 0.0;
      expected.exact[k] = exact;
      expected.bound[k] = exact * 0x1p-24 * (8 + static_cast<double>(K) + 2 * distance) + 0x1p-126;
    }
  }
  return expected;
}

void check_attention(TestHandle const& handle, TestProblem const& problem, std::string const& id) {
  PlanResult const plan = make_plan(handle, problem.shape, id);
  REQUIRE(plan.message == "");
  RunResult const without = run_plan(plan.plan.get(), problem, 5);
  REQUIRE(without.failure == "");
  CallBuffers buffers(problem, plan.plan.get(), 5);
  buffers.ask_for(TensorId::kAttention);
  Executed const executed = execute(plan.plan.get(), buffers);
  REQUIRE(executed.message == "");
  REQUIRE(executed.failure == "");
  REQUIRE(buffers.check_written() == "");
  CHECK(buffers.tensor(TensorId::kOutput).bits() ==
        without.bits[static_cast<std::size_t>(TensorId::kOutput)]);
  CHECK(compare(softmax_of(problem), buffers.tensor(TensorId::kAttention).values()).failure == "");
}

// Every kernel that takes a fused forward, on a problem that it takes.
void check_every_kernel(TestHandle const& handle) {
  int compared = 0;
  for (std::string const& id : kernel_ids(handle)) {
    for (std::int32_t const reference_dim : {2, 4}) {
      auto const shape = shape_for(handle, id, MSDA_FORWARD, reference_dim);
      if (!shape) continue;
      CAPTURE(id);
      Rng rng(7);
      check_attention(handle, fill_problem(*shape, DataKind{}, rng), id);
      ++compared;
    }
  }
  CHECK(compared >= 4);
}

// Rows of many points, logits that rise by much or are none, and maps without pixels.
void check_cases(TestHandle const& handle) {
  for_kernels_and_cases(handle, kCases, [&](TestProblem const& problem, std::string const& id) {
    if (!problem.shape.backward()) check_attention(handle, problem, id);
  });
}

// Logits of each type, in rows that are infinite or NaN in part, or rise after many of nothing;
// none, one or many of them, for heads that have no channels or are none.
void check_logits(TestHandle const& handle) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<std::vector<double>> rows = {
      {kInfinity, 0},  {-kInfinity, 1}, {-kInfinity, -kInfinity}, {0, std::nan("")},
      {-32768, 32768}, {32768, 32768},  {-32768, -32768},         {0, -20},
  };
  int compared = 0;
  for (msda_dtype const type : {MSDA_DTYPE_F64, MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16}) {
    for (std::int32_t const points : {0, 1, 2, 3, 700}) {
      for (auto const& [heads, channels] : {std::pair{0, 8}, {2, 0}, {2, 8}}) {
        ProblemShape shape;
        shape.levels = {{4, 5, points}, {2, 2, 0}};
        shape.query_count = 9;
        shape.head_count = heads;
        shape.head_dim = channels;
        shape.reference_dim = 2;
        shape.weight_dtype = type;
        Rng rng(3);
        TestProblem problem = fill_problem(shape, DataKind{}, rng);
        std::vector<double>& logits = problem.inputs[TensorId::kLogit];
        // The last logits of a row are the second number, all before them the first.
        for (std::size_t i = 0; i < logits.size(); ++i) {
          auto const K = static_cast<std::size_t>(points);
          if (i / K < rows.size()) logits[i] = rows[i / K][i % K + 1 == K ? 1 : 0];
        }
        CAPTURE(shape.describe());
        for (std::string const& id : accepting_kernels(handle, shape)) {
          CAPTURE(id);
          check_attention(handle, problem, id);
          ++compared;
        }
      }
    }
  }
  CHECK(compared >= 48);
}

#if MSDA_HAS_CUDA
// The launches of one call with the buffers as they are.
std::int64_t launches_of(msda_plan const* plan, CallBuffers& buffers) {
  GpuCall call(plan, buffers);
  std::int64_t launches = 0;
  {
    CudaWatch const watch;
    CHECK(msda_execute(plan, &call.c(), nullptr) == MSDA_SUCCESS);
    launches = std::ranges::count(watch.calls(), "cudaLaunchKernelExC");
  }
  CHECK(call.finish() == "");
  return launches;
}
#endif

// Whatever is drawn: strides, types, NaN, empty sizes, heads without channels.
void check_random(TestHandle const& handle, std::uint64_t count) {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    TestProblem const problem = random_problem(seed, MSDA_FORWARD);
    if (!problem.shape.fused()) continue;
    CAPTURE(problem.shape.describe());
    for (std::string const& id : accepting_kernels(handle, problem.shape)) {
      CAPTURE(id);
      check_attention(handle, problem, id);
      ++compared;
    }
  }
  CHECK(compared >= 5);
}

}  // namespace

TEST_CASE("attention weights are the softmax of the logits") {
  check_every_kernel(TestHandle());
  check_cases(TestHandle());
}
TEST_CASE("attention weights are the softmax of the logits on the GPU" * needs_gpu()) {
  check_every_kernel(TestHandle(gpu_options()));
  check_cases(TestHandle(gpu_options()));
}
TEST_CASE("attention weights of odd logits") { check_logits(TestHandle()); }
TEST_CASE("attention weights of odd logits on the GPU" * needs_gpu()) {
  check_logits(TestHandle(gpu_options()));
}
TEST_CASE("attention weights of random problems") { check_random(TestHandle(), 100); }
TEST_CASE("attention weights of random problems on the GPU" * needs_gpu()) {
  check_random(TestHandle(gpu_options()), kGpuIsSimulated ? 60 : 200);
}

#if MSDA_HAS_CUDA
TEST_CASE("attention weights take one launch more, and none where nobody asks, on the GPU" *
          needs_gpu()) {
  TestHandle const handle(gpu_options());
  int compared = 0;
  for (std::string const& id : kernel_ids(handle)) {
    auto const shape = shape_for(handle, id, MSDA_FORWARD, 2);
    if (!shape) continue;
    CAPTURE(id);
    Rng rng(7);
    TestProblem const problem = fill_problem(*shape, DataKind{}, rng);
    PlanResult const plan = make_plan(handle, *shape, id);
    CallBuffers buffers(problem, plan.plan.get(), 5);
    std::int64_t const without = launches_of(plan.plan.get(), buffers);
    CHECK(without == 1);
    buffers.ask_for(TensorId::kAttention);
    CHECK(launches_of(plan.plan.get(), buffers) == without + 1);
    CHECK(plan_info(plan.plan.get()).launch_count == 2);
    ++compared;
  }
  CHECK(compared >= 3);
}
#endif

TEST_CASE("attention weights are no result of sampled or of backward problems") {
  TestHandle const handle;
  for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      TestProblem const problem = random_problem(seed, operation);
      if (operation == MSDA_FORWARD && problem.shape.fused()) continue;
      PlanResult const plan = make_plan(handle, problem.shape, "");
      CallBuffers buffers(problem, plan.plan.get(), 3);
      std::vector<double> other(64, 7.0);
      buffers.c().attention = other.data();
      Executed const executed = execute(plan.plan.get(), buffers);
      CHECK(std::ranges::count(other, 7.0) == 64);
      if (operation == MSDA_BACKWARD) {
        CHECK(executed.message == "");
      } else {
        CHECK(executed.message.find("tensors.attention is 0x") != std::string::npos);
        CHECK(
            executed.message.ends_with("must be NULL, the plan's input_mode is "
                                       "MSDA_INPUT_SAMPLED"));
      }
    }
  }
}
