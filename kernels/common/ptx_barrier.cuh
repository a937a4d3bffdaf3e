// Named barriers and mbarrier objects, as ptx.cuh has other instructions: one function each, above
// each its section of the PTX ISA 9.0 manual. All are in the chapter's part "Parallel
// Synchronization and Communication Instructions".
#pragma once

#ifndef MSDA_SIMULATED  // tests/simt/ptx has a twin of each function

#include <cstdint>

namespace msda::ptx {

// ---- bar. Of `threads`, whole warps; barrier 0 is __syncthreads()'s.

__device__ __forceinline__ void sync_named(std::uint32_t barrier, std::uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
// Counts and does not wait.
__device__ __forceinline__ void arrive_named(std::uint32_t barrier, std::uint32_t threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// ---- mbarrier.init, mbarrier.inval. An object is 8 bytes of shared memory, by its address.

__device__ __forceinline__ void init_mbarrier(std::uint32_t at, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void invalidate_mbarrier(std::uint32_t at) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(at) : "memory");
}

// ---- mbarrier.arrive, mbarrier.expect_tx

// The result is what test_mbarrier() takes.
__device__ __forceinline__ std::uint64_t arrive_mbarrier(std::uint32_t at) {
  std::uint64_t state;
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
  return state;
}
// The phase also waits for so many bytes of bulk copies.
__device__ __forceinline__ std::uint64_t arrive_and_expect(std::uint32_t at, std::uint32_t bytes) {
  std::uint64_t state;
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], %2;"
               : "=l"(state)
               : "r"(at), "r"(bytes)
               : "memory");
  return state;
}
__device__ __forceinline__ void expect_bytes(std::uint32_t at, std::uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(bytes)
               : "memory");
}
// Of another block's object: an address of map_shared().
__device__ __forceinline__ void arrive_remote(std::uint32_t at) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(at) : "memory");
}

// ---- mbarrier.test_wait, mbarrier.try_wait

__device__ __forceinline__ bool test_mbarrier(std::uint32_t at, std::uint64_t state) {
  std::uint32_t is_complete;
  asm volatile(
      "{\n.reg .pred done;\nmbarrier.test_wait.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n}"
      : "=r"(is_complete)
      : "r"(at), "l"(state)
      : "memory");
  return is_complete != 0;
}
// Whether the phase of this parity, the first one's is 0, is complete: so is the one before now.
__device__ __forceinline__ bool test_parity(std::uint32_t at, std::uint32_t parity) {
  std::uint32_t is_complete;
  asm volatile(
      "{\n.reg .pred done;\nmbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n}"
      : "=r"(is_complete)
      : "r"(at), "r"(parity)
      : "memory");
  return is_complete != 0;
}
// Returns when it is. In a loop: try_wait gives up after a time of the hardware's.
__device__ __forceinline__ void wait_parity(std::uint32_t at, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain_%=:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again_%=;\n}" ::"r"(at),
      "r"(parity)
      : "memory");
}
// The same, acquired by the block alone: what another block of a cluster stored need not be there.
// The hit rate of L1 fell from 12 to 1 % where wait_parity() stood instead.
__device__ __forceinline__ void wait_parity_in_block(std::uint32_t at, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain_%=:\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again_%=;\n}" ::"r"(at),
      "r"(parity)
      : "memory");
}

// ---- membar, fence

// Before the first use of an object by other blocks, or by copies.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// What was stored to shared memory may be read by asynchronous copies from here on.
__device__ __forceinline__ void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace msda::ptx

#endif
