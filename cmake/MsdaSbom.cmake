# gen/libmsda.cdx.json: which code of others is compiled or linked into libmsda and its command, and its versions, as a
# CycloneDX document. The packages carry it. pkg/third_party.txt has the licences.
set(SBOM_COMPONENTS "")
set(SBOM_REFS "")

function(msda_sbom_component name version license purl)
  if(NOT version)
    message(FATAL_ERROR "the SBOM needs the version of ${name}, which nothing said; its CMake package has to")
  endif()
  if(SBOM_REFS)
    set(comma ",")
    set(space " ")
  endif()
  set(SBOM_REFS "${SBOM_REFS}${comma}${space}\"${name}\"" PARENT_SCOPE)
  set(SBOM_COMPONENTS "${SBOM_COMPONENTS}${comma}
    {
      \"type\": \"library\",
      \"bom-ref\": \"${name}\",
      \"name\": \"${name}\",
      \"version\": \"${version}\",
      \"licenses\": [{ \"license\": { ${license} } }],
      \"purl\": \"${purl}@${version}\"
    }" PARENT_SCOPE)
endfunction()

if(MSDA_HIGHWAY_SOURCE) # compiled here, no CMake package of it was found
  file(STRINGS "${MSDA_HIGHWAY_SOURCE}/hwy/highway.h" numbers REGEX "^#define HWY_(MAJOR|MINOR|PATCH) [0-9]+$")
  list(TRANSFORM numbers REPLACE ".* " "")
  list(JOIN numbers "." hwy_VERSION)
endif()
msda_sbom_component(highway "${hwy_VERSION}" "\"id\": \"Apache-2.0\"" pkg:github/google/highway)
msda_sbom_component(fmt "${fmt_VERSION}" "\"id\": \"MIT\"" pkg:github/fmtlib/fmt)
if(MSDA_HAS_CUDA)
  msda_sbom_component(cudart_static "${CUDAToolkit_VERSION}" "\"name\": \"CUDA Toolkit EULA\""
    pkg:generic/cudart_static)
endif()
get_target_property(link_options msda LINK_OPTIONS)
if("${link_options} ${CMAKE_SHARED_LINKER_FLAGS}" MATCHES "-static-libstdc\\+\\+")
  msda_sbom_component(libstdc++ "${CMAKE_CXX_COMPILER_VERSION}"
    "\"name\": \"GPL-3.0-or-later WITH GCC-exception-3.1\"" "pkg:generic/libstdc%2B%2B")
endif()
if(MSDA_BUILD_CLI)
  get_directory_property(version DIRECTORY command DEFINITION CLI11_VERSION)
  msda_sbom_component(CLI11 "${version}" "\"id\": \"BSD-3-Clause\"" pkg:github/CLIUtils/CLI11)
  get_directory_property(version DIRECTORY command DEFINITION nlohmann_json_VERSION)
  msda_sbom_component(nlohmann_json "${version}" "\"id\": \"MIT\"" pkg:github/nlohmann/json)
  if(LIBZIP_LIBRARY MATCHES "\\.a(;|$)") # the portable command has it and zlib inside
    find_path(ZLIB_INCLUDE_DIR zlib.h REQUIRED)
    file(STRINGS "${LIBZIP_INCLUDE_DIR}/zipconf.h" version REGEX "^#define LIBZIP_VERSION ")
    string(REGEX MATCH "[0-9.]+" version "${version}")
    msda_sbom_component(libzip "${version}" "\"id\": \"BSD-3-Clause\"" pkg:github/nih-at/libzip)
    file(STRINGS "${ZLIB_INCLUDE_DIR}/zlib.h" version REGEX "^#define ZLIB_VERSION ")
    string(REGEX MATCH "[0-9.]+" version "${version}")
    msda_sbom_component(zlib "${version}" "\"id\": \"Zlib\"" pkg:github/madler/zlib)
  endif()
endif()
configure_file(cmake/msda.cdx.json.in gen/libmsda.cdx.json @ONLY)
