# `cmake --install`: find_package(msda) gives msda::msda and msda::msda_static, pkg-config gives msda.
include(CMakePackageConfigHelpers)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/msda")
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
  BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE PC_PREFIX)

configure_package_config_file(cmake/msda-config.cmake.in gen/msda-config.cmake
  INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file(gen/msda-config-version.cmake COMPATIBILITY SameMinorVersion)
if(MSDA_NEEDS_HIGHWAY)
  set(PC_HIGHWAY_LIBS "-lhwy ")
endif()
if(MSDA_HAS_CUDA)
  set(PC_CUDA_LIBS "-L\${cuda_libdir} -lcudart_static -lrt ")
endif()
configure_file(cmake/msda.pc.in gen/msda.pc @ONLY)

install(TARGETS msda msda_static EXPORT msda-targets FILE_SET HEADERS)
install(EXPORT msda-targets NAMESPACE msda:: DESTINATION "${package_folder}")
install(FILES "${PROJECT_BINARY_DIR}/gen/msda-config.cmake"
  "${PROJECT_BINARY_DIR}/gen/msda-config-version.cmake" DESTINATION "${package_folder}")
install(FILES "${PROJECT_BINARY_DIR}/gen/msda.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
install(FILES "${PROJECT_BINARY_DIR}/gen/libmsda.cdx.json" DESTINATION "${CMAKE_INSTALL_DATADIR}/libmsda")
if(TARGET msda_jax)
  install(TARGETS msda_jax LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(TARGET msda_cli)
  install(TARGETS msda_cli)
endif()
if(TARGET msda_ort) # beside the library, where they look for it
  install(TARGETS msda_ort msda_trt LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT plugins)
endif()
