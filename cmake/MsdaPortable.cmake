# With MSDA_PORTABLE the shared library and the command contain the C++ and GCC run-time libraries, and need only
# symbols of glibc's oldest supported versions.
option(MSDA_PORTABLE "Link libstdc++ statically and use old versions of glibc's functions" OFF)

function(msda_make_portable target)
  if(NOT MSDA_PORTABLE)
    return()
  endif()
  target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src/portable/old_glibc.c")
  # --gc-sections: msda_fmt keeps inline functions of glibc that nothing calls and that ask for new versions.
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections
    -Wl,-z,relro,-z,now)
endfunction()
