// Twins of kernels/common/ptx_cluster.cuh.
#pragma once

#include "device/atomics.h"
#include "ptx/memory_twins.h"

namespace msda::ptx {

inline std::uint32_t cluster_rank() { return simt::self->cluster_rank; }
inline std::uint32_t cluster_blocks() { return simt::cluster_blocks(); }

inline void arrive_cluster(Where where = Where::current()) { simt::arrive_cluster(true, where); }
inline void arrive_cluster_relaxed(Where where = Where::current()) {
  simt::arrive_cluster(false, where);
}
inline void wait_cluster(Where where = Where::current()) { simt::wait_cluster(true, where); }
inline void sync_cluster(Where where = Where::current()) {
  arrive_cluster(where);
  wait_cluster(where);
}

inline std::uint32_t map_shared(std::uint32_t at, std::uint32_t rank,
                                Where where = Where::current()) {
  return simt::map_shared_rank(at, rank, where);
}

inline std::uint32_t load_cluster(std::uint32_t at, Where where = Where::current()) {
  return *static_cast<const std::uint32_t*>(simt::from_shared(at, 4, 4, where));
}
inline void load_cluster(std::uint32_t at, std::uint32_t (&to)[4], Where where = Where::current()) {
  copy_words<4>(simt::from_shared(at, 16, 16, where), to);
}
inline void store_cluster(std::uint32_t at, std::uint32_t word, Where where = Where::current()) {
  *static_cast<std::uint32_t*>(simt::from_shared(at, 4, 4, where)) = word;
}
inline std::uint32_t add_cluster(std::uint32_t at, std::uint32_t x,
                                 Where where = Where::current()) {
  return atomicAdd(static_cast<std::uint32_t*>(simt::from_shared(at, 4, 4, where)), x);
}

inline void launch_dependents() { simt::launch_dependents(); }
inline void wait_for_previous_grid(Where where = Where::current()) {
  simt::wait_for_previous_grid(where);
}

}  // namespace msda::ptx
