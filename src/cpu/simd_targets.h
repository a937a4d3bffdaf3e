// The instruction sets the SIMD kernels were compiled for and the one this machine will use.
#pragma once

#include <string>

// Highway targets that are not compiled: those whose vectors have no size at compile time (sums are
// kept in arrays of vectors), and those that add nothing to another. Highway always compiles
// HWY_SCALAR, vectors of one lane, for machines that have none of the others: there the family
// rejects everything.
#define MSDA_SIMD_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL)

namespace msda {

// "AVX3 (used here), AVX2, SSE4, SCALAR".
std::string simd_targets();

// The one this machine will use, "AVX3".
const char* simd_target();

}  // namespace msda
