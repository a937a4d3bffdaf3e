// Gradients by coordinates and weights as in point_gradients.cuh, of plain input whose 16-bit rows
// of 32 channels share a warp.
//
// A block takes queries of one batch item, of a head or two neighbouring ones, and a batch of each
// row's points, as many as a warp locates at once. So what a lane takes in a round differs from the
// last round in its query alone: level and head stay in registers, and addresses go on by a step.
#pragma once

#include "kernels/common/shared.cuh"
#include "kernels/sorted/point_gradients.cuh"

namespace msda::sorted {

// Where corners lie, in bytes from the first token on, handed out through shared memory: what a
// group loads in a step are four words side by side. kSides: top and bottom corner of its side of
// one group's point, and of the other one's.
template <class Config>
class StoredCorners {
  using Lane = PairLane<Config::kWarpRows, Config::kSides>;
  static constexpr int kBytes = 16;
  // With room behind those of a step: so what eight lanes store meets no bank twice.
  static constexpr int kPlaces = kWarp / 4 + 2;
  static constexpr int kStepBytes = kPlaces * kBytes;

 public:
  // Twice: while the corners of one round are loaded those of the next may be stored.
  struct alignas(16) Storage {
    std::uint32_t words[kPointThreads / kWarp][2][4][kPlaces][kBytes / 4];
  };
  struct Offsets {
    std::uint32_t word[4];

    __device__ __forceinline__ std::uint32_t operator[](int corner) const { return word[corner]; }
  };

  __device__ __forceinline__ StoredCorners(Storage& storage, std::uint32_t stride_bytes)
      : stride_(stride_bytes) {
    Lane const lane;
    int const pair = lane.of_warp / 2;
    int const side = lane.of_warp % 2;
    auto const at = static_cast<std::uint32_t>(__cvta_generic_to_shared(&storage.words[warp_of()]));
    from_ = at + (Config::kSides ? side * 4 + pair : lane.of_warp) * kBytes;
    to_ = at + lane.own_step() * kStepBytes +
          (Config::kSides ? pair * kBytes + side * (kBytes / 2) : lane.of_warp * kBytes);
  }
  // All lanes of the warp.
  __device__ __forceinline__ void hand_out(LocatedPoint const& mine) {
    std::uint32_t const first = mine.token * stride_;
    std::uint32_t const second = first + mine.beside * stride_;
    std::uint32_t const below = mine.below * stride_;
    from_ += turn_;
    to_ += turn_;
    turn_ = -turn_;
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
  int turn_ = 4 * kStepBytes;  // to the other of the two places
};

// A lane's points, its channels of their rows of grad_output and of their head's values.
template <class Config>
class PairedRows {
  using Row = typename Config::Row;
  using Lane = PairLane<Config::kWarpRows, Config::kSides>;
  static constexpr int kHeads = Config::kSides ? 1 : 2;
  static constexpr int kQueriesOfWarp = Config::kWarpRows / kHeads;
  static constexpr std::uint32_t kQueries = kPointThreads / kWarp * kQueriesOfWarp;  // of a round

 public:
  const char* values;    // of token 0
  std::uint32_t rounds;  // of the block

  __device__ __forceinline__ PairedRows(Params const& p, PairedParams const& s) : p_(p), s_(s) {
    Lane const lane;
    std::uint32_t rest = blockIdx.x;
    auto const split = [&rest](std::uint32_t count) {
      std::uint32_t const all = rest;
      rest /= count;
      return all - rest * count;
    };
    std::uint32_t const batch = split(s.batches);
    std::uint32_t const chunk = split(s.chunks);
    std::uint32_t const heads = split(static_cast<std::uint32_t>(p.head_count) / kHeads);
    std::int64_t const b = rest;
    std::int64_t const m = heads * kHeads + lane.row % kHeads;
    std::uint32_t const first = (chunk * s.rounds + min(chunk, s.longer_chunks)) * kQueries;
    end_ = static_cast<std::uint32_t>(p.query_count);
    rounds = s.rounds + (chunk < s.longer_chunks ? 1 : 0);
    query_ = first + warp_of() * kQueriesOfWarp + lane.row / kHeads;

    std::int64_t const k = std::int64_t{batch} * Config::kLocated + Config::own_point();
    has_point_ = k < p.point_total;
    level_ = has_point_ ? s.point_levels[k] : PointLevel{};
    std::int64_t const d = lane_of() % Config::kLanes * kChannelsOfLane;
    PointRow const row(p, b, query_, m);
    coord_ = static_cast<const char*>(p.coord) + (row.coord + 2 * k) * 4;
    weight_ = static_cast<const char*>(p.weight) +
              (row.weight + k) * (p.weight_dtype == MSDA_DTYPE_F32 ? 4 : 2);
    grad_ = static_cast<const char*>(p.grad_output) +
            (p.output_strides.at(b, query_, m) + d) * Config::kElementBytes;
    values = static_cast<const char*>(p.value) +
             (b * p.value_strides.batch + m * p.value_strides.head + d) * Config::kElementBytes;
    index_ = ((b * p.query_count + query_) * p.head_count + m) * p.point_total + k;
  }
  __device__ __forceinline__ Row load_grad() const {
    return is_there() ? Row::load_at(grad_) : Row::zeros();
  }
  // The lane's point; nowhere where there is none.
  __device__ __forceinline__ PointAhead load_point() const {
    float const nowhere = __uint_as_float(0x7fc00000u);
    PointAhead point{{nowhere, nowhere}, 0, {}};
    if (is_there() && has_point_) stream_point(point, coord_, weight_, p_.weight_dtype);
    return point;
  }
  __device__ __forceinline__ LocatedPoint locate(PointAhead const& point) const {
    LocatedPoint located{};
    located.width = static_cast<float>(level_.width);
    located.height = static_cast<float>(level_.height);
    float2 const at = {to_pixel(point.at.x, located.width), to_pixel(point.at.y, located.height)};
    // Without a branch: pixel (0, 0) has a token on any map.
    bool const near = is_near(located, at);
    locate_near(located, level_, near ? at : float2{0.0f, 0.0f});
    if (!near) located.corners = 0;
    return located;
  }
  // To the next round. What is stored is of the last one.
  __device__ __forceinline__ void advance() {
    query_ += kQueries;
    coord_ += s_.coord_step;
    weight_ += s_.weight_step;
    grad_ += s_.grad_step;
  }
  __device__ __forceinline__ void store(PointGradient const& gradient) {
    if (query_ - kQueries < end_ && has_point_) {
      if (p_.grad_weight != nullptr) {
        store_narrow(p_.weight_dtype, p_.grad_weight, index_, gradient.weight);
      }
      if (p_.grad_coord != nullptr) {
        store_pair(MSDA_DTYPE_F32, p_.grad_coord, 2 * index_, {gradient.x, gradient.y},
                   s_.grad_coord_pairs);
      }
    }
    index_ += s_.index_step;
  }

 private:
  __device__ __forceinline__ bool is_there() const { return query_ < end_; }

  Params const& p_;
  PairedParams const& s_;
  std::uint32_t query_, end_;  // of the batch item
  bool has_point_;
  PointLevel level_;
  const char* coord_;
  const char* weight_;
  const char* grad_;
  std::int64_t index_;  // of the point among the gradients of all
};

// While the corners of a round's points are loaded the points of the next one are on their way.
template <class Config>
static __global__ void __launch_bounds__(kPointThreads, Config::kBlocks)
    paired_point_gradients(const __grid_constant__ Params p,
                           const __grid_constant__ PairedParams s) {
  using Row = typename Config::Row;
  using Products = typename Config::Products;
  MSDA_SHARED(typename StoredCorners<Config>::Storage, storage, );
  ptx::wait_for_previous_grid();
  StoredCorners<Config> corners(
      storage, static_cast<std::uint32_t>(p.value_strides.row) * Config::kElementBytes);
  PairedRows<Config> rows(p, s);
  PointAhead point = rows.load_point();
  Row grad = rows.load_grad();
  Products products(grad);
  LocatedPoint mine = rows.locate(point);
  float weight = weight_of(p.weight_dtype, point.weight);
  corners.hand_out(mine);
  for (std::uint32_t left = rows.rounds;;) {
    rows.advance();
    point = rows.load_point();
    grad = rows.load_grad();
#pragma unroll
    for (int j = 0; j < Config::kPoints; j += Config::kInFlight) {
      Row row[Config::kInFlight][4];
#pragma unroll
      for (int i = 0; i < Config::kInFlight; ++i) {
        auto const offsets = corners[j + i];
#pragma unroll
        for (int c = 0; c < 4; ++c) row[i][c] = Row::load_at(rows.values + offsets[c]);
      }
#pragma unroll
      for (int i = 0; i < Config::kInFlight; ++i) {
#pragma unroll
        for (int c = 0; c < 4; ++c) products.multiply(j + i, c, row[i][c]);
      }
    }
    float sums[4];
    products.sum(sums);
    rows.store(point_gradient(mine, weight, sums));
    if (--left == 0) return;
    products = Products(grad);
    mine = rows.locate(point);
    weight = weight_of(p.weight_dtype, point.weight);
    corners.hand_out(mine);
  }
}

}  // namespace msda::sorted
