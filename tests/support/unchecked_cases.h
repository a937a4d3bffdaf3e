// A test case that ran and asserted nothing says nothing, whatever made it end early: it fails the
// test program. What cannot run on a machine or in a build is decorated with doctest::skip, and so
// counted as skipped.
#pragma once

namespace msda::test {

// Prints a line for each such case. False if there was one.
bool report_unchecked_cases();

}  // namespace msda::test
