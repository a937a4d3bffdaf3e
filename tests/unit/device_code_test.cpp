// Which GPUs a build has code for.

#include "command/measure/machine.h"

#include <doctest/doctest.h>

using msda::command::has_code_for;

TEST_CASE("binary code runs on its generation, from its own device on") {
  CHECK(has_code_for("80-real", 75, 0, 80));
  CHECK(has_code_for("80-real", 75, 0, 86));
  CHECK_FALSE(has_code_for("86-real", 75, 0, 80));
  CHECK_FALSE(has_code_for("80-real", 75, 0, 90));
  CHECK(has_code_for("75-real;80-real;90a-real", 75, 0, 89));
}

TEST_CASE("PTX runs on every later device") {
  CHECK(has_code_for("75-virtual", 75, 0, 121));
  CHECK(has_code_for("75", 75, 0, 121));
  CHECK_FALSE(has_code_for("120-virtual", 75, 0, 103));
}

TEST_CASE("code of one device, or of a family, runs nowhere else") {
  CHECK(has_code_for("90a-real", 75, 0, 90));
  CHECK_FALSE(has_code_for("90a", 75, 0, 100));
  CHECK(has_code_for("100f-real", 75, 0, 103));
  CHECK_FALSE(has_code_for("100f", 75, 0, 110));
  CHECK_FALSE(has_code_for("100f-real", 75, 0, 120));
}

TEST_CASE("a kernel has the code of those architectures that it is for") {
  CHECK_FALSE(has_code_for("75-real;90a-real", 80, 90, 86));  // a device between the two
  CHECK_FALSE(has_code_for("75-real;90a-real", 80, 90, 75));
  CHECK_FALSE(has_code_for("120-virtual", 80, 90, 120));  // code there is, but not for this kernel
  CHECK(has_code_for("75-real;90a-real", 80, 90, 90));
  CHECK(has_code_for("89-real", 90, 90, 90));  // for none of them: PTX of its own
  CHECK_FALSE(has_code_for("89-real", 90, 90, 89));
}
