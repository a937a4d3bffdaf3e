// Where the corners of points lie, handed from the lane that has located a point to those that load
// its corners, by shuffles.
#pragma once

#include "kernels/sorted/corner_products.cuh"
#include "kernels/sorted/located_points.cuh"

namespace msda::sorted {

template <class Config>
class ShuffledCorners {
 public:
  struct Tokens {
    std::uint32_t first, beside, below;

    __device__ __forceinline__ std::uint32_t operator[](int corner) const {
      return first + ((corner & 1) != 0 ? beside : 0) + ((corner & 2) != 0 ? below : 0);
    }
  };

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

}  // namespace msda::sorted
