// Twins of loads, stores, asynchronous copies and votes.
#pragma once

#include "device/atomics.h"
#include "device/warp.h"
#include "ptx/number_twins.h"
#include "runtime/device_calls.h"

#include <cstdint>
#include <cstring>

namespace msda::ptx {

using simt::Where;

// In words, as the hardware does, so that sanitizers see each.
template <int kWords>
void copy_words(const void* from, void* to) {
  for (int i = 0; i < kWords; ++i) {
    static_cast<std::uint32_t*>(to)[i] = static_cast<const std::uint32_t*>(from)[i];
  }
}

inline void load_global(const char* at, std::uint32_t (&to)[4], Where where = Where::current()) {
  simt::check_global(at, 16, 16, where);
  copy_words<4>(at, to);
}

// The device has no L2: both fetch the same.
struct Sectors {};
struct Neighbours {};

template <int kBytes, typename Fetch = Sectors>
void stream_global(const char* at, std::uint32_t* to, Where where = Where::current()) {
  simt::check_global(at, kBytes, kBytes, where);
  if constexpr (kBytes == 2) {
    to[0] = *reinterpret_cast<const std::uint16_t*>(at);
  } else {
    copy_words<kBytes / 4>(at, to);
  }
}

template <int kWords>
void load_shared(std::uint32_t at, std::uint32_t (&to)[kWords], Where where = Where::current()) {
  static_assert(kWords == 2 || kWords == 4, "the wrapper has these");
  copy_words<kWords>(simt::from_own_shared(at, 4 * kWords, 4 * kWords, where), to);
}
inline void store_shared(std::uint32_t at, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                         std::uint32_t d, Where where = Where::current()) {
  std::uint32_t const words[4] = {a, b, c, d};
  copy_words<4>(words, simt::from_own_shared(at, 16, 16, where));
}
inline void store_shared(std::uint32_t at, std::uint32_t a, std::uint32_t b,
                         Where where = Where::current()) {
  std::uint32_t const words[2] = {a, b};
  copy_words<2>(words, simt::from_own_shared(at, 8, 8, where));
}

// Subnormal numbers are 0 in global memory's additions, before and after.
inline void add_global(float* at, float a, float b, float c, float d,
                       Where where = Where::current()) {
  simt::check_global(reinterpret_cast<const char*>(at), 16, 16, where);
  float const numbers[4] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    simt::update(at + i, [&](float old) { return flushed(flushed(old) + flushed(numbers[i])); });
  }
}

inline void copy_async(std::uint32_t to, const char* from, Where where = Where::current()) {
  simt::copy_async(to, from, 16, 16, where);
}
inline void wait_for_copies(Where where = Where::current()) { simt::wait_all_async_copies(where); }

inline std::uint32_t lanes_of_bit(std::uint32_t key, std::uint32_t bit,
                                  Where where = Where::current()) {
  bool const is_set = (key & bit) != 0;
  std::uint32_t const lanes = simt::ballot(0xffffffffu, is_set, "vote.sync", where);
  return is_set ? lanes : ~lanes;
}

inline std::uint32_t count_up_shared(std::uint32_t at, unsigned lane,
                                     Where where = Where::current()) {
  if (lane != 0) return 0;
  auto* const number = static_cast<std::uint32_t*>(simt::from_own_shared(at, 4, 4, where));
  simt::before_atomic(number);
  std::uint32_t before = __atomic_load_n(number, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(number, &before, before >= 0x7fffffff ? 0 : before + 1, true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  simt::after_atomic(number);
  return before;
}

}  // namespace msda::ptx
