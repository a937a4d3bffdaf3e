// Levels in shared memory: copied for each batch item and group of heads, and read there.
#pragma once

#include "kernels/common/pieces.cuh"
#include "kernels/persistent/row_reader.cuh"

namespace msda::persistent {

// Where they begin: at a whole line, so that rows meet the banks that they are meant to.
__device__ __forceinline__ std::uint32_t kept_begin() {
  extern __shared__ char kept[];
  auto const begin = static_cast<std::uint32_t>(__cvta_generic_to_shared(kept));
  return (begin + kLineBytes - 1) / kLineBytes * kLineBytes;
}

__device__ __forceinline__ bool is_kept(Work const& work, int level) {
  return (work.kept_levels >> level & 1) != 0;
}

template <int kBytes>
__device__ __forceinline__ PieceOf<kBytes> load_kept(std::uint32_t at) {
  static_assert(kBytes == 16, "a lane loads 16 bytes at once");
  PieceOf<kBytes> piece;
  // Volatile as loads of pieces are.
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(piece.word[0]), "=r"(piece.word[1]), "=r"(piece.word[2]), "=r"(piece.word[3])
               : "r"(at));
  return piece;
}

// From a step on, at most to step `end` of all. A run's first steps are for copying, the others are
// jobs.
__device__ __forceinline__ Piece piece_at(Work const& work, std::uint32_t step, std::uint32_t end) {
  std::uint32_t const run = work.run_steps.quotient(step);
  std::uint32_t const begin = run * work.run_steps.divisor;
  std::uint32_t const next = min(begin + work.run_steps.divisor, end);
  std::uint32_t const copying = work.run_steps.divisor - work.group_jobs.divisor;
  std::uint32_t const first_job = run * work.group_jobs.divisor;
  return {first_job + max(step - begin, copying) - copying,
          first_job + max(next - begin, copying) - copying, run, next};
}

// By all threads of the block: when it returns, what the thread has copied is there.
template <class Config>
__device__ void copy_levels(Params const& p, Work const& work, std::uint32_t run) {
  constexpr std::uint32_t kGroups = Config::kHeadCount / Config::kHeads;
  const char* const values = static_cast<const char*>(p.value) + run / kGroups * work.item_bytes +
                             std::uint64_t{run % kGroups} * Config::kKeptPixelBytes;
#pragma unroll 1
  for (std::uint32_t left = work.kept_levels; left != 0; left &= left - 1) {
    int const l = __ffs(static_cast<int>(left)) - 1;
    const char* const from = values + p.near_levels[l].origin * Config::kPixelBytes;
    std::uint32_t const to = kept_begin() + work.places[l].origin * kUnitBytes;
    for (std::uint32_t at = threadIdx.x * kPieceBytes; at < work.kept_bytes[l];
         at += Config::kThreads * kPieceBytes) {
      std::uint32_t const pixel = at / Config::kKeptPixelBytes;
      asm volatile(
          "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + at),
          "l"(from + std::uint64_t{pixel} * Config::kPixelBytes + at % Config::kKeptPixelBytes)
          : "memory");
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace msda::persistent
