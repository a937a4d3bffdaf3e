// Instructions of clusters and of dependent grids, as ptx.cuh has others: one function each, above
// each its section of the PTX ISA 9.0 manual.
#pragma once

#ifndef MSDA_SIMULATED  // tests/simt/ptx has a twin of each function

#include <cstdint>

namespace msda::ptx {

// ---- Special Registers: %cluster_ctarank, %cluster_nctarank

__device__ __forceinline__ std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ std::uint32_t cluster_blocks() {
  std::uint32_t count;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  return count;
}

// ---- Parallel Synchronization and Communication Instructions: barrier.cluster. All threads of
// the cluster; each waits after each arrival.

__device__ __forceinline__ void arrive_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ void sync_cluster() {
  arrive_cluster();
  wait_cluster();
}

// ---- Data Movement and Conversion Instructions: mapa

// The address of another block's variable that lies where `at` lies in the own one.
__device__ __forceinline__ std::uint32_t map_shared(std::uint32_t at, std::uint32_t rank) {
  std::uint32_t mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(at), "r"(rank));
  return mapped;
}

// ---- Data Movement and Conversion Instructions: ld, st. Addresses of map_shared().

__device__ __forceinline__ std::uint32_t load_cluster(std::uint32_t at) {
  std::uint32_t word;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
  return word;
}
__device__ __forceinline__ void load_cluster(std::uint32_t at, std::uint32_t (&to)[4]) {
  asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
}
// ---- Control Flow Instructions: griddepcontrol. Of LaunchOptions::overlaps_previous; code for
// devices before 9.0, where no launch overlaps another one, has neither.

// The next kernel of the stream may begin when all blocks of this one have said so or ended.
__device__ __forceinline__ void launch_dependents() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// Returns when the stream's previous kernel has ended and what it stored is there. That kernel has
// waited for the one before, so all earlier ones have ended, too. A kernel calls it before it first
// reads or writes global memory, its output and workspace included.
__device__ __forceinline__ void wait_for_previous_grid() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace msda::ptx

#endif
