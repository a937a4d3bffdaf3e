// What an instantiation of the kernel is made of, and a block's shared memory.
#pragma once

#include "kernels/cluster/cluster.h"
#include "kernels/common/ptx_async.cuh"
#include "kernels/common/ptx_barrier.cuh"
#include "kernels/common/ptx_cluster.cuh"
#include "kernels/persistent/sums.cuh"

namespace msda::cluster {

// What the kernel takes for granted of a launch (KernelOptions).
struct ClusterKind {
  persistent::RowsKind rows;
  bool pair;
};

template <ClusterKind kKind>
struct ClusterConfig : persistent::RowsConfig<kKind.rows> {
  using Base = persistent::RowsConfig<kKind.rows>;
  static constexpr bool kPair = kKind.pair;
  static constexpr int kThreads = cluster::kThreads;
  // Points of a lane's batch that are in shared memory at a time.
  static constexpr int kTogether = Base::kFp16Sums && Base::kBatch > 1 ? 2 : 1;
  static constexpr int kRecords = Base::kLanes * kTogether;  // of a slot at a time
  // Points whose loads are in flight.
  static constexpr int kInFlight = Base::kFp16Sums && Base::kPoints != 4 ? 4 : 2;
  static constexpr bool kOneLevelInFlight =
      Base::kPoints > 0 && Base::kPoints % (kInFlight * Base::kBatch) == 0;
  static_assert(Base::kLanes % kInFlight == 0, "records are gathered kInFlight at a time");
  static_assert(Base::kVecs == 1, "a lane has one vec of a row");
};

}  // namespace msda::cluster

namespace msda::persistent {

// Smaller than that of the persistent family's kernels, which have no levels of this size to keep.
template <cluster::ClusterKind kKind>
struct Shared<cluster::ClusterConfig<kKind>> {
  using Config = cluster::ClusterConfig<kKind>;
  alignas(kLineBytes) char records[cluster::kWarps][cluster::kRecordBytes];
  Place places[kInlineLevels];  // of each level
  std::uint64_t full[2];        // mbarriers: a buffer has the levels of its tile
  std::uint32_t fetched[cluster::kFetchedCounts];
  std::uint8_t level_of[Config::kPoints > 0 ? 4 : kMaxPoints];  // of a row's points
};

}  // namespace msda::persistent

namespace msda::cluster {

using persistent::Place;

template <class Config>
struct Lane : persistent::Lane<Config> {
  using Base = persistent::Lane<Config>;
  static_assert(sizeof(persistent::Shared<Config>) <= declared_bytes(Points{Config::kPoints}),
                "the host plans with what a block declares");
  KeptParams const& kept;
  std::uint32_t rank;

  __device__ Lane(Params const& params, ScheduleParams const& schedule_params,
                  KeptParams const& kept_params, persistent::Shared<Config>& block)
      : Base(params, schedule_params, block), kept(kept_params), rank(ptx::cluster_rank()) {}

  // Of point k, which may be behind the last one.
  __device__ __forceinline__ int level_of(int k) const {
    if constexpr (Config::kPoints > 0) {
      constexpr auto kOfLevel = static_cast<unsigned>(Config::kPoints);
      return static_cast<int>(static_cast<unsigned>(min(k, this->K - 1)) / kOfLevel);
    } else {
      return this->shared.level_of[min(k, this->K - 1)];
    }
  }
  __device__ __forceinline__ bool is_kept(int level) const {
    return (kept.kept_levels >> level & 1) != 0;
  }
  __device__ __forceinline__ bool is_split(int level) const {
    return (kept.split_levels >> level & 1) != 0;
  }
  __device__ __forceinline__ std::uint32_t size_mask() const {
    return Config::kPair ? 1 : kept.size_mask;
  }
  __device__ __forceinline__ std::uint32_t size_shift() const {
    return Config::kPair ? 1 : kept.size_shift;
  }
  __device__ __forceinline__ std::uint32_t kept_pixel_bytes() const {
    return Config::kIsKnown ? Config::kCachedPixelBytes : kept.pixel_bytes;
  }
};

template <class Config>
__device__ void fill_tables(Lane<Config> const& lane) {
  for (int l = static_cast<int>(threadIdx.x); l < lane.p.level_count; l += kThreads) {
    lane.shared.places[l] = lane.schedule.places[l];
  }
  if constexpr (Config::kPoints == 0) {
    for (int k = static_cast<int>(threadIdx.x); k < lane.K; k += kThreads) {
      lane.shared.level_of[k] = static_cast<std::uint8_t>(level_of_place<Config>(lane.p, k));
    }
  }
}

}  // namespace msda::cluster
