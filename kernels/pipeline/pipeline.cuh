// The kernel: values of the corners through shared memory.
//
// A slot of lanes works on a row, each lane on 16 bytes of its channels. Lanes locate a point each
// and leave its record to the others of the slot; then the slot takes the points one after the
// other:
//
//   copy    each lane sends off four copies of 16 bytes, the corners of a point, into the stage
//           that was summed last: cp.async, a group for each point
//   wait    until all but the latest kStages - 1 groups of the thread are there
//   add     each lane reads what it has copied itself, and adds it
//
// So a lane has up to 4 kStages copies in flight, and no registers for them. No lane reads another
// one's copies: stages need no barrier. Of a point of fp16 with D = 32 a warp has 4 copies and 4
// LDS.128 of 512 bytes (16 wavefronts of shared memory each way), 2 LDS.128 of records of 8 slots,
// and 32 conversions and 32 multiply-adds. Loads of inputs of the next points are sent off before a
// chunk is copied.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/common/ptx.cuh"
#include "kernels/common/vecs.cuh"
#include "kernels/pipeline/pipeline.h"
#include "kernels/rows/row_element.cuh"
#include "kernels/rows/slots.cuh"

namespace msda::pipeline {

using rows::InsidePoint;
using rows::RawPoint;
using rows::Slot;
using rows::SlotLevel;

template <ValueType kTypeOfRow, Channels kMaxChannels, Stages kStagesOfWarp>
struct PipelineConfig {
  static constexpr ValueType kType = kTypeOfRow;
  using Element = typename ValueTraits<kType>::Element;
  static constexpr int kElementBytes = sizeof(Element);
  static constexpr int kPoints = 0;        // of a level: any
  static constexpr bool kAligned = false;  // of what is loaded element by element
  static constexpr int kVecBytes = msda::kVecBytes;
  static constexpr int kChannels = kVecBytes / kElementBytes;
  static constexpr Layout kLayout = layout_of(kMaxChannels, kElementBytes);
  static constexpr int kLanes = kLayout.lanes;
  static constexpr int kVecs = kLayout.vecs;
  static constexpr int kStages = kStagesOfWarp;
  static constexpr int kThreads = pipeline::kThreads;
  static constexpr int kSlots = kThreads / kLanes;
  static constexpr int kWarpSlots = kWarp / kLanes;
  static constexpr int kRing = ring_of(kLanes, kStages);
  // Rows of records are set off against each other, so that lanes of a slot store to different
  // banks.
  static constexpr int kOffset =
      kLanes == 1 || kWarpSlots == 1 ? 0 : std::max(16, 128 / kLanes) / int{sizeof(InsidePoint)};
  static constexpr int kBlocksPerSm = kVecs > 1 ? 3 : 6;
};

template <class Config>
struct Storage {
  uint4 values[Config::kStages][Config::kVecs][4][Config::kThreads];  // of corners
  InsidePoint records[Config::kThreads / kWarp][Config::kRing]
                     [Config::kWarpSlots + Config::kOffset];
  SlotLevel places[kInlineLevels];
  std::uint8_t level_of[kMaxPoints];
};

template <class Config>
class CopiedRow {
 public:
  __device__ CopiedRow(Params const& p, Alignment const& alignment, Storage<Config>& shared)
      : p_(p),
        alignment_(alignment),
        shared_(shared),
        slot_(p),
        lane_(static_cast<int>(threadIdx.x) % Config::kLanes),
        K_(static_cast<int>(p.point_total)),
        pixel_bytes_(static_cast<std::uint32_t>(p.value_strides.row) * Config::kElementBytes),
        values_(static_cast<const char*>(p.value) +
                (slot_.b * p.value_strides.batch + slot_.m * p.value_strides.head) *
                    Config::kElementBytes),
        first_copy_(shared_address(shared.values) + threadIdx.x * kVecBytes),
        copy_to_(first_copy_),
        add_from_(first_copy_) {}

  __device__ void run() {
    if (p_.reference_dim != 0) {
      softmax_ = softmax_of_lanes<float, Config::kLanes>(p_, slot_.row * K_, lane_,
                                                         static_cast<int>(p_.point_total));
    }
    RawPoint next = read(lane_);
    constexpr int kAhead = Config::kStages - 1;
#pragma unroll 1
    for (int k = 0; k < K_ + kAhead; ++k) {
      if (k < K_) {
        if (k % Config::kLanes == 0) {
          put(k, next);
          next = read(k + Config::kLanes + lane_);
        }
        copy(k);
      }
      ptx::commit_copies();  // behind the last point an empty group
      if (k < kAhead) continue;
      ptx::wait_for_copy_groups<kAhead>();
      add(k - kAhead);
    }
    store();
  }

 private:
  static constexpr std::uint32_t kCornerBytes = Config::kThreads * kVecBytes;
  static constexpr std::uint32_t kStageBytes = 4 * Config::kVecs * kCornerBytes;

  __device__ RawPoint read(int k) const {
    if (k >= K_) return {0.0f, 0.0f, 0.0f};
    std::int64_t const at = slot_.row * K_ + k;
    float2 const xy = alignment_.inputs ? rows::load_pair<true>(p_.coord_dtype, p_.coord, at)
                                        : rows::load_pair<false>(p_.coord_dtype, p_.coord, at);
    return {xy.x, xy.y, load_narrow(p_.weight_dtype, p_.weight, at)};
  }

  __device__ InsidePoint& record(int k) const {
    return shared_
        .records[threadIdx.x / kWarp][k % Config::kRing][threadIdx.x % kWarp / Config::kLanes];
  }

  // Every lane locates one of the points k0 ... k0 + kLanes - 1.
  __device__ void put(int k0, RawPoint const& raw) {
    int const l = shared_.level_of[min(k0 + lane_, K_ - 1)];
    SlotLevel const place = shared_.places[l];
    float const weight = p_.reference_dim != 0 ? softmax_.weight(raw.weight) : raw.weight;
    InsidePoint const located = rows::locate(
        place, rows::to_pixels(p_, slot_, place, raw, l, p_.reference_dim != 0), weight);
    __syncwarp();  // the records before have been read
    record(k0 + lane_) = located;
    __syncwarp();
  }

  __device__ std::uint32_t next_stage(std::uint32_t at) const {
    std::uint32_t const next = at + kStageBytes;
    return next == first_copy_ + Config::kStages * kStageBytes ? first_copy_ : next;
  }

  // Vecs behind the last one repeat it: they cost no line and are not stored.
  __device__ const char* vec_at(const char* pixel, int n) const {
    int const last = static_cast<int>(p_.head_dim) / Config::kChannels - 1;
    return pixel + min(lane_ + n * Config::kLanes, last) * kVecBytes;
  }

  // The corners of a point. Of one that is no number, nothing: zeros.
  __device__ void copy(int k) {
    while (k >= level_end_) {
      LevelParams const& level = p_.near_levels[++level_];
      level_end_ = static_cast<int>(level.point_start + level.point_count);
      down_bytes_ = static_cast<std::uint32_t>(level.row_tokens) * pixel_bytes_;
    }
    std::int32_t const first = record(k).first;
    bool const nothing = first == rows::kNothing;
    std::uint32_t const token = nothing ? 0 : static_cast<std::uint32_t>(first) >> 2;
    std::uint32_t const right = (first & 1) != 0 ? pixel_bytes_ : 0;
    std::uint32_t const down = (first & 2) != 0 ? down_bytes_ : 0;
    const char* const pixel = values_ + static_cast<std::uint64_t>(token) * pixel_bytes_;
#pragma unroll
    for (int n = 0; n < Config::kVecs; ++n) {
      const char* const upper = vec_at(pixel, n);
      std::uint32_t const to = copy_to_ + n * 4 * kCornerBytes;
      copy_vec(to, upper, nothing);
      copy_vec(to + kCornerBytes, nothing ? upper : upper + right, nothing);
      copy_vec(to + 2 * kCornerBytes, nothing ? upper : upper + down, nothing);
      copy_vec(to + 3 * kCornerBytes, nothing ? upper : upper + down + right, nothing);
    }
    copy_to_ = next_stage(copy_to_);
  }

  __device__ __forceinline__ void copy_vec(std::uint32_t to, const char* from, bool nothing) const {
    if (alignment_.values) {
      ptx::copy_async_by_l1(to, from, nothing ? 0 : kVecBytes);
    } else {
      Vec<kVecBytes> vec{};
      if (!nothing) vec = load_vec<Config>(from);
      ptx::store_shared(to, vec.word[0], vec.word[1], vec.word[2], vec.word[3]);
    }
  }

  __device__ void add(int k) {
    InsidePoint const located = record(k);
    float const fraction = located.fraction;
    float const weight[4] = {located.upper * (1.0f - fraction), located.upper * fraction,
                             located.lower * (1.0f - fraction), located.lower * fraction};
#pragma unroll
    for (int n = 0; n < Config::kVecs; ++n) {
#pragma unroll
      for (int corner = 0; corner < 4; ++corner) {
        Vec<kVecBytes> vec;
        ptx::load_shared(add_from_ + (n * 4 + corner) * kCornerBytes, vec.word);
        multiply_add<Config>(sum_[n], weight[corner], vec);
      }
    }
    add_from_ = next_stage(add_from_);
  }

  __device__ void store() const {
    if (!slot_.is_there) return;
    std::int64_t const first = slot_.row * p_.head_dim;
#pragma unroll
    for (int n = 0; n < Config::kVecs; ++n) {
      int const channel = (lane_ + n * Config::kLanes) * Config::kChannels;
      if (channel >= p_.head_dim) continue;
      store_vec<Config>(p_.output_dtype, p_.output, first + channel, sum_[n], alignment_.output);
      if (p_.reference_dim == 0) {
        rows::store_infinite<Config::kType>(p_, slot_.b, slot_.q, slot_.m, channel,
                                            rows::not_finite(sum_[n]));
      }
    }
  }

  Params const& p_;
  Alignment const& alignment_;
  Storage<Config>& shared_;
  Slot<Config> slot_;
  int lane_;
  int K_;
  std::uint32_t pixel_bytes_;
  const char* values_;                             // of the batch item and the head
  std::uint32_t first_copy_, copy_to_, add_from_;  // the thread's place in the stages
  int level_ = -1, level_end_ = 0;                 // of the point that was copied last
  std::uint32_t down_bytes_ = 0;
  Softmax<float> softmax_{};
  float sum_[Config::kVecs][Config::kChannels] = {};
};

template <class Config>
__device__ void fill_tables(Params const& p, Storage<Config>& shared) {
  for (int l = static_cast<int>(threadIdx.x); l < p.level_count; l += Config::kThreads) {
    shared.places[l] = rows::slot_level(p.near_levels[l]);
  }
  for (int k = static_cast<int>(threadIdx.x); k < p.point_total; k += Config::kThreads) {
    shared.level_of[k] = static_cast<std::uint8_t>(level_of_place<Config>(p, k));
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, Config::kBlocksPerSm)
    copied_rows(const __grid_constant__ Params p, const __grid_constant__ Alignment alignment) {
  MSDA_DYNAMIC_SHARED(storage);
  auto& shared = *reinterpret_cast<Storage<Config>*>(storage);
  fill_tables<Config>(p, shared);
  ptx::wait_for_previous_grid();
  __syncthreads();
  CopiedRow<Config>(p, alignment, shared).run();
}

// ---- a row of variants.inc as its kernels: CUDA files go on with MSDA_INSTANTIATE for each of
// theirs

template <ValueType kType, Channels kMax, Stages kStages>
Loaded load_kernels() {
  using Config = PipelineConfig<kType, kMax, kStages>;
  static_assert(sizeof(Storage<Config>) == shared_bytes_of(kMax, kStages, Config::kElementBytes));
  constexpr std::int32_t kSharedBytes = sizeof(Storage<Config>);
  return {load_kernel(copied_rows<Config>, kSharedBytes), Config::kSlots, kSharedBytes};
}

}  // namespace msda::pipeline

#define MSDA_INSTANTIATE(type, channels, stages, revision, sm)  \
  template msda::pipeline::Loaded msda::pipeline::load_kernels< \
      msda::ValueType::type, msda::pipeline::channels, msda::pipeline::stages>();
