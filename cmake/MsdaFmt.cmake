# msda_fmt: {fmt} without its run-time library. One file compiles its functions; every target that links objects
# lists msda_fmt among its libraries. Only GCC has the option that emits functions which the file does not call;
# with other compilers each file compiles the functions that it uses.
find_package(fmt REQUIRED)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_library(msda_fmt OBJECT "${PROJECT_SOURCE_DIR}/src/fmt_functions.cpp")
  target_link_libraries(msda_fmt PRIVATE msda_settings)
  target_compile_options(msda_fmt PRIVATE -O1 -fkeep-inline-functions -ffunction-sections)
  # Sanitizers are for our code, and would take minutes for all of these functions. An option of the file,
  # which comes after -fsanitize; one of the target comes before it.
  if(MSDA_SANITIZE)
    set_property(SOURCE "${PROJECT_SOURCE_DIR}/src/fmt_functions.cpp"
      APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
  endif()
  target_include_directories(msda_fmt SYSTEM
    PUBLIC $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
  msda_seed_objects(msda_fmt)
else()
  add_library(msda_fmt INTERFACE)
  target_link_libraries(msda_fmt INTERFACE fmt::fmt-header-only)
endif()
