// What a CUtensorMap holds on the simulated device, which cuTensorMapEncodeTiled() of the fake CUDA
// library writes and tensor_load() reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace simt {

inline constexpr std::uint32_t kMaxTensorRank = 5;
inline constexpr std::size_t kTensorMapBytes = 128;

struct TensorMap {
  std::uint64_t magic = 0;
  std::uint64_t base = 0;
  std::uint64_t size[kMaxTensorRank] = {};        // elements, the fastest dimension first
  std::uint64_t stride[kMaxTensorRank - 1] = {};  // bytes, of all but the fastest
  std::uint16_t box[kMaxTensorRank] = {};         // elements
  std::uint8_t rank = 0;
  std::uint8_t element_bytes = 0;
  std::uint8_t swizzle_bytes = 0;  // 0, 32, 64 or 128
};
static_assert(sizeof(TensorMap) <= kTensorMapBytes);

// Writes kTensorMapBytes at `to`. Returns what is wrong with the map as a sentence, or nothing.
std::string encode_tensor_map(void* to, TensorMap map);
// Aborts the kernel for what encode_tensor_map() has not written.
TensorMap decode_tensor_map(const void* at);

}  // namespace simt
