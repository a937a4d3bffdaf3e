#include "support/source_path.h"

namespace msda::test {

// The only file whose object depends on where the sources lie: a compiler cache serves all others
// to every clone.
std::string source_path(std::string const& name) { return MSDA_SOURCE_DIR "/" + name; }

}  // namespace msda::test
