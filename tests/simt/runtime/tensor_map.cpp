#include "runtime/tensor_map.h"

#include "runtime/device_calls.h"

#include <cstring>

namespace simt {
namespace {

constexpr std::uint64_t kMagic = 0x74656e736f726d61;  // "tensorma"

std::string dimension(const char* what, std::uint32_t i, std::uint64_t value, const char* allowed) {
  return std::string(what) + "[" + std::to_string(i) + "] is " + std::to_string(value) + "; " +
         allowed;
}

// The rules of cuTensorMapEncodeTiled() in the CUDA driver API's manual, without interleaving.
std::string problem_of(TensorMap const& map) {
  if (map.rank == 0 || map.rank > kMaxTensorRank) {
    return "tensorRank is " + std::to_string(map.rank) + "; 1 to 5 are allowed";
  }
  if (map.base % 16 != 0) return "globalAddress is no multiple of 16";
  for (std::uint32_t i = 0; i < map.rank; ++i) {
    if (map.size[i] == 0 || map.size[i] > std::uint64_t{1} << 32) {
      return dimension("globalDim", i, map.size[i], "1 to 2^32 are allowed");
    }
    if (map.box[i] == 0 || map.box[i] > 256) {
      return dimension("boxDim", i, map.box[i], "1 to 256 are allowed");
    }
    if (i + 1 < map.rank && (map.stride[i] % 16 != 0 || map.stride[i] >= std::uint64_t{1} << 40)) {
      return dimension("globalStrides", i, map.stride[i], "multiples of 16 below 2^40 are allowed");
    }
  }
  std::uint64_t const row_bytes = std::uint64_t{map.box[0]} * map.element_bytes;
  if (row_bytes % 16 != 0) return "boxDim[0] is no multiple of 16 bytes";
  if (map.swizzle_bytes != 0 && row_bytes > map.swizzle_bytes) {
    return "boxDim[0] has more bytes than the swizzle";
  }
  return {};
}

}  // namespace

std::string encode_tensor_map(void* to, TensorMap map) {
  if (std::string problem = problem_of(map); !problem.empty()) return problem;
  map.magic = kMagic;
  std::memset(to, 0, kTensorMapBytes);
  std::memcpy(to, &map, sizeof(map));
  return {};
}

TensorMap decode_tensor_map(const void* at) {
  TensorMap map;
  std::memcpy(&map, at, sizeof(map));
  if (map.magic != kMagic) fail(Where::current(), "%p is no tensor map", at);
  return map;
}

}  // namespace simt
