// Atomic operations and fences. Atomics order nothing by themselves, as on a GPU.
#pragma once

#include "runtime/device_calls.h"

#include <bit>
#include <cstdint>
#include <type_traits>

namespace simt {

// Replaces *at by fn(*at); returns what was there.
template <typename T, typename Fn>
T update(T* at, Fn fn) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static_assert(sizeof(T) == sizeof(Bits));
  auto* const bits = reinterpret_cast<Bits*>(at);
  before_atomic(at);
  Bits old = __atomic_load_n(bits, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(bits, &old, std::bit_cast<Bits>(fn(std::bit_cast<T>(old))),
                                      true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  after_atomic(at);
  return std::bit_cast<T>(old);
}

}  // namespace simt

template <typename T>
T atomicAdd(T* at, std::type_identity_t<T> x) {
  if constexpr (std::is_integral_v<T>) {  // wraps around
    using Unsigned = std::make_unsigned_t<T>;
    return simt::update(at, [x](T old) {
      return static_cast<T>(static_cast<Unsigned>(old) + static_cast<Unsigned>(x));
    });
  } else {
    return simt::update(at, [x](T old) { return old + x; });
  }
}
template <typename T>
T atomicSub(T* at, std::type_identity_t<T> x) {
  return atomicAdd(at, static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x)));
}
template <typename T>
T atomicMin(T* at, std::type_identity_t<T> x) {
  return simt::update(at, [x](T old) { return x < old ? x : old; });
}
template <typename T>
T atomicMax(T* at, std::type_identity_t<T> x) {
  return simt::update(at, [x](T old) { return old < x ? x : old; });
}
template <typename T>
T atomicAnd(T* at, std::type_identity_t<T> x) {
  return simt::update(at, [x](T old) { return old & x; });
}
template <typename T>
T atomicOr(T* at, std::type_identity_t<T> x) {
  return simt::update(at, [x](T old) { return old | x; });
}
template <typename T>
T atomicExch(T* at, std::type_identity_t<T> x) {
  return simt::update(at, [x](T) { return x; });
}
template <typename T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> x) {
  return simt::update(at, [=](T old) { return old == expected ? x : old; });
}
inline unsigned atomicInc(unsigned* at, unsigned limit) {
  return simt::update(at, [=](unsigned old) { return old >= limit ? 0 : old + 1; });
}

inline void __threadfence_block() { simt::fence(); }
inline void __threadfence() { simt::fence(); }
inline void __threadfence_system() { simt::fence(); }
