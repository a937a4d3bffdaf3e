// Where in a kernel something is done: a defaulted last parameter of whatever can be used wrongly.
#pragma once

#include <cstring>
#include <source_location>

namespace simt {

using Where = std::source_location;

// Names of files are as the compiler was given them.
inline bool is_same_place(Where a, Where b) {
  return a.line() == b.line() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

}  // namespace simt
