// Asynchronous copies, as ptx.cuh has other instructions: one function each, above each its section
// of the PTX ISA 9.0 manual, part "Data Movement and Conversion Instructions". Addresses `to` in
// shared memory and `barrier` are its own; what copies bytes for a barrier, that expects them.
#pragma once

#ifndef MSDA_SIMULATED  // tests/simt/ptx has a twin of each function

#include <cstdint>

namespace msda::ptx {

// ---- cp.async

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
// Waits until at most kLeft groups of the thread are not done.
template <int kLeft>
__device__ __forceinline__ void wait_for_copy_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
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
// ---- cp.async.bulk.tensor. `map`: a CUtensorMap among the kernel's parameters, or in global
// memory; coordinates of the tile's first element, the fastest dimension's first, and that one a
// multiple of 16 bytes. Coordinates may be negative; what is outside the tensor is loaded as 0.

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
}  // namespace msda::ptx

#endif
