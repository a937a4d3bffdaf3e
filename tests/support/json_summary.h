// What ran, for programs that read it: MSDA_TEST_JSON=FILE has a test program write it there as it
// ends. The format, in which a query such as --list-test-cases has only `cases`, each "listed":
//
//   {"cases": [{"suite": "gpu", "name": "...", "result": "passed"}],    or "failed" or "skipped"
//    "assertions": 12, "failed_assertions": 0,
//    "random": [{"operation": "forward", "kernel": "...", "problems": 7, "largest_error": 0.5}]}
//
// Tests that cannot run here are skipped, whether or not the filters choose them. The cases have no
// others that the filters leave out.
#pragma once

#include <string>

namespace msda::test {

// A kernel has taken so many random problems, with a largest error as a fraction of its bound.
void note_random_problems(std::string const& operation, std::string const& kernel, int problems,
                          double largest_error);

// False, and a line on stderr, where the file cannot be written.
bool write_json_summary();

}  // namespace msda::test
