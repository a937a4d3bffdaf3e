// Twins of the asynchronous copies of kernels/common/ptx.cuh.
#pragma once

#include "runtime/device_calls.h"

namespace msda::ptx {

using simt::Where;

inline void copy_async_by_l1(std::uint32_t to, const void* from, std::uint32_t from_bytes,
                             Where where = Where::current()) {
  simt::copy_async(to, from, 16, from_bytes, where);
}
inline void commit_copies(Where where = Where::current()) { simt::commit_async_copies(where); }
template <int kLeft>
void wait_for_copy_groups(Where where = Where::current()) {
  simt::wait_async_copies(kLeft, where);
}
inline void bulk_load(std::uint32_t to, const void* from, std::uint32_t bytes,
                      std::uint32_t barrier, Where where = Where::current()) {
  simt::bulk_load(to, from, bytes, barrier, where);
}
template <std::size_t kRank>
void tensor_load(std::uint32_t to, const void* map, std::int32_t const (&at)[kRank],
                 std::uint32_t barrier, Where where = Where::current()) {
  static_assert(kRank >= 2, "the wrapper has 2 to 5 dimensions");
  simt::tensor_load(to, map, at, kRank, barrier, where);
}

}  // namespace msda::ptx
