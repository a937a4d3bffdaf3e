// The twins of kernels/common/ptx*.cuh: what each instruction does, on the simulated device. A
// wrapper without one does not compile there, and the error has its name.
#pragma once

#include "ptx/memory.h"
#include "ptx/numbers.h"
