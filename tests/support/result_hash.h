// Results of many runs, compared on the device: a hash of bytes, without copying them to the host.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msda::test {

// Puts into the stream: *sum += the hash of `bytes` bytes on the device. Equal bytes have equal
// hashes; of others, or of the same ones at other places or with another salt, they differ but for
// one chance in 2^64. False where launching fails.
bool launch_result_hash(const void* data, std::size_t bytes, std::uint64_t salt, std::uint64_t* sum,
                        void* stream);

}  // namespace msda::test
