// Bulk copies and tiles of tensors: the wrappers of kernels/common/ptx.cuh for one block.
#include "kernels/common/ptx.cuh"
#include "ptx/ptx_run.cuh"
#include "ptx/tensor_maps.cuh"
#include "support/gpu_tests.h"

namespace msda::test {
namespace {

constexpr std::uint32_t kWords = 256;

struct alignas(128) Tile {
  std::uint32_t words[kWords];
};

// Two copies by one barrier.
__global__ void load_in_bulk(const std::uint32_t* from, std::uint32_t* to) {
  MSDA_SHARED(Tile, tile, );
  MSDA_SHARED(std::uint64_t, full, );
  std::uint32_t const at = shared_address(tile.words), barrier = shared_address(&full);
  if (threadIdx.x == 0) {
    ptx::init_mbarrier(barrier, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::arrive_and_expect(barrier, sizeof(Tile));
    ptx::bulk_load(at, from, sizeof(Tile) / 2, barrier);
    ptx::bulk_load(at + sizeof(Tile) / 2, from + kWords / 2, sizeof(Tile) / 2, barrier);
  }
  ptx::wait_parity(barrier, 0);
  for (std::uint32_t i = threadIdx.x; i < kWords; i += blockDim.x) to[i] = tile.words[i];
}

template <std::size_t kRank>
struct Coordinates {
  std::int32_t at[kRank];
};

template <std::size_t kRank>
__global__ void load_tile(const __grid_constant__ CUtensorMap map,
                          const __grid_constant__ Coordinates<kRank> from, std::uint32_t bytes,
                          std::uint32_t* to) {
  struct alignas(1024) Swizzled {
    std::uint32_t words[2048];
  };
  MSDA_SHARED(Swizzled, tile, );
  MSDA_SHARED(std::uint64_t, full, );
  std::uint32_t const barrier = shared_address(&full);
  if (threadIdx.x == 0) {
    ptx::init_mbarrier(barrier, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::arrive_and_expect(barrier, bytes);
    ptx::tensor_load(shared_address(tile.words), &map, from.at, barrier);
  }
  ptx::wait_parity(barrier, 0);
  for (std::uint32_t i = threadIdx.x; i < bytes / 4; i += blockDim.x) to[i] = tile.words[i];
}

// A tensor of words that count up from 1, and a box of it at `at`, outside it 0.
template <std::size_t kRank>
void check_tile(std::array<std::uint64_t, kRank> size, std::array<std::uint32_t, kRank> box,
                std::array<std::int32_t, kRank> at) {
  std::uint64_t count = 1, box_words = 1;
  for (std::uint64_t const n : size) count *= n;
  for (std::uint32_t const n : box) box_words *= n;
  std::vector<std::uint32_t> words = counted(count);
  for (std::uint32_t& word : words) ++word;
  DeviceVector<std::uint32_t> const tensor(words), to(box_words);
  Coordinates<kRank> from{};
  std::copy(at.begin(), at.end(), from.at);
  run(load_tile<kRank>, {.blocks = 1, .threads = 64},
      tensor_map<kRank>(tensor.data(), size, box, CU_TENSOR_MAP_SWIZZLE_NONE), from,
      static_cast<std::uint32_t>(4 * box_words), to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint64_t n = 0; n < box_words; ++n) {
    CAPTURE(n);
    std::uint64_t rest = n, index = 0, stride = 1;
    bool is_inside = true;
    for (std::size_t i = 0; i < kRank; ++i) {
      std::int64_t const x = at[i] + static_cast<std::int64_t>(rest % box[i]);
      rest /= box[i];
      is_inside = is_inside && x >= 0 && x < static_cast<std::int64_t>(size[i]);
      index += static_cast<std::uint64_t>(x) * stride;
      stride *= size[i];
    }
    CHECK(values[n] == (is_inside ? index + 1 : 0));
  }
}

// Rows of 128 bytes; their vecs of 16 bytes change places as the row's number says.
void check_swizzle(CUtensorMapSwizzle swizzle, std::uint32_t row_words, std::uint32_t shift,
                   std::uint32_t mask) {
  CAPTURE(row_words);
  DeviceVector<std::uint32_t> const tensor(counted(row_words * 16)), to(row_words * 16);
  run(load_tile<2>, {.blocks = 1, .threads = 64},
      tensor_map<2>(tensor.data(), {row_words, 16}, {row_words, 16}, swizzle),
      Coordinates<2>{{0, 0}}, row_words * 16 * 4, to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t i = 0; i < row_words * 16; ++i) {
    std::uint32_t const vec = i / 4;
    CHECK(values[4 * (vec ^ (vec >> shift & mask)) + i % 4] == i);
  }
}

}  // namespace

TEST_CASE("ptx: bulk copies go in by a barrier" * needs_gpu()) {
  DeviceVector<std::uint32_t> const from(counted(kWords)), to(kWords);
  run(load_in_bulk, {.blocks = 1, .threads = 64}, from.data(), to.data());
  CHECK(to.values() == counted(kWords));
}

TEST_CASE("ptx: tiles of tensors of 2 to 5 dimensions are loaded, with zeros outside" *
          needs_gpu()) {
  check_tile<2>({40, 9}, {8, 4}, {4, 2});
  check_tile<2>({40, 9}, {8, 4}, {-4, 7});
  check_tile<2>({40, 9}, {8, 4}, {36, -2});
  check_tile<3>({12, 7, 5}, {8, 3, 2}, {8, -1, 4});
  check_tile<4>({8, 5, 4, 3}, {8, 2, 2, 2}, {4, 4, -1, 2});
  check_tile<5>({8, 3, 4, 3, 2}, {8, 2, 2, 2, 2}, {-4, 2, 3, 2, 1});
}

TEST_CASE("ptx: tiles are swizzled by 32, 64 and 128 bytes" * needs_gpu()) {
  check_swizzle(CU_TENSOR_MAP_SWIZZLE_32B, 8, 3, 1);
  check_swizzle(CU_TENSOR_MAP_SWIZZLE_64B, 16, 3, 3);
  check_swizzle(CU_TENSOR_MAP_SWIZZLE_128B, 32, 3, 7);
}

}  // namespace msda::test
