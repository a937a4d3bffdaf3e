// The twins of kernels/common/ptx.cuh: what each instruction does, on the simulated device. A
// wrapper without one does not compile there, and the error has its name.
#pragma once

#include "ptx/async_twins.h"
#include "ptx/barrier_twins.h"
#include "ptx/cluster_twins.h"
#include "ptx/matrix_twins.h"
#include "ptx/memory_twins.h"
#include "ptx/number_twins.h"
