// Clusters of every size pass words through one another's shared memory, under a watchdog.
#include "kernels/common/launch.h"
#include "kernels/common/ptx.cuh"
#include "ptx/ptx_run.cuh"
#include "ptx/watchdog.h"
#include "support/gpu_tests.h"

#include <atomic>
#include <string>

namespace msda::test {
namespace {

constexpr std::uint32_t kThreads = 64;
constexpr std::uint32_t kRounds = 3;

std::uint32_t __host__ __device__ word_of(std::uint32_t round, std::uint32_t block,
                                          std::uint32_t i) {
  return round * 1000003 + block * 1009 + i;
}

// In every round each block gets new words by a bulk copy, as the levels of a tile come; then it
// reads those of all blocks of its cluster, its own ones too.
__global__ void read_all(const std::uint32_t* from, std::uint32_t* to) {
  MSDA_SHARED(uint4, words, [kThreads / 4]);
  MSDA_SHARED(std::uint64_t, full, );
  std::uint32_t const i = threadIdx.x, size = ptx::cluster_blocks(), rank = ptx::cluster_rank();
  std::uint32_t const barrier = shared_address(&full);
  if (i == 0) {
    ptx::init_mbarrier(barrier, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    if (i == 0) {
      ptx::arrive_and_expect(barrier, sizeof(words));
      ptx::bulk_load(shared_address(&words[0]), from + (round * gridDim.x + blockIdx.x) * kThreads,
                     sizeof(words), barrier);
    }
    ptx::wait_parity_in_block(barrier, round % 2);
    ptx::sync_cluster();  // all words are there
    for (std::uint32_t n = 0; n < size; ++n) {
      std::uint32_t const other = (rank + n) % size;
      std::uint32_t const at = ptx::map_shared(shared_address(&words[0]), other) + i * 4;
      to[((round * gridDim.x + blockIdx.x) * size + other) * kThreads + i] = ptx::load_cluster(at);
    }
    ptx::sync_cluster();  // all have been read: the next ones may come, or the block may end
  }
}

void check_size(std::uint32_t size, std::uint32_t clusters) {
  std::uint32_t const blocks = size * clusters;
  std::vector<std::uint32_t> words(kRounds * blocks * kThreads);
  for (std::uint32_t n = 0; n < words.size(); ++n) {
    words[n] = word_of(n / kThreads / blocks, n / kThreads % blocks, n % kThreads);
  }
  DeviceVector<std::uint32_t> const from(words), to(words.size() * size);
  launch_kernel(load_kernel(read_all),
                {.blocks = blocks,
                 .threads = static_cast<std::int32_t>(kThreads),
                 .cluster_blocks = static_cast<std::int32_t>(size)},
                nullptr, from.data(), to.data());
  std::string const what =
      std::to_string(clusters) + " clusters of " + std::to_string(size) + " blocks";
  end_program_unless_done(nullptr, what.c_str());
  std::vector<std::uint32_t> const values = to.values();
  std::size_t wrong = 0;
  for (std::uint32_t n = 0; n < values.size(); ++n) {
    std::uint32_t const place = n / kThreads, block = place / size % blocks;
    std::uint32_t const other = block / size * size + place % size;
    wrong += values[n] != word_of(place / size / blocks, other, n % kThreads) ? 1 : 0;
  }
  CAPTURE(what);
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("ptx: clusters of 1, 2, 4, 8 and 16 blocks read one another's memory" * needs_gpu()) {
  for (std::uint32_t const size : {1, 2, 4, 8, 16}) {
    CAPTURE(size);
    std::int32_t const at_a_time =
        max_active_clusters(read_all, {.threads = static_cast<std::int32_t>(kThreads),
                                       .cluster_blocks = static_cast<std::int32_t>(size)});
    REQUIRE(at_a_time > 0);
    check_size(size, 1);
    check_size(size, 5);
    check_size(size, static_cast<std::uint32_t>(at_a_time) + 1);
  }
}

TEST_CASE("ptx: the watchdog of these tests sees work that does not end" * needs_gpu()) {
  std::atomic<bool> may_end = false;
  // The simulated device calls it while the stream is asked, and says once that it was not ready.
  auto const wait = [](void* flag) {
    while (!kGpuIsSimulated && !*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
  };
  auto const days_pass = [] {
    static double now_us = 0;
    return now_us += 1e12;
  };
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  cuda::check(cudaLaunchHostFunc(stream, wait, &may_end), "calling the host");
  CHECK_FALSE(ends_within_limit(stream, days_pass));
  may_end = true;
  CHECK(ends_within_limit(stream));
  cuda::check(cudaStreamDestroy(stream), "destroying a stream");
}

}  // namespace msda::test
