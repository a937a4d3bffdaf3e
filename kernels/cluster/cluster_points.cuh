// The parts of the cluster family's kernel: an instantiation, a block's shared memory, points
// whose levels may be cached in one block or spread over the cluster, and the exact path.
#pragma once

#include "kernels/cluster/cluster.h"
#include "kernels/common/ptx.cuh"
#include "kernels/rows/row_points.cuh"

namespace msda::cluster {

// An instantiation: rows as the engine has them, and whether the kernel takes for granted that
// clusters are pairs and levels a pyramid (KernelOptions).
struct ClusterKind {
  RowsKind rows;
  bool pair;
  bool pyramid = false;
};

template <ClusterKind kKind>
struct ClusterConfig : RowsConfig<kKind.rows> {
  using Base = RowsConfig<kKind.rows>;
  static constexpr bool kIsPyramid = kKind.pyramid;
  static constexpr bool kPair = kKind.pair;
  static constexpr int kThreads = cluster::kThreads;
  static constexpr bool kHasStretches = has_stretches(Base::kLayout);
  // Points that a lane prepares at a time, and of them those in shared memory at a time.
  static constexpr int kGroup = cluster::group_of(Base::kLayout);
  static constexpr int kTogether = Base::kFp16Sums && kGroup > 1 ? 2 : 1;
  static constexpr int kRecords = Base::kLanes * kTogether;  // of a slot at a time
  // All points of a group lie on one level.
  static constexpr bool kLevelOfGroup =
      kIsPyramid || kGroup == 1 || (Base::kPoints > 0 && Base::kPoints % kGroup == 0);
  // Points whose loads are in flight, each of another lane.
  static constexpr int kInFlight = 2;
  // Turns of a chunk that are unrolled, where that leaves registers.
  static constexpr int kUnrolled = kIsPyramid && Base::kFp16Sums ? kGroup : 1;
  static_assert(Base::kLanes % kInFlight == 0, "records are gathered kInFlight at a time");
  static_assert(Base::kVecs == 1, "a lane has one vec of a row");
};

}  // namespace msda::cluster

namespace msda::rows {

template <cluster::ClusterKind kKind>
struct Storage<cluster::ClusterConfig<kKind>> {
  using Config = cluster::ClusterConfig<kKind>;
  alignas(kLineBytes) char records[cluster::kWarps][cluster::kRecordBytes];
  Place places[kInlineLevels];  // of each level
  std::uint64_t full[2];        // mbarriers: a buffer has the levels of its tile
  std::uint32_t fetched[cluster::kFetchedCounts];
};

}  // namespace msda::rows

namespace msda::cluster {

template <class Config>
struct Lane : rows::Lane<Config> {
  using Base = rows::Lane<Config>;
  static_assert(sizeof(Storage<Config>) <= kDeclaredBytes,
                "the host plans with what a block declares");
  CacheParams const& cache;
  std::uint32_t rank;
  int stretch;  // points of a lane, see first_point()

  __device__ Lane(Params const& params, ScheduleParams const& schedule_params,
                  CacheParams const& cache_params, Storage<Config>& block)
      : Base(params, schedule_params, block), cache(cache_params), rank(ptx::cluster_rank()) {
    constexpr int kLanesGroup = Config::kLanes * Config::kGroup;
    stretch = (this->K + kLanesGroup - 1) / kLanesGroup * Config::kGroup;
  }

  // In each chunk of a row a lane prepares kGroup points.
  __device__ __forceinline__ int chunks() const { return stretch / Config::kGroup; }
  // The first point that lane j prepares in a chunk, which may be behind the row. Where lanes have
  // stretches, that of the last lane is the row's first one. It mostly lies on the finest level, in
  // memory: the last lane's loads are sent off first and added last. Two of the lanes take chunks
  // in another order: their inputs would meet the others' banks.
  __device__ __forceinline__ int first_point(int chunk, int j) const {
    if constexpr (Config::kHasStretches) {
      int const other = j / 2 & ~chunks() & 1;
      return (Config::kLanes - 1 - j) * stretch + (chunk ^ other) * Config::kGroup;
    } else {
      return (chunk * Config::kLanes + j) * Config::kGroup;
    }
  }
  // The level of point k, which lane j prepares.
  __device__ __forceinline__ int level_of(int k, int j) const {
    return Config::kIsPyramid ? Config::kLanes - 1 - j : level_of(k);
  }

  // The level of point k, which may be behind the last one.
  __device__ __forceinline__ int level_of(int k) const {
    if constexpr (Config::kPoints > 0) {
      constexpr auto kOfLevel = static_cast<unsigned>(Config::kPoints);
      return static_cast<int>(static_cast<unsigned>(min(k, this->K - 1)) / kOfLevel);
    } else {
      return cache.level_of[min(k, this->K - 1)];
    }
  }
  __device__ __forceinline__ bool is_cached(int level) const {
    if constexpr (Config::kIsPyramid) return level > 0;
    return (cache.cached_levels >> level & 1) != 0;
  }
  __device__ __forceinline__ bool is_split(int level) const {
    if constexpr (Config::kIsPyramid) return level == 1;
    return (cache.split_levels >> level & 1) != 0;
  }
  __device__ __forceinline__ std::uint32_t size_mask() const {
    return Config::kPair ? 1 : cache.size_mask;
  }
  __device__ __forceinline__ std::uint32_t size_shift() const {
    return Config::kPair ? 1 : cache.size_shift;
  }
  __device__ __forceinline__ std::uint32_t cached_pixel_bytes() const {
    return Config::kIsKnown ? Config::kCachedPixelBytes : cache.pixel_bytes;
  }
};

template <class Config>
__device__ void fill_tables(Lane<Config> const& lane) {
  for (int l = static_cast<int>(threadIdx.x); l < lane.p.level_count; l += kThreads) {
    lane.shared.places[l] = lane.schedule.places[l];
  }
}

// ---- located points and their records

// A row of a split level lies in one block and the next row in the next block. Of a point's two
// rows the even one is the first of its record, so that its sum has one order in every block. With
// clusters of two the even rows are those of block 0: all lanes of a load read the same block.
struct SplitRows {
  std::uint32_t even;  // the even row's number in its block
  std::uint32_t rank;  // of that block
  bool is_lower;       // of the point's two rows the even one is the lower one
};

// Splits the rows of a point; y is its upper row. A mask of 0 says that rows are not spread.
__device__ __forceinline__ SplitRows split_rows(std::uint32_t y, std::uint32_t mask,
                                                std::uint32_t shift) {
  std::uint32_t const is_odd = y & mask & 1, even = y + is_odd;
  return {even >> shift, even & mask, is_odd != 0};
}

// The bits of a record that say it. With fp16 sums the number of the pixel has 12 bits, then half
// the rank, then whether the even row is the lower one; in other records the first pixel has 28
// bits.
template <class Config>
struct SplitBits {
  static constexpr int kRankBit = Config::kFp16Sums ? 12 : 28;
  static constexpr int kLowerBit = kRankBit + 3;

  __device__ __forceinline__ static std::uint32_t of(SplitRows const& rows) {
    return rows.rank / 2 << kRankBit | static_cast<std::uint32_t>(rows.is_lower) << kLowerBit;
  }
  __device__ __forceinline__ static std::uint32_t first(std::uint32_t bits) {
    return bits & ((1u << kRankBit) - 1);
  }
  __device__ __forceinline__ static std::uint32_t rank(std::uint32_t bits) {
    return (bits >> kRankBit & 7) * 2;
  }
  __device__ __forceinline__ static bool is_lower(std::uint32_t bits) {
    return (bits >> kLowerBit & 1) != 0;
  }
};

// Locates a point of the slot's row, given in pixels of its level; pixel_vecs: from a pixel to the
// next one.
template <class Config>
__device__ __forceinline__ LocatedPointOf<Config> locate(Lane<Config> const& lane,
                                                         Place const& place, bool is_split,
                                                         std::uint32_t pixel_vecs, float2 const& at,
                                                         float weight) {
  Between const bx = between<Config::kIsKnown>(at.x, place.width);
  Between const by = between<Config::kIsKnown>(at.y, place.height);
  SplitRows const rows =
      split_rows(static_cast<std::uint32_t>(by.base), is_split ? lane.size_mask() : 0,
                 is_split ? lane.size_shift() : 0);
  bool const swaps_rows = rows.is_lower;
  std::uint32_t pixel = rows.even * place.row_tokens + static_cast<std::uint32_t>(bx.base);
  float fraction = bx.fraction;
  bool turned = false;
  if constexpr (Config::kByParity) {
    // As rows::locate() does it: rows of cached levels have an even number of pixels.
    turned = (pixel & 1) != (lane.slot() & 1);
    pixel += turned && (Config::kIsKnown || place.width > kPixel) ? 1 : 0;
    fraction = in_fp16_units(fraction);
    fraction = turned ? 1.0f - fraction : fraction;
  }
  float const total = weight * bx.inside * by.inside;
  float const lower = __fmul_rn(total, by.fraction), upper = __fsub_rn(total, lower);
  float const first_row = swaps_rows ? lower : upper, second_row = swaps_rows ? upper : lower;
  std::uint32_t const bits = SplitBits<Config>::of(rows);
  if constexpr (Config::kFp16Sums) {
    return Fp16LocatedPoint::of<Config::kByParity>(pixel | bits, turned, fraction, first_row,
                                                   second_row);
  } else {
    return {(pixel * pixel_vecs + place.origin) | bits, fraction, first_row, second_row};
  }
}

// A warp's records: a row for each lane of a slot and each of the points that it prepares at a
// time, with those of all slots. Slots are numbered anew in some rows, so that lanes of one slot
// write to different banks.
template <class Config>
struct PointTable {
  static constexpr int kRecordBytes = sizeof(LocatedPointOf<Config>);
  static constexpr int kSlots = 32 / Config::kLanes;
  static constexpr int kRowBytes = kSlots * kRecordBytes;
  static constexpr int kRowsOfLine = std::max(kLineBytes / kRowBytes, 1);
  static constexpr int kRenumbering = kSlots * kRowsOfLine / Config::kLanes;
  static constexpr int kSlotStride = std::max(kRenumbering, 1);
  static_assert(Config::kRecords * kRowBytes <= cluster::kRecordBytes,
                "a warp's records fit what it has");

  // The place of a slot in the rows in which slots are not numbered anew.
  __device__ __forceinline__ static std::uint32_t place(std::uint32_t table, unsigned slot) {
    return table + slot * kRecordBytes;
  }
  // The record of a slot in a row of lane j. Rows lie at multiples of their size.
  __device__ __forceinline__ static std::uint32_t at(std::uint32_t place, int row, int j) {
    constexpr auto kSlotsOfRow = static_cast<unsigned>(kSlots);
    unsigned const by = static_cast<unsigned>(j / kRowsOfLine * kSlotStride) % kSlotsOfRow;
    return (place ^ by * kRecordBytes) + static_cast<std::uint32_t>(row * kRowBytes);
  }
};

// ---- the exact path: the same sums in the same order as on the fast path, but nothing is read
// that is not part of the result, and nothing from shared memory. Any alignment. A slot's lanes all
// locate every point.

// A row on the exact path.
template <class Config>
class ExactRow {
 public:
  __device__ ExactRow(Lane<Config> const& lane, Row const& row, const char* values)
      : lane_(lane), row_(row), values_(values) {}

  // Sums that are too large for float16 are formed in float32.
  __device__ void sum(RowSums<Config>& sums) const {
    add_points<Config::kFp16Sums>(sums);
    if (Config::kFp16Sums && !sums.is_finite()) add_points<false>(sums);
  }

 private:
  using Sums = RowSums<Config>;

  template <bool kFp16Sums>
  __device__ void add_points(Sums& sums) const {
    sums.clear();
    // Every lane's points are added in the order of the fast path: first those that each prepares
    // first.
#pragma unroll 1
    for (int i = 0; i < lane_.stretch; ++i) {
      typename Sums::Fp16Sums pairs = {};
#pragma unroll 1
      for (int j = 0; j < Config::kLanes; ++j) {
        int const k = lane_.first_point(i / Config::kGroup, j) + i % Config::kGroup;
        if (k < lane_.K) add_point<kFp16Sums>(sums, k, pairs);
        if (!kFp16Sums || j % 2 == 0) continue;
        sums.flush(pairs);
        Sums::clear(pairs);
      }
    }
  }

  template <bool kFp16Sums>
  __device__ void add_point(Sums& sums, int k, typename Sums::Fp16Sums& pairs) const {
    Params const& p = lane_.p;
    std::int64_t const at = std::int64_t{lane_.first_of(row_)} + static_cast<std::uint32_t>(k);
    float const x = load_narrow(p.coord_dtype, p.coord, 2 * at);
    float const y = load_narrow(p.coord_dtype, p.coord, 2 * at + 1);
    float const weight = load_narrow(p.weight_dtype, p.weight, at);
    int const l = lane_.level_of(k);
    float const width = static_cast<float>(p.near_levels[l].width) * kPixel;
    float const height = static_cast<float>(p.near_levels[l].height) * kPixel;
    float2 const pixel =
        to_pixels(static_cast<rows::Lane<Config> const&>(lane_), {}, width, height, x, y);
    // False where a coordinate is no number.
    bool const inside =
        pixel.x >= -kPixel && pixel.x < width && pixel.y >= -kPixel && pixel.y < height;
    if (inside) {
      if (kFp16Sums || !is_infinite(weight)) {
        return add_inside<kFp16Sums>(sums, l, pixel, weight, pairs);
      }
      Sums sample;
      sample.clear();
      add_inside<false>(sample, l, pixel, 1.0f, pairs);
      return sums.add_sample(weight, sample);
    }
    // A weight that is NaN makes the result NaN, whatever it weighs; a coordinate that is no number
    // makes the point nothing.
    float const check = zero_if_number(x) + zero_if_number(y);
    if (check == check) sums.add_outside(weight);
  }

  template <bool kFp16Sums>
  __device__ void add_inside(Sums& sums, int l, float2 const& at, float weight,
                             typename Sums::Fp16Sums& pairs) const {
    LevelParams const& level = lane_.p.near_levels[l];
    Between const bx = between(at.x, static_cast<float>(level.width) * kPixel);
    Between const by = between(at.y, static_cast<float>(level.height) * kPixel);
    std::int32_t const x = bx.base, y = by.base;
    bool const has_x[2] = {bx.from_base < 1.0f, bx.from_base >= 0.0f && x + 1 < level.width};
    bool const has_y[2] = {by.from_base < 1.0f, by.from_base >= 0.0f && y + 1 < level.height};
    std::int64_t const in_level = y * level.row_tokens + x;
    // As locate() and RowSums::add() have it, of a slot that reads even pixels first.
    bool const is_odd = ((lane_.is_cached(l) ? x : in_level) & 1) != 0;
    int const first_x = Config::kByParity && is_odd ? 1 : 0;
    int const first_y = lane_.is_split(l) && (y & 1) != 0 ? 1 : 0;
    bool const in_units = Config::kByParity && kFp16Sums;
    float const from_left = in_units ? in_fp16_units(bx.fraction) : bx.fraction;
    float const fraction = first_x != 0 ? 1.0f - from_left : from_left;
    float const total = weight * bx.inside * by.inside;
    float const lower = __fmul_rn(total, by.fraction);
    float const upper = __fsub_rn(total, lower);
    float const rows[2] = {first_y != 0 ? lower : upper, first_y != 0 ? upper : lower};
    Fp16Weights const weights =
        Sums::fp16_weights(__floats2half2_rn(rows[0], rows[1]), __float2half2_rn(fraction));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int const dx = i % 2 ^ first_x, dy = i / 2 ^ first_y;
      if (!(dx == 0 ? has_x[0] : has_x[1]) || !(dy == 0 ? has_y[0] : has_y[1])) continue;
      float const of_second = __fmul_rn(rows[i / 2], fraction);
      std::int64_t const token = level.origin + in_level + dy * level.row_tokens + dx;
      auto const value =
          load_vec<Config>(values_ + token * lane_.p.value_strides.row * Config::kElementBytes);
      if constexpr (kFp16Sums) {
        multiply_add_fp16<Config>(pairs[i % Sums::kColumnSums], weights.of(i), value);
      } else {
        sums.add(i % 2 != 0 ? of_second : __fsub_rn(rows[i / 2], of_second), value, 0);
      }
    }
  }

  Lane<Config> const& lane_;
  Row const& row_;
  const char* values_;
};

}  // namespace msda::cluster
