// The registry has the models and predictions of families whose code is not in this build.

#include "registry.h"
#include "core/build_config.h"
#include "support/counted_kernel.h"

#include <doctest/doctest.h>

#include <string_view>
#include <vector>

using namespace msda;
using namespace msda::test;

TEST_CASE("every family has a model, and those of GPUs have code where CUDA is") {
  int gpu_families = 0;
  for (Family const& family : families()) {
    CAPTURE(family.model.name);
    REQUIRE_FALSE(family.model.variants.empty());
    bool const is_for_gpus = family.model.variants.front().sm_min != 0;
    gpu_families += is_for_gpus ? 1 : 0;
    CHECK((family.code != nullptr) == (!is_for_gpus || MSDA_HAS_CUDA != 0));
  }
  CHECK(gpu_families >= 7);
}

TEST_CASE("kernels without code are in no list") {
  std::size_t without_code = 0, all = 0;
  for (Family const& family : families()) {
    all += family.model.variants.size();
    if (family.code != nullptr) continue;
    without_code += family.model.variants.size();
    CHECK(find_kernel(family.model.variants.front().id).family == nullptr);
  }
  CHECK(all_kernels().size() + without_code == all);
  for (KernelRef const& kernel : all_kernels()) CHECK(kernel.family->code != nullptr);
}

TEST_CASE("predictions take the constants that they are given") {
  Problem const problem = problem_of(workload("dec", MSDA_DTYPE_F16, MSDA_MATH_FAST));
  int predicting = 0;
  for (Family const& family : families()) {
    FamilyModel const& model = family.model;
    std::vector<double> own, doubled;
    for (Constant const& constant : model.constants) {
      own.push_back(constant.value);
      doubled.push_back(2 * constant.value);
    }
    for (Variant const& variant : model.variants) {
      if (own.empty() || model.reject(variant, problem, h200()) != Reason::kNone) continue;
      CAPTURE(variant.id);
      ++predicting;
      double const us = model.cost(variant, problem, h200());
      CHECK(us > 0);
      CHECK(model.predict(own.data(), variant, problem, h200()) == us);
      CHECK(model.predict(doubled.data(), variant, problem, h200()) != us);
    }
  }
  CHECK(predicting > 5);
}
