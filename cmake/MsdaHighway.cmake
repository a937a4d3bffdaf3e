# hwy::hwy: the installed Highway or, where MSDA_HIGHWAY_SOURCE names its sources, a Highway that is compiled into
# libmsda.so and libmsda.a, so that their users do not need one.
set(MSDA_HIGHWAY_SOURCE "" CACHE PATH "Sources of Highway to compile into the library; empty: the installed Highway")
if(NOT MSDA_HIGHWAY_SOURCE)
  set(MSDA_NEEDS_HIGHWAY 1) # a user of libmsda.a does
  find_package(hwy REQUIRED)
  return()
endif()
set(MSDA_NEEDS_HIGHWAY 0)
# All of it that is not in headers and that the library or its tests call.
add_library(msda_highway STATIC "${MSDA_HIGHWAY_SOURCE}/hwy/aligned_allocator.cc"
  "${MSDA_HIGHWAY_SOURCE}/hwy/per_target.cc" "${MSDA_HIGHWAY_SOURCE}/hwy/targets.cc")
target_include_directories(msda_highway SYSTEM PUBLIC "${MSDA_HIGHWAY_SOURCE}")
target_compile_definitions(msda_highway PUBLIC HWY_STATIC_DEFINE)
target_compile_features(msda_highway PUBLIC cxx_std_11)
add_library(hwy::hwy ALIAS msda_highway)
