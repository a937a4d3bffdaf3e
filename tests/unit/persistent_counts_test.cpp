// What persistent kernels ask of a GPU: beside numbers worked out by hand, and beside what Nsight
// Compute counted on an H200 (docs/experiments/persistent_counters.csv).

#include "support/counted_kernel.h"

#include <doctest/doctest.h>

using namespace msda;
using namespace msda::test;

TEST_CASE("tensors are counted once, values by the pixels that points can reach") {
  ProblemShape shape = small_shape(8, 1, MSDA_DTYPE_F16);
  Counts const counts = counts_of("persistent.sm80.f16.d32.pfew.s1", shape).value();
  CHECK(counts.input_bytes == 2 * 30 * 8 * 3 * 12);
  CHECK(counts.output_bytes == 2 * 30 * 8 * 32 * 2);
  // 4 corners of 30 points: fewer than the first level has, more than the others.
  CHECK(counts.value_bytes == (120 + 32 + 6) * 2 * 8 * 32 * 2);
  shape.reference_dim = 4;
  Counts const fused = counts_of("persistent.sm80.f16.d32.pfew.s1", shape).value();
  CHECK(fused.input_bytes == counts.input_bytes + 2 * 30 * 3 * 4 * 4);
  CHECK(fused.value_bytes == counts.value_bytes);
  CHECK(fused.instructions > counts.instructions);
}

TEST_CASE("persistent: a job by hand") {
  // 4 queries with 2 heads a job, 8 slots of 4 lanes; lanes prepare 2 points each, 8 a chunk.
  // 30 queries are 8 jobs of a pair of heads, so 8 x 4 pairs x 2 items. K is 12: chunks of 8 and 4.
  double const jobs = 8 * 4 * 2;
  Counts const counts =
      counts_of("persistent.sm80.f16.d32.p4.s1", small_shape(8, 4, MSDA_DTYPE_F16)).value();
  CHECK(counts.gather_loads == jobs * 12 * 4);
  CHECK(counts.gather_wavefronts == jobs * 12 * 4 * 4);
  CHECK(counts.lines_of_load == 8);
  CHECK(counts.row_bytes == 64);
  CHECK(counts.gathered_bytes == jobs * 12 * 4 * 512);
  CHECK(counts.copied_bytes == 0);
  // Two turns of a chunk write 16 bytes a lane, 4 wavefronts; each of 12 records takes 2 to read.
  CHECK(counts.record_wavefronts == jobs * (4 * 4 + 12 * 2));
  CHECK(counts.input_wavefronts == 2 * 30 * 8 * 12 * 12 / 128.0);
  CHECK(counts.output_wavefronts == 2 * 30 * 8 * 64 / 128.0);
  CHECK(counts.instructions == jobs * (144 + 2 * 24 + 4 * 30 + 12 * 76));
}

TEST_CASE("persistent: of cached levels pixels are copied, not gathered") {
  ProblemShape const shape = workload("enc-uniform", MSDA_DTYPE_F16, MSDA_MATH_ACCURATE);
  Counts const all = counts_of("persistent.sm80.f16.d32.p4.s1", shape).value();
  Counts const cached = counts_of("persistent.sm90.f16.d32.p4.s1c", shape).value();
  // Two of four levels fit: 25 x 42 and 13 x 21 pixels of two heads, 64 bytes each.
  CHECK(cached.gathered_bytes == all.gathered_bytes / 2);
  CHECK(cached.gather_wavefronts == all.gather_wavefronts);
  double const group_bytes = (25 * 42 + 13 * 21) * 128;
  CHECK(cached.copied_bytes >= group_bytes * 8);  // two items of four pairs of heads
  CHECK(cached.copied_bytes == cached.copy_wavefronts * 128);
  CHECK(static_cast<std::int64_t>(cached.copied_bytes) % static_cast<std::int64_t>(group_bytes) ==
        0);
}

TEST_CASE("persistent: the exact path has no counts") {
  ProblemShape shape = small_shape(8, 4, MSDA_DTYPE_F16);
  shape.levels[1].height = 0;
  CHECK_FALSE(counts_of("persistent.sm80.f16.d32.p4.s1", shape).has_value());
}

TEST_CASE("persistent: counts are near what Nsight Compute counted") {
  constexpr HardwareCounts kCounted[] = {
      {"persistent.sm80.f16.d32.p8.s1", "bev-local", MSDA_DTYPE_F16, 92.4, 370},
      {"persistent.sm80.f16.d32.p8.h1", "bev-local", MSDA_DTYPE_F16, 86.8, 219},
      {"persistent.sm80.f16.d32.p8.h1", "bev-fold-local", MSDA_DTYPE_F16, 84.4, 252},
      {"persistent.sm90.f8.d32.p8.h1", "bev-local", MSDA_DTYPE_F8_E4M3, 61.5, 243},
      {"persistent.sm90.f8.d32.p8.s1", "bev-local", MSDA_DTYPE_F8_E4M3, 65.2, 397},
      {"persistent.sm90.f8.d32.p4.h1", "enc-local", MSDA_DTYPE_F8_E4M3, 64.3, 261},
      {"persistent.sm80.f16.d32.p4.s1", "enc-local", MSDA_DTYPE_F16, 92.3, 388},
      {"persistent.sm80.f16.d32.p4.h1", "enc-local", MSDA_DTYPE_F16, 86.6, 239},
      {"persistent.sm90.f16.d32.p8.h1c", "bev-fold", MSDA_DTYPE_F16, 102, 262},
      {"persistent.sm90.f16.d32.p4.h1c", "enc-uniform", MSDA_DTYPE_F16, 104, 245},
      {"persistent.sm80.f16.d32.p4.s4", "dec", MSDA_DTYPE_F16, 155, 578},
  };
  for (HardwareCounts const& row : kCounted) check_near(row);
}
