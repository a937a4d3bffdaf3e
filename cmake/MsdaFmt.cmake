# msda_fmt: {fmt}, whose library is not needed at run time. Its functions are compiled in one file, which
# what is linked from objects must name: msda_fmt among its libraries. GCC alone has the option that
# keeps functions which nothing in that file calls; with others every file compiles what it uses.
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
