// The gather of f32 values, compiled once a target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/simd_gather_f32.cpp"
#define MSDA_CHOOSE_GATHER choose_gather_f32
#define MSDA_GATHER choose_plain<float>(problem)
#include "cpu/simd/simd_gather_type-inl.h"
