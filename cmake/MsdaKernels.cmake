# kernels/families.inc lists the kernel families; kernels/<family>/variants.inc lists a family's
# instantiations. Both are read here and, as X-macros, by the compiler: one list, not two.
#
#   MSDA_CPU_FAMILY(name)   src/cpu/<name>/*.cpp
#   MSDA_FAMILY(name)       kernels/<name>/plan.cpp; with CUDA all of kernels/<name>/*.cpp, and CUDA files for the rows
#                           MSDA_VARIANT(arguments..., sm, architecture[, flag]) of variants.inc,
#                           in which <name>.cuh is included and MSDA_INSTANTIATE(arguments..., sm)
#                           expanded. sm: the least compute capability, 90 for 9.0. Architecture:
#                           what is compiled for it; 75: 75 and everything newer; 90a: that alone.
#                           plan.h includes rows/<name>.inc: those of the rows that are built
#
# A family's <name>_limits_test.cpp belongs to the tests (tests/support/kernel_limits.h), not to the library.
#
# Families of a list in another folder, tests/families/families.inc, all lie there: <folder>/<name>.

# Rows that are compiled in one file. Reading the headers takes as long as one or two kernels; the more rows
# a file has, the fewer cores a build can use.
set(MSDA_ROWS_PER_FILE 6)

# Host code of a folder of kernels: plan.cpp, which needs no CUDA, and the rest where CUDA is.
function(msda_add_host_sources target folder)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.cpp")
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
  if(NOT MSDA_HAS_CUDA)
    list(FILTER sources INCLUDE REGEX "/plan\\.cpp$")
  endif()
  target_sources(${target} PRIVATE ${sources})
endfunction()

function(msda_add_families target list)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${list}")
  file(STRINGS "${PROJECT_SOURCE_DIR}/${list}" rows REGEX "^MSDA_(CPU_)?FAMILY\\(")
  cmake_path(GET list PARENT_PATH folder)
  set(cpu_folder ${folder})
  if(folder STREQUAL "kernels")
    set(cpu_folder src/cpu)
  endif()
  set(matching_rows "")
  foreach(row IN LISTS rows)
    if(row MATCHES "^MSDA_CPU_FAMILY\\(([a-z_0-9]+)\\)")
      set(family ${CMAKE_MATCH_1})
      file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${cpu_folder}/${family}/*.cpp")
      list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
      target_sources(${target} PRIVATE ${sources})
    elseif(row MATCHES "^MSDA_FAMILY\\(([a-z_0-9]+)\\)")
      set(family_folder ${folder}/${CMAKE_MATCH_1})
      msda_choose_rows(variants matching ${family_folder})
      list(APPEND matching_rows ${matching})
      msda_add_host_sources(${target} ${family_folder})
      if(MSDA_HAS_CUDA)
        msda_add_cuda_family(${target} ${family_folder} "${variants}")
      endif()
    else()
      message(FATAL_ERROR "${list}: cannot read '${row}'; a row is MSDA_FAMILY(name) or "
        "MSDA_CPU_FAMILY(name), name of a-z, 0-9 and _")
    endif()
  endforeach()
  if(MSDA_KERNEL_ROWS AND NOT folder MATCHES "^tests" AND matching_rows MATCHES "0" AND NOT matching_rows MATCHES "[1-9]")
    message(FATAL_ERROR "MSDA_KERNEL_ROWS is '${MSDA_KERNEL_ROWS}'; no row of ${folder}/*/variants.inc is like that")
  endif()
endfunction()

# The table of the families of a list, which are compiled elsewhere. Apart from everything else, so that
# the tests can have another one.
function(msda_add_registry target list)
  add_library(${target} OBJECT "${PROJECT_SOURCE_DIR}/src/registry.cpp")
  target_compile_definitions(${target} PRIVATE "MSDA_FAMILIES=\"../${list}\"")
  target_include_directories(${target} PRIVATE
    $<TARGET_PROPERTY:msda_objects,INTERFACE_INCLUDE_DIRECTORIES> "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PRIVATE msda_settings)
  msda_seed_objects(${target})
endfunction()

# Sets `result` to those of MSDA_CUDA_ARCHITECTURES that a row is for.
function(msda_row_architectures result row_architecture)
  set(chosen "")
  foreach(architecture IN LISTS MSDA_CUDA_ARCHITECTURES)
    string(REGEX MATCH "^[0-9]+" number "${architecture}")
    if(row_architecture MATCHES "[af]$")
      if(architecture MATCHES "^${row_architecture}(-|$)")
        list(APPEND chosen "${architecture}")
      endif()
    elseif(number GREATER_EQUAL row_architecture)
      list(APPEND chosen "${architecture}")
    endif()
  endforeach()
  set(${result} "${chosen}" PARENT_SCOPE)
endfunction()

# An architecture belongs to a target, not to a file, so every file is a target.
function(msda_add_cuda_file target folder architecture number kernels)
  cmake_path(GET folder FILENAME family)
  set(unit ${family}_sm${architecture}_${number})
  set(file "${PROJECT_BINARY_DIR}/gen/kernels/${unit}.cu")
  file(CONFIGURE OUTPUT "${file}" @ONLY CONTENT
"// From ${folder}, with rows of its variants.inc.
#include \"${folder}/${family}.cuh\"
${kernels}")
  msda_row_architectures(architectures "${architecture}")
  # Only conversions of float8 differ between 8.6 and 8.9: without them code for 8.6, which runs on both, is the
  # same bit for bit (docs/adr/0012).
  if("86-real" IN_LIST architectures AND NOT kernels MATCHES "\\(f8,")
    list(REMOVE_ITEM architectures 89-real)
  endif()
  if(NOT architectures) # no GPU of this build runs it: only its host code is of use, PTX is quickly made
    set(architectures "${architecture}-virtual")
  endif()
  add_library(msda_${unit} OBJECT "${file}")
  msda_simulate_cuda_files(msda_${unit})
  target_include_directories(msda_${unit} PRIVATE "${PROJECT_SOURCE_DIR}"
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${PROJECT_BINARY_DIR}/gen")
  target_link_libraries(msda_${unit} PRIVATE
    msda_settings CUDA::cudart_static fmt::fmt-header-only)
  set_target_properties(msda_${unit} PROPERTIES CUDA_ARCHITECTURES "${architectures}"
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static)
  if(MSDA_COMPRESS_KERNELS) # by default nvcc leaves machine code as it is
    target_compile_options(msda_${unit} PRIVATE --compress-mode=size)
  endif()
  # Objects of objects are not passed on, sources are.
  target_sources(${target} INTERFACE $<TARGET_OBJECTS:msda_${unit}>)
endfunction()

# Chooses the rows of a family that MSDA_KERNEL_ROWS matches, and counts them. Where it matches none, the first row is
# chosen, since a table has at least one. Sources include rows/<family>.inc of the build folder, which lists the chosen rows,
# and never the family's own list: neither ninja nor a compiler cache would see that one file has come before the other.
function(msda_choose_rows result matching folder)
  set(list "${PROJECT_SOURCE_DIR}/${folder}/variants.inc")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list}")
  file(STRINGS "${list}" rows REGEX "^MSDA_VARIANT\\(")
  set(chosen "${rows}")
  if(MSDA_KERNEL_ROWS)
    list(FILTER chosen INCLUDE REGEX "${MSDA_KERNEL_ROWS}")
  endif()
  list(LENGTH chosen count)
  if(count EQUAL 0 AND rows)
    list(SUBLIST rows 0 1 chosen)
  endif()
  list(JOIN chosen "\n" text)
  cmake_path(GET folder FILENAME family)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/gen/rows/${family}.inc" @ONLY CONTENT "${text}\n")
  set(${result} "${chosen}" PARENT_SCOPE)
  set(${matching} ${count} PARENT_SCOPE)
endfunction()

function(msda_add_cuda_family target folder rows)
  set(all_architectures "")
  foreach(row IN LISTS rows)
    if(NOT row MATCHES "^MSDA_VARIANT\\((.+, *([0-9]+)), *(([0-9]+)[af]?)(, *[a-z_]+)?\\)")
      message(FATAL_ERROR "${folder}/variants.inc: cannot read '${row}'; a row is "
        "MSDA_VARIANT(arguments..., sm, architecture[, flag]), sm such as 90, architecture such as 90a")
    elseif(CMAKE_MATCH_4 GREATER CMAKE_MATCH_2)
      message(FATAL_ERROR "${folder}/variants.inc: '${row}' is offered from ${CMAKE_MATCH_2} on and "
        "compiled for ${CMAKE_MATCH_3}, which does not run there")
    endif()
    list(APPEND all_architectures ${CMAKE_MATCH_3})
    list(APPEND kernels_${CMAKE_MATCH_3} "MSDA_INSTANTIATE(${CMAKE_MATCH_1})\n")
  endforeach()
  list(REMOVE_DUPLICATES all_architectures)
  foreach(architecture IN LISTS all_architectures)
    list(LENGTH kernels_${architecture} count)
    math(EXPR last "${count} - 1")
    foreach(start RANGE 0 ${last} ${MSDA_ROWS_PER_FILE})
      list(SUBLIST kernels_${architecture} ${start} ${MSDA_ROWS_PER_FILE} kernels)
      list(JOIN kernels "" kernels)
      math(EXPR number "${start} / ${MSDA_ROWS_PER_FILE} + 1")
      msda_add_cuda_file(${target} ${folder} ${architecture} ${number} "${kernels}")
    endforeach()
  endforeach()
endfunction()
