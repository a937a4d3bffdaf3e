// How the library was built, for msda_build_info().
#pragma once

namespace msda {

// One line: version, ABI, compiler, target, CPU kernels' instruction sets, CUDA.
const char* build_info();

}  // namespace msda
