// The gather of f16 values, compiled once a target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/simd_gather_f16.cpp"
#define MSDA_CHOOSE_GATHER choose_gather_f16
#define MSDA_GATHER choose_plain<F16>(problem)
#include "cpu/simd/simd_gather_type-inl.h"
