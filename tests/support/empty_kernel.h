// What launching costs by itself, to compare a call of the library with.
#pragma once

namespace msda::test {

// Puts one block that does nothing into the stream; false where that fails.
bool launch_empty_kernel(void* stream);

}  // namespace msda::test
