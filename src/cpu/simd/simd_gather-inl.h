// The gather: a head's channels at four corners a point, weighted and summed in registers. Included
// once a target by foreach_target, in one file a value type.
#if defined(MSDA_SIMD_GATHER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MSDA_SIMD_GATHER_INL_H_
#undef MSDA_SIMD_GATHER_INL_H_
#else
#define MSDA_SIMD_GATHER_INL_H_
#endif

#include "cpu/simd/simd_elements-inl.h"
#include "cpu/simd/simd_kernel.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif

// ---- groups: the channels that one step loads

// As many channels as a vector of at most kCap floats has lanes.
template <typename T, std::size_t kCap>
struct Plain {
  using D = hn::CappedTag<float, kCap>;
  static constexpr int kVectors = 1;
  static constexpr std::int64_t kChannels = hn::MaxLanes(D());
  static constexpr std::int64_t kElementBytes = sizeof(T);

  static HWY_INLINE void load_group(std::uintptr_t address, hn::Vec<D> (&to)[1]) {
    to[0] = load(D(), reinterpret_cast<const T*>(address));
  }
  static HWY_INLINE void store_group(hn::Vec<D> const (&sum)[1], msda_dtype dtype, void* array,
                                     std::int64_t index) {
    store(D(), sum[0], dtype, array, index);
  }
};

// A whole vector of bfloat16: the upper halves of its 32-bit lanes are one vector of floats, the
// lower halves another. That takes one operation a vector where widening takes two.
struct Bf16Pairs {
  using D = hn::ScalableTag<float>;
  static constexpr int kVectors = 2;
  static constexpr std::int64_t kChannels = 2 * static_cast<std::int64_t>(hn::MaxLanes(D()));
  static constexpr std::int64_t kElementBytes = sizeof(Bf16);

  static HWY_INLINE void load_group(std::uintptr_t address, hn::Vec<D> (&to)[2]) {
    const D d;
    const hn::RebindToUnsigned<D> d32;
    const hn::Repartition<std::uint8_t, D> d8;
    auto const bits =
        hn::BitCast(d32, hn::LoadU(d8, reinterpret_cast<const std::uint8_t*>(address)));
    to[0] = hn::BitCast(d, hn::ShiftLeft<16>(bits));
    to[1] = hn::BitCast(d, hn::And(bits, hn::Set(d32, 0xFFFF0000u)));
  }
  static HWY_INLINE void store_group(hn::Vec<D> const (&sum)[2], msda_dtype dtype, void* array,
                                     std::int64_t index) {
    const D d;
    const hn::RebindToUnsigned<D> d32;
    const hn::Repartition<std::uint8_t, D> d8;
    if (dtype == MSDA_DTYPE_BF16) {
      auto const low = hn::ShiftRight<16>(round_to_bf16(d, sum[0]));
      auto const high = hn::And(round_to_bf16(d, sum[1]), hn::Set(d32, 0xFFFF0000u));
      hn::StoreU(hn::BitCast(d8, hn::Or(low, high)), d8,
                 reinterpret_cast<std::uint8_t*>(static_cast<std::uint16_t*>(array) + index));
      return;
    }
    HWY_ALIGN float row[kChannels];
    hn::StoreInterleaved2(sum[0], sum[1], d, row);
    store(d, hn::Load(d, row), dtype, array, index);
    store(d, hn::Load(d, row + kChannels / 2), dtype, array, index + kChannels / 2);
  }
};

// ---- rows

// The sums of kGroups groups of channels. Up to four chains of additions a vector overlap; the
// order of the additions is fixed by the number of groups alone.
template <class Group, int kGroups>
class Sums {
 public:
  static constexpr int kVectors = kGroups * Group::kVectors;
  static constexpr int kChains = 4 * kVectors <= kRegisters / 2 ? 4 : 2;
  using D = typename Group::D;
  using V = hn::Vec<D>;

  HWY_INLINE Sums() {
    for (int c = 0; c < kChains; ++c) {
      for (int i = 0; i < kVectors; ++i) chain_[c][i] = hn::Zero(D());
    }
  }

  // Adds points [first, end). `base` is the address of the row of zeros, moved to the first
  // channel; `last` the offset of the last group, which overlaps the one before where the channels
  // are no whole number of groups. When kPrefetch, asks for the lines of the same channels of the
  // points in `next`; `straddles` says that these may begin within a line and so end in one more.
  template <bool kPrefetch>
  HWY_INLINE void add(Corners const& corners, std::int64_t first, std::int64_t end,
                      std::uintptr_t base, std::int64_t last, Corners const& next, bool straddles) {
    if (HWY_UNLIKELY(corners.has_infinite_weight))
      return add_samples(corners, first, end, base, last);
    for (std::int64_t k = first; k < end; ++k) {
      for (int corner = 0; corner < 4; ++corner) {
        if constexpr (kPrefetch) {
          prefetch(base + static_cast<std::uintptr_t>(next.offset[corner][k]), last, straddles);
        }
        std::uintptr_t const at = base + static_cast<std::uintptr_t>(corners.offset[corner][k]);
        auto const weight = hn::Set(D(), corners.weight[corner][k]);
        for (int g = 0; g < kGroups; ++g) {
          V value[Group::kVectors];
          Group::load_group(at + static_cast<std::uintptr_t>(offset(g, last)), value);
          for (int i = 0; i < Group::kVectors; ++i) {
            V& sum = chain_[corner % kChains][g * Group::kVectors + i];
            sum = hn::MulAdd(value[i], weight, sum);
          }
        }
      }
    }
  }

  HWY_INLINE void store_row(float scale, msda_dtype dtype, void* array, std::int64_t index,
                            std::int64_t last) const {
    for (int g = 0; g < kGroups; ++g) {
      V total[Group::kVectors];
      for (int i = 0; i < Group::kVectors; ++i) {
        int const n = g * Group::kVectors + i;
        total[i] = hn::Add(chain_[0][n], chain_[1][n]);
        if constexpr (kChains == 4) {
          total[i] = hn::Add(total[i], hn::Add(chain_[2][n], chain_[3][n]));
        }
        if constexpr (Group::kElementBytes == 1) {
          total[i] = hn::Mul(hn::Mul(total[i], hn::Set(D(), kF8Unit)), hn::Set(D(), scale));
        }
      }
      Group::store_group(total, dtype, array, index + offset(g, last) / Group::kElementBytes);
    }
  }

 private:
  // Adds samples where a weight is infinite: each is multiplied with the sum over its corners.
  HWY_NOINLINE void add_samples(Corners const& corners, std::int64_t first, std::int64_t end,
                                std::uintptr_t base, std::int64_t last) {
    for (std::int64_t k = first; k < end; ++k) {
      auto const attention = hn::Set(D(), corners.attention[k]);
      for (int g = 0; g < kGroups; ++g) {
        V sample[Group::kVectors];
        for (int i = 0; i < Group::kVectors; ++i) sample[i] = hn::Zero(D());
        for (int corner = 0; corner < 4; ++corner) {
          std::uintptr_t const at = base + static_cast<std::uintptr_t>(corners.offset[corner][k]);
          V value[Group::kVectors];
          Group::load_group(at + static_cast<std::uintptr_t>(offset(g, last)), value);
          auto const weight = hn::Set(D(), corners.weight[corner][k]);
          for (int i = 0; i < Group::kVectors; ++i) {
            sample[i] = hn::MulAdd(value[i], weight, sample[i]);
          }
        }
        for (int i = 0; i < Group::kVectors; ++i) {
          V& sum = chain_[0][g * Group::kVectors + i];
          sum = hn::MulAdd(sample[i], attention, sum);
        }
      }
    }
  }

  static HWY_INLINE std::int64_t offset(int group, std::int64_t last) {
    return group == kGroups - 1 ? last : group * Group::kChannels * Group::kElementBytes;
  }
  // Into the second level: where a head's pixels lie far apart they share a few sets of the first,
  // fewer than a row's lines need.
  static HWY_INLINE void prefetch(std::uintptr_t address, std::int64_t last, bool straddles) {
    constexpr std::int64_t kGroupBytes = Group::kChannels * Group::kElementBytes;
    for (std::int64_t byte = 0; byte < kGroups * kGroupBytes; byte += 64) {
      __builtin_prefetch(reinterpret_cast<const void*>(address + static_cast<std::uintptr_t>(byte)),
                         0, 2);
    }
    if (straddles) {
      __builtin_prefetch(reinterpret_cast<const void*>(
                             address + static_cast<std::uintptr_t>(last + kGroupBytes - 1)),
                         0, 2);
    }
  }

  V chain_[kChains][kVectors];
};

// One head's rows, and what does not change from row to row.
template <class Group>
class HeadGather {
 public:
  explicit HeadGather(HeadSource const& source) : source_(source) {}

  // The points of a row are one block, those of rows that are read together one, too: while it is
  // summed, the corners of the next are known and its lines on their way.
  template <bool kTogether>
  void run_pipelined(std::int64_t first, std::int64_t last) const {
    std::int64_t const together = kTogether ? tables_.read.rows : 1;
    auto const range_at = [&](std::int64_t q) HWY_ATTR {
      return PointRange{q, kTogether ? std::min(together, last - q) : 1, 0, K_};
    };
    Corners corners[2];
    Corners *now = &corners[0], *next = &corners[1];
    Softmax softmax;
    tables_.read.locate(source_, range_at(first), softmax, *now);
    for (std::int64_t q = first; q < last; q += together, std::swap(now, next)) {
      PointRange const range = range_at(q);
      for (std::int64_t row = q; row < q + range.rows; ++row) {
        source_.prefetch(std::min(row + 2 * together, last - 1));
      }
      tables_.read.locate(source_, range_at(std::min(q + together, last - 1)), softmax, *next);
      if (kTogether && HWY_UNLIKELY(now->has_infinite_weight)) {
        run_blocked(q, q + range.rows);  // no bit of a row depends on another's weight
        continue;
      }
      for (std::int64_t r = 0; r < range.rows; ++r) sum_row<kTogether>(q + r, *now, r * K_, *next);
    }
  }

  // Longer rows: every block of points is located where it is summed.
  void run_blocked(std::int64_t first, std::int64_t last) const {
    Corners corners;
    Softmax softmax;
    for (std::int64_t q = first; q < last; ++q) {
      each_channel_block([&](auto groups, std::int64_t channel) HWY_ATTR {
        row<decltype(groups)::value>(
            q, channel, [&](auto& sums, std::uintptr_t base, std::int64_t end) HWY_ATTR {
              for (std::int64_t k = 0; k < K_; k += kPointBlock) {
                std::int64_t const count = std::min(K_ - k, kPointBlock);
                tables_.read.locate(source_, {q, 1, k, count}, softmax, corners);
                sums.template add<false>(corners, 0, count, base, end, corners, false);
              }
            });
      });
    }
  }

 private:
  static constexpr int kMaxGroups = 4 / Group::kVectors;
  template <int kValue>
  using Int = std::integral_constant<int, kValue>;

  // Sums row q, whose points begin at `point`. A template, for GCC inlines the lambdas into one
  // caller only.
  template <bool kTogether>
  HWY_INLINE void sum_row(std::int64_t q, Corners const& corners, std::int64_t point,
                          Corners const& next) const {
    std::int64_t const end = point + K_;
    each_channel_block([&](auto groups, std::int64_t channel) HWY_ATTR {
      row<decltype(groups)::value>(
          q, channel, [&](auto& sums, std::uintptr_t base, std::int64_t last) HWY_ATTR {
            if (tables_.prefetch) {
              sums.template add<true>(corners, point, end, base, last, next, straddles_);
            } else {
              sums.template add<false>(corners, point, end, base, last, next, false);
            }
          });
    });
  }

  // Calls fn(number of groups, first channel) for as many groups at a time as registers hold.
  template <class Fn>
  HWY_INLINE void each_channel_block(Fn fn) const {
    constexpr std::int64_t kBlock = kMaxGroups * Group::kChannels;
    std::int64_t channel = 0;
    for (; channel + kBlock <= D_; channel += kBlock) fn(Int<kMaxGroups>(), channel);
    std::int64_t const groups = (D_ - channel + Group::kChannels - 1) / Group::kChannels;
    if (groups == 1) fn(Int<1>(), channel);
    if constexpr (kMaxGroups >= 2) {
      if (groups == 2) fn(Int<2>(), channel);
    }
    if constexpr (kMaxGroups >= 4) {
      if (groups == 3) fn(Int<3>(), channel);
      if (groups == 4) fn(Int<4>(), channel);
    }
  }

  // kGroups groups of query q's output: add_points(sums, address of the first channel in the row of
  // zeros, bytes from there to the last group) adds all points.
  template <int kGroups, class AddPoints>
  HWY_INLINE void row(std::int64_t q, std::int64_t channel, AddPoints add_points) const {
    std::int64_t const end = std::min(channel + kGroups * Group::kChannels, D_);
    std::int64_t const last = (end - channel - Group::kChannels) * Group::kElementBytes;
    Sums<Group, kGroups> sums;
    add_points(sums, base_ + static_cast<std::uintptr_t>(channel * Group::kElementBytes), last);
    sums.store_row(source_.scale, source_.problem.output_dtype, source_.call[Tensor::kOutput],
                   source_.output + q * source_.problem.output.row + channel, last);
  }

  HeadSource const& source_;
  Tables const& tables_ = source_.tables;
  std::uintptr_t base_ = reinterpret_cast<std::uintptr_t>(tables_.zeros.data());
  std::int64_t K_ = source_.problem.point_total;
  std::int64_t D_ = source_.problem.head_dim;
  // Whether rows of channels may begin within a line.
  bool straddles_ = (base_ + static_cast<std::uintptr_t>(source_.value)) % 64 != 0 ||
                    tables_.pixel_bytes % 64 != 0;
};

template <class Group>
void gather(HeadSource const& source, std::int64_t first, std::int64_t last) {
  HeadGather<Group> const head(source);
  if (source.tables.read.rows > 1) {
    head.template run_pipelined<true>(first, last);
  } else if (source.problem.point_total <= kPointBlock) {
    head.template run_pipelined<false>(first, last);
  } else {
    head.run_blocked(first, last);
  }
}

// The widest group that the channels fill.
template <typename T>
Gather choose_plain(Problem const& problem) {
  std::int64_t const D = problem.head_dim;
  constexpr auto kFull = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  if (D >= kFull) return gather<Plain<T, kFull>>;
  if constexpr (kFull > 8) {
    if (D >= 8) return gather<Plain<T, 8>>;
  }
  if constexpr (kFull > 4) {
    if (D >= 4) return gather<Plain<T, 4>>;
  }
  if (D >= 2) return gather<Plain<T, 2>>;
  return gather<Plain<T, 1>>;
}

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET

#endif  // include guard
