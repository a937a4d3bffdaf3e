// In front of every CUDA file of a simulated build (-include): g++ compiles kernels as functions of
// the host, with CUDA's names for what tests/simt/runtime does.
#pragma once

#define MSDA_SIMULATED 1

// Before __CUDACC__ is defined: these headers have a path for compilers of the host.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numbers>
#include <type_traits>
#include <utility>

#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "runtime/device_calls.h"
#include "runtime/kernel_launch.h"

// What kernels' own headers hide from compilers of the host is for this one.
#define __CUDACC__ 1

#undef __host__
#undef __device__
#undef __global__
#undef __constant__
#undef __grid_constant__
#undef __launch_bounds__
#undef __forceinline__
#define __host__
#define __device__
#define __global__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline

inline constexpr int warpSize = 32;

#include "device/shared.h"

#include "device/atomics.h"
#include "device/math.h"
#include "device/warp.h"
#include "ptx/twins.h"
