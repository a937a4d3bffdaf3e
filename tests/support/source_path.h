// Files of the source tree that tests read.
#pragma once

#include <string>

namespace msda::test {

// The path of "tests/golden" and the like, from the top folder of the sources.
std::string source_path(std::string const& name);

}  // namespace msda::test
