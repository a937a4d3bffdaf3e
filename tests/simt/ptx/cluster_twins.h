// Twins of the instructions of clusters in kernels/common/ptx.cuh.
#pragma once

#include "ptx/memory_twins.h"

namespace msda::ptx {

inline std::uint32_t cluster_rank() { return simt::self->cluster_rank; }
inline std::uint32_t cluster_blocks() { return simt::cluster_blocks(); }

inline void arrive_cluster(Where where = Where::current()) { simt::arrive_cluster(where); }
inline void wait_cluster(Where where = Where::current()) { simt::wait_cluster(where); }
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
inline void launch_dependents() { simt::launch_dependents(); }
inline void wait_for_previous_grid(Where where = Where::current()) {
  simt::wait_for_previous_grid(where);
}

}  // namespace msda::ptx
