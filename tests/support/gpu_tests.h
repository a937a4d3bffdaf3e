// Tests that need a GPU: TEST_CASE("name" * msda::test::needs_gpu()). The decorator puts the case
// into a test suite of its own, which is how such cases are chosen (--test-suite=gpu). Where there
// is no GPU they count as skipped; the closing lines of the test program say how many there are,
// how many ran and how many were skipped.
#pragma once

#include <doctest/doctest.h>

namespace msda::test {

bool gpu_available();

struct GpuSuite;

class NeedsGpus {
 public:
  explicit NeedsGpus(GpuSuite& suite) : suite_(&suite) {}
  void fill(doctest::detail::TestCase& test) const;

 private:
  GpuSuite* suite_;
};

// Decorates tests of the suite "gpu".
NeedsGpus needs_gpu();
// For two devices: of the suite "two gpus".
NeedsGpus needs_gpus(int count);

#if MSDA_TEST_SIMULATED
inline constexpr bool kGpuIsSimulated = true;
#else
inline constexpr bool kGpuIsSimulated = false;
#endif

// How often a test repeats what a GPU might do differently each time. A simulated one takes long: a
// few times.
constexpr int gpu_repeats(int times) { return kGpuIsSimulated ? 3 : times; }

// Prints a line for each suite that has cases.
void report_gpu_tests();

}  // namespace msda::test
