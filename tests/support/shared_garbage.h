// Shared memory as a kernel finds it before it has written there.
#pragma once

namespace msda::test {

// Fills the shared memory of the current device's multiprocessors with NaN, which stays there for
// the kernels behind it in the stream; false where that fails.
bool fill_shared_memory(void* stream);

}  // namespace msda::test
