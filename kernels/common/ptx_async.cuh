// Asynchronous copies, as ptx.cuh has other instructions: one function each, above each its section
// of the PTX ISA 9.0 manual, part "Data Movement and Conversion Instructions". Addresses `to` in
// shared memory and `barrier` are its own; what copies bytes for a barrier, that expects them.
#pragma once

#ifndef MSDA_SIMULATED  // tests/simt/ptx has a twin of each function

#include <cstdint>

namespace msda::ptx {

// ---- cp.async

// 4, 8 or 16 bytes, of which the first `from_bytes` are copied and the others are 0.
template <int kBytes>
__device__ __forceinline__ void copy_async_or_zero(std::uint32_t to, const void* from,
                                                   std::uint32_t from_bytes) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(from_bytes)
                 : "memory");
  } else if constexpr (kBytes == 8) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from),
                 "r"(from_bytes)
                 : "memory");
  } else {
    static_assert(kBytes == 4, "4, 8 or 16 bytes");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
                 "r"(from_bytes)
                 : "memory");
  }
}
// 16 bytes that stay in L1, of which the first `from_bytes` are copied and the others are 0: what
// other threads copy, too.
__device__ __forceinline__ void copy_async_by_l1(std::uint32_t to, const void* from,
                                                 std::uint32_t from_bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(from_bytes)
               : "memory");
}
// ---- cp.async.commit_group, cp.async.wait_group
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most kLeft groups of the thread are not done.
template <int kLeft>
__device__ __forceinline__ void wait_for_copy_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}
// ---- cp.async.mbarrier.arrive

// One of the arrivals that the barrier was initialised for, when the thread's copies are done.
__device__ __forceinline__ void arrive_after_copies(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// ---- cp.async.bulk. Multiples of 16 bytes.

__device__ __forceinline__ void bulk_load(std::uint32_t to, const void* from, std::uint32_t bytes,
                                          std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
// To all blocks of the cluster whose bits are set in `ranks`, each its own barrier.
__device__ __forceinline__ void bulk_load_multicast(std::uint32_t to, const void* from,
                                                    std::uint32_t bytes, std::uint32_t barrier,
                                                    std::uint16_t ranks) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "h"(ranks)
      : "memory");
}
// To another block's memory, whose barrier it is.
__device__ __forceinline__ void bulk_copy_to_block(std::uint32_t to, std::uint32_t from,
                                                   std::uint32_t bytes, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
      "[%0], [%1], %2, [%3];" ::"r"(to),
      "r"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void bulk_store(void* to, std::uint32_t from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}

// ---- cp.async.bulk.commit_group, cp.async.bulk.wait_group

__device__ __forceinline__ void commit_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until at most kLeft groups of the thread are not done.
template <int kLeft>
__device__ __forceinline__ void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kLeft) : "memory");
}
// Until at most kLeft groups still read shared memory.
template <int kLeft>
__device__ __forceinline__ void wait_for_store_reads() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}

// ---- cp.async.bulk.tensor. `map`: a CUtensorMap among the kernel's parameters, or in global
// memory; coordinates of the tile's first element, the fastest dimension's first, and that one a
// multiple of 16 bytes. What is outside the tensor is 0 when loaded, and not stored. Coordinates of
// loads may be negative, those of stores may not (CUDA Programming Guide, "Using TMA to transfer
// multi-dimensional arrays").

__device__ __forceinline__ void tensor_load(std::uint32_t to, const void* map,
                                            std::int32_t const (&at)[2], std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(at[0]), "r"(at[1]), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void tensor_load(std::uint32_t to, const void* map,
                                            std::int32_t const (&at)[3], std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
      "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void tensor_load(std::uint32_t to, const void* map,
                                            std::int32_t const (&at)[4], std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void tensor_load(std::uint32_t to, const void* map,
                                            std::int32_t const (&at)[5], std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(to),
      "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void tensor_load_multicast(std::uint32_t to, const void* map,
                                                      std::int32_t const (&at)[2],
                                                      std::uint32_t barrier, std::uint16_t ranks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(at[0]), "r"(at[1]), "r"(barrier), "h"(ranks)
      : "memory");
}
__device__ __forceinline__ void tensor_store(const void* map, std::int32_t const (&at)[2],
                                             std::uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
      "r"(at[0]), "r"(at[1]), "r"(from)
      : "memory");
}

}  // namespace msda::ptx

#endif
