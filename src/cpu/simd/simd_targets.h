// The instruction sets the SIMD kernels were compiled for and the one this machine will use.
#pragma once

#include <string>

namespace msda {

// "AVX3 (used here), AVX2, SSE4, SSSE3".
std::string simd_targets();

}  // namespace msda
