// Instructions that CUDA C++ cannot spell, one function each, and declarations of shared memory:
// all for which the simulated device (tests/simt) has words of its own. Above each function stands
// the section of the PTX ISA 9.0 manual, chapter "Instruction Set", that it is from.
#pragma once

#include <cstdint>

namespace msda {

// The address of a shared variable, as instructions take it.
template <typename T>
__device__ __forceinline__ std::uint32_t shared_address(const T* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

// The warp's number in its block. Lane 0 tells it, so that ptxas knows that no branch on it parts a
// warp, and makes no second way for lanes apart: else windows take 3 % longer, clusters 4 to 10 %.
__device__ __forceinline__ std::uint32_t uniform_warp() {
  return __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
}

}  // namespace msda

#ifndef MSDA_SIMULATED  // tests/simt/ptx has a twin of each function

// MSDA_SHARED(type, name[, extents]): one variable for each block.
#define MSDA_SHARED(type, name, ...) __shared__ type name __VA_ARGS__

// Bytes that the launch asks for.
#define MSDA_DYNAMIC_SHARED(name) extern __shared__ char name[]

namespace msda::ptx {

// ---- Data Movement and Conversion Instructions: ld.global.nc

// 16 bytes of a tensor that no one writes. Volatile: else the compiler moves loads down to their
// use, and few are in flight.
__device__ __forceinline__ void load_global(const char* at, std::uint32_t (&to)[4]) {
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "l"(at));
}

// Whether a load that misses in L2 fetches its sectors alone, or 256 bytes.
struct Sectors {
  static constexpr char kL2[] = "";
};
struct Neighbours {
  static constexpr char kL2[] = ".L2::256B";
};

// 2 to 16 bytes that are read once: past L1. As words of 32 bits; of 2 bytes, the lower half of
// one. Rows of points are faster without their neighbours (1 to 2 % of a forward), single points
// with them (up to 0.5 % of a backward).
template <int kBytes, typename Fetch = Sectors>
__device__ __forceinline__ void stream_global(const char* at, std::uint32_t* to) {
  if constexpr (kBytes == 16) {
    asm volatile("ld.global.nc.L1::no_allocate%5.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(at), "C"(Fetch::kL2));
  } else if constexpr (kBytes == 8) {
    asm volatile("ld.global.nc.L1::no_allocate%3.v2.u32 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "l"(at), "C"(Fetch::kL2));
  } else if constexpr (kBytes == 4) {
    asm volatile("ld.global.nc.L1::no_allocate%2.u32 %0, [%1];"
                 : "=r"(to[0])
                 : "l"(at), "C"(Fetch::kL2));
  } else {
    static_assert(kBytes == 2, "2 to 16 bytes");
    std::uint16_t bits;
    asm volatile("ld.global.nc.L1::no_allocate%2.u16 %0, [%1];"
                 : "=h"(bits)
                 : "l"(at), "C"(Fetch::kL2));
    to[0] = bits;
  }
}

// ---- Data Movement and Conversion Instructions: ld, st. Addresses are those in shared memory:
// from a pointer the compiler would compute the address anew for each access.

__device__ __forceinline__ void load_shared(std::uint32_t at, std::uint32_t (&to)[4]) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at));
}
__device__ __forceinline__ void load_shared(std::uint32_t at, std::uint32_t (&to)[2]) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at));
}
__device__ __forceinline__ void store_shared(std::uint32_t at, std::uint32_t a, std::uint32_t b,
                                             std::uint32_t c, std::uint32_t d) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
__device__ __forceinline__ void store_shared(std::uint32_t at, std::uint32_t a, std::uint32_t b) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at), "r"(a), "r"(b) : "memory");
}

// ---- Data Movement and Conversion Instructions: cp.async, cp.async.wait_all

// 16 bytes from global to shared memory, past L1.
__device__ __forceinline__ void copy_async(std::uint32_t to, const char* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// When it returns, what the thread has copied is there.
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// ---- Data Movement and Conversion Instructions: cvt

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890  // what the compiler of the host sees, too
// Four F8_E4M3 as two pairs of float16, exactly.
__device__ __forceinline__ void convert_f8(std::uint32_t word, std::uint32_t& lower,
                                           std::uint32_t& upper) {
  asm("{\n.reg .b16 lower, upper;\nmov.b32 {lower, upper}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, lower;\ncvt.rn.f16x2.e4m3x2 %1, upper;\n}"
      : "=r"(lower), "=r"(upper)
      : "r"(word));
}
#endif

// ---- Extended-Precision Integer Arithmetic Instructions: add.cc, addc. Where `bytes` is a
// product, the compiler would multiply again for each sum, in the pipe that conversions of float16
// wait for.

__device__ __forceinline__ const char* add_wide(const char* at, std::uint64_t bytes) {
  const char* sum;
  asm("{\n.reg .b32 a, b, c, d;\nmov.b64 {a, b}, %1;\nmov.b64 {c, d}, %2;\n"
      "add.cc.u32 a, a, c;\naddc.u32 b, b, d;\nmov.b64 %0, {a, b};\n}"
      : "=l"(sum)
      : "l"(at), "l"(bytes));
  return sum;
}

// ---- Integer Arithmetic Instructions: mad.wide. Of a stride that a loop leaves alone the compiler
// would multiply 64 bits.

__device__ __forceinline__ const char* row_at(const char* first, std::uint32_t row,
                                              std::uint32_t stride_bytes) {
  const char* at;
  asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(at) : "r"(row), "r"(stride_bytes), "l"(first));
  return at;
}

// ---- Floating Point Instructions: ex2, rcp

// 2^x to about 2^-22 of it; what is below 2^-126 is 0.
__device__ __forceinline__ float exp2_approximate(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
// 1 / x to one unit in the last place.
__device__ __forceinline__ float reciprocal_approximate(float x) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}

// ---- Parallel Synchronization and Communication Instructions: atom

// The lane 0 of a warp counts up a number in shared memory and has what it was before; the others
// have 0. `inc`, not `add`: of an addition the compiler makes one for all lanes that could take
// part.
__device__ __forceinline__ std::uint32_t count_up_shared(std::uint32_t at, unsigned lane) {
  std::uint32_t before;
  asm volatile(
      "{\n.reg .pred first;\nsetp.eq.u32 first, %2, 0;\nmov.u32 %0, 0;\n"
      "@first atom.shared.inc.u32 %0, [%1], 0x7fffffff;\n}"
      : "=r"(before)
      : "r"(at), "r"(lane)
      : "memory");
  return before;
}

// ---- Parallel Synchronization and Communication Instructions: red

// Adds to four float32 in global memory, at a multiple of 16 bytes; each addition is atomic by
// itself.
__device__ __forceinline__ void add_global(float* at, float a, float b, float c, float d) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(a),
               "f"(b), "f"(c), "f"(d)
               : "memory");
#else
  atomicAdd(at, a);
  atomicAdd(at + 1, b);
  atomicAdd(at + 2, c);
  atomicAdd(at + 3, d);
#endif
}

// ---- Parallel Synchronization and Communication Instructions: vote.sync. All lanes of the warp.

// The lanes in whose key the bit is as in the lane's own. From ballots in C++ the compiler makes
// five to six instructions, of this three.
__device__ __forceinline__ std::uint32_t lanes_of_bit(std::uint32_t key, std::uint32_t bit) {
  std::uint32_t lanes;
  asm volatile(
      "{\n.reg .pred is_set;\n.reg .b32 masked;\nand.b32 masked, %1, %2;\n"
      "setp.ne.u32 is_set, masked, 0;\nvote.sync.ballot.b32 %0, is_set, 0xffffffff;\n"
      "@!is_set not.b32 %0, %0;\n}"
      : "=r"(lanes)
      : "r"(key), "r"(bit));
  return lanes;
}

// ---- Inline assembly without an instruction ("Inline PTX Assembly in CUDA", section Parameters):
// the compiler keeps the value in a register from here on, and forgets how it came about.

__device__ __forceinline__ void pin(std::uint32_t& value) { asm volatile("" : "+r"(value)); }
__device__ __forceinline__ void pin(const char*& pointer) { asm volatile("" : "+l"(pointer)); }

// ---- Data Movement and Conversion Instructions: asynchronous copies. Addresses `to` in shared
// memory and `barrier` are the thread's own; what copies bytes for a barrier, that expects them.

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

// ---- Parallel Synchronization and Communication Instructions: named barriers and mbarrier objects

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

// ---- Clusters of blocks, and grids that depend on one another

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

// ---- Warp Level Matrix Multiply-Accumulate Instructions. All lanes of a warp.

// ---- mma, in float32: a of 16 rows, b of 8 columns, K as named.

// sums += a * b
__device__ __forceinline__ void multiply_f16_k16(float (&sums)[4], std::uint32_t const (&a)[4],
                                                 std::uint32_t const (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void multiply_bf16_k16(float (&sums)[4], std::uint32_t const (&a)[4],
                                                  std::uint32_t const (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// products = a * b
__device__ __forceinline__ void products_f16_k16(float (&products)[4], std::uint32_t const (&a)[4],
                                                 std::uint32_t const (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=f"(products[0]), "=f"(products[1]), "=f"(products[2]), "=f"(products[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}
__device__ __forceinline__ void products_bf16_k16(float (&products)[4], std::uint32_t const (&a)[4],
                                                  std::uint32_t const (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=f"(products[0]), "=f"(products[1]), "=f"(products[2]), "=f"(products[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}

}  // namespace msda::ptx

#endif
