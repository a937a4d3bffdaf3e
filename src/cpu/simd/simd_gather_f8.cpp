// The gather of f8 values, compiled once a target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/simd_gather_f8.cpp"
#define MSDA_CHOOSE_GATHER choose_gather_f8
#define MSDA_GATHER choose_plain<F8>(problem)
#include "cpu/simd/simd_gather_type-inl.h"
