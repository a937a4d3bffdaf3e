// How the command ends.
#pragma once

namespace msda::command {

enum ExitCode : int {
  kExitOk = 0,
  kExitCheckFailed = 1,  // a result was wrong
  kExitBadInput = 2,     // arguments, files, or a problem that no kernel takes
  kExitLibrary = 3,      // out of memory, or a defect of the library
};

}  // namespace msda::command
