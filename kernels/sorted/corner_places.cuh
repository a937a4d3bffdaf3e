// Where the corners of points lie, handed from the lane that has located a point to those that load
// its corners.
#pragma once

#include "kernels/common/shared.cuh"
#include "kernels/sorted/corner_products.cuh"
#include "kernels/sorted/located_points.cuh"

namespace msda::sorted {

// As tokens, by shuffles.
template <class Config>
class ShuffledCorners {
 public:
  struct Storage {};
  struct Tokens {
    std::uint32_t first, beside, below;

    __device__ __forceinline__ std::uint32_t operator[](int corner) const {
      return first + ((corner & 1) != 0 ? beside : 0) + ((corner & 2) != 0 ? below : 0);
    }
  };

  __device__ __forceinline__ ShuffledCorners(Storage&, std::uint32_t) {}
  __device__ __forceinline__ void hand_out(LocatedPoint const& mine) {
    token_ = mine.token;
    steps_ = mine.steps();
  }
  // Of the point that step `j` loads.
  __device__ __forceinline__ Tokens operator[](int j) const {
    int const source = Config::Products::source(j);
    std::uint32_t const first = __shfl_sync(kAllLanes, token_, source, Config::kPoints);
    std::uint32_t const steps = __shfl_sync(kAllLanes, steps_, source, Config::kPoints);
    return {first, steps & 1, steps >> 1};
  }

 private:
  std::uint32_t token_, steps_;
};

// As bytes from the first token on, through shared memory, for slots of two groups of four lanes:
// what a group loads in a step are four words side by side. kSides: top and bottom corner of its
// side of the first group's point, and of the second one's.
template <class Config>
class StoredCorners {
  using Lane = PairLane<Config::kSides>;
  static constexpr int kBytes = 16;
  // With room behind those of a step: so what eight lanes store meets no bank twice.
  static constexpr int kPlaces = kWarp / 4 + 2;
  static constexpr int kStepBytes = kPlaces * kBytes;

 public:
  struct alignas(16) Storage {
    std::uint32_t words[kPointThreads / kWarp][4][kPlaces][kBytes / 4];
  };
  struct Offsets {
    std::uint32_t word[4];

    __device__ __forceinline__ std::uint32_t operator[](int corner) const { return word[corner]; }
  };

  __device__ __forceinline__ StoredCorners(Storage& storage, std::uint32_t stride_bytes)
      : stride_(stride_bytes) {
    Lane const lane;
    auto const at = static_cast<std::uint32_t>(__cvta_generic_to_shared(&storage.words[warp_of()]));
    from_ = at + lane.place() * kBytes;
    to_ = at + lane.own_step() * kStepBytes +
          (Config::kSides ? lane.row * kBytes + lane.group * (kBytes / 2) : lane.place() * kBytes);
  }
  // All lanes of the warp.
  __device__ __forceinline__ void hand_out(LocatedPoint const& mine) {
    std::uint32_t const first = mine.token * stride_;
    std::uint32_t const second = first + mine.beside * stride_;
    std::uint32_t const below = mine.below * stride_;
    __syncwarp();  // what was there has been loaded
    if constexpr (Config::kSides) {
      ptx::store_shared(to_, first, first + below);
      ptx::store_shared(to_ + 4 * kBytes, second, second + below);
    } else {
      ptx::store_shared(to_, first, second, first + below, second + below);
    }
    __syncwarp();
  }
  // Of what step `j` loads.
  __device__ __forceinline__ Offsets operator[](int j) const {
    Offsets offsets;
    ptx::load_shared(from_ + j * kStepBytes, offsets.word);
    return offsets;
  }

 private:
  std::uint32_t stride_, from_, to_;
};

}  // namespace msda::sorted
