// Families without their device code are the families of the library.

#include "core/build_config.h"
#include "registry.h"
#include "support/counted_kernel.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <string_view>

using namespace msda;
using namespace msda::test;

TEST_CASE("a kernel without a model is not found among the models") {
  CHECK(find_modelled_kernel("ref.cpu@1").model == nullptr);
  CHECK(family_models().size() >= 2);
}

TEST_CASE("models are what the families themselves plan by" * doctest::skip(MSDA_HAS_CUDA == 0)) {
  std::size_t modelled = 0;
  ProblemShape const shape = workload("dec", MSDA_DTYPE_F16, MSDA_MATH_FAST);
  Problem const problem = problem_of(shape);
  for (const Family* const family : families()) {
    for (const FamilyModel* const model : family_models()) {
      if (std::string_view(model->name) != family->name) continue;
      ++modelled;
      REQUIRE(model->variants.size() == family->variants.size());
      for (std::size_t i = 0; i < model->variants.size(); ++i) {
        Variant const &of_model = model->variants[i], &of_family = family->variants[i];
        CHECK(std::string_view(of_model.id) == of_family.id);
        CHECK(model->reject(of_model, problem, h200()) ==
              family->reject(of_family, problem, h200()));
      }
    }
  }
  CHECK(modelled == family_models().size());
}
