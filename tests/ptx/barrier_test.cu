// The wrappers of mbarrier objects in kernels/common/ptx.cuh.
#include "kernels/common/ptx.cuh"
#include "ptx/ptx_run.cuh"
#include "support/gpu_tests.h"

namespace msda::test {
namespace {

constexpr std::uint32_t kItems = 5;

// A warp produces, one consumes, through one slot a thread; the phases of two mbarriers alternate.
__global__ void pass_on(std::uint32_t* to) {
  MSDA_SHARED(std::uint32_t, slots, [32]);
  MSDA_SHARED(std::uint64_t, full, );
  MSDA_SHARED(std::uint64_t, empty, );
  std::uint32_t const is_full = shared_address(&full), is_empty = shared_address(&empty);
  if (threadIdx.x == 0) {
    ptx::init_mbarrier(is_full, 32);
    ptx::init_mbarrier(is_empty, 32);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  std::uint32_t const i = threadIdx.x % 32;
  std::uint32_t sum = 0;
  for (std::uint32_t item = 0; item < kItems; ++item) {
    if (threadIdx.x < 32) {
      if (item > 0) ptx::wait_parity(is_empty, (item - 1) % 2);
      slots[i] = 10 * item + i;
      ptx::arrive_mbarrier(is_full);
    } else {
      ptx::wait_parity(is_full, item % 2);
      sum = 7 * sum + slots[31 - i];
      ptx::arrive_mbarrier(is_empty);
    }
  }
  if (threadIdx.x >= 32) to[i] = sum;
}

std::uint32_t passed(std::uint32_t i) {
  std::uint32_t sum = 0;
  for (std::uint32_t item = 0; item < kItems; ++item) sum = 7 * sum + 10 * item + i;
  return sum;
}

}  // namespace

TEST_CASE("ptx: phases of mbarriers order producers and consumers" * needs_gpu()) {
  DeviceVector<std::uint32_t> const to(32);
  run(pass_on, {.blocks = 1, .threads = 64}, to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(values[i] == passed(31 - i));
}

}  // namespace msda::test
