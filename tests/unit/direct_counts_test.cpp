// What direct kernels ask of a GPU: beside numbers worked out by hand, and beside what Nsight
// Compute counted on an H200 (kernels/direct/README.md).

#include "support/counted_kernel.h"

#include <doctest/doctest.h>

using namespace msda;
using namespace msda::test;

TEST_CASE("direct: a warp by hand") {
  // 8 rows a warp, a point a lane: K = 12 is three chunks of 4. 480 rows are 60 warps.
  Counts const counts =
      counts_of("direct.sm75.f16.d32.p4", small_shape(8, 4, MSDA_DTYPE_F16)).value();
  CHECK(counts.gather_loads == 60 * 12 * 4);
  CHECK(counts.gather_wavefronts == 60 * 12 * 4 * 4);
  CHECK(counts.record_wavefronts == 60 * (12 * 4 + 3 * 8));
  // Rows are 96 bytes of coordinates apart, 48 of weights: 6 lines and 3.
  CHECK(counts.input_wavefronts == 60 * 3 * (6 + 3));
  // With one head, lanes of a slot are left and right: 4 rows a warp, chunks of 8 and 4.
  Counts const split =
      counts_of("direct.sm75.f16.d32.p4", small_shape(1, 4, MSDA_DTYPE_F16)).value();
  CHECK(split.gather_loads == 15 * 12 * 2);
  CHECK(split.gather_wavefronts == 15 * 12 * 8);
  CHECK(split.lines_of_load == 4);
  Counts const generic =
      counts_of("direct.sm75.f16.dany.pany", small_shape(8, 4, MSDA_DTYPE_F16)).value();
  CHECK(generic.gather_loads == 480 * 12 * 4);
  CHECK(generic.instructions == 0);
}

TEST_CASE("direct: a backward has no counts") {
  ProblemShape shape = small_shape(8, 4, MSDA_DTYPE_F16);
  shape.operation = MSDA_BACKWARD;
  CHECK_FALSE(counts_of("direct.sm75.f16.dany.pany", shape).has_value());
}

TEST_CASE("direct: counts are near what Nsight Compute counted") {
  constexpr HardwareCounts kCounted[] = {
      {"direct.sm75.f16.d32.p8", "bev-local", MSDA_DTYPE_F16, 147, 592},
      {"direct.sm75.f16.d32.p4", "enc-local", MSDA_DTYPE_F16, 142, 615},
  };
  for (HardwareCounts const& row : kCounted) check_near(row);
}
