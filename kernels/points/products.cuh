// Products of pixels' rows with a row of grad_output, summed over the lanes of a slot so that each
// lane ends with the four of the point that it has located.
//
// A slot owns one row. Its kLanes lanes, or each of its several groups of kLanes lanes, have all
// channels. A group of lanes locates kPoints points, a lane each, and loads one of them after the
// other: load `j` is that of the point of lane source(j).
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/points/lanes.cuh"

namespace msda::points {

// Adds up what each kPoints lanes of a slot have.
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

// Products by multiply-adds, for any type and any number of lanes.
template <class Config>
class ScalarProducts {
 public:
  using Row = typename Config::Row;
  __device__ __forceinline__ static int source(int j) { return j; }

  __device__ __forceinline__ explicit ScalarProducts(Row const& row) {
#pragma unroll
    for (int c = 0; c < kChannelsOfLane; ++c) grad_[c] = row[c];
  }
  // Multiplies corner `corner` of load `j`.
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
          float const own = upper ? products_[i + half][corner] : products_[i][corner];
          float const given = upper ? products_[i][corner] : products_[i + half][corner];
          products_[i][corner] = own + __shfl_xor_sync(kAllLanes, given, half);
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

// Products by matrix instructions, for 16-bit types in slots of four lanes or more. The 16 bytes
// that each of four lanes has loaded are columns of the second matrix as they are, with the
// channels in another order: words 0 and 1 of the lanes for one product, 2 and 3 for another. The
// first matrix has grad_output in the same order: words 0 and 1 in its rows 0 to 7, 2 and 3 in rows
// 8 to 15. Only the diagonal of the 8 x 8 products of a warp's groups of four lanes counts.
template <class Config>
class MatrixProducts {
 public:
  using Row = typename Config::Row;
  __device__ __forceinline__ static int source(int j) { return j; }

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

// A lane of a warp that has kRows rows, each in kLaneGroups groups of four lanes. Eight lanes side
// by side, whose loads meet in the banks of L1, are groups of neighbouring rows, or with kSides two
// groups of one row.
template <int kRows, bool kSides>
struct PairLane {
  static constexpr int kLaneGroups = kWarp / 4 / kRows;
  static_assert(kRows <= 4 && kRows * kLaneGroups == kWarp / 4, "rows divide a warp's groups");
  static_assert(kSides || kRows >= 2, "without sides a warp has rows of two heads");
  int of_warp;  // the group's number
  int row, group;

  __device__ __forceinline__ PairLane()
      : of_warp(lane_of() / 4),
        row(kSides ? of_warp / kLaneGroups : of_warp % kRows),
        group(kSides ? of_warp % kLaneGroups : of_warp / kRows) {}
  // The first lane of a group.
  __device__ __forceinline__ static int first(int row, int group) {
    return 4 * (kSides ? row * kLaneGroups + group : group * kRows + row);
  }
  // The load that is the lane's own point's, or its points': the column's pair of its row is then
  // its own.
  __device__ __forceinline__ int own_load() const { return source(lane_of() % 4); }
  // The lane of the group whose point load `j` is for.
  __device__ __forceinline__ int source(int j) const { return j ^ row; }
};

// Products by matrix instructions for slots of two groups of four lanes or more. The 16 bytes of a
// group's lanes are two rows of the first matrix as they are: words 0 and 2, and words 1 and 3. A
// row of grad_output has two columns of the second, or twice or four times two, in the same order,
// so that the sum of two products is that of a pixel. It ends in the lanes whose numbers are those
// of the columns' pairs: from load to load the pairs change places, and so does the lane whose
// point is loaded. A load costs one instruction and one addition, and no exchange between lanes.
//
// kSides: a load is for two points, those of a lane of either of two groups. Both groups load both
// points, the first the left corners, the second the right ones, and swap products in the end.
template <class Config>
class PairProducts {
 public:
  using Row = typename Config::Row;
  using Lane = PairLane<Config::kWarpRows, Config::kSides>;

  __device__ __forceinline__ explicit PairProducts(Row const& row) {
    // A row's even groups give what its even columns have, the others what its odd ones have.
    bool const odd = Lane().group % 2 != 0;
    std::uint32_t const words[2] = {odd ? row.word[1] : row.word[0],
                                    odd ? row.word[3] : row.word[2]};
    int const column = lane_of() / 4;
#pragma unroll
    for (int j = 0; j < Config::kWarpRows; ++j) {
      int const row_of_column = (column / 2 ^ j) % Config::kWarpRows;
      int const from = Lane::first(row_of_column, column & 1) + lane_of() % 4;
#pragma unroll
      for (int i = 0; i < 2; ++i) grad_[j][i] = __shfl_sync(kAllLanes, words[i], from);
    }
  }
  __device__ __forceinline__ static int source(int j) { return Lane().source(j); }
  // Multiplies corner `corner` of load `j`.
  __device__ __forceinline__ void multiply(int j, int corner, Row const& row) {
    float products[4];
    if constexpr (Config::kType == ValueType::bf16) {
      ptx::products_bf16_k16(products, row.word, grad_[j % Config::kWarpRows]);
    } else {
      ptx::products_f16_k16(products, row.word, grad_[j % Config::kWarpRows]);
    }
    // Lane t of group g has columns 2 t and 2 t + 1 of rows g and g + 8.
    if (Lane().own_load() == j) sums_[corner] = products[0] + products[3];
  }
  __device__ __forceinline__ void sum(float (&sums)[4]) const {
    if constexpr (!Config::kSides) {
#pragma unroll
      for (int corner = 0; corner < 4; ++corner) sums[corner] = sums_[corner];
    } else {
      bool const is_right = Lane().group % 2 != 0;
#pragma unroll
      for (int i = 0; i < 2; ++i) {  // top, bottom
        float const own = is_right ? sums_[2 + i] : sums_[i];
        float const given = is_right ? sums_[i] : sums_[2 + i];
        float const other = __shfl_xor_sync(kAllLanes, given, Config::kLanes);
        sums[2 * i] = is_right ? other : own;
        sums[2 * i + 1] = is_right ? own : other;
      }
    }
  }

 private:
  std::uint32_t grad_[Config::kWarpRows][2];  // for load j: grad_[j % kWarpRows]
  float sums_[4];
};

}  // namespace msda::points
