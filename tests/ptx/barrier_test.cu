// The wrappers of kernels/common/ptx_barrier.cuh.
#include "kernels/common/ptx_barrier.cuh"
#include "ptx/ptx_run.cuh"
#include "support/gpu_tests.h"

namespace msda::test {
namespace {

constexpr std::uint32_t kItems = 5;

// Two warps produce, two consume, through one slot a thread: "full" is barrier 1, "empty" 2.
__global__ void pass_on(std::uint32_t* to) {
  MSDA_SHARED(std::uint32_t, slots, [64]);
  std::uint32_t const i = threadIdx.x % 64;
  std::uint32_t sum = 0;
  for (std::uint32_t item = 0; item < kItems; ++item) {
    if (threadIdx.x < 64) {
      if (item > 0) ptx::sync_named(2, 128);
      slots[i] = 10 * item + i;
      ptx::arrive_named(1, 128);
    } else {
      ptx::sync_named(1, 128);
      sum = 7 * sum + slots[63 - i];
      if (item + 1 < kItems) ptx::arrive_named(2, 128);
    }
  }
  if (threadIdx.x >= 64) to[i] = sum;
}

// The same by mbarriers, whose phases alternate.
__global__ void pass_on_by_phases(std::uint32_t* to) {
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

// What tests say before and after the one arrival, and after the object is made anew.
__global__ void ask(std::uint32_t* to) {
  MSDA_SHARED(std::uint64_t, object, );
  std::uint32_t const at = shared_address(&object);
  if (threadIdx.x != 0) return;
  ptx::init_mbarrier(at, 2);
  std::uint64_t const state = ptx::arrive_mbarrier(at);
  to[0] = ptx::test_mbarrier(at, state);
  to[1] = ptx::test_parity(at, 0);
  to[2] = ptx::test_parity(at, 1);  // the phase before the first
  ptx::arrive_mbarrier(at);
  to[3] = ptx::test_mbarrier(at, state);
  to[4] = ptx::test_parity(at, 0);
  to[5] = ptx::test_parity(at, 1);
  ptx::invalidate_mbarrier(at);
  ptx::init_mbarrier(at, 1);
  to[6] = ptx::test_parity(at, 0);
  ptx::arrive_mbarrier(at);
  ptx::wait_parity(at, 0);
  to[7] = ptx::test_parity(at, 0);
}

std::uint32_t passed(std::uint32_t i) {
  std::uint32_t sum = 0;
  for (std::uint32_t item = 0; item < kItems; ++item) sum = 7 * sum + 10 * item + i;
  return sum;
}

}  // namespace

TEST_CASE("ptx: named barriers order producers and consumers" * needs_gpu()) {
  DeviceVector<std::uint32_t> const to(64);
  run(pass_on, {.blocks = 1, .threads = 128}, to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t i = 0; i < 64; ++i) CHECK(values[i] == passed(63 - i));
}

TEST_CASE("ptx: phases of mbarriers order producers and consumers" * needs_gpu()) {
  DeviceVector<std::uint32_t> const to(32);
  run(pass_on_by_phases, {.blocks = 1, .threads = 64}, to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(values[i] == passed(31 - i));
}

TEST_CASE("ptx: an mbarrier says which phase is complete" * needs_gpu()) {
  DeviceVector<std::uint32_t> const to(8);
  run(ask, {.blocks = 1, .threads = 32}, to.data());
  CHECK(to.values() == std::vector<std::uint32_t>{0, 0, 1, 1, 1, 0, 0, 1});
}

}  // namespace msda::test
