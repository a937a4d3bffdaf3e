// Tensor maps of values as the tma family has them: the order of dimensions, and boxes beside loads
// by all threads. A kernel that waits for ever fails in minutes.
#include "core/cuda.h"
#include "kernels/common/ptx.cuh"
#include "ptx/ptx_run.cuh"
#include "support/gpu_tests.h"

#include <cuda.h>

#include <algorithm>
#include <array>

namespace msda::test {
namespace {

// Values [B][H][W][M][D] of 16-bit words: a small batch with two heads.
constexpr std::int32_t kBatch = 2, kHeight = 7, kWidth = 9, kHeads = 2, kDim = 32;
constexpr std::uint64_t kWordBytes = 2;
constexpr std::uint16_t kPoison = 0xdead;

using Sizes = std::array<cuuint64_t, 5>;
using Box = std::array<cuuint32_t, 5>;

constexpr Sizes kInnermostFirst = {kDim, kWidth, kHeight, kHeads, kBatch};
constexpr std::array<cuuint64_t, 4> kStrides = {
    kHeads * kDim * kWordBytes, kWidth * kHeads * kDim * kWordBytes, kDim * kWordBytes,
    kHeight * kWidth * kHeads * kDim * kWordBytes};

CUresult encode(CUtensorMap& map, void* data, Sizes const& sizes,
                std::array<cuuint64_t, 4> const& strides, Box const& box) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  cuda::check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                               cudaEnableDefault, &result),
              "looking for cuTensorMapEncodeTiled");
  REQUIRE(found != nullptr);
  Box const steps = {1, 1, 1, 1, 1};
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found)(
      &map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 5, data, sizes.data(), strides.data(), box.data(),
      steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

struct Corner {
  std::int32_t x, y, head, item;
};

constexpr std::uint32_t kMaxTileWords = 8192;
struct alignas(128) TileOfWords {
  std::uint16_t words[kMaxTileWords];
};

__global__ void copy_by_map(const __grid_constant__ CUtensorMap map,
                            const __grid_constant__ Corner at, std::uint32_t words,
                            std::uint16_t* to) {
  MSDA_SHARED(TileOfWords, tile, );
  MSDA_SHARED(std::uint64_t, full, );
  std::uint32_t const barrier = shared_address(&full);
  // Poisoned: words that the copy leaves out are seen.
  for (std::uint32_t i = threadIdx.x; i < words; i += blockDim.x) tile.words[i] = kPoison;
  ptx::fence_async_proxy();
  if (threadIdx.x == 0) {
    ptx::init_mbarrier(barrier, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::arrive_and_expect(barrier, words * kWordBytes);
    ptx::tensor_load(shared_address(tile.words), &map, {0, at.x, at.y, at.head, at.item}, barrier);
  }
  ptx::wait_parity(barrier, 0);
  for (std::uint32_t i = threadIdx.x; i < words; i += blockDim.x) to[i] = tile.words[i];
}

// The same tile, word by word; zeros beside the map.
__global__ void copy_by_threads(const std::uint16_t* values, const __grid_constant__ Corner at,
                                std::int32_t columns, std::uint32_t words, std::uint16_t* to) {
  MSDA_SHARED(TileOfWords, tile, );
  for (std::uint32_t i = threadIdx.x; i < words; i += blockDim.x) {
    auto const pixel = static_cast<std::int32_t>(i / kDim);
    std::int32_t const x = at.x + pixel % columns, y = at.y + pixel / columns;
    bool const is_in = x >= 0 && x < kWidth && y >= 0 && y < kHeight;
    std::int32_t const token = (at.item * kHeight + y) * kWidth + x;
    tile.words[i] = is_in ? values[(token * kHeads + at.head) * kDim + i % kDim] : 0;
  }
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < words; i += blockDim.x) to[i] = tile.words[i];
}

std::vector<std::uint16_t> value_words() {
  std::vector<std::uint16_t> words(std::size_t{kBatch} * kHeight * kWidth * kHeads * kDim);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint16_t>(i + 1);
  return words;
}

}  // namespace

TEST_CASE("tensor maps: innermost first is encoded, the reversed order is refused" * needs_gpu()) {
  DeviceVector<std::uint16_t> const values(value_words());
  CUtensorMap map{};
  CHECK(encode(map, values.data(), kInnermostFirst, kStrides, {kDim, 2, 2, 1, 1}) == CUDA_SUCCESS);
  // As older experiments had it: a box of one element in the dimension that is thought the fastest.
  Sizes sizes = kInnermostFirst;
  std::reverse(sizes.begin(), sizes.end());
  std::array<cuuint64_t, 4> strides = kStrides;
  std::reverse(strides.begin(), strides.end());
  CHECK(encode(map, values.data(), sizes, strides, {1, 1, 2, 2, kDim}) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("tensor maps: boxes and windows hold what all threads load, poisoned before" *
          needs_gpu()) {
  DeviceVector<std::uint16_t> const values(value_words());
  struct Size {
    std::int32_t columns, rows;
  };
  for (Size const size : {Size{2, 2}, Size{8, 6}, Size{16, 13}}) {
    CUtensorMap map{};
    REQUIRE(encode(map, values.data(), kInnermostFirst, kStrides,
                   {kDim, static_cast<cuuint32_t>(size.columns), static_cast<cuuint32_t>(size.rows),
                    1, 1}) == CUDA_SUCCESS);
    auto const words = static_cast<std::uint32_t>(size.columns * size.rows * kDim);
    for (Corner const at : {Corner{0, 0, 0, 0}, Corner{-1, -1, 1, 0}, Corner{kWidth - 1, 3, 0, 1},
                            Corner{-2, kHeight - 1, 1, 1}}) {
      CAPTURE(size.columns);
      CAPTURE(at.x);
      CAPTURE(at.y);
      std::vector<std::uint16_t> const poison(words, kPoison);
      DeviceVector<std::uint16_t> const by_map(poison), by_threads(poison);
      run(copy_by_map, {.blocks = 1, .threads = 128}, map, at, words, by_map.data());
      run(copy_by_threads, {.blocks = 1, .threads = 128}, values.data(), at, size.columns, words,
          by_threads.data());
      CHECK(by_map.values() == by_threads.values());
    }
  }
}

}  // namespace msda::test
