// The row kernel: packed inputs, D a multiple of 8. README.md here has the schedule and its count.
//
// CUDA files go on with MSDA_INSTANTIATE(type, channels, points, revision, sm) for each row of
// variants.inc.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/common/ptx.cuh"
#include "kernels/common/vecs.cuh"
#include "kernels/direct/generic_backward.cuh"
#include "kernels/rows/slots.cuh"

namespace msda::direct {

using rows::InsidePoint;
using rows::kNothing;
using rows::RawPoint;
using rows::Slot;
using rows::SlotLevel;

template <ValueType kTypeOfRow, Channels kMaxChannels, Points kPointsOfLevel, bool kIsFused,
          bool kIsSplit, bool kIsAligned>
struct RowConfig {
  static constexpr ValueType kType = kTypeOfRow;
  using Element = typename ValueTraits<kType>::Element;
  static constexpr int kElementBytes = sizeof(Element);
  static constexpr int kPoints = kPointsOfLevel;
  static constexpr bool kFused = kIsFused;
  static constexpr bool kSplit = kIsSplit;      // lanes of a slot: half a left, half a right pixel
  static constexpr bool kAligned = kIsAligned;  // to 16 bytes, every tensor
  static constexpr int kChannels = channels_of_vec(kElementBytes);
  static constexpr int kVecBytes = kChannels * kElementBytes;
  static constexpr int kAllVecs = kMaxChannels / kChannels;
  static constexpr int kGroup = kAllVecs < 32 ? kAllVecs : 32;  // lanes that share the channels
  static constexpr int kVecs = kAllVecs / kGroup;               // of a lane
  static constexpr int kLanes = kSplit ? 2 * kGroup : kGroup;   // of a slot
  static constexpr int kCorners = kSplit ? 2 : 4;               // that a lane loads
  static constexpr int kInFlight =
      kLanes < 2 || kVecs > 1 ? 1 : 2;  // points whose loads are in flight
  static constexpr int kThreads = direct::kThreads;
  static constexpr int kBlocksPerSm = !kAligned ? 2 : kFused || kMaxChannels > d32 ? 3 : 4;
  static constexpr int kSlots = kThreads / kLanes;
  static constexpr int kRecords = kThreads;  // of one buffer
};

// Corners that are not there are read from these zeros.
static __device__ const uint4 kZeros[64] = {};

template <class Config>
class RowGather {
 public:
  __device__ RowGather(Params const& p, SlotLevel const* places, const std::uint8_t* level_of,
                       InsidePoint* records)
      : p_(p),
        places_(places),
        level_of_(level_of),
        records_(records + threadIdx.x / 32 * 32),
        slot_(p),
        lane_(static_cast<int>(threadIdx.x) % Config::kLanes),
        K_(static_cast<int>(p.point_total)),
        pixel_bytes_(static_cast<std::uint32_t>(p.value_strides.row) * Config::kElementBytes) {}

  __device__ void run() {
    if constexpr (Config::kFused) {
      softmax_ = softmax_of_lanes<float, Config::kLanes>(p_, slot_.row * K_, lane_,
                                                         static_cast<int>(p_.point_total));
    }
    const char* const values =
        static_cast<const char*>(p_.value) +
        (slot_.b * p_.value_strides.batch + slot_.m * p_.value_strides.head) *
            Config::kElementBytes;
    const char* const zeros = reinterpret_cast<const char*>(kZeros);
#pragma unroll
    for (int i = 0; i < Config::kVecs; ++i) {
      std::int32_t const byte = vec_index(i) * Config::kVecBytes;
      values_[i] = values + byte;
      zeros_[i] = zeros + byte;
    }
    RawPoint next = read(lane_);
    int buffer = 0;
    for (int k0 = 0; k0 < K_; k0 += Config::kLanes) {
      put(buffer, k0, next);
      next = read(k0 + Config::kLanes + lane_);
      __syncwarp();
      gather_chunk(buffer, k0);
      buffer ^= Config::kRecords;
    }
    if constexpr (Config::kSplit) add_lane_halves();
    store();
  }

 private:
  // Vecs behind the last one repeat it: they cost no line and are not stored.
  __device__ std::int32_t vec_index(int i) const {
    int const last = static_cast<int>(p_.head_dim) / Config::kChannels - 1;
    return min(lane_ % Config::kGroup + i * Config::kGroup, last);
  }

  __device__ int place_of(int k) const { return Config::kPoints > 0 ? k / Config::kPoints : k; }

  __device__ RawPoint read(int k) const {
    if (k >= K_) return {0.0f, 0.0f, 0.0f};
    std::int64_t const at = slot_.row * K_ + k;
    float2 const xy = rows::load_pair<Config::kAligned>(p_.coord_dtype, p_.coord, at);
    return {xy.x, xy.y, load_element<float>(p_.weight_dtype, p_.weight, at)};
  }

  // Every lane locates one of the points k0 ... k0 + kLanes - 1.
  __device__ void put(int buffer, int k0, RawPoint const& raw) {
    int const k = min(k0 + lane_, K_ - 1);
    SlotLevel const place = places_[place_of(k)];
    float const weight = Config::kFused ? softmax_.weight(raw.weight) : raw.weight;
    records_[buffer + threadIdx.x % 32] =
        rows::locate(place,
                     rows::to_pixels(p_, slot_, place, raw,
                                     Config::kFused ? level_of_[place_of(k)] : 0, Config::kFused),
                     weight);
  }

  __device__ void gather_chunk(int buffer, int k0) {
    InsidePoint const* const records =
        records_ + buffer + (threadIdx.x % 32) / Config::kLanes * Config::kLanes;
#pragma unroll
    for (int i = 0; i < Config::kLanes; i += Config::kInFlight) {
      if (i > 0 && k0 + i >= K_) break;
      gather(records, k0, i);
    }
  }

  // kInFlight points: all loads first, then the sums.
  __device__ __forceinline__ void gather(InsidePoint const* records, int k0, int i) {
    constexpr int U = Config::kInFlight;
    InsidePoint record[U];
    Vec<Config::kVecBytes> value[U][Config::kCorners][Config::kVecs];
#pragma unroll
    for (int u = 0; u < U; ++u) {
      record[u] = records[i + u];
      // Points behind the last one are not there; the records are those of an earlier chunk.
      if (k0 + i + u >= K_) record[u] = {kNothing, 0.0f, 0.0f, 0.0f};
      bool const nothing = record[u].first == kNothing;
      std::uint32_t const token = nothing ? 0 : static_cast<std::uint32_t>(record[u].first) >> 2;
      std::uint32_t const right = !nothing && (record[u].first & 1) ? pixel_bytes_ : 0;
      std::uint32_t const down = !nothing && (record[u].first & 2) ? row_bytes(k0 + i + u) : 0;
#pragma unroll
      for (int n = 0; n < Config::kVecs; ++n) {
        const char* at =
            (nothing ? zeros_[n] : values_[n]) + static_cast<std::uint64_t>(token) * pixel_bytes_;
        if constexpr (Config::kSplit) {
          at += is_right_half() ? right : 0;
          value[u][0][n] = load_vec<Config>(at);
          value[u][1][n] = load_vec<Config>(at + down);
        } else {
          value[u][0][n] = load_vec<Config>(at);
          value[u][1][n] = load_vec<Config>(at + right);
          value[u][2][n] = load_vec<Config>(at + down);
          value[u][3][n] = load_vec<Config>(at + down + right);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
      float const fx = record[u].fraction;
      float const upper = record[u].upper;
      float const lower = record[u].lower;
#pragma unroll
      for (int n = 0; n < Config::kVecs; ++n) {
        if constexpr (Config::kSplit) {
          float const fraction = is_right_half() ? fx : 1.0f - fx;
          multiply_add<Config>(sum_[n], upper * fraction, value[u][0][n]);
          multiply_add<Config>(sum_[n], lower * fraction, value[u][1][n]);
        } else {
          multiply_add<Config>(sum_[n], upper * (1.0f - fx), value[u][0][n]);
          multiply_add<Config>(sum_[n], upper * fx, value[u][1][n]);
          multiply_add<Config>(sum_[n], lower * (1.0f - fx), value[u][2][n]);
          multiply_add<Config>(sum_[n], lower * fx, value[u][3][n]);
        }
      }
    }
  }

  __device__ std::uint32_t row_bytes(int k) const {
    if constexpr (Config::kPoints > 0) {
      return static_cast<std::uint32_t>(p_.near_levels[k / Config::kPoints].row_tokens) *
             pixel_bytes_;
    } else {
      return static_cast<std::uint32_t>(places_[min(k, K_ - 1)].row_tokens) * pixel_bytes_;
    }
  }

  __device__ bool is_right_half() const { return lane_ >= Config::kGroup; }

  __device__ void add_lane_halves() {
#pragma unroll
    for (int n = 0; n < Config::kVecs; ++n) {
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) {
        sum_[n][c] += __shfl_xor_sync(0xffffffffu, sum_[n][c], Config::kGroup);
      }
    }
  }

  __device__ void store() const {
    if (!slot_.is_there) return;
    if (Config::kSplit && is_right_half()) return;
    std::int64_t const first = slot_.row * p_.head_dim;
#pragma unroll
    for (int n = 0; n < Config::kVecs; ++n) {
      int const channel = (lane_ + n * Config::kGroup) * Config::kChannels;
      if (channel >= p_.head_dim) continue;
      float scaled[Config::kChannels];
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) {
        scaled[c] = kIsScaled<Config::kType> ? sum_[n][c] * p_.scale_of(slot_.m) : sum_[n][c];
      }
      store_vec<Config>(p_.output_dtype, p_.output, first + channel, scaled, Config::kAligned);
      if constexpr (!Config::kFused) {
        rows::store_infinite<Config::kType>(p_, slot_.b, slot_.q, slot_.m, channel,
                                            rows::not_finite(sum_[n]));
      }
    }
  }

  Params const& p_;
  SlotLevel const* places_;
  const std::uint8_t* level_of_;  // fused: level of each place
  InsidePoint* records_;
  Slot<Config> slot_;
  int lane_;
  int K_;
  std::uint32_t pixel_bytes_;
  Softmax<float> softmax_{};
  const char* values_[Config::kVecs];
  const char* zeros_[Config::kVecs];
  float sum_[Config::kVecs][Config::kChannels] = {};
};

// The block's table of places: a level each where all have kPoints points, else a point each.
template <class Config>
__device__ void fill_places(Params const& p, SlotLevel* places, std::uint8_t* level_of) {
  int const count = Config::kPoints > 0 ? p.level_count : static_cast<int>(p.point_total);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += Config::kThreads) {
    int const l = level_of_place<Config>(p, i);
    LevelParams const& level = p.near_levels[l];
    places[i] = rows::slot_level(level);
    level_of[i] = static_cast<std::uint8_t>(l);
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, Config::kBlocksPerSm)
    forward_rows(const __grid_constant__ Params p) {
  constexpr int kPlaces = Config::kPoints > 0 ? kInlineLevels : kMaxPoints;
  MSDA_SHARED(SlotLevel, places, [kPlaces]);
  MSDA_SHARED(std::uint8_t, level_of, [kPlaces]);
  MSDA_SHARED(InsidePoint, records, [2 * Config::kThreads]);
  fill_places<Config>(p, places, level_of);
  ptx::wait_for_previous_grid();
  __syncthreads();
  RowGather<Config>(p, places, level_of, records).run();
}

// ---- the kernels of a row of variants.inc

template <ValueType kType, typename Real, bool kNearest>
Kernels load_generic(KernelOptions options) {
  Kernels kernels;
  if (!options.backward) {
    kernels.forward[0] = kernels.forward[1] = load_kernel(forward_any<kType, Real, kNearest>);
    kernels.block_items = kThreads;
    return kernels;
  }
  with_bool(options.fused, [&](auto fused) {
    kernels.of_points = load_kernel(backward_points<kType, Real, fused, kNearest>);
  });
  kernels.count_tiles = load_kernel(count_tiles<Real, kNearest>);
  kernels.sum_counts = load_kernel(sum_counts);
  kernels.list_points = load_kernel(list_points<Real, kNearest>);
  kernels.add_tiles = load_kernel(add_tiles<kType, Real, kNearest>);
  kernels.store_sums = load_kernel(store_sums<typename ValueTraits<kType>::Sum>);
  return kernels;
}

template <ValueType kType, Channels kMax, Points kPoints>
Kernels load_rows(KernelOptions options) {
  constexpr bool kCanSplit = is_half_line(kMax, sizeof(typename ValueTraits<kType>::Element));
  Kernels kernels;
  with_bool(options.fused, [&](auto fused) {
    with_bool(options.split, [&](auto split) {
      with_bools([&](auto aligned) {
        using Config = RowConfig<kType, kMax, kPoints, fused, split && kCanSplit, aligned>;
        kernels.forward[aligned] = load_kernel(forward_rows<Config>);
        kernels.block_items = Config::kSlots;
      });
    });
  });
  return kernels;
}

template <ValueType kType, Channels kMax, Points kPoints>
Kernels load_kernels(KernelOptions options) {
  if constexpr (kMax != dany) {
    return load_rows<kType, kMax, kPoints>(options);
  } else {
    Kernels kernels;
    with_bool(options.nearest, [&](auto nearest) {
      if constexpr (kType != ValueType::f64) {
        if (!options.wide) {
          kernels = load_generic<kType, float, nearest>(options);
          return;
        }
      }
      kernels = load_generic<kType, double, nearest>(options);
    });
    return kernels;
  }
}

}  // namespace msda::direct

#define MSDA_INSTANTIATE(type, channels, points, revision, sm) \
  template msda::direct::Kernels msda::direct::load_kernels<   \
      msda::ValueType::type, msda::direct::channels, msda::direct::points>(KernelOptions);
