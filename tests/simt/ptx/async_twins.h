// Twins of kernels/common/ptx_async.cuh.
#pragma once

#include "runtime/device_calls.h"

namespace msda::ptx {

using simt::Where;

template <int kBytes>
void copy_async_or_zero(std::uint32_t to, const void* from, std::uint32_t from_bytes,
                        Where where = Where::current()) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "4, 8 or 16 bytes");
  simt::copy_async(to, from, kBytes, from_bytes, where);
}
inline void copy_async_by_l1(std::uint32_t to, const void* from, std::uint32_t from_bytes,
                             Where where = Where::current()) {
  simt::copy_async(to, from, 16, from_bytes, where);
}
inline void commit_copies(Where where = Where::current()) { simt::commit_async_copies(where); }
template <int kLeft>
void wait_for_copy_groups(Where where = Where::current()) {
  simt::wait_async_copies(kLeft, where);
}
inline void arrive_after_copies(std::uint32_t barrier, Where where = Where::current()) {
  simt::arrive_after_async_copies(barrier, where);
}

inline void bulk_load(std::uint32_t to, const void* from, std::uint32_t bytes,
                      std::uint32_t barrier, Where where = Where::current()) {
  simt::bulk_load(to, from, bytes, barrier, where);
}
inline void bulk_load_multicast(std::uint32_t to, const void* from, std::uint32_t bytes,
                                std::uint32_t barrier, std::uint16_t ranks,
                                Where where = Where::current()) {
  simt::bulk_load_multicast(to, from, bytes, barrier, ranks, where);
}
inline void bulk_copy_to_block(std::uint32_t to, std::uint32_t from, std::uint32_t bytes,
                               std::uint32_t barrier, Where where = Where::current()) {
  simt::bulk_copy_to_rank(to, from, bytes, barrier, where);
}
inline void bulk_store(void* to, std::uint32_t from, std::uint32_t bytes,
                       Where where = Where::current()) {
  simt::bulk_store(to, from, bytes, where);
}

inline void commit_stores(Where where = Where::current()) { simt::commit_bulk_stores(where); }
template <int kLeft>
void wait_for_stores(Where where = Where::current()) {
  simt::wait_bulk_stores(kLeft, false, where);
}
template <int kLeft>
void wait_for_store_reads(Where where = Where::current()) {
  simt::wait_bulk_stores(kLeft, true, where);
}

template <std::size_t kRank>
void tensor_load(std::uint32_t to, const void* map, std::int32_t const (&at)[kRank],
                 std::uint32_t barrier, Where where = Where::current()) {
  static_assert(kRank >= 2, "the wrapper has 2 to 5 dimensions");
  simt::tensor_load(to, map, at, kRank, barrier, where);
}
inline void tensor_load_multicast(std::uint32_t to, const void* map, std::int32_t const (&at)[2],
                                  std::uint32_t barrier, std::uint16_t ranks,
                                  Where where = Where::current()) {
  simt::tensor_load_multicast(to, map, at, 2, barrier, ranks, where);
}
inline void tensor_store(const void* map, std::int32_t const (&at)[2], std::uint32_t from,
                         Where where = Where::current()) {
  simt::tensor_store(map, at, 2, from, where);
}

}  // namespace msda::ptx
