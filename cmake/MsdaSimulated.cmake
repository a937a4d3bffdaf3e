# MSDA_CUDA=SIMULATED: CUDA files are compiled by the C++ compiler, with tests/simt/device/simulated.h in front
# of each and NVIDIA's headers. CUDA::cudart_static is the simulated device (tests/simt/CMakeLists.txt).
cmake_path(GET CMAKE_CUDA_COMPILER PARENT_PATH cuda_bin)
find_path(MSDA_CUDA_HEADERS cuda_runtime.h NO_DEFAULT_PATH REQUIRED
  PATHS "${cuda_bin}/../include" DOC "Folder of NVIDIA's headers")
set(MSDA_CUDA_ARCHITECTURES "75-virtual" CACHE STRING "Every simulated GPU runs every kernel" FORCE)

# FMA is an instruction of every GPU; in software it takes most of a kernel's time.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-mfma MSDA_HAS_MFMA)

set(MSDA_SIMULATED_OPTIONS -x c++ -include "${PROJECT_SOURCE_DIR}/tests/simt/device/simulated.h"
  -fno-strict-aliasing -Wno-unknown-pragmas -Wno-class-memaccess -Wno-unused-variable
  -Wno-unused-parameter -Wno-psabi $<$<BOOL:${MSDA_HAS_MFMA}>:-mfma>
  $<$<CONFIG:Release>:-O0>) # host code as in the preset release, whose objects the compiler cache has; kernels soon made
set(MSDA_SIMULATED_SM 90 CACHE STRING
  "The compute capability, times ten, whose register budgets kernels have on the simulated device")
if(NOT MSDA_SIMULATED_SM EQUAL 90)
  list(APPEND MSDA_SIMULATED_OPTIONS -DMSDA_SIMULATED_SM=${MSDA_SIMULATED_SM})
endif()
# Undefined behaviour is looked for where that costs kernels little: all of it takes 1.7 times as long to compile. Alignment
# is looked at where there are few kernels.
if(MSDA_SANITIZE MATCHES "undefined")
  list(APPEND MSDA_SIMULATED_OPTIONS -fno-sanitize=undefined
    -fsanitize=bounds,integer-divide-by-zero,shift,signed-integer-overflow,unreachable)
elseif(MSDA_SANITIZE MATCHES "thread")
  list(APPEND MSDA_SIMULATED_OPTIONS -fsanitize=alignment)
endif()

option(MSDA_COUNT_LINES "Count the lines of CUDA files that run, for tools/check simulated --coverage" OFF)
if(MSDA_COUNT_LINES)
  list(APPEND MSDA_SIMULATED_OPTIONS --coverage)
  add_link_options(--coverage)
endif()

# Compiles the files *.cu among the target's sources for the simulated device.
function(msda_simulate_cuda_files target)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cu$")
  set_source_files_properties(${sources} PROPERTIES LANGUAGE CXX
    OBJECT_DEPENDS "${PROJECT_SOURCE_DIR}/tests/simt/device/simulated.h")
  set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS ${MSDA_SIMULATED_OPTIONS})
  set_property(SOURCE ${sources} APPEND PROPERTY INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}/tests/simt")
endfunction()
