// The list of families that this program is linked with; corpus_test.cpp, which is linked in too,
// runs the last of them.

#include "registry.h"
#include "support/runner.h"

#include <doctest/doctest.h>

using namespace msda;
using namespace msda::test;

TEST_CASE("a family of another folder is listed behind the library's") {
  KernelRef const last = kernel_at(kernel_count() - 1);
  CHECK(std::string_view(last.family->model.name) == "example");
  CHECK(std::string_view(last.variant->id) == "example.cpu.f64@1");
  CHECK(families().size() > 2);
  CHECK(kernel_ids(TestHandle()).back() == last.variant->id);
}
