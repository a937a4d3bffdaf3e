// Gradients by coordinates and weights: kernels around the engine points/.
//
// point_gradients() takes any rows. paired_point_gradients() takes plain input whose 16-bit rows of
// 32 channels share a warp: a block takes queries of one batch item, of a head or two neighbouring
// ones, and one group of each row's points, as many as a warp locates at once. So a lane's point
// differs from iteration to iteration in its query alone: level and head stay in registers, and
// addresses go on by a stride. It takes 241 instructions and 125 wavefronts of L1 for 32 points.
#pragma once

#include "kernels/common/ptx_cluster.cuh"
#include "kernels/common/shared.cuh"
#include "kernels/points/gradients.cuh"
#include "kernels/sorted/sorted.h"

namespace msda::sorted {

using points::lane_of;
using points::load_grad;
using points::LoadedPoint;
using points::LocatedPoint;
using points::point_gradient;
using points::PointGradient;
using points::PointLoads;
using points::RowIndex;
using points::ValueRows;
using points::warp_of;

// ---- any rows

// A row. kPlain: the loads of its first points and of its grad_output are under way.
template <class Config>
struct LoadedRow {
  PointLoads<Config::kPlain> loads;
  LoadedPoint points;
  typename Config::Row plain_grad;

  __device__ __forceinline__ LoadedRow(Params const& p, PointParams const& s, RowIndex const& row,
                                       int d)
      : loads(p, s, row) {
    if constexpr (Config::kPlain) {
      points = loads[Config::own_point()];
      plain_grad = load_grad<Config>(p, row, d);
    }
  }
  __device__ __forceinline__ typename Config::Row grad(Params const& p, RowIndex const& row,
                                                       int d) const {
    if constexpr (Config::kPlain) return plain_grad;
    return load_grad<Config>(p, row, d);
  }
};

// A block takes neighbouring rows, of two heads if their number is even: their points lie near each
// other and meet in L1, where a line has the values of both. kPlain: the next row is loaded while
// the last points of a row are worked on.
template <class Config>
static __global__ void __launch_bounds__(points::kPointThreads, Config::kBlocks)
    point_gradients(const __grid_constant__ Params p, const __grid_constant__ PointParams s) {
  ptx::wait_for_previous_grid();
  typename Config::Corners corners;
  int const d = static_cast<int>(threadIdx.x % Config::kLanes) * kChannelsOfLane;
  int const own = Config::own_point();
  auto const points = static_cast<std::int32_t>(p.point_total);
  bool const locates = static_cast<int>(threadIdx.x % Config::kSlotLanes) < Config::kGroupPoints;
  std::int64_t const first = static_cast<std::int64_t>(blockIdx.x) * s.rows_of_block;
  RowIndex row(p, s, first + Config::slot());
  LoadedRow<Config> next(p, s, row, d);
  auto const go_on = [&] {
    row.advance(p, s);
    next = LoadedRow<Config>(p, s, row, d);
  };
  for (std::int64_t i = 0; i < s.rows_of_block; i += Config::kSlots) {
    ValueRows<Config> const values(
        p, row.b * p.value_strides.batch + row.m * p.value_strides.head + d, d < p.head_dim);
    typename Config::Products products(next.grad(p, row, d));
    std::int64_t const index = row.index(p);
    bool const stores = row.is_there && locates;
    bool const has_next = i + Config::kSlots < s.rows_of_block;
#pragma unroll 1
    for (std::int32_t group = 0; group < points; group += Config::kGroupPoints) {
      std::int32_t const k = group + own;
      LoadedPoint const ahead = Config::kPlain ? next.points : next.loads[k];
      LocatedPoint const mine = points::locate_point(next.loads, ahead, k);
      float const weight = next.loads.weight(ahead);
      if constexpr (Config::kPlain) {
        if (group + Config::kGroupPoints < points) {
          next.points = next.loads[k + Config::kGroupPoints];
        } else if (has_next) {
          go_on();
        }
      }
      corners.hand_out(mine);
#pragma unroll Config::kUnrolled
      for (int j = 0; j < Config::kPoints; j += Config::kInFlight) {
        points::multiply_corners<Config>(values, corners, j, products);
      }
      float sums[4];
      products.sum(sums);
      if (!stores || k >= points) continue;
      points::store_gradient<Config::kPlain>(p, s, index, k, point_gradient(mine, weight, sums));
    }
    if (!Config::kPlain && has_next) go_on();  // before, others have no registers for it
  }
}

// ---- plain rows that share a warp

// Calls fn with the rows of a warp, as few as leave no more lanes without a point, and with whether
// groups of lanes take sides, as constants. Where the number of heads is even, a warp takes rows of
// two heads and no sides.
template <int kRows = 1, class Fn>
void with_warp_rows(KernelOptions const& options, Fn fn) {
  if constexpr (kRows < 4) {
    auto const lanes = [&](std::int64_t rows) {
      std::int64_t const points = kWarp / rows;
      return (options.points + points - 1) / points * points;
    };
    if (lanes(kRows) > lanes(4) || (kRows == 1 && options.even_heads)) {
      return with_warp_rows<2 * kRows>(options, fn);
    }
  }
  using Rows = std::integral_constant<int, kRows>;
  if constexpr (kRows > 1) {
    if (options.even_heads) return fn(Rows(), std::false_type());
  }
  fn(Rows(), std::true_type());
}

inline constexpr int kWarps = points::kPointThreads / kWarp;

// The bytes from the first token to corners, handed out through shared memory: a group of lanes
// reads four words side by side for a load. kSides: they are the top and bottom corner of its side
// of one group's point, and of the other one's.
template <class Config>
class StoredCorners {
  using Lane = points::PairLane<Config::kWarpRows, Config::kSides>;
  // Two more than a load has, so that the stores of eight lanes meet no bank twice.
  static constexpr int kVecs = kWarp / 4 + 2;
  static constexpr int kLoadBytes = kVecs * kVecBytes;

 public:
  // Two buffers: while the corners of one iteration are loaded those of the next may be stored.
  struct alignas(16) Storage {
    std::uint32_t words[kWarps][2][4][kVecs][kVecBytes / 4];
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
    std::uint32_t const at = shared_address(&storage.words[warp_of()]);
    from_ = at + (Config::kSides ? side * 4 + pair : lane.of_warp) * kVecBytes;
    to_ = at + lane.own_load() * kLoadBytes +
          (Config::kSides ? pair * kVecBytes + side * (kVecBytes / 2) : lane.of_warp * kVecBytes);
  }
  // All lanes of the warp.
  __device__ __forceinline__ void hand_out(LocatedPoint const& mine) {
    std::uint32_t const first = mine.token * stride_;
    std::uint32_t const second = first + mine.beside * stride_;
    std::uint32_t const below = mine.below * stride_;
    from_ += to_other_;
    to_ += to_other_;
    to_other_ = -to_other_;
    if constexpr (Config::kSides) {
      ptx::store_shared(to_, first, first + below);
      ptx::store_shared(to_ + 4 * kVecBytes, second, second + below);
    } else {
      ptx::store_shared(to_, first, second, first + below, second + below);
    }
    __syncwarp();
  }
  // The corners of load `j`.
  __device__ __forceinline__ Offsets operator[](int j) const {
    Offsets offsets;
    ptx::load_shared(from_ + j * kLoadBytes, offsets.word);
    return offsets;
  }

 private:
  std::uint32_t stride_, from_, to_;
  int to_other_ = 4 * kLoadBytes;  // buffer
};

// A lane's points, its channels of their rows of grad_output and of their head's values.
template <class Config>
class PairedRows {
  using Row = typename Config::Row;
  using Lane = points::PairLane<Config::kWarpRows, Config::kSides>;
  static constexpr int kHeads = Config::kSides ? 1 : 2;
  static constexpr int kQueriesOfWarp = Config::kWarpRows / kHeads;
  static constexpr std::uint32_t kQueries = kWarps * kQueriesOfWarp;  // of an iteration

 public:
  const char* values;        // of token 0
  std::uint32_t iterations;  // of the block

  __device__ __forceinline__ PairedRows(Params const& p, PairedParams const& s) : p_(p), s_(s) {
    Lane const lane;
    std::uint32_t rest = blockIdx.x;
    auto const split = [&rest](std::uint32_t count) {
      std::uint32_t const all = rest;
      rest /= count;
      return all - rest * count;
    };
    std::uint32_t const group = split(s.groups);
    std::uint32_t const range = split(s.query_ranges);
    std::uint32_t const heads = split(static_cast<std::uint32_t>(p.head_count) / kHeads);
    std::int64_t const b = rest;
    std::int64_t const m = heads * kHeads + lane.row % kHeads;
    std::uint32_t const first = (range * s.iterations + min(range, s.longer_ranges)) * kQueries;
    end_ = static_cast<std::uint32_t>(p.query_count);
    iterations = s.iterations + (range < s.longer_ranges ? 1 : 0);
    query_ = first + warp_of() * kQueriesOfWarp + lane.row / kHeads;

    std::int64_t const k = std::int64_t{group} * Config::kGroupPoints + Config::own_point();
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
  __device__ __forceinline__ LoadedPoint load_point() const {
    float const nowhere = __uint_as_float(0x7fc00000u);
    LoadedPoint point{{nowhere, nowhere}, 0, {}};
    if (is_there() && has_point_) points::stream_point(point, coord_, weight_, p_.weight_dtype);
    return point;
  }
  __device__ __forceinline__ LocatedPoint locate(LoadedPoint const& point) const {
    LocatedPoint located{};
    located.width = static_cast<float>(level_.width);
    located.height = static_cast<float>(level_.height);
    float2 const at = {to_pixel(point.at.x, located.width), to_pixel(point.at.y, located.height)};
    // No branch is needed: pixel (0, 0) has a token on any map.
    bool const near = points::is_near(located, at);
    points::locate_near(located, level_, near ? at : float2{0.0f, 0.0f});
    if (!near) located.corners = 0;
    return located;
  }
  // Goes on to the next iteration; store() is for the last one.
  __device__ __forceinline__ void advance() {
    query_ += kQueries;
    coord_ += s_.coord_stride;
    weight_ += s_.weight_stride;
    grad_ += s_.grad_stride;
  }
  __device__ __forceinline__ void store(PointGradient const& gradient) {
    if (query_ - kQueries < end_ && has_point_) {
      if (p_.grad_weight != nullptr) {
        store_narrow(p_.weight_dtype, p_.grad_weight, index_, gradient.weight);
      }
      if (p_.grad_coord != nullptr) {
        points::store_pair(MSDA_DTYPE_F32, p_.grad_coord, 2 * index_, {gradient.x, gradient.y},
                           s_.grad_coord_pairs);
      }
    }
    index_ += s_.index_stride;
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
  std::int64_t index_;  // of the point, among all
};

// The points of the next iteration are on their way while the corners of one are loaded.
template <class Config>
static __global__ void __launch_bounds__(points::kPointThreads, Config::kBlocks)
    paired_point_gradients(const __grid_constant__ Params p,
                           const __grid_constant__ PairedParams s) {
  using Row = typename Config::Row;
  using Products = typename Config::Products;
  MSDA_SHARED(typename StoredCorners<Config>::Storage, storage, );
  ptx::wait_for_previous_grid();
  StoredCorners<Config> corners(
      storage, static_cast<std::uint32_t>(p.value_strides.row) * Config::kElementBytes);
  PairedRows<Config> rows(p, s);
  LoadedPoint point = rows.load_point();
  Row grad = rows.load_grad();
  Products products(grad);
  LocatedPoint mine = rows.locate(point);
  float weight = points::weight_of(p.weight_dtype, point.weight);
  corners.hand_out(mine);
  for (std::uint32_t left = rows.iterations;;) {
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
    weight = points::weight_of(p.weight_dtype, point.weight);
    corners.hand_out(mine);
  }
}

}  // namespace msda::sorted
