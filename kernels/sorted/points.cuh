// Gradients by coordinates and weights, or by offsets and logits: kernels around the engine
// points/.
//
// point_gradients() takes any rows. paired_point_gradients() takes plain input whose 16-bit rows of
// 32 channels share a warp: a block takes queries of one batch item, of a head or two neighbouring
// ones. Of sampled input it takes one group of each row's points, as many as a warp locates at
// once; of fused input all kGroups groups of a row, whose softmax is in registers. So a lane's
// points differ from iteration to iteration in their query alone: levels and head stay in
// registers, and addresses go on by a stride. For 32 points it takes 233 instructions and 125
// wavefronts of L1.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/points/gradients.cuh"
#include "kernels/sorted/sorted.h"

namespace msda::sorted {

// ---- any rows

// A row. kPlain: the loads of its first points and of its grad_output are under way, of sampled
// input those of their levels, too, for which fused input has no registers.
template <class Config>
struct LoadedRow {
  PointLoads<Config::kInput> loads;
  LoadedPoint points;
  typename Config::Row plain_grad;

  __device__ __forceinline__ LoadedRow(Params const& p, PointParams const& s, RowIndex const& row,
                                       int d)
      : loads(p, s, row) {
    if constexpr (Config::kPlain) {
      load_points(Config::own_point());
      plain_grad = load_grad<Config>(p, row, d);
    }
  }
  __device__ __forceinline__ void load_points(std::int64_t k) {
    if constexpr (kKeepsLevel) level_ = loads.level(k);
    points = loads[k];
  }
  // The level of the loaded point, which is point k.
  __device__ __forceinline__ PointLevel level(std::int64_t k) const {
    if constexpr (kKeepsLevel) return level_;
    return loads.level(k);
  }
  __device__ __forceinline__ typename Config::Row grad(Params const& p, RowIndex const& row,
                                                       int d) const {
    if constexpr (Config::kPlain) return plain_grad;
    return load_grad<Config>(p, row, d);
  }

 private:
  static constexpr bool kKeepsLevel = Config::kInput == Input::sampled;
  PointLevel level_;
};

// The groups of a row's points.
template <class Config>
__device__ __forceinline__ std::int32_t groups_of(std::int64_t points) {
  return static_cast<std::int32_t>((points + Config::kGroupPoints - 1) / Config::kGroupPoints);
}

// A lane stages its points of a fused row, the first of which is `point` of the pass, in shared
// memory or in the workspace.
template <class Config>
__device__ __forceinline__ PointsInMemory staged_points(Params const& p, PointParams const& s,
                                                        char* shared, std::int64_t point,
                                                        bool is_there) {
  std::int32_t const groups = groups_of<Config>(p.point_total);
  if (s.staged == nullptr) {
    float* const at = reinterpret_cast<float*>(shared) + threadIdx.x;
    return {at, at + groups * kPointThreads, kPointThreads, groups};
  }
  std::int64_t const all = s.queries * p.head_count * p.point_total;
  float* const at = s.staged + point;
  bool const has_last = (groups - 1) * Config::kGroupPoints + Config::own_point() < p.point_total;
  return {at, at + all, Config::kGroupPoints, is_there ? groups - (has_last ? 0 : 1) : 0};
}

// A block takes neighbouring rows, of two heads if their number is even: their points lie near each
// other and meet in L1, where a line has the values of both. Plain points are loaded while those
// before them are worked on, of sampled input those of the next row, too.
template <class Config>
static __global__ void __launch_bounds__(kPointThreads, Config::kBlocks)
    point_gradients(const __grid_constant__ Params p, const __grid_constant__ PointParams s) {
  // The next row's loads begin with those of the last group's points, or before the gradients of
  // the row's logits: other input has no registers for a row and the next one.
  constexpr bool kGoesOnEarly = Config::kInput == Input::sampled;
  constexpr bool kGoesOnBeforeLogits = Config::kInput == Input::fused && !Config::Row::kNarrow;
  constexpr int kLogitsInFlight = 4;  // of a lane
  using Element = std::conditional_t<Config::kVectors, std::uint32_t, std::int64_t>;
  MSDA_DYNAMIC_SHARED(shared);
  ptx::wait_for_previous_grid();
  typename Config::Corners corners;
  int const d = static_cast<int>(threadIdx.x % Config::kLanes) * kChannelsOfLane;
  int const own = Config::own_point();
  auto const points = static_cast<std::int32_t>(p.point_total);
  bool const locates = static_cast<int>(threadIdx.x % Config::kSlotLanes) < Config::kGroupPoints;
  bool const has_channels = d < p.head_dim && p.token_count > 0;
  std::int64_t const first = std::int64_t{blockIdx.x} * s.rows_of_block;
  RowIndex row(p, s, first + Config::slot());
  LoadedRow<Config> next(p, s, row, d);
  bool const is_fused = next.loads.is_fused();
  float* const by_pixel = Config::kInput == Input::sampled ? nullptr : s.by_pixel;
  auto const go_on = [&] {
    row.advance(p, s);
    next = LoadedRow<Config>(p, s, row, d);
  };
  for (std::int32_t left = s.rows_of_block; left > 0; left -= Config::kSlots) {
    ValueRows<Config> const values(
        p, row.b * p.value_strides.batch + row.m * p.value_strides.head + d, has_channels);
    typename Config::Products products(next.grad(p, row, d));
    auto const index =
        static_cast<Element>(row.index(p) * p.point_total + own);  // of its first point
    GradientRow<Element> const to(p, row.b, row.q, row.m, own);
    bool const stores = row.is_there && locates;
    bool const has_next = left > Config::kSlots;
    RowSoftmax<Config, PointsInMemory> softmax(
        is_fused ? staged_points<Config>(p, s, shared, index, stores) : PointsInMemory{});
    if (is_fused) {
      auto const has_point = [&](int group) { return group * Config::kGroupPoints + own < points; };
      softmax.template start<kLogitsInFlight>(
          points,
          [&](int group) {
            return has_point(group) ? next.loads.logit_bits(group * Config::kGroupPoints + own) : 0;
          },
          [&](int group, std::uint32_t bits) {
            return has_point(group) ? next.loads.weight(bits) : -INFINITY;
          });
    }
#pragma unroll 1
    for (std::int32_t group = 0; group < points; group += Config::kGroupPoints) {
      std::int32_t const k = group + own;
      if constexpr (!Config::kPlain) next.load_points(k);
      LocatedPoint const mine =
          locate_point(next.points, next.level(k), is_fused, p.reference_dim == 4);
      bool const has_point = stores && k < points;
      float weight = next.loads.weight(next.points.weight);
      if (is_fused) weight = has_point ? softmax.weight(group / Config::kGroupPoints) : 0.0f;
      if constexpr (Config::kPlain) {
        if (group + Config::kGroupPoints < points) {
          next.load_points(k + Config::kGroupPoints);
        } else if (kGoesOnEarly && has_next) {
          go_on();
        }
      }
      corners.hand_out(mine);
#pragma unroll Config::kUnrolled
      for (int j = 0; j < Config::kPoints; j += Config::kInFlight) {
        multiply_corners<Config>(values, corners, j, products);
      }
      float sums[4];
      products.sum(sums);
      if (!has_point) continue;
      PointGradient const gradient = point_gradient(mine, weight, sums);
      points::store_coord(p, Config::kPlain ? MSDA_DTYPE_F32 : p.coord_dtype, by_pixel,
                          index + group, to.coord + 2 * group, mine, gradient, s.grad_coord_pairs);
      if (is_fused) {
        softmax.add(group / Config::kGroupPoints, gradient.weight);
      } else if (p.grad_weight != nullptr) {
        store_narrow(p.weight_dtype, p.grad_weight, to.weight + group, gradient.weight);
      }
    }
    if (kGoesOnBeforeLogits && has_next) go_on();
    if (is_fused && p.grad_weight != nullptr) {
      softmax.finish([&](int group, float gradient) {
        std::int32_t const k = group * Config::kGroupPoints + own;
        if (!stores || k >= points) return;
        store_narrow(p.weight_dtype, p.grad_weight, to.weight + group * Config::kGroupPoints,
                     gradient);
      });
    }
    if (!kGoesOnEarly && !kGoesOnBeforeLogits && has_next) go_on();
  }
}

// ---- plain rows that share a warp

// Calls fn with two constants: the rows of a warp, the fewest of 1, 2 and 4 that leave no more
// lanes without a point than 4 do; and whether groups of lanes take sides. Where the number of
// heads is even, a warp takes rows of two heads and no sides.
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

// Calls fn with the kind of plain input, as a constant.
template <class Fn>
void with_plain_input(KernelOptions const& options, Fn fn) {
  if (options.fused) return fn(std::integral_constant<Input, Input::fused>());
  fn(std::integral_constant<Input, Input::sampled>());
}

// Calls fn with it and with the groups of a row's points that a block takes: of fused input all,
// if they are few enough for registers.
inline constexpr int kMaxPairedGroups = 3;
template <int kGroups = 1, class Fn>
void with_paired_input(KernelOptions const& options, std::int64_t group_points, Fn fn) {
  if constexpr (kGroups == 1) {
    if (!options.fused) {
      return fn(std::integral_constant<Input, Input::sampled>(), std::integral_constant<int, 1>(),
                std::false_type());
    }
  }
  if (options.points <= kGroups * group_points) {
    using Fused = std::integral_constant<Input, Input::fused>;
    using Groups = std::integral_constant<int, kGroups>;
    if (options.boxes) return fn(Fused(), Groups(), std::true_type());
    return fn(Fused(), Groups(), std::false_type());
  }
  if constexpr (kGroups < kMaxPairedGroups) {
    with_paired_input<kGroups + 1>(options, group_points, fn);
  }
}

// A lane's powers and gradients of its points of a row, one of each group.
template <int kGroups>
class PointsInRegisters {
 public:
  static constexpr int kUnrolled = kGroups;
  __device__ __forceinline__ static constexpr int groups() { return kGroups; }
  __device__ __forceinline__ float& power(int group) { return powers_[group]; }
  __device__ __forceinline__ float& gradient(int group) { return gradients_[group]; }

 private:
  float powers_[kGroups], gradients_[kGroups];
};

inline constexpr int kWarps = kPointThreads / kWarp;

// The bytes from the first token to corners, handed out through shared memory: a group of lanes
// reads four words side by side for a load. kSides: they are the top and bottom corner of its side
// of one group's point, and of the other one's.
template <class Config>
class StoredCorners {
  using Lane = PairLane<Config::kWarpRows, Config::kSides>;
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

// A lane's points of a row, its channels of the row of grad_output and of the head's values.
// kNarrow: offsets have 16 bits.
template <class Config, int kGroups, bool kBoxes, bool kNarrow>
class PairedRows {
  using Row = typename Config::Row;
  using Lane = PairLane<Config::kWarpRows, Config::kSides>;
  static constexpr bool kFused = Config::kInput == Input::fused;
  static constexpr int kHeads = Config::kSides ? 1 : 2;
  static constexpr int kQueriesOfWarp = Config::kWarpRows / kHeads;
  static constexpr std::uint32_t kQueries = kWarps * kQueriesOfWarp;  // of an iteration
  static constexpr int kCoordBytes = kNarrow ? 2 : 4;
  static_assert(kFused || !kNarrow, "sampled coordinates of 16 bits are not plain");

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
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      std::int64_t const of_group = k + g * Config::kGroupPoints;
      if (of_group >= p.point_total) continue;
      if constexpr (kKeepsLevels) levels_[g] = s.point_levels[of_group];
      group_count_ = g + 1;
    }
    first_point_ = k;
    std::int64_t const d = lane_of() % Config::kLanes * kChannelsOfLane;
    PointRow const row(p, b, query_, m);
    weight_bytes_ = p.weight_dtype == MSDA_DTYPE_F32 ? 4 : 2;
    coord_ = static_cast<const char*>(p.coord) + (row.coord + 2 * k) * kCoordBytes;
    weight_ = static_cast<const char*>(p.weight) + (row.weight + k) * weight_bytes_;
    reference_ = static_cast<const char*>(p.reference) + row.reference * 4;
    grad_ = static_cast<const char*>(p.grad_output) +
            (p.output_strides.at(b, query_, m) + d) * Config::kElementBytes;
    values = static_cast<const char*>(p.value) +
             (b * p.value_strides.batch + m * p.value_strides.head + d) * Config::kElementBytes;
    to_ = GradientRow<std::uint32_t>(p, b, query_, m, k);
    index_ = static_cast<std::uint32_t>(
        ((b * p.query_count + query_) * p.head_count + m) * p.point_total + k);
  }
  __device__ __forceinline__ Row load_grad() const {
    return is_there() ? Row::load_at(grad_) : Row::zeros();
  }
  // The lane's point of a group, nowhere where there is none. `at.x` of a narrow one has the bits
  // of both its numbers.
  __device__ __forceinline__ LoadedPoint load_point(int group) const {
    float const nowhere = __uint_as_float(kNarrow ? kNanPair : 0x7fc00000u);
    LoadedPoint point{{nowhere, nowhere}, 0, {}};
    if (!has_point(group)) return point;
    const char* const at = coord_ + group * Config::kGroupPoints * 2 * kCoordBytes;
    if constexpr (kNarrow) {
      std::uint32_t bits;
      ptx::stream_global<4, ptx::Neighbours>(at, &bits);
      point.at.x = __uint_as_float(bits);
    } else {
      point.at = stream_pair(at);
    }
    if constexpr (kFused) {
      point.reference =
          stream_reference(reference_ + level(group).index * (kBoxes ? 16 : 8), kBoxes);
    }
    return point;
  }
  // The bits of the lane's weights or logits.
  __device__ __forceinline__ void load_weights(std::uint32_t (&bits)[kGroups]) const {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      bits[group] = 0;
      if (!has_point(group)) continue;
      stream_weight(bits[group], weight_ + group * Config::kGroupPoints * weight_bytes_,
                    p_.weight_dtype);
    }
  }
  __device__ __forceinline__ LocatedPoint locate(LoadedPoint const& point, int group) const {
    if constexpr (kNarrow) {
      LoadedPoint of_numbers = point;
      of_numbers.at = pair_of(p_.coord_dtype, __float_as_uint(point.at.x));
      return locate_point(of_numbers, level(group), kFused, kBoxes);
    }
    return locate_point(point, level(group), kFused, kBoxes);
  }
  __device__ __forceinline__ bool is_there() const { return query_ < end_; }
  // Groups in which the lane has a point.
  __device__ __forceinline__ int group_count() const { return group_count_; }
  __device__ __forceinline__ bool has_point(int group) const {
    return is_there() && group < group_count_;
  }
  // Goes on to loads of the next iteration.
  __device__ __forceinline__ void advance() {
    query_ += kQueries;
    coord_ += s_.coord_stride;
    weight_ += s_.weight_stride;
    grad_ += s_.grad_stride;
    if constexpr (kFused) reference_ += s_.reference_stride;
  }
  __device__ __forceinline__ void store_coord(int group, LocatedPoint const& at,
                                              PointGradient const& gradient) const {
    if (group >= group_count_) return;
    int const further = group * Config::kGroupPoints;
    msda_dtype const dtype = kNarrow ? p_.coord_dtype : MSDA_DTYPE_F32;
    points::store_coord(p_, dtype, kFused ? s_.by_pixel : nullptr, index_ + further,
                        to_.coord + 2 * further, at, gradient, s_.grad_coord_pairs);
  }
  // Stores the gradient of a weight or a logit.
  __device__ __forceinline__ void store_weight(int group, float gradient) const {
    if (group >= group_count_ || p_.grad_weight == nullptr) return;
    store_narrow(p_.weight_dtype, p_.grad_weight, to_.weight + group * Config::kGroupPoints,
                 gradient);
  }
  // Goes on to stores of the next iteration.
  __device__ __forceinline__ void advance_stores() {
    to_.coord += s_.grad_coord_stride;
    to_.weight += s_.grad_weight_stride;
    if constexpr (kFused) index_ += s_.index_stride;
  }

 private:
  // More than two levels would take too many registers.
  static constexpr bool kKeepsLevels = kGroups <= 2;
  __device__ __forceinline__ PointLevel level(int group) const {
    if constexpr (kKeepsLevels) return levels_[group];
    if (group >= group_count_) return {};
    return s_.point_levels[first_point_ + group * Config::kGroupPoints];
  }

  Params const& p_;
  PairedParams const& s_;
  std::uint32_t query_, end_;  // of the batch item
  int group_count_ = 0;
  PointLevel levels_[kGroups] = {};  // where they are kept
  std::int64_t first_point_;         // of a row
  int weight_bytes_;
  const char* coord_;
  const char* weight_;
  const char* reference_;
  const char* grad_;
  GradientRow<std::uint32_t> to_;  // of the first point
  std::uint32_t index_;            // of the first point, among all
};

// Loads the corners of the lane group's points, which another lane has located, and multiplies
// them. meanwhile() is called once, while the first kInFlight points' are under way.
template <int kInFlight, class Config, class Meanwhile>
__device__ __forceinline__ void multiply_stored_corners(const char* values,
                                                        StoredCorners<Config> const& corners,
                                                        typename Config::Products& products,
                                                        Meanwhile meanwhile) {
  using Row = typename Config::Row;
#pragma unroll
  for (int j = 0; j < Config::kPoints; j += kInFlight) {
    Row row[kInFlight][4];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      auto const offsets = corners[j + i];
#pragma unroll
      for (int c = 0; c < 4; ++c) row[i][c] = Row::load_at(values + offsets[c]);
    }
    if (j == 0) meanwhile();
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
#pragma unroll
      for (int c = 0; c < 4; ++c) products.multiply(j + i, c, row[i][c]);
    }
  }
}

// While the corners of a group's points are under way the points of the next group are loaded, or
// of the next row's first one, and the softmax is started. Branches in these hold the
// multiplication behind all loads: without them ptxas mixes both, and a warp waits several times.
template <class Config, int kGroups, bool kBoxes, bool kNarrow>
static __global__ void __launch_bounds__(kPointThreads, Config::kBlocks)
    paired_point_gradients(const __grid_constant__ Params p,
                           const __grid_constant__ PairedParams s) {
  constexpr bool kFused = Config::kInput == Input::fused;
  static_assert(kFused || kGroups == 1, "groups of sampled input are other blocks'");
  // Boxes of four rows have no registers for more.
  constexpr int kInFlight = kBoxes && Config::kWarpRows == 4 ? 1 : Config::kPoints;
  MSDA_SHARED(typename StoredCorners<Config>::Storage, storage, );
  ptx::wait_for_previous_grid();
  StoredCorners<Config> corners(
      storage, static_cast<std::uint32_t>(p.value_strides.row) * Config::kElementBytes);
  PairedRows<Config, kGroups, kBoxes, kNarrow> rows(p, s);
  std::uint32_t bits[kGroups];  // of weights or logits
  rows.load_weights(bits);
  LoadedPoint point = rows.load_point(0);
  typename Config::Row grad = rows.load_grad();
  for (std::uint32_t left = rows.iterations; left > 0; --left) {
    typename Config::Products products(grad);
    RowSoftmax<Config, PointsInRegisters<kGroups>> softmax({});
    std::uint32_t given[kGroups];  // the row's own bits
#pragma unroll
    for (int group = 0; group < kGroups; ++group) given[group] = bits[group];
    bool const stores = rows.is_there();
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      LocatedPoint const mine = rows.locate(point, group);
      corners.hand_out(mine);
      multiply_stored_corners<kInFlight>(rows.values, corners, products, [&] {
        auto const start_softmax = [&] {
          if (!kFused || group > 0) return;
          softmax.start(static_cast<std::int32_t>(p.point_total), [&](int n) {
            return stores && n < rows.group_count() ? narrow_of(p.weight_dtype, given[n])
                                                    : -INFINITY;
          });
        };
        if (group + 1 < kGroups) {
          point = rows.load_point(group + 1);
          start_softmax();
        } else {
          rows.advance();
          rows.load_weights(bits);
          point = rows.load_point(0);
          // Boxes have no registers for the next row's gradients meanwhile.
          if constexpr (kBoxes) start_softmax();
          grad = rows.load_grad();
          if constexpr (!kBoxes) start_softmax();
        }
      });
      float sums[4];
      products.sum(sums);
      float const weight = kFused ? softmax.weight(group) : narrow_of(p.weight_dtype, given[group]);
      PointGradient const gradient = point_gradient(mine, weight, sums);
      if (stores) rows.store_coord(group, mine, gradient);
      if constexpr (kFused) {
        softmax.add(group, gradient.weight);
      } else if (stores) {
        rows.store_weight(group, gradient.weight);
      }
    }
    if constexpr (kFused) {
      softmax.finish([&](int group, float of_logit) {
        if (stores) rows.store_weight(group, of_logit);
      });
    }
    rows.advance_stores();
  }
}

}  // namespace msda::sorted
