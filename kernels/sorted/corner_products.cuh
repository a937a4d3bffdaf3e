// Products of pixels' rows with a row of grad_output, summed over the lanes of a slot so that each
// lane ends with those of the point that it located.
#pragma once

#include "kernels/common/ptx_matrix.cuh"
#include "kernels/sorted/channels.cuh"
#include "kernels/sorted/warps.cuh"

namespace msda::sorted {

// Sums of what the groups of kPoints lanes of a slot have.
template <class Config>
__device__ __forceinline__ void sum_groups(float (&sums)[4]) {
#pragma unroll
  for (int corner = 0; corner < 4; ++corner) {
#pragma unroll
    for (int distance = Config::kPoints; distance < Config::kLanes; distance *= 2) {
      sums[corner] += __shfl_xor_sync(kAllLanes, sums[corner], distance);
    }
  }
}

// By multiply-adds: of any type, in slots of any size.
template <class Config>
class ScalarProducts {
 public:
  using Row = typename Config::Row;
  static constexpr bool kByLane = false;  // products of all points are in registers until the end

  __device__ __forceinline__ explicit ScalarProducts(Row const& row) {
#pragma unroll
    for (int c = 0; c < kChannelsOfLane; ++c) grad_[c] = row[c];
  }
  // Of point `j` of those that are located at once.
  __device__ __forceinline__ void multiply(int j, int corner, Row const& row) {
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < kChannelsOfLane; ++c) sum = fmaf(row[c], grad_[c], sum);
    products_[j][corner] = sum;
  }
  // Half of the products go to the lane's neighbour, then half of the rest.
  __device__ __forceinline__ void sum(float (&sums)[4]) {
#pragma unroll
    for (int half = Config::kPoints / 2; half > 0; half /= 2) {
      bool const upper = (lane_of() & half) != 0;
#pragma unroll
      for (int i = 0; i < half; ++i) {
#pragma unroll
        for (int corner = 0; corner < 4; ++corner) {
          float const kept = upper ? products_[i + half][corner] : products_[i][corner];
          float const given = upper ? products_[i][corner] : products_[i + half][corner];
          products_[i][corner] = kept + __shfl_xor_sync(kAllLanes, given, half);
        }
      }
    }
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) sums[corner] = products_[0][corner];
    sum_groups<Config>(sums);
  }

 private:
  float grad_[kChannelsOfLane];
  float products_[Config::kPoints][4];
};

// By matrix instructions, of 16-bit types in slots of four lanes or more. What four lanes have
// loaded, 16 bytes each, are columns of the second matrix as they are, with the channels in another
// order: words 0 and 1 of the lanes for one product, 2 and 3 for another. The first matrix has
// grad_output in the same order: words 0 and 1 in its rows 0 to 7, 2 and 3 in rows 8 to 15. Of the
// 8 x 8 products of a warp's groups of lanes the diagonal counts.
template <class Config>
class MatrixProducts {
 public:
  using Row = typename Config::Row;
  static constexpr bool kByLane = true;  // each lane keeps those of its own point

  __device__ __forceinline__ explicit MatrixProducts(Row const& row)
      : grad_{row.word[0], row.word[2], row.word[1], row.word[3]} {}
  __device__ __forceinline__ void multiply(int j, int corner, Row const& row) {
    float lower[4] = {};
    float upper[4] = {};
    std::uint32_t const b[2][2] = {{row.word[0], row.word[1]}, {row.word[2], row.word[3]}};
    if constexpr (Config::kType == ValueType::bf16) {
      ptx::multiply_bf16_k16(lower, grad_, b[0]);
      ptx::multiply_bf16_k16(upper, grad_, b[1]);
    } else {
      ptx::multiply_f16_k16(lower, grad_, b[0]);
      ptx::multiply_f16_k16(upper, grad_, b[1]);
    }
    // Lane t of group g has columns 2 t and 2 t + 1 of rows g and g + 8.
    int const group = lane_of() / 4;
    float const own = group % 2 == 0 ? lower[0] + upper[2] : lower[1] + upper[3];
    float const product = __shfl_sync(kAllLanes, own, group / 2, 4);
    if (lane_of() % 4 == j) sums_[corner] = product;
  }
  __device__ __forceinline__ void sum(float (&sums)[4]) {
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) sums[corner] = sums_[corner];
    sum_groups<Config>(sums);
  }

 private:
  std::uint32_t grad_[4];
  float sums_[4];
};

}  // namespace msda::sorted
