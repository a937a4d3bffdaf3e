// What hardware of a compute capability can do: CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability".
#pragma once

#include <cstddef>

namespace simt::cuda {

struct Capability {
  int capability;             // 10 major + minor
  std::size_t shared_per_sm;  // bytes
  std::size_t shared_per_block_optin;
  int threads_per_sm;
  int blocks_per_sm;
  bool has_clusters;
};

inline constexpr std::size_t kSharedPerBlock = 48 << 10;  // without opting in
inline constexpr std::size_t kReservedShared = 1 << 10;   // of each block, from 8.0 on
inline constexpr int kRegistersPerSm = 64 << 10;
inline constexpr int kMaxThreadsPerBlock = 1024;
inline constexpr int kPortableClusterBlocks = 8;
inline constexpr int kMaxClusterBlocks = 16;

// The row of the newest capability in the table that is not newer.
Capability const& capability_row(int capability);

}  // namespace simt::cuda
