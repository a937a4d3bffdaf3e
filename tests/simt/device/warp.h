// Barriers, and what the lanes of a warp do together.
#pragma once

#include "runtime/device_calls.h"

#include <cstring>
#include <type_traits>

namespace simt {

template <typename T>
T shuffle(std::uint32_t mask, T const& value, std::uint32_t source, const char* what, Where where) {
  static_assert(sizeof(T) <= kMaxExchangedBytes && std::is_trivially_copyable_v<T>);
  Exchange const exchange = meet(mask, &value, sizeof(T), what, false, where);
  if ((exchange.present >> source & 1) == 0) {
    fail(where, "%s reads lane %u, which takes no part (present: %#x)", what, source,
         exchange.present);
  }
  T result;
  take(exchange, source, &result, sizeof(T));
  return result;
}

// The lane of a shuffle's segment of `width` lanes; lanes beyond it read themselves.
inline std::uint32_t segment_begin(int width, Where where) {
  auto const lanes = static_cast<std::uint32_t>(width);
  if (width < 1 || width > 32 || (lanes & (lanes - 1)) != 0) {
    fail(where, "a shuffle of width %d; powers of 2 up to 32 are allowed", width);
  }
  return self->lane / lanes * lanes;
}

inline std::uint32_t ballot(std::uint32_t mask, bool is_set, const char* what, Where where) {
  std::uint8_t const mine = is_set ? 1 : 0;
  Exchange const exchange = meet(mask, &mine, sizeof(mine), what, false, where);
  std::uint32_t result = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if ((exchange.present >> lane & 1) == 0) continue;
    std::uint8_t other;
    take(exchange, lane, &other, sizeof(other));
    result |= std::uint32_t{other} << lane;
  }
  return result;
}

}  // namespace simt

inline void __syncthreads(simt::Where where = simt::Where::current()) { simt::sync_block(where); }

inline void __syncwarp(unsigned mask = 0xffffffffu, simt::Where where = simt::Where::current()) {
  simt::meet(mask, "", 0, "__syncwarp", true, where);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              simt::Where where = simt::Where::current()) {
  std::uint32_t const begin = simt::segment_begin(width, where);
  std::uint32_t const lane = begin + (static_cast<unsigned>(source) & (width - 1u));
  return simt::shuffle(mask, value, lane, "__shfl_sync", where);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32,
                  simt::Where where = simt::Where::current()) {
  std::uint32_t const end = simt::segment_begin(width, where) + static_cast<unsigned>(width);
  std::uint32_t const lane = simt::self->lane ^ static_cast<unsigned>(distance);
  return simt::shuffle(mask, value, lane < end ? lane : simt::self->lane, "__shfl_xor_sync", where);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32,
                   simt::Where where = simt::Where::current()) {
  std::uint32_t const end = simt::segment_begin(width, where) + static_cast<unsigned>(width);
  std::uint32_t const lane = simt::self->lane + distance;
  return simt::shuffle(mask, value, lane < end ? lane : simt::self->lane, "__shfl_down_sync",
                       where);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32,
                 simt::Where where = simt::Where::current()) {
  std::uint32_t const begin = simt::segment_begin(width, where);
  std::uint32_t const lane = simt::self->lane;
  return simt::shuffle(mask, value, lane >= begin + distance ? lane - distance : lane,
                       "__shfl_up_sync", where);
}

inline unsigned __ballot_sync(unsigned mask, int x, simt::Where where = simt::Where::current()) {
  return simt::ballot(mask, x != 0, "__ballot_sync", where);
}
inline int __any_sync(unsigned mask, int x, simt::Where where = simt::Where::current()) {
  return simt::ballot(mask, x != 0, "__any_sync", where) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int x, simt::Where where = simt::Where::current()) {
  return simt::ballot(mask, x == 0, "__all_sync", where) == 0 ? 1 : 0;
}
template <typename T>
unsigned __match_any_sync(unsigned mask, T value, simt::Where where = simt::Where::current()) {
  simt::Exchange const exchange =
      simt::meet(mask, &value, sizeof(value), "__match_any_sync", false, where);
  unsigned result = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if ((exchange.present >> lane & 1) == 0) continue;
    T other;
    simt::take(exchange, lane, &other, sizeof(other));
    if (std::memcmp(&other, &value, sizeof(value)) == 0) result |= 1u << lane;
  }
  return result;
}

namespace simt {

template <typename T, typename Combine>
T reduce(std::uint32_t mask, T value, const char* what, Where where, Combine combine) {
  Exchange const exchange = meet(mask, &value, sizeof(T), what, false, where);
  bool is_first = true;
  T result{};
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if ((exchange.present >> lane & 1) == 0) continue;
    T other;
    take(exchange, lane, &other, sizeof(other));
    result = is_first ? other : combine(result, other);
    is_first = false;
  }
  return result;
}

}  // namespace simt

template <typename T>
T __reduce_add_sync(unsigned mask, T value, simt::Where where = simt::Where::current()) {
  return simt::reduce(mask, value, "__reduce_add_sync", where, [](T a, T b) {
    return static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  });
}
template <typename T>
T __reduce_or_sync(unsigned mask, T value, simt::Where where = simt::Where::current()) {
  return simt::reduce(mask, value, "__reduce_or_sync", where, [](T a, T b) { return a | b; });
}
template <typename T>
T __reduce_max_sync(unsigned mask, T value, simt::Where where = simt::Where::current()) {
  return simt::reduce(mask, value, "__reduce_max_sync", where,
                      [](T a, T b) { return a < b ? b : a; });
}
template <typename T>
T __reduce_min_sync(unsigned mask, T value, simt::Where where = simt::Where::current()) {
  return simt::reduce(mask, value, "__reduce_min_sync", where,
                      [](T a, T b) { return b < a ? b : a; });
}

inline void __nanosleep(unsigned) { simt::pause(); }

[[noreturn]] inline void __trap(simt::Where where = simt::Where::current()) {
  simt::fail(where, "__trap()");
}
