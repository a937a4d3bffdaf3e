// Files of the source tree that tests read.
#pragma once

#include <string>

namespace msda::test {

// Of "tests/golden" and the like, from the top folder of the sources.
std::string source_path(std::string const& name);

}  // namespace msda::test
