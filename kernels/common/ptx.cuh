// Instructions that CUDA C++ cannot spell, one function each. Above each stands the section of the
// PTX ISA 9.0 manual, chapter "Instruction Set", that it is from.
#pragma once

#ifndef MSDA_SIMULATED  // tests/simt/ptx has a twin of each function

#include <cstdint>

namespace msda::ptx {

// ---- Data Movement and Conversion Instructions: ld.global.nc

// 16 bytes of a tensor that no one writes. Volatile: else the compiler moves loads down to their
// use, and few are in flight.
__device__ __forceinline__ void load_global(const char* at, std::uint32_t (&to)[4]) {
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "l"(at));
}

// 2 to 16 bytes that are read once: past L1, and their neighbours into L2. As words of 32 bits; of
// 2 bytes, the lower half of one.
template <int kBytes>
__device__ __forceinline__ void stream_global(const char* at, std::uint32_t* to) {
  if constexpr (kBytes == 16) {
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(at));
  } else if constexpr (kBytes == 8) {
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v2.u32 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "l"(at));
  } else if constexpr (kBytes == 4) {
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.u32 %0, [%1];" : "=r"(to[0]) : "l"(at));
  } else {
    static_assert(kBytes == 2, "2 to 16 bytes");
    std::uint16_t bits;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.u16 %0, [%1];" : "=h"(bits) : "l"(at));
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

}  // namespace msda::ptx

#endif
