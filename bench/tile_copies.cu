// What bringing a tile of 2 x 2 pixels with 32 float16 channels, 256 bytes, to shared memory takes
// on a GPU: by a tensor map, by cp.async, and by loads and stores of all lanes. Each way is checked
// first: its buffers are poisoned, and every word of its tiles is compared.
//
//   msda_tile_copies [DEVICE]
//
// A kernel that hangs ends the program after 60 seconds. Needs compute capability 9.0.
#include "kernels/common/ptx.cuh"
#include "kernels/common/ptx_async.cuh"
#include "kernels/common/ptx_barrier.cuh"
#include "lab/gpu_timer.cuh"

#include <cuda.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

namespace {

using namespace msda;
using lab::check;
using lab::GpuTimer;

constexpr unsigned kSeconds = 60;

// A map of one level with 12 heads of batch items, as bev-local has for one head.
constexpr int kWidth = 160, kHeight = 92, kItems = 12;
constexpr int kRowBytes = 64, kTileBytes = 4 * kRowBytes, kTileVecs = kTileBytes / 16;
constexpr std::size_t kValueBytes = std::size_t{kWidth} * kHeight * kItems * kRowBytes;

constexpr int kWarps = 8, kTiles = 32;  // of a block; of a warp at a time
constexpr int kRounds = 64;             // of a warp
constexpr int kDynamicBytes = kWarps * kTiles * kTileBytes + 128;

enum class Way { kTensorMap, kCpAsync, kLoads };

struct Place {
  int x, y, item;
};

__host__ __device__ Place place_of(std::uint32_t tile) {
  std::uint32_t x = (tile ^ tile >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  x ^= x >> 16;
  return {static_cast<int>(x % (kWidth - 1)), static_cast<int>(x / kWidth % (kHeight - 1)),
          static_cast<int>(x / (kWidth * kHeight) % kItems)};
}

__host__ __device__ std::size_t vec_of(Place const& at, int vec) {
  int const row = vec / (kTileVecs / 2), rest = vec % (kTileVecs / 2);
  return ((std::size_t{static_cast<unsigned>(at.item)} * kHeight + at.y + row) * kWidth + at.x) *
             (kRowBytes / 16) +
         rest;
}

// A warp's tiles of a round, to shared memory. By all lanes; they are there when it returns.
template <Way kWay>
__device__ void bring(CUtensorMap const& map, const uint4* values, std::uint32_t first,
                      std::uint32_t to, std::uint32_t barrier, int round) {
  unsigned const lane = threadIdx.x % 32;
  __syncwarp();  // the tiles before have been read
  if constexpr (kWay == Way::kTensorMap) {
    if (lane == 0) ptx::arrive_and_expect(barrier, kTiles * kTileBytes);
    __syncwarp();
    Place const at = place_of(first + lane);
    ptx::tensor_load(to + lane * kTileBytes, &map, {0, at.x, at.y, at.item}, barrier);
    ptx::wait_parity(barrier, static_cast<std::uint32_t>(round & 1));
  } else {
#pragma unroll 4
    for (int i = 0; i < kTiles * kTileVecs / 32; ++i) {
      unsigned const n = static_cast<unsigned>(i) * 32 + lane;
      const uint4* const from =
          values + vec_of(place_of(first + n / kTileVecs), static_cast<int>(n % kTileVecs));
      if constexpr (kWay == Way::kCpAsync) {
        ptx::copy_async(to + n * 16, reinterpret_cast<const char*>(from));
      } else {
        std::uint32_t words[4];
        ptx::load_global(reinterpret_cast<const char*>(from), words);
        ptx::store_shared(to + n * 16, words[0], words[1], words[2], words[3]);
      }
    }
    if constexpr (kWay == Way::kCpAsync) ptx::wait_for_copies();
    __syncwarp();
  }
}

// kKeeps: all tiles go to `out`, [tile][kTileVecs]; else one sum of each lane, so that they have to
// be read.
template <Way kWay, bool kKeeps>
__global__ void __launch_bounds__(kWarps * 32)
    copy_tiles(const __grid_constant__ CUtensorMap map, const uint4* values, int rounds,
               uint4* out) {
  extern __shared__ char raw[];
  __shared__ std::uint64_t barriers[kWarps];
  unsigned const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  auto const begin = static_cast<std::uint32_t>(__cvta_generic_to_shared(raw));
  std::uint32_t const to = (begin + 127) / 128 * 128 + warp * kTiles * kTileBytes;
  auto const barrier = static_cast<std::uint32_t>(__cvta_generic_to_shared(&barriers[warp]));
  for (unsigned i = lane; i < kTiles * kTileVecs; i += 32) {
    ptx::store_shared(to + i * 16, 0xdeaddead, 0xdeaddead, 0xdeaddead, 0xdeaddead);
  }
  ptx::fence_async_proxy();
  if (lane == 0) {
    ptx::init_mbarrier(barrier, 1);
    ptx::fence_mbarrier_init();
  }
  uint4 sum = {};
  for (int round = 0; round < rounds; ++round) {
    std::uint32_t const first =
        ((blockIdx.x * kWarps + warp) * static_cast<unsigned>(rounds) + round) * kTiles;
    bring<kWay>(map, values, first, to, barrier, round);
    for (unsigned i = lane; i < kTiles * kTileVecs; i += 32) {
      std::uint32_t words[4];
      ptx::load_shared(to + i * 16, words);
      uint4 const vec = {words[0], words[1], words[2], words[3]};
      if constexpr (kKeeps) {
        out[std::size_t{first} * kTileVecs + i] = vec;
      } else {
        lab::add(sum, vec);
      }
    }
  }
  if constexpr (!kKeeps) out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

CUtensorMap map_of(const void* values) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                         &result),
        "looking for cuTensorMapEncodeTiled");
  if (found == nullptr) throw std::runtime_error("the driver has no tensor maps");
  cuuint64_t const sizes[4] = {32, kWidth, kHeight, kItems};
  cuuint64_t const strides[3] = {kRowBytes, kRowBytes * kWidth, kRowBytes * kWidth * kHeight};
  cuuint32_t const box[4] = {32, 2, 2, 1}, steps[4] = {1, 1, 1, 1};
  CUtensorMap map{};
  auto const encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  if (encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, const_cast<void*>(values), sizes, strides,
             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) {
    throw std::runtime_error("the driver refuses the tensor map");
  }
  return map;
}

// Two rounds of every warp, word by word.
template <Way kWay>
std::size_t wrong_words(GpuTimer const& timer, CUtensorMap const& map, const uint4* values,
                        std::vector<std::uint32_t> const& host) {
  constexpr int kFewRounds = 2;
  auto const tiles = static_cast<std::size_t>(timer.sms()) * kWarps * kFewRounds * kTiles;
  check(cudaMemset(timer.out(), 0xa5, tiles * kTileBytes), "cudaMemset");
  copy_tiles<kWay, true>
      <<<timer.sms(), kWarps * 32, kDynamicBytes>>>(map, values, kFewRounds, timer.out());
  std::vector<std::uint32_t> words(tiles * kTileBytes / 4);
  check(cudaMemcpy(words.data(), timer.out(), tiles * kTileBytes, cudaMemcpyDeviceToHost),
        "copying tiles");
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::size_t const tile = i / (kTileBytes / 4), word = i % (kTileBytes / 4);
    Place const at = place_of(static_cast<std::uint32_t>(tile));
    wrong += words[i] != host[vec_of(at, static_cast<int>(word / 4)) * 4 + word % 4] ? 1 : 0;
  }
  return wrong;
}

template <Way kWay>
bool measure(const char* name, GpuTimer const& timer, CUtensorMap const& map, const uint4* values,
             std::vector<std::uint32_t> const& host) {
  for (auto* const kernel : {copy_tiles<kWay, true>, copy_tiles<kWay, false>}) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kDynamicBytes),
          "asking for shared memory");
  }
  std::size_t const wrong = wrong_words<kWay>(timer, map, values, host);
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, copy_tiles<kWay, false>, kWarps * 32,
                                                      kDynamicBytes),
        "asking for blocks");
  double const us = timer.measure([&] {
    copy_tiles<kWay, false>
        <<<blocks * timer.sms(), kWarps * 32, kDynamicBytes>>>(map, values, kRounds, timer.out());
  });
  double const tiles = static_cast<double>(blocks) * timer.sms() * kWarps * kRounds * kTiles;
  std::printf("%-12s %8.1f %12.2f %16.2f %10zu\n", name, us, 1e-3 * tiles / us,
              1e-6 * us * timer.clock_hz() * timer.sms() / tiles, wrong);
  return wrong == 0;
}

bool measure_all(int device) {
  GpuTimer const timer(device, kValueBytes);
  if (timer.properties().major < 9) throw std::runtime_error("needs compute capability 9.0");
  std::vector<std::uint32_t> host(kValueBytes / 4);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<std::uint32_t>(i + 1);
  check(cudaMemcpy(const_cast<char*>(timer.values()), host.data(), kValueBytes,
                   cudaMemcpyHostToDevice),
        "copying values");
  auto const* const values = reinterpret_cast<const uint4*>(timer.values());
  CUtensorMap const map = map_of(timer.values());
  std::printf("%s, %d SMs, at most %.0f MHz\n\nTiles of 256 bytes to shared memory\n",
              timer.properties().name, timer.sms(), 1e-6 * timer.clock_hz());
  std::printf("way                us      G a second   cycles of an SM      wrong\n");
  bool is_right = measure<Way::kTensorMap>("tensor map", timer, map, values, host);
  is_right = measure<Way::kCpAsync>("cp.async", timer, map, values, host) && is_right;
  return measure<Way::kLoads>("loads", timer, map, values, host) && is_right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    std::fprintf(stderr, "usage: msda_tile_copies [DEVICE]\n");
    return 2;
  }
  alarm(kSeconds);
  try {
    return measure_all(argc == 2 ? std::atoi(argv[1]) : 0) ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
