// How the library was built, for msda_build_info() and for messages.
#pragma once

namespace msda {

// One line: version, ABI, compiler, target, CPU kernels' instruction sets, CUDA.
const char* build_info();
// The CUDA part alone.
const char* cuda_build();

}  // namespace msda
