// The gather of bf16 values, compiled once a target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/simd_gather_bf16.cpp"
#define MSDA_CHOOSE_GATHER choose_gather_bf16
#define MSDA_GATHER \
  (problem.head_dim >= Bf16Pairs::kChannels ? gather<Bf16Pairs> : choose_plain<Bf16>(problem))
#include "cpu/simd/simd_gather_type-inl.h"
