// Twins of kernels/common/ptx_barrier.cuh.
#pragma once

#include "runtime/device_calls.h"

namespace msda::ptx {

using simt::Where;

inline void sync_named(std::uint32_t barrier, std::uint32_t threads,
                       Where where = Where::current()) {
  simt::sync_named(barrier, threads, where);
}
inline void arrive_named(std::uint32_t barrier, std::uint32_t threads,
                         Where where = Where::current()) {
  simt::arrive_named(barrier, threads, where);
}

inline void init_mbarrier(std::uint32_t at, std::uint32_t arrivals,
                          Where where = Where::current()) {
  simt::mbarrier_init(at, arrivals, where);
}
inline void invalidate_mbarrier(std::uint32_t at, Where where = Where::current()) {
  simt::mbarrier_invalidate(at, where);
}

inline std::uint64_t arrive_mbarrier(std::uint32_t at, Where where = Where::current()) {
  return simt::mbarrier_arrive(at, 1, where);
}
inline std::uint64_t arrive_and_expect(std::uint32_t at, std::uint32_t bytes,
                                       Where where = Where::current()) {
  simt::mbarrier_expect(at, bytes, where);
  return simt::mbarrier_arrive(at, 1, where);
}
inline void expect_bytes(std::uint32_t at, std::uint32_t bytes, Where where = Where::current()) {
  simt::mbarrier_expect(at, bytes, where);
}
inline void arrive_remote(std::uint32_t at, Where where = Where::current()) {
  simt::mbarrier_arrive_remote(at, where);
}

inline bool test_mbarrier(std::uint32_t at, std::uint64_t state, Where where = Where::current()) {
  return simt::mbarrier_test(at, state, where);
}
inline bool test_parity(std::uint32_t at, std::uint32_t parity, Where where = Where::current()) {
  return simt::mbarrier_test_parity(at, parity, where);
}
inline void wait_parity(std::uint32_t at, std::uint32_t parity, Where where = Where::current()) {
  simt::mbarrier_wait_parity(at, parity, where);
}
inline void wait_parity_in_block(std::uint32_t at, std::uint32_t parity,
                                 Where where = Where::current()) {
  simt::mbarrier_wait_parity(at, parity, where);
}

// An object is there for all as soon as it is initialised.
inline void fence_mbarrier_init() {}
inline void fence_async_proxy() { simt::fence_async_proxy(); }

}  // namespace msda::ptx
