// Where in a kernel something is done: a defaulted last parameter of whatever can be used wrongly.
#pragma once

#include <source_location>

namespace simt {

using Where = std::source_location;

}  // namespace simt
