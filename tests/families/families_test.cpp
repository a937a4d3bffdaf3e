// The list of families that this program is linked with; corpus_test.cpp, which is linked in too,
// runs the last two of them.

#include "core/build_config.h"
#include "registry.h"
#include "support/runner.h"

#include <doctest/doctest.h>

using namespace msda;
using namespace msda::test;

TEST_CASE("families of another folder are listed behind the library's") {
  std::span<const Family> const last = families().last(2);
  CHECK(std::string_view(last[0].model.name) == "example");
  CHECK(std::string_view(last[1].model.name) == "example_gpu");
  CHECK(families().size() > 4);
  CHECK(std::string_view(last[1].model.variants.front().id) == "example_gpu.sm75.f32@1");
  CHECK((last[1].code != nullptr) == (MSDA_HAS_CUDA != 0));
  Variant const& listed = (MSDA_HAS_CUDA != 0 ? last[1] : last[0]).model.variants.front();
  CHECK(all_kernels().back().variant == &listed);
  CHECK(kernel_ids(TestHandle()).back() == listed.id);
}
