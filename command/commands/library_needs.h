// The needs of the loaded libmsda.so, libraries and symbols of the system, read from its dynamic
// section.
#pragma once

#include <string>
#include <vector>

namespace msda::command {

struct NeededLibrary {
  std::string name;                   // libc.so.6
  std::vector<std::string> versions;  // the newest of each kind: GLIBC_2.17
};

// In the order in which they are loaded. Where libmsda is linked into the command, what that needs.
std::vector<NeededLibrary> library_needs();

}  // namespace msda::command
