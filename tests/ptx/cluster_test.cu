// The wrappers of kernels/common/ptx_cluster.cuh, and copies between the blocks of a cluster.
#include "kernels/common/ptx_async.cuh"
#include "kernels/common/ptx_barrier.cuh"
#include "kernels/common/ptx_cluster.cuh"
#include "ptx/ptx_run.cuh"
#include "ptx/tensor_maps.cuh"
#include "support/gpu_tests.h"

namespace msda::test {
namespace {

constexpr std::uint32_t kBlocks = 4;

// Each block reads the next one's memory, stores into it, and counts in the first one's.
__global__ void talk(std::uint32_t* to) {
  MSDA_SHARED(uint4, own, [32]);
  MSDA_SHARED(std::uint32_t, given, [32]);
  MSDA_SHARED(std::uint32_t, number, );
  std::uint32_t const i = threadIdx.x, rank = ptx::cluster_rank();
  std::uint32_t const next = (rank + 1) % ptx::cluster_blocks();
  own[i] = {100 * rank + i, 1, 2, 3 + rank};
  if (i == 0) number = 0;
  ptx::arrive_cluster();
  ptx::wait_cluster();
  std::uint32_t const theirs = ptx::map_shared(shared_address(own + i), next);
  std::uint32_t quad[4];
  ptx::load_cluster(theirs, quad);
  std::uint32_t const word = ptx::load_cluster(theirs + 12);
  ptx::store_cluster(ptx::map_shared(shared_address(given + i), next), 1000 * rank + i);
  if (i == 0) ptx::add_cluster(ptx::map_shared(shared_address(&number), 0), rank + 1);
  ptx::sync_cluster();
  std::uint32_t* const end = to + (32 * blockIdx.x + i) * 4;
  end[0] = quad[0];
  end[1] = word == quad[3] ? word : ~0u;
  end[2] = given[i];
  end[3] = rank == 0 ? number : 0;
}

// Only the order of instructions counts: nothing is read that was stored before.
__global__ void meet_relaxed(std::uint32_t* to) {
  ptx::arrive_cluster_relaxed();
  ptx::wait_cluster();
  to[blockIdx.x * blockDim.x + threadIdx.x] = ptx::cluster_rank() + 10 * ptx::cluster_blocks();
}

struct alignas(128) Tile {
  std::uint32_t words[256];
};

// The first block loads for all; then each gives its tile to the next; arrivals are remote.
__global__ void copy_around(const std::uint32_t* from, std::uint32_t* to) {
  MSDA_SHARED(Tile, tile, [2]);
  MSDA_SHARED(std::uint64_t, full, [2]);
  MSDA_SHARED(std::uint64_t, may_fill, );
  std::uint32_t const rank = ptx::cluster_rank(), next = (rank + 1) % kBlocks;
  std::uint32_t const first = shared_address(&full[0]), second = shared_address(&full[1]);
  if (threadIdx.x == 0) {
    ptx::init_mbarrier(first, 1);
    ptx::init_mbarrier(second, 1);
    ptx::init_mbarrier(shared_address(&may_fill), 1);
    ptx::fence_mbarrier_init();
    ptx::arrive_and_expect(first, sizeof(Tile));
    ptx::arrive_and_expect(second, sizeof(Tile));
  }
  ptx::sync_cluster();
  if (rank == 0 && threadIdx.x == 0) {
    ptx::bulk_load_multicast(shared_address(&tile[0]), from, sizeof(Tile), first, 0xf);
  }
  ptx::wait_parity(first, 0);
  for (std::uint32_t i = threadIdx.x; i < 256; i += blockDim.x) tile[0].words[i] += 1000 * rank;
  ptx::fence_async_proxy();
  __syncthreads();
  if (threadIdx.x == 0) {  // the block before may fill this one's second tile
    ptx::arrive_remote(ptx::map_shared(shared_address(&may_fill), (rank + kBlocks - 1) % kBlocks));
    ptx::wait_parity(shared_address(&may_fill), 0);
    ptx::bulk_copy_to_block(ptx::map_shared(shared_address(&tile[1]), next),
                            shared_address(&tile[0]), sizeof(Tile), ptx::map_shared(second, next));
  }
  ptx::wait_parity(second, 0);
  for (std::uint32_t i = threadIdx.x; i < 256; i += blockDim.x) {
    to[256 * blockIdx.x + i] = tile[1].words[i];
  }
  ptx::sync_cluster();  // no block ends while its tile is read
}

__global__ void load_for_two(const __grid_constant__ CUtensorMap map, std::uint32_t* to) {
  MSDA_SHARED(Tile, tile, );
  MSDA_SHARED(std::uint64_t, full, );
  std::uint32_t const barrier = shared_address(&full);
  if (threadIdx.x == 0) {
    ptx::init_mbarrier(barrier, 1);
    ptx::fence_mbarrier_init();
    ptx::arrive_and_expect(barrier, sizeof(Tile));
  }
  ptx::sync_cluster();
  if (ptx::cluster_rank() == 1 && threadIdx.x == 0) {
    ptx::tensor_load_multicast(shared_address(&tile), &map, {8, 1}, barrier, 3);
  }
  ptx::wait_parity(barrier, 0);
  for (std::uint32_t i = threadIdx.x; i < 256; i += blockDim.x) {
    to[256 * blockIdx.x + i] = tile.words[i];
  }
  ptx::sync_cluster();
}

__global__ void fill_early(std::uint32_t* words) {
  ptx::launch_dependents();
  words[blockIdx.x * blockDim.x + threadIdx.x] = 5 + threadIdx.x;
}
__global__ void add_when_filled(const std::uint32_t* words, std::uint32_t* to) {
  std::uint32_t const i = blockIdx.x * blockDim.x + threadIdx.x;
  std::uint32_t const own = 3 * i;
  ptx::wait_for_previous_grid();
  to[i] = own + words[gridDim.x * blockDim.x - 1 - i];
}

}  // namespace

TEST_CASE("ptx: blocks of a cluster reach one another's memory" * needs_gpu()) {
  DeviceVector<std::uint32_t> const to(8 * 32 * 4);
  run(talk, {.blocks = 8, .threads = 32, .cluster_blocks = kBlocks}, to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t n = 0; n < 8 * 32; ++n) {
    CAPTURE(n);
    std::uint32_t const rank = n / 32 % kBlocks, i = n % 32;
    std::uint32_t const next = (rank + 1) % kBlocks, previous = (rank + kBlocks - 1) % kBlocks;
    CHECK(values[4 * n] == 100 * next + i);
    CHECK(values[4 * n + 1] == 3 + next);
    CHECK(values[4 * n + 2] == 1000 * previous + i);
    CHECK(values[4 * n + 3] == (rank == 0 ? 1 + 2 + 3 + 4 : 0));
  }
}

TEST_CASE("ptx: a cluster meets without order of memory" * needs_gpu()) {
  DeviceVector<std::uint32_t> const to(4 * 64);
  run(meet_relaxed, {.blocks = 4, .threads = 64, .cluster_blocks = 2}, to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t i = 0; i < 4 * 64; ++i) CHECK(values[i] == 20 + i / 64 % 2);
}

TEST_CASE("ptx: bulk copies reach all blocks of a cluster" * needs_gpu()) {
  DeviceVector<std::uint32_t> const from(counted(256)), to(kBlocks * 256);
  run(copy_around, {.blocks = kBlocks, .threads = 64, .cluster_blocks = kBlocks}, from.data(),
      to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t n = 0; n < kBlocks * 256; ++n) {
    CHECK(values[n] == n % 256 + 1000 * ((n / 256 + kBlocks - 1) % kBlocks));
  }
}

TEST_CASE("ptx: one load of a tile reaches two blocks" * needs_gpu()) {
  DeviceVector<std::uint32_t> const tensor(counted(64 * 16)), to(2 * 256);
  run(load_for_two, {.blocks = 2, .threads = 64, .cluster_blocks = 2},
      tensor_map<2>(tensor.data(), {64, 16}, {32, 8}, CU_TENSOR_MAP_SWIZZLE_NONE), to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t n = 0; n < 2 * 256; ++n) {
    std::uint32_t const i = n % 256;
    CHECK(values[n] == 64 * (i / 32 + 1) + i % 32 + 8);
  }
}

TEST_CASE("ptx: a dependent grid waits for what it reads" * needs_gpu()) {
  DeviceVector<std::uint32_t> const words(8 * 64), to(8 * 64);
  auto const fill = load_kernel(fill_early);
  auto const add = load_kernel(add_when_filled);
  LaunchOptions options{.blocks = 8, .threads = 64};
  launch_kernel(fill, options, nullptr, words.data());
  options.overlaps_previous = true;
  launch_kernel(add, options, nullptr, words.data(), to.data());
  cuda::check(cudaDeviceSynchronize(), "running kernels of the tests");
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t i = 0; i < 8 * 64; ++i) CHECK(values[i] == 3 * i + 5 + (8 * 64 - 1 - i) % 64);
}

}  // namespace msda::test
