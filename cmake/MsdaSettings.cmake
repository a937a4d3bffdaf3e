# Options that every target is compiled and linked with.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF) # there are none; with Clang each file would be read twice
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(msda_settings INTERFACE)
target_compile_features(msda_settings INTERFACE c_std_99 cxx_std_20)
# -ffp-contract=off: a result must not depend on where a compiler finds a fused multiply-add to use.
# -ffile-prefix-map: objects do not depend on where the source and build folders lie, nor on a compiler cache.
set(prefix_maps "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=" "-ffile-prefix-map=${PROJECT_BINARY_DIR}/=")
# All clones share one compiler cache: paths are relative to the source folder, that of the prefix map too, and
# compilers are identified by their content. This is set here and not in the environment, so that every build in
# this folder runs the same commands. It holds for the build of a Python wheel as well.
if((PROJECT_IS_TOP_LEVEL OR DEFINED SKBUILD) AND CMAKE_CXX_COMPILER_LAUNCHER STREQUAL "ccache")
  cmake_path(RELATIVE_PATH PROJECT_SOURCE_DIR BASE_DIRECTORY "${CMAKE_BINARY_DIR}"
    OUTPUT_VARIABLE source_prefix)
  set(prefix_maps "-ffile-prefix-map=${source_prefix}/=") # paths of the build folder are relative already
  foreach(language IN ITEMS C CXX CUDA)
    set(CMAKE_${language}_COMPILER_LAUNCHER env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      CCACHE_COMPILERCHECK=content ccache)
  endforeach()
endif()
set(host_options -Wall -Wextra -ffp-contract=off ${prefix_maps})
target_compile_options(msda_settings INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${host_options}>")
# Device code: warnings are errors, and where it is for 9.0 alone so are registers that spill to memory: kernels are
# cut to what fits there, and code for others spills a few.
set(ptxas_options --warning-as-error)
if(MSDA_CUDA_ARCHITECTURES STREQUAL "90a-real")
  set(ptxas_options --warn-on-spills,--warning-as-error)
endif()
list(JOIN host_options "," host_list)
target_compile_options(msda_settings INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_list}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings>"
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xptxas ${ptxas_options}>")
if(MSDA_SANITIZE)
  target_compile_options(msda_settings INTERFACE
    -fsanitize=${MSDA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(msda_settings INTERFACE -fsanitize=${MSDA_SANITIZE})
endif()

# The compiler derives names of local symbols from the file's path alone, so that two builds have the same bits.
function(msda_seed_objects target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  foreach(source IN LISTS sources)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE name)
    set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS "-frandom-seed=${name}")
  endforeach()
endfunction()

# The shared library exports what the version script names and has no undefined symbols.
function(msda_restrict_exports target version_script)
  set(script "${PROJECT_SOURCE_DIR}/${version_script}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${script}")
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL -Wl,--as-needed -Wl,-z,relro,-z,now)
  if(NOT MSDA_SANITIZE) # whose run-time library the executable brings
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  if(EXISTS "${script}")
    target_link_options(${target} PRIVATE "-Wl,--version-script=${script}")
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
  endif()
endfunction()
