// Twins of the barriers of kernels/common/ptx.cuh.
#pragma once

#include "runtime/device_calls.h"

namespace msda::ptx {

using simt::Where;

inline void init_mbarrier(std::uint32_t at, std::uint32_t arrivals,
                          Where where = Where::current()) {
  simt::mbarrier_init(at, arrivals, where);
}
inline std::uint64_t arrive_mbarrier(std::uint32_t at, Where where = Where::current()) {
  return simt::mbarrier_arrive(at, 1, where);
}
inline std::uint64_t arrive_and_expect(std::uint32_t at, std::uint32_t bytes,
                                       Where where = Where::current()) {
  simt::mbarrier_expect(at, bytes, where);
  return simt::mbarrier_arrive(at, 1, where);
}
inline void wait_parity(std::uint32_t at, std::uint32_t parity, Where where = Where::current()) {
  simt::mbarrier_wait_parity(at, parity, where);
}
inline void wait_parity_in_block(std::uint32_t at, std::uint32_t parity,
                                 Where where = Where::current()) {
  simt::mbarrier_wait_parity(at, parity, where);
}

// An object is there for all as soon as it is initialised, and no copy reads shared memory.
inline void fence_mbarrier_init() {}
inline void fence_async_proxy() {}

}  // namespace msda::ptx
