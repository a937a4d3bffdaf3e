// Tests that need a GPU: TEST_CASE("name" * msda::test::needs_gpu()). Without one they count as
// skipped, and the closing lines of the test program say how many that were.
#pragma once

#include <doctest/doctest.h>

namespace msda::test {

bool gpu_available();
// Why there is none.
const char* gpu_absence();
// Counts the test case that it decorates.
doctest::skip needs_gpu();
int gpu_test_count();

}  // namespace msda::test
