// The wrappers of clusters in kernels/common/ptx.cuh.
#include "kernels/common/ptx.cuh"
#include "ptx/ptx_run.cuh"
#include "support/gpu_tests.h"

namespace msda::test {
namespace {

constexpr std::uint32_t kBlocks = 4;

// Each block reads the next one's memory.
__global__ void talk(std::uint32_t* to) {
  MSDA_SHARED(uint4, own, [32]);
  std::uint32_t const i = threadIdx.x, rank = ptx::cluster_rank();
  std::uint32_t const next = (rank + 1) % ptx::cluster_blocks();
  own[i] = {100 * rank + i, 1, 2, 3 + rank};
  ptx::arrive_cluster();
  ptx::wait_cluster();
  std::uint32_t const theirs = ptx::map_shared(shared_address(own + i), next);
  std::uint32_t quad[4];
  ptx::load_cluster(theirs, quad);
  std::uint32_t const word = ptx::load_cluster(theirs + 12);
  ptx::sync_cluster();
  std::uint32_t* const end = to + (32 * blockIdx.x + i) * 2;
  end[0] = quad[0];
  end[1] = word == quad[3] ? word : ~0u;
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
  DeviceVector<std::uint32_t> const to(8 * 32 * 2);
  run(talk, {.blocks = 8, .threads = 32, .cluster_blocks = kBlocks}, to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t n = 0; n < 8 * 32; ++n) {
    CAPTURE(n);
    std::uint32_t const rank = n / 32 % kBlocks, i = n % 32;
    std::uint32_t const next = (rank + 1) % kBlocks;
    CHECK(values[2 * n] == 100 * next + i);
    CHECK(values[2 * n + 1] == 3 + next);
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
