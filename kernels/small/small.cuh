// All gradients of a small problem in one launch, without atomic sums.
//
// A block has a tile, a rectangle of one level's pixels of one head. It scans all points of the
// level, a round of them at a time:
//
//   scan    points with a corner in the tile to records of 16 bytes, each where its number says;
//           cells are counted
//   weigh   of fused points first: a warp has some rows, of which a lane has eight logits, and puts
//           their weights where records will lie, while offsets and references are on their way
//   order   records by cell, then each cell's by their numbers: a thread takes a cell of few, a
//           warp one of many, by a bit a record
//   list    pixels by how many records they have, so that slots do not wait for others of the warp
//   add     the block has a crowded pixel, a warp one of many records, a slot of lanes any other:
//           the records of its four cells, each a row of grad_output times a weight, in float32
//           registers
//
// so that a pixel's sum has one order, whatever the tiles, and each pixel is stored once. Other
// blocks compute the gradients of points by the engine points/, beside them. Between rounds sums
// lie in global memory, unless a tile has few records of a level of two: then it has both at once.
//
// For 32 points that a tile scans a warp takes one LDG.64 and one LDG of 4 or 2 bytes a lane; a
// record costs a slot four times LDS.128, LDS.U16, and 16 bytes of grad_output a lane, 8
// conversions and 8 multiply-adds.
//
// CUDA files go on with MSDA_INSTANTIATE(type, revision, sm) for each row of variants.inc.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/common/ptx.cuh"
#include "kernels/points/gradients.cuh"
#include "kernels/small/small.h"

namespace msda::small {

// Products of a slot's row of grad_output with corners, each summed over the slot at once: four
// numbers stay. They are the same for rows of any type and address.
template <class Config>
class SlotProducts {
 public:
  using Row = typename Config::Row;
  __device__ __forceinline__ explicit SlotProducts(Row const& row) : grad_(row) {}
  __device__ __forceinline__ void multiply(int j, int corner, Row const& row) {
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < kChannelsOfLane; ++c) sum = fmaf(row[c], grad_[c], sum);
    sum = sum_of_lanes(sum, Config::kLanes);
    if (lane_of() % Config::kPoints == j) sums_[corner] = sum;
  }
  __device__ __forceinline__ void sum(float (&sums)[4]) const {
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) sums[corner] = sums_[corner];
  }

 private:
  Row grad_;
  float sums_[4];
};

// Code for other GPUs than those of 9.0 would spill 8 to 48 bytes if an SM had two blocks, and for
// newer ones 4 if a slot had two rows of float32 in flight.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900
inline constexpr std::int32_t kCodeBlocks = 1;
inline constexpr bool kHasRegisters = __CUDA_ARCH__ < 900;
#else
inline constexpr std::int32_t kCodeBlocks = kBlocks;
inline constexpr bool kHasRegisters = true;
#endif

// A row is kRowLanes lanes, four of them at least where its points get gradients. Those have the
// corners of one point in flight: a thread has 72 registers.
template <ValueType kValueType, Loads kLoads, int kRowLanes, Rounds kOfCode>
struct SmallConfig : PointConfig<kValueType, kLoads, kRowLanes> {
  using Base = PointConfig<kValueType, kLoads, kRowLanes>;
  static constexpr Rounds kRounds = kOfCode;
  static constexpr bool kHasTwoRounds =
      kOfCode == Rounds::two_sampled || kOfCode == Rounds::two_fused;
  static constexpr std::uint32_t kMaxRecords =
      kOfCode == Rounds::two_fused ? kMaxFusedRecords : kRoundPoints;
  __device__ __forceinline__ static bool is_fused(Params const& p) {
    return kHasTwoRounds ? kOfCode == Rounds::two_fused : p.reference_dim != 0;
  }
  static constexpr int kSlots = kThreads / kRowLanes;  // of a block
  static constexpr int kWarpSlots = kWarp / kRowLanes;
  static constexpr int kCells = max_cells(kRowLanes);  // of a tile, at most
  // The most records of a pixel that one warp adds up: a crowded pixel has more.
  static constexpr int kRecordsOfWarp = 2 * kRecordsOfSlot * kWarpSlots;
  static constexpr int kInFlight = 1;
  static constexpr bool kPowersFirst = true;
  static constexpr int kMovedInFlight = kRowLanes == kWarp ? 1 : kPointsInFlight;  // fused points
  // Rows of grad_output, of a slot that adds.
  static constexpr int kRecordsInFlight =
      Base::kVectors && (Base::Row::kNarrow || kHasRegisters) ? 2 : 1;
  static constexpr int kChannels = kChannelsOfLane;  // that store_vec() stores
  using Products = SlotProducts<Base>;
  using OfPoints = SmallConfig<kValueType, kLoads, point_lanes(kRowLanes), kOfCode>;
};

// ---- tiles

struct Tile {
  std::uint32_t b, m;
  std::int32_t level;
  std::int32_t x, y;  // of the first pixel
  std::int32_t width, height;
  std::uint32_t by_width;  // as quotient() takes it

  __device__ __forceinline__ Tile(Params const& p, SmallParams const& s, std::uint32_t block) {
    std::uint32_t const tile = block / static_cast<std::uint32_t>(s.heads);
    std::uint32_t const head = block - tile * static_cast<std::uint32_t>(s.heads);
    b = head / static_cast<std::uint32_t>(p.head_count);
    m = head % static_cast<std::uint32_t>(p.head_count);
    level = 0;
    while (level + 1 < p.level_count &&
           s.levels[level + 1].first_tile <= static_cast<std::int32_t>(tile)) {
      ++level;
    }
    TileLevel const tiles = s.levels[level];
    std::int32_t const of_level = static_cast<std::int32_t>(tile) - tiles.first_tile;
    std::int32_t const row = of_level / tiles.tiles_across;
    x = (of_level - row * tiles.tiles_across) * tiles.tile_width;
    y = row * tiles.tile_height;
    width = min(tiles.tile_width, p.near_levels[level].width - x);
    height = min(tiles.tile_height, p.near_levels[level].height - y);
    by_width = ~0u / static_cast<std::uint32_t>(width);
  }
  __device__ __forceinline__ int pixels() const { return width * height; }
  // The points of its head on its level.
  __device__ __forceinline__ std::uint32_t points(Params const& p) const {
    return static_cast<std::uint32_t>(p.query_count) *
           static_cast<std::uint32_t>(p.near_levels[level].point_count);
  }
  // The row of a pixel of the tile.
  __device__ __forceinline__ int row_of(int pixel) const {
    return static_cast<int>(
        quotient(static_cast<std::uint32_t>(pixel), static_cast<std::uint32_t>(width), by_width));
  }
  // A row's cells, and all of them.
  __device__ __forceinline__ int cells_across() const { return width + 1; }
  __device__ __forceinline__ int cells() const { return (width + 1) * (height + 1); }
};

inline constexpr std::uint32_t kNoCell = 0xffff;

// Counts and bounds of the second of two rounds are in the upper halves of words.
inline constexpr int kRoundBits = 16;
inline constexpr std::uint32_t kRoundMask = (1u << kRoundBits) - 1;

// The shared memory of a tile's block, as tile_bytes() has it.
struct Storage {
  // Counts of the cells' records; then where they begin; then where they end. One number stands
  // before: so cell c has those from bounds[c] to bounds[c + 1]. Of two rounds those of the second
  // have the upper half of a number.
  std::uint32_t* bounds;
  std::uint32_t* sums;          // [kWarp + 1] of warps
  std::uint32_t* record_count;  // of two rounds
  TileRecord* records;          // [round_points]
  std::uint16_t* order;         // records by cell
  std::uint32_t* bits;          // [kWarps][round_points / kWarp]
  std::uint16_t* cells;         // [round_points], before

  __device__ __forceinline__ Storage(char* shared, SmallParams const& s)
      : bounds(reinterpret_cast<std::uint32_t*>(shared)),
        sums(bounds + kBounds),
        record_count(sums + kWarp + 1),
        records(reinterpret_cast<TileRecord*>(shared + kBoundBytes)),
        order(reinterpret_cast<std::uint16_t*>(records + s.round_points)),
        bits(reinterpret_cast<std::uint32_t*>(order + s.round_points)),
        cells(reinterpret_cast<std::uint16_t*>(bits)) {}
  // The place where a cell begins in the order; of `round`, where there are two.
  template <int kRounds>
  __device__ __forceinline__ std::uint32_t bound(int cell, int round) const {
    return kRounds == 1 ? bounds[cell] : bounds[cell] >> kRoundBits * round & kRoundMask;
  }
  // Before: the weight of fused point i, in one of the four words of its record. They take turns,
  // so that neither lanes that store weights of neighbouring rows nor lanes that load those of
  // neighbouring points meet in a bank. Of two rounds a warp's weights lie behind the records.
  using Word [[gnu::may_alias]] = float;
  template <int kRounds>
  __device__ __forceinline__ Word& weight(std::uint32_t i) const {
    Word* const words = reinterpret_cast<Word*>(records);
    if constexpr (kRounds == 1) return words[4 * i + i / 8 % 4];
    return words[4 * kMaxFusedRecords + warp_of() * kWarpLogits + i % kWarpLogits];
  }
  // Stores the weights of point i, a multiple of 4, and the next three.
  template <int kRounds>
  __device__ __forceinline__ void put_weights(std::uint32_t i, const float* powers,
                                              float factor) const {
    Word* const first = &weight<kRounds>(i);
#pragma unroll
    for (int j = 0; j < 4; ++j) first[kRounds == 1 ? 4 * j : j] = powers[j] * factor;
  }
  // After: the counts of pixels of each kind, then where a kind begins, then where it ends; and the
  // list of pixels by kind.
  __device__ __forceinline__ std::uint32_t* kinds() const { return bits; }
  __device__ __forceinline__ std::uint16_t* pixels() const { return cells + kKindBytes / 2; }
  // Sums of a crowded pixel: [kWarps / 2][channels].
  template <class Config>
  __device__ __forceinline__ float* crowd_sums() const {
    return reinterpret_cast<float*>(pixels() + Config::kCells);
  }
};

// ---- scan

// A level's points of a tile's head, from the first of the round on.
class RoundPoints {
 public:
  __device__ __forceinline__ RoundPoints(Params const& p, SmallParams const& s, Tile const& tile,
                                         Storage const& shared, std::uint32_t first)
      : p_(p),
        s_(s),
        tile_(tile),
        shared_(shared),
        first_(first),
        level_points_(static_cast<std::uint32_t>(p.near_levels[tile.level].point_count)),
        by_points_(~0u / max(level_points_, 1u)),
        coord_(p.coord_strides.at(tile.b, 0, tile.m) + 2 * p.near_levels[tile.level].point_start),
        weight_(p.weight_strides.at(tile.b, 0, tile.m) + p.near_levels[tile.level].point_start) {}

  // Puts the weights of a warp's fused rows, the first of which is query `first`, where the records
  // of their points will lie. A row has `lanes` lanes, which have kLogits of it each.
  template <int kRounds>
  __device__ __forceinline__ void weigh(std::uint32_t first, int lanes, std::uint32_t count) const {
    auto const K = static_cast<std::int32_t>(p_.point_total);
    auto const queries = static_cast<std::uint32_t>(p_.query_count);
    std::uint32_t const q = first + static_cast<std::uint32_t>(lane_of() / lanes);
    std::int32_t const k = lane_of() % lanes * kLogits;
    std::int64_t const at = p_.weight_strides.at(tile_.b, min(q, queries - 1), tile_.m) + k;
    float powers[kLogits];
    float sum = find_powers(at, K - k, lanes, 0.0f, powers);
    if (__any_sync(kAllLanes, sum_may_need_shift(sum, static_cast<float>(K)))) {
      float largest = -INFINITY;
      for (std::int32_t i = 0; i < min(kLogits, K - k); ++i) {
        largest = fmaxf(largest, load_narrow(p_.weight_dtype, p_.weight, at + i));
      }
      largest = largest_of_lanes(largest, lanes);
      sum = find_powers(at, K - k, lanes, shift_by_largest(largest), powers);
    }
    std::uint32_t const of_level = static_cast<std::uint32_t>(
        k - static_cast<std::int32_t>(p_.near_levels[tile_.level].point_start));
    store_weights<kRounds>(q, of_level, count, powers, reciprocal(sum));
  }
  // Finds the powers of a lane's logits from element `at` on, of which the row has `left`, less a
  // shift; returns the sum of the row's.
  __device__ __forceinline__ float find_powers(std::int64_t at, std::int32_t left, int lanes,
                                               float shift, float (&powers)[kLogits]) const {
#pragma unroll
    for (int i = 0; i < kLogits; i += 4) {
      load_four(p_.weight_dtype, p_.weight, at + i, left - i, s_.logit_fours, powers + i);
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kLogits; ++i) {
      powers[i] = power_of_e(powers[i] - shift);
      sum += powers[i];
    }
    return sum_of_lanes(sum, lanes);
  }
  // Does that to rows of more logits than a warp has at once: a warp takes a row.
  __device__ __forceinline__ void weigh_long_rows(std::uint32_t count) const {
    auto const K = static_cast<std::int32_t>(p_.point_total);
    std::uint32_t const last = query_of(count - 1);
#pragma unroll 1
    for (std::uint32_t q = query_of(0) + warp_of(); q <= last; q += kWarps) {
      std::int64_t const logits = p_.weight_strides.at(tile_.b, q, tile_.m);
      float largest = -INFINITY;
      for (std::int32_t k = lane_of(); k < K; k += kWarp) {
        largest = fmaxf(largest, load_narrow(p_.weight_dtype, p_.weight, logits + k));
      }
      largest = largest_of_lanes(largest, kWarp);
      float const shift = shift_by_largest(largest);
      float sum = 0.0f;
      for (std::int32_t k = lane_of(); k < K; k += kWarp) {
        sum += power_of_e(load_narrow(p_.weight_dtype, p_.weight, logits + k) - shift);
      }
      float const factor = reciprocal(sum_of_lanes(sum, kWarp));
      std::uint32_t const first = q * level_points_ - first_;
      for (std::uint32_t k = lane_of(); k < level_points_; k += kWarp) {
        if (first + k >= count) continue;
        shared_.weight<1>(first + k) = power_of_e(weight(q, k) - shift) * factor;
      }
    }
  }
  // Scans `count` points, of one round or of two. All threads of the block.
  template <class Config, int kRounds>
  __device__ __forceinline__ void scan(std::uint32_t count) const {
    if (Config::is_fused(p_)) return scan_fused<Config, kRounds>(count);
    if (p_.coord_dtype == MSDA_DTYPE_F32 && s_.points.coord_pairs) {
      return scan_pairs<Config, kRounds>(count);
    }
    for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) {
      std::uint32_t const q = query_of(i);
      std::uint32_t const k = point_of(i, q);
      keep<Config, kRounds>(i, q, to_pixels(coord(q, k)), weight(q, k));
    }
  }

 private:
  // Pairs of float32, of which a thread has several in flight.
  template <class Config, int kRounds>
  __device__ __forceinline__ void scan_pairs(std::uint32_t count) const {
    for (std::uint32_t base = threadIdx.x; base < count; base += kPointsInFlight * kThreads) {
      float2 at[kPointsInFlight];
      float weights[kPointsInFlight];
#pragma unroll
      for (int j = 0; j < kPointsInFlight; ++j) {
        std::uint32_t const i = base + j * kThreads;
        if (i >= count) continue;
        std::uint32_t const q = query_of(i);
        std::uint32_t const k = point_of(i, q);
        at[j] = plain_coord(q, k);
        weights[j] = weight(q, k);
      }
#pragma unroll
      for (int j = 0; j < kPointsInFlight; ++j) {
        std::uint32_t const i = base + j * kThreads;
        if (i < count) keep<Config, kRounds>(i, query_of(i), to_pixels(at[j]), weights[j]);
      }
    }
  }
  template <class Config, int kRounds>
  __device__ __forceinline__ void scan_fused(std::uint32_t count) const {
    if (!s_.plain_fused) return scan_rows<MovedPoints<Config, 0, kRounds>>(count);
    if (p_.reference_dim == 2) return scan_rows<MovedPoints<Config, 2, kRounds>>(count);
    scan_rows<MovedPoints<Config, 4, kRounds>>(count);
  }
  // A warp takes some rows at a time, and loads offsets and references while it weighs them.
  template <class Moved>
  __device__ __forceinline__ void scan_rows(std::uint32_t count) const {
    constexpr int kRounds = Moved::kRounds;
    auto const K = static_cast<std::int32_t>(p_.point_total);
    bool const is_long = kRounds == 1 && !Moved::kIsEarly && K > kWarpLogits;
    int const lanes = is_long ? kWarp : lanes_of_logits((K + kLogits - 1) / kLogits);
    std::uint32_t const rows = static_cast<std::uint32_t>(kWarp / lanes);
    if (is_long) weigh_long_rows(count);
    std::uint32_t const last = query_of(count - 1);
#pragma unroll 1
    for (std::uint32_t q = query_of(0) + warp_of() * rows; q <= last; q += kWarps * rows) {
      // The round may begin and end within a row.
      std::uint32_t const row_point = q * level_points_;
      std::uint32_t const begin = max(row_point, first_) - first_;
      std::uint32_t const end = min(row_point + rows * level_points_ - first_, count);
      std::uint32_t i = begin + lane_of();
      Moved points;
      if constexpr (Moved::kIsEarly) points.load(*this, i, end);
      if (!is_long) weigh<kRounds>(q, lanes, count);
      __syncwarp();
      if constexpr (Moved::kIsEarly) {
        points.keep(*this, i, end);
        i += Moved::kStride;
      }
      for (; i < end; i += Moved::kStride) {
        points.load(*this, i, end);
        points.keep(*this, i, end);
      }
      if constexpr (kRounds == 2) __syncwarp();  // the next rows' weights take the same places
    }
  }
  // The fused points of a lane, kWarp apart, that it has in flight. kDim: numbers of a reference,
  // where these and offsets are of float32, at multiples of their bytes; else 0. kIsEarly:
  // registers hold them while rows are weighed; rows are then of few enough logits for that. Code
  // for two rounds at once has registers for one point, where it takes a single round.
  template <class Config, int kDim, int kOfPoints>
  struct MovedPoints {
    static constexpr int kRounds = kOfPoints;
    static constexpr bool kIsEarly = kDim == 2 || (kDim == 4 && Config::kRounds == Rounds::one);
    static constexpr bool kHasFew = !kIsEarly || (Config::kHasTwoRounds && kRounds == 1);
    static constexpr int kInFlight = kHasFew ? 1 : Config::kMovedInFlight;
    static constexpr std::uint32_t kStride = kInFlight * kWarp;
    float2 at[kInFlight];
    float4 references[kInFlight];

    __device__ __forceinline__ void load(RoundPoints const& from, std::uint32_t first,
                                         std::uint32_t end) {
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        std::uint32_t const i = first + j * kWarp;
        if (i >= end) continue;
        std::uint32_t const q = from.query_of(i);
        std::uint32_t const k = from.point_of(i, q);
        at[j] = kDim != 0 ? from.plain_coord(q, k) : from.coord(q, k);
        references[j] = from.reference<kDim>(q);
      }
    }
    __device__ __forceinline__ void keep(RoundPoints const& from, std::uint32_t first,
                                         std::uint32_t end) const {
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        std::uint32_t const i = first + j * kWarp;
        if (i >= end) continue;
        bool const is_box = kDim != 0 ? kDim == 4 : from.p_.reference_dim == 4;
        from.template keep<Config, kRounds>(i, from.query_of(i),
                                            from.move(at[j], references[j], is_box),
                                            from.shared_.template weight<kRounds>(i));
      }
    }
  };
  // Moves a point by its offset from its reference.
  __device__ __forceinline__ float2 move(float2 const& offset, float4 const& reference,
                                         bool is_box) const {
    LevelParams const level = p_.near_levels[tile_.level];
    return fused_to_pixels(offset, reference, static_cast<float>(level.width),
                           static_cast<float>(level.height),
                           is_box ? 0.5f / static_cast<float>(level_points_) : 0.0f, is_box);
  }
  // Stores those of kLogits weights of query `q`, from number `of_level` of the level's points on,
  // that are points of the level and of the round.
  template <int kRounds>
  __device__ __forceinline__ void store_weights(std::uint32_t q, std::uint32_t of_level,
                                                std::uint32_t count, float const (&powers)[kLogits],
                                                float factor) const {
    std::uint32_t const at = q * level_points_ - first_ + of_level;
    if (has_fours()) {
#pragma unroll
      for (int i = 0; i < kLogits; i += 4) {
        if (of_level + i >= level_points_ || at + i >= count) continue;
        shared_.put_weights<kRounds>(at + i, powers + i, factor);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kLogits; ++i) {
      if (of_level + i < level_points_ && at + i < count) {
        shared_.weight<kRounds>(at + i) = powers[i] * factor;
      }
    }
  }
  // Whether four neighbouring logits are of points of the level, or none of them is.
  __device__ __forceinline__ bool has_fours() const {
    return (p_.near_levels[tile_.level].point_start % 4 | level_points_ % 4) == 0;
  }
  // The query of point `i` of the round, and which of its points on the level that is.
  __device__ __forceinline__ std::uint32_t query_of(std::uint32_t i) const {
    return quotient(first_ + i, level_points_, by_points_);
  }
  __device__ __forceinline__ std::uint32_t point_of(std::uint32_t i, std::uint32_t q) const {
    return first_ + i - q * level_points_;
  }
  // A plain reference of kDim numbers, or any: 0.
  template <int kDim>
  __device__ __forceinline__ float4 reference(std::uint32_t q) const {
    std::int64_t const index =
        ((std::int64_t{tile_.b} * p_.query_count + q) * p_.level_count + tile_.level) *
        p_.reference_dim;
    if constexpr (kDim == 0) return load_reference(p_, index);
    const float* const at = static_cast<const float*>(p_.reference) + index;
    if constexpr (kDim == 4) return __ldg(reinterpret_cast<const float4*>(at));
    float2 const point = __ldg(reinterpret_cast<const float2*>(at));
    return {point.x, point.y, 0.0f, 0.0f};
  }
  __device__ __forceinline__ std::int64_t coord_index(std::uint32_t q, std::uint32_t k) const {
    return coord_ + q * p_.coord_strides.row + 2 * std::int64_t{k};
  }
  // A pair of float32 at a multiple of its bytes.
  __device__ __forceinline__ float2 plain_coord(std::uint32_t q, std::uint32_t k) const {
    return __ldg(
        reinterpret_cast<const float2*>(static_cast<const float*>(p_.coord) + coord_index(q, k)));
  }
  __device__ __forceinline__ float2 coord(std::uint32_t q, std::uint32_t k) const {
    return load_pair(p_.coord_dtype, p_.coord, coord_index(q, k), s_.points.coord_pairs);
  }
  // Or the logit.
  __device__ __forceinline__ float weight(std::uint32_t q, std::uint32_t k) const {
    return load_narrow(p_.weight_dtype, p_.weight, weight_ + q * p_.weight_strides.row + k);
  }
  __device__ __forceinline__ float2 to_pixels(float2 const& at) const {
    LevelParams const level = p_.near_levels[tile_.level];
    return {to_pixel(at.x, static_cast<float>(level.width)),
            to_pixel(at.y, static_cast<float>(level.height))};
  }
  // Stores and counts the point if it has a corner in the tile. NaN has none. Of two rounds only
  // such points have a place, in any order, as long as there are places.
  template <class Config, int kRounds>
  __device__ __forceinline__ void keep(std::uint32_t i, std::uint32_t q, float2 const& point,
                                       float weight) const {
    float const left = floorf(point.x);
    float const top = floorf(point.y);
    bool const has_corner = left >= static_cast<float>(tile_.x - 1) &&
                            left < static_cast<float>(tile_.x + tile_.width) &&
                            top >= static_cast<float>(tile_.y - 1) &&
                            top < static_cast<float>(tile_.y + tile_.height);
    std::uint32_t cell = kNoCell;
    if (has_corner) {
      cell = static_cast<std::uint32_t>((static_cast<std::int32_t>(top) - tile_.y + 1) *
                                            tile_.cells_across() +
                                        static_cast<std::int32_t>(left) - tile_.x + 1);
      std::uint32_t at = i;
      if constexpr (kRounds == 2) {
        at = atomicAdd(shared_.record_count, 1u);
        if (at >= Config::kMaxRecords) return;
        shared_.cells[at] = static_cast<std::uint16_t>(cell);
      }
      shared_.records[at] = {kRounds == 1 ? q : i << kRoundBits | q, point.x - left, point.y - top,
                             weight};
      atomicAdd(&shared_.bounds[cell + 1], kRounds == 1 ? 1u : 1u << i / kRoundPoints * kRoundBits);
    }
    if constexpr (kRounds == 1) shared_.cells[i] = static_cast<std::uint16_t>(cell);
  }

  Params const& p_;
  SmallParams const& s_;
  Tile const& tile_;
  Storage const& shared_;
  std::uint32_t first_;
  std::uint32_t level_points_;
  std::uint32_t by_points_;  // as quotient() takes it
  std::int64_t coord_;       // of query 0, the level's first
  std::int64_t weight_;
};

// ---- order

// Turns the counts of cells into where the records of each begin; those of the second of two rounds
// lie behind all of the first.
template <int kRounds>
__device__ __forceinline__ void find_bounds(Storage const& shared) {
  std::uint32_t* const mine = shared.bounds + 1 + threadIdx.x * kCellsOfThread;
  std::uint32_t counts[kCellsOfThread];
  std::uint32_t all = 0;
#pragma unroll
  for (int i = 0; i < kCellsOfThread; ++i) {
    counts[i] = mine[i];
    all += counts[i];
  }
  std::uint32_t begin = sum_before(all, shared.sums);
  if constexpr (kRounds == 2) {
    std::uint32_t const second = shared.sums[kWarp] << kRoundBits;
    if (threadIdx.x == 0) shared.bounds[0] = second;
    begin += second;
  }
#pragma unroll
  for (int i = 0; i < kCellsOfThread; ++i) {
    mine[i] = begin;
    begin += counts[i];
  }
}

// Orders the records of each cell, of which a warp has 32 at a time, by their numbers. Neighbours
// are of different warps, so that these share cells of many records: of two rounds there is none,
// for its pixels have too many.
template <int kRounds>
__device__ __forceinline__ void order_cells(Storage const& shared, int words, int cells) {
  auto const number = [&](std::uint16_t record) {
    return kRounds == 1 ? record : shared.records[record].query;
  };
  for (int base = 0; base < cells * kRounds; base += kThreads) {
    int const index = base + lane_of() * kWarps + warp_of();
    int const cell = index / kRounds, round = index % kRounds;
    std::uint32_t const begin = cell < cells ? shared.bound<kRounds>(cell, round) : 0;
    std::uint32_t const end = cell < cells ? shared.bound<kRounds>(cell + 1, round) : 0;
    bool const has_many = end - begin > kFewRecords;
    if (!has_many) {
      for (std::uint32_t i = begin + 1; i < end; ++i) {
        std::uint16_t const record = shared.order[i];
        std::uint32_t at = i;
        for (; at > begin && number(shared.order[at - 1]) > number(record); --at) {
          shared.order[at] = shared.order[at - 1];
        }
        shared.order[at] = record;
      }
    }
    if constexpr (kRounds == 2) continue;
    std::uint32_t many = __ballot_sync(kAllLanes, has_many);
    for (; many != 0; many &= many - 1) {
      int const lane = __ffs(static_cast<int>(many)) - 1;
      std::uint16_t* const first = shared.order + __shfl_sync(kAllLanes, begin, lane);
      order_by_bits(first, __shfl_sync(kAllLanes, end - begin, lane),
                    shared.bits + warp_of() * words, words);
    }
  }
}

// Finds the records that the tile has of a round or two, in order; false: two have too many. All
// threads of the block.
template <class Config, int kRounds>
__device__ __forceinline__ bool find_records(Params const& p, SmallParams const& s,
                                             Tile const& tile, Storage const& shared,
                                             std::uint32_t first, std::uint32_t count) {
  for (int i = static_cast<int>(threadIdx.x); i <= kMaxCells; i += kThreads) shared.bounds[i] = 0;
  if (kRounds == 2 && threadIdx.x == 0) *shared.record_count = 0;
  RoundPoints const points(p, s, tile, shared, first);
  __syncthreads();
  if (count > 0) points.template scan<Config, kRounds>(count);
  __syncthreads();
  if constexpr (kRounds == 2) {
    count = *shared.record_count;
    if (count > Config::kMaxRecords) return false;
  }
  find_bounds<kRounds>(shared);
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) {
    std::uint32_t const cell = shared.cells[i];
    if (kRounds == 1 && cell == kNoCell) continue;
    int const round = kRounds == 1 ? 0 : (shared.records[i].query >> kRoundBits) / kRoundPoints;
    std::uint32_t const at = atomicAdd(&shared.bounds[cell + 1], 1u << kRoundBits * round);
    shared.order[at >> kRoundBits * round & kRoundMask] = static_cast<std::uint16_t>(i);
  }
  __syncthreads();
  order_cells<kRounds>(shared, s.round_points / kWarp, tile.cells());
  __syncthreads();
  return true;
}

// ---- add

// The records of a pixel: those of the cells above, of which it is a lower corner, then those
// below. Of both the left cell's come first, of which it is a right corner.
template <int kRounds>
struct PixelRecords {
  std::uint32_t begin[2], middle[2], end[2];

  __device__ __forceinline__ PixelRecords(Tile const& tile, Storage const& shared, int pixel,
                                          int round = 0) {
    int cell = tile.row_of(pixel) + pixel;  // a row has a cell more
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      begin[i] = shared.bound<kRounds>(cell, round);
      middle[i] = shared.bound<kRounds>(cell + 1, round);
      end[i] = shared.bound<kRounds>(cell + 2, round);
      cell += tile.cells_across();
    }
  }
  __device__ __forceinline__ std::uint32_t above() const { return end[0] - begin[0]; }
  __device__ __forceinline__ std::uint32_t count() const { return above() + end[1] - begin[1]; }
};

// Lists the pixels of a tile by their kind, in any order: a counting sort. The slots of a warp then
// have pixels of as many records each; of two rounds, on average. All threads of the block.
template <class Config, int kRounds>
__device__ __forceinline__ void list_pixels(Tile const& tile, Storage const& shared) {
  std::uint32_t* const kinds = shared.kinds();
  if (threadIdx.x < kKinds) kinds[threadIdx.x] = 0;
  __syncthreads();
  std::uint64_t mine = 0;  // kinds of the thread's pixels, 8 bits each
  int shift = 0;
#pragma unroll 1
  for (int pixel = static_cast<int>(threadIdx.x); pixel < tile.pixels(); pixel += kThreads) {
    std::uint32_t all = 0, most = 0;
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      std::uint32_t const count = PixelRecords<kRounds>(tile, shared, pixel, round).count();
      all += count;
      most = max(most, count);
    }
    std::uint32_t const kind = most <= kRecordsOfSlot ? kKinds - 1 - (all + kRounds - 1) / kRounds
                               : most <= Config::kRecordsOfWarp ? 1
                                                                : 0;
    mine |= std::uint64_t{kind} << shift;
    shift += 8;
    atomicAdd(&kinds[kind], 1u);
  }
  __syncthreads();
  if (warp_of() == 0) {
    std::uint32_t const count = lane_of() < kKinds ? kinds[lane_of()] : 0;
    std::uint32_t const until = running_sum(count);
    if (lane_of() < kKinds) kinds[lane_of()] = until - count;
  }
  __syncthreads();
#pragma unroll 1
  for (int pixel = static_cast<int>(threadIdx.x); pixel - lane_of() < tile.pixels();
       pixel += kThreads) {
    bool const is_there = pixel < tile.pixels();
    std::uint32_t const kind = is_there ? static_cast<std::uint32_t>(mine & 0xff) : kWarp;
    mine >>= 8;
    unsigned const same = __match_any_sync(kAllLanes, kind);
    int const leader = __ffs(static_cast<int>(same)) - 1;
    std::uint32_t first = 0;
    if (is_there && lane_of() == leader) first = atomicAdd(&kinds[kind], __popc(same));
    first = __shfl_sync(kAllLanes, first, leader);
    std::uint32_t const before = __popc(same & lanes_before());
    if (is_there) shared.pixels()[first + before] = static_cast<std::uint16_t>(pixel);
  }
  __syncthreads();
}

// The lane's channels of the rows of grad_output of one head.
template <class Config>
class GradRows {
 public:
  using Row = typename Config::Row;
  bool has_channels;

  __device__ __forceinline__ GradRows(Params const& p, Tile const& tile, int d)
      : has_channels(d < p.head_dim),
        p_(p),
        first_(p.output_strides.at(tile.b, 0, tile.m) + d),
        at_(static_cast<const char*>(p.grad_output) + first_ * Config::kElementBytes) {}
  __device__ __forceinline__ Row operator[](std::uint32_t query) const {
    if constexpr (Config::kVectors) {
      return Row::load_at(ptx::row_at(
          at_, query, static_cast<std::uint32_t>(p_.output_strides.row) * Config::kElementBytes));
    }
    return Row::load(p_.output_dtype, p_.grad_output, first_ + query * p_.output_strides.row);
  }

 private:
  Params const& p_;
  std::int64_t first_;  // element
  const char* at_;
};

// g++ does not see that both loops over j leave out the same records.
#ifdef MSDA_SIMULATED
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// Adds every `stride`-th record of a pixel from number `first` on.
template <class Config, int kRounds>
__device__ __forceinline__ void add_records(Storage const& shared, GradRows<Config> const& rows,
                                            PixelRecords<kRounds> const& records, int first,
                                            int stride, float (&sums)[kChannelsOfLane]) {
  constexpr int kInFlight = Config::kRecordsInFlight;
  std::uint32_t const above = records.above(), count = records.count();
  for (std::uint32_t base = first; base < count; base += kInFlight * stride) {
    typename Config::Row row[kInFlight];
    float weights[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      std::uint32_t const i = base + j * stride;
      if (i >= count) continue;
      bool const is_below = i >= above;
      std::uint32_t const at = i + (is_below ? records.begin[1] - above : records.begin[0]);
      TileRecord const record = shared.records[shared.order[at]];
      weights[j] =
          record.weight * (is_below ? 1.0f - record.fy : record.fy) *
          (at < (is_below ? records.middle[1] : records.middle[0]) ? record.fx : 1.0f - record.fx);
      row[j] = rows[kRounds == 1 ? record.query : record.query & kRoundMask];
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (base + j * stride >= count) continue;
#pragma unroll
      for (int c = 0; c < kChannelsOfLane; ++c) sums[c] = fmaf(weights[j], row[j][c], sums[c]);
    }
  }
}

// Adds every `stride`-th record of a pixel from number `first` on, and what the warp's slots have.
// All lanes of the warp, which then have the sum.
template <class Config>
__device__ __forceinline__ void add_in_warp(Storage const& shared, GradRows<Config> const& rows,
                                            PixelRecords<1> const& records, int first, int stride,
                                            float (&sums)[kChannelsOfLane]) {
  if (rows.has_channels) add_records(shared, rows, records, first, stride, sums);
#pragma unroll
  for (int c = 0; c < kChannelsOfLane; ++c) {
#pragma unroll
    for (int distance = Config::kLanes; distance < kWarp; distance *= 2) {
      sums[c] += __shfl_xor_sync(kAllLanes, sums[c], distance);
    }
  }
}

// Adds up the records of a crowded pixel; the first warp has the sum. All threads of the block.
template <class Config>
__device__ __forceinline__ void add_crowd(Storage const& shared, GradRows<Config> const& rows,
                                          PixelRecords<1> const& records,
                                          float (&sums)[kChannelsOfLane]) {
  constexpr int kHalf = kWarps / 2, kChannels = Config::kLanes * kChannelsOfLane;
  int const slot = static_cast<int>(threadIdx.x) / Config::kLanes;
  add_in_warp(shared, rows, records, slot, Config::kSlots, sums);
  int const channel = lane_of() % Config::kLanes * kChannelsOfLane;
  auto warp = static_cast<std::uint32_t>(warp_of());
  if constexpr (Config::kHasTwoRounds) ptx::pin(warp);  // it takes no register before
  float* const other = shared.crowd_sums<Config>() + warp % kHalf * kChannels + channel;
  bool const is_first_slot = lane_of() < Config::kLanes;
#pragma unroll 1
  for (int half = 1; half >= 0; --half) {
    if (is_first_slot && warp_of() / kHalf == half) {
#pragma unroll
      for (int c = 0; c < kChannelsOfLane; ++c) other[c] = sums[c] + (half == 0 ? other[c] : 0.0f);
    }
    __syncthreads();
  }
#pragma unroll
  for (int c = 0; c < kChannelsOfLane; ++c) sums[c] = shared.crowd_sums<Config>()[channel + c];
#pragma unroll 1
  for (int warp = 1; warp < kHalf; ++warp) {
#pragma unroll
    for (int c = 0; c < kChannelsOfLane; ++c) {
      sums[c] += shared.crowd_sums<Config>()[warp * kChannels + channel + c];
    }
  }
  __syncthreads();  // the next pixel takes the same memory
}

// Adds what the rounds before have summed up of the channels from element `at` on.
__device__ __forceinline__ void add_sums(SmallParams const& s, std::int64_t at,
                                         float (&sums)[kChannelsOfLane]) {
#pragma unroll
  for (int c = 0; c < kChannelsOfLane; c += 4) {
    const float* const from = s.sums + at + c;
    float4 const before = s.aligned_sums ? *reinterpret_cast<const float4*>(from)
                                         : make_float4(from[0], from[1], from[2], from[3]);
    sums[c] += before.x;
    sums[c + 1] += before.y;
    sums[c + 2] += before.z;
    sums[c + 3] += before.w;
  }
}

// Adds the records of each of two rounds, as if sums had been in memory between them.
template <class Config>
__device__ __forceinline__ void add_two_rounds(Storage const& shared, GradRows<Config> const& rows,
                                               Tile const& tile, int pixel,
                                               float (&sums)[kChannelsOfLane]) {
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    float of_round[kChannelsOfLane] = {};
    add_records(shared, rows, PixelRecords<2>(tile, shared, pixel, round), 0, 1, of_round);
#pragma unroll
    for (int c = 0; c < kChannelsOfLane; ++c) sums[c] += of_round[c];
  }
}

// Adds the records of a round or two to the pixels of the tile; false: a pixel has too many of two.
// Between the rounds of a level the sums of a pixel lie in global memory. All threads of the block.
template <class Config, int kRounds>
__device__ __forceinline__ bool sum_pixels(Params const& p, SmallParams const& s, Tile const& tile,
                                           Storage const& shared, bool is_first, bool is_last) {
  int const d = lane_of() % Config::kLanes * kChannelsOfLane;
  GradRows<Config> const rows(p, tile, d);
  auto const row_tokens = static_cast<std::int32_t>(p.near_levels[tile.level].row_tokens);
  std::int64_t const token = std::int64_t{tile.b} * p.token_count +
                             p.near_levels[tile.level].origin + tile.y * row_tokens + tile.x;
  std::int64_t const element = (token * p.head_count + tile.m) * p.head_dim + d;
  auto const keep = [&](int pixel, float (&sums)[kChannelsOfLane]) {
    int const y = tile.row_of(pixel);
    std::int64_t const at = element + std::int64_t{y * row_tokens + pixel - y * tile.width} *
                                          (p.head_count * p.head_dim);
    if (!is_first) add_sums(s, at, sums);
    if (is_last) {
      store_vec<Config>(p.grad_value_dtype, p.grad_value, at, sums, s.aligned_result);
    } else {
      store_vec<Config>(MSDA_DTYPE_F32, s.sums, at, sums, s.aligned_sums);
    }
  };
  list_pixels<Config, kRounds>(tile, shared);
  // Each begins where the one before ends. They are loaded where they are needed, which takes no
  // registers in between.
  std::uint32_t const volatile* const kinds = shared.kinds();
  auto const crowded = static_cast<int>(kinds[0]);
  auto const of_warps = static_cast<int>(kinds[1]);
  auto const of_slots = static_cast<int>(kinds[kKinds - 2]);
  std::uint16_t const* const list = shared.pixels();
  if (kRounds == 2 && of_warps != 0) return false;
  if constexpr (kRounds == 1) {
#pragma unroll 1
    for (int i = crowded + warp_of(); i < of_warps; i += kWarps) {
      int const pixel = list[i];
      float sums[kChannelsOfLane] = {};
      add_in_warp(shared, rows, PixelRecords<1>(tile, shared, pixel), lane_of() / Config::kLanes,
                  Config::kWarpSlots, sums);
      if (lane_of() < Config::kLanes && rows.has_channels) keep(pixel, sums);
    }
  }
  int const slot = static_cast<int>(threadIdx.x) / Config::kLanes;
  int const pixels = rows.has_channels ? tile.pixels() : 0;
#pragma unroll 1
  for (int i = of_warps + slot; i < pixels; i += Config::kSlots) {
    int const pixel = list[i];
    float sums[kChannelsOfLane] = {};
    if (i < of_slots) {
      if constexpr (kRounds == 1) {
        add_records(shared, rows, PixelRecords<1>(tile, shared, pixel), 0, 1, sums);
      } else {
        add_two_rounds(shared, rows, tile, pixel, sums);
      }
    }
    keep(pixel, sums);
  }
  if constexpr (kRounds == 1) {
#pragma unroll 1
    for (int i = 0, end = static_cast<int>(kinds[0]); i < end; ++i) {
      int const pixel = list[i];
      float sums[kChannelsOfLane] = {};
      add_crowd(shared, rows, PixelRecords<1>(tile, shared, pixel), sums);
      if (static_cast<int>(threadIdx.x) < Config::kLanes && rows.has_channels) keep(pixel, sums);
    }
  }
  return true;
}

// Sums up a tile of two rounds at once; false: it has too many records, or not two rounds.
template <class Config>
__device__ __forceinline__ bool sum_two_rounds(Params const& p, SmallParams const& s,
                                               Storage const& storage) {
  Tile const tile(p, s, blockIdx.x);
  return s.levels[tile.level].rounds == 2 &&
         find_records<Config, 2>(p, s, tile, storage, 0, tile.points(p)) &&
         sum_pixels<Config, 2>(p, s, tile, storage, true, true);
}

template <class Config>
__device__ __forceinline__ void sum_tile(Params const& p, SmallParams const& s, char* shared) {
  Storage storage(shared, s);
  if constexpr (Config::kHasTwoRounds) {
    if (sum_two_rounds<Config>(p, s, storage)) return;
    __syncthreads();  // each round takes the shared memory
  }
  std::uint32_t first = 0;
  bool is_last;
  do {
    std::uint32_t block = blockIdx.x;
    ptx::pin(block);  // the tile takes no registers from one round to the next
    Tile const tile(p, s, block);
    if constexpr (Config::kHasTwoRounds) {
      std::uint32_t offset = 0;
      ptx::pin(offset);  // nor do addresses
      storage = Storage(shared + offset, s);
    }
    std::uint32_t const points = tile.points(p);
    auto const most = static_cast<std::uint32_t>(s.round_points);
    is_last = Config::kRounds == Rounds::one || points - first <= most;
    find_records<Config, 1>(p, s, tile, storage, first, min(points - first, most));
    sum_pixels<Config, 1>(p, s, tile, storage, first == 0, is_last);
    first += most;
    if (!is_last) __syncthreads();  // the next round takes the shared memory
  } while (!is_last);
}

// ---- points

// The number of a slot's part of its row.
template <class Config>
__device__ __forceinline__ int part_of_slot(SmallParams const& s) {
  return lane_of() / Config::kLanes & ((1 << s.part_bits) - 1);
}

// A lane stages its points of a fused row, the first of which is `point` of all. Each slot of a row
// has all powers; a gradient lies where the first one would have it.
template <class Config>
__device__ __forceinline__ PointsInMemory staged_points(Params const& p, SmallParams const& s,
                                                        char* shared, std::int64_t point,
                                                        bool is_there) {
  static_assert(Config::kPoints == kPointsAtOnce, "what stages_in_shared() reckons with");
  auto const points = static_cast<std::int32_t>(p.point_total);
  std::int32_t const groups =  // in which the lane has a point
      (points - Config::own_point() + Config::kPoints - 1) / Config::kPoints;
  if (s.staged_in_shared) {
    std::int32_t const all_groups = (points + Config::kPoints - 1) / Config::kPoints;
    float* const at = reinterpret_cast<float*>(shared) + threadIdx.x;
    return {at, at + all_groups * kThreads - part_of_slot<Config>(s) * Config::kLanes, kThreads,
            groups};
  }
  float* const at = s.points.staged + point;
  return {at, at + s.points.queries * p.head_count * points, Config::kPoints,
          is_there ? groups : 0};
}

// The gradients of the points of one part of a row a slot.
template <class Config>
__device__ __forceinline__ void row_gradients(Params const& p, SmallParams const& s, char* shared,
                                              std::int64_t block) {
  int const slot = static_cast<int>(threadIdx.x) / Config::kLanes;
  if (slot >= s.point_slots) return;  // whole warps
  RowIndex const row(p, s.points, (block * s.point_slots + slot) >> s.part_bits);
  PointLoads<Input::any> const loads(p, s.points, row);
  bool const is_fused = Config::is_fused(p);
  int const d = lane_of() % Config::kLanes * kChannelsOfLane;
  ValueRows<Config> const values(p,
                                 row.b * p.value_strides.batch + row.m * p.value_strides.head + d,
                                 d < p.head_dim && p.token_count > 0);
  typename Config::Products products(load_grad<Config>(p, row, d));
  int const own = Config::own_point();
  using Element = std::conditional_t<Config::kVectors, std::uint32_t, std::int64_t>;
  auto const first = static_cast<Element>(row.index(p) * p.point_total + own);
  GradientRow<Element> const to(p, row.b, row.q, row.m, own);
  auto const points = static_cast<std::int32_t>(p.point_total);
  bool const stores = row.is_there && lane_of() % Config::kLanes < Config::kPoints;
  RowSoftmax<Config, PointsInMemory> softmax(
      is_fused ? staged_points<Config>(p, s, shared, first, stores) : PointsInMemory{});
  if (is_fused) {
    softmax.start(points, [&](int group) {
      std::int32_t const k = group * Config::kPoints + own;
      return k < points ? loads.logit(k) : -INFINITY;
    });
  }
  std::int32_t k = part_of_slot<Config>(s) * s.part_points + own;
#pragma unroll 1
  for (std::int32_t left = s.part_points; left > 0; left -= Config::kPoints, k += Config::kPoints) {
    LoadedPoint const loaded = loads[k];
    LocatedPoint const mine = locate_point(loaded, loads.level(k), is_fused, p.reference_dim == 4);
    typename Config::Corners corners;
    corners.hand_out(mine);
#pragma unroll 1
    for (int j = 0; j < Config::kPoints; ++j) {
      multiply_corners<Config>(values, corners, j, products);
    }
    float sums[4];
    products.sum(sums);
    if (!stores || k >= points) continue;
    float const weight =
        is_fused ? softmax.weight(k / Config::kPoints) : loads.weight(loaded.weight);
    PointGradient const gradient = point_gradient(mine, weight, sums);
    std::int32_t const further = k - own;
    store_coord(p, p.coord_dtype, s.points.by_pixel, first + further, to.coord + 2 * further, mine,
                gradient, s.points.grad_coord_pairs);
    if (is_fused) {
      softmax.add(k / Config::kPoints, gradient.weight);
    } else if (p.grad_weight != nullptr) {
      store_narrow(p.weight_dtype, p.grad_weight, to.weight + further, gradient.weight);
    }
  }
  if (!is_fused || p.grad_weight == nullptr) return;
  if (s.part_bits != 0) {
    __syncwarp();
    softmax.add_again();
  }
  softmax.finish([&](int group, float gradient) {
    std::int32_t const k = group * Config::kPoints + own;
    int const of_part = k - own - part_of_slot<Config>(s) * s.part_points;
    if (!stores || k >= points || of_part < 0 || of_part >= s.part_points) return;
    store_narrow(p.weight_dtype, p.grad_weight, to.weight + group * Config::kPoints, gradient);
  });
}

// ---- the kernel

template <class Config>
__global__ void __launch_bounds__(kThreads,
                                  Config::kVectors&& Config::Row::kNarrow ? kCodeBlocks : 1)
    small_gradients(const __grid_constant__ Params p, const __grid_constant__ SmallParams s) {
  MSDA_DYNAMIC_SHARED(shared);
  ptx::wait_for_previous_grid();
  if (blockIdx.x < s.tile_blocks) {
    sum_tile<Config>(p, s, shared);
  } else {
    row_gradients<typename Config::OfPoints>(p, s, shared, blockIdx.x - s.tile_blocks);
  }
}

// ---- the kernels of a row of variants.inc

template <ValueType kType, Loads kLoads, int kLanes, Rounds kRounds>
Kernel<Params, SmallParams> load_gradients() {
  return load_kernel(small_gradients<SmallConfig<kType, kLoads, kLanes, kRounds>>, kMaxSharedBytes);
}
template <ValueType kType, int kLanes>
void load_lanes(Kernels& kernels, Rounds rounds) {
  constexpr Kernel<Params, SmallParams> (*kLoad[])() = {
      load_gradients<kType, Loads::vectors, kLanes, Rounds::one>,
      load_gradients<kType, Loads::vectors, kLanes, Rounds::two_sampled>,
      load_gradients<kType, Loads::vectors, kLanes, Rounds::two_fused>,
      load_gradients<kType, Loads::vectors, kLanes, Rounds::any>};
  kernels.gradients[0] = load_gradients<kType, Loads::any, kLanes, Rounds::any>();
  kernels.gradients[1] = kLoad[static_cast<int>(rounds)]();
}

template <ValueType kType>
Kernels load_kernels(std::int64_t head_dim, Rounds rounds) {
  Kernels kernels;
  kernels.engine = load_engine<true>();
  switch (row_lanes(head_dim, kType == ValueType::f32)) {
    case 2:
      if constexpr (kType != ValueType::f32) load_lanes<kType, 2>(kernels, rounds);
      break;
    case 4:
      load_lanes<kType, 4>(kernels, rounds);
      break;
    case 8:
      load_lanes<kType, 8>(kernels, rounds);
      break;
    default:
      load_lanes<kType, kWarp>(kernels, rounds);
  }
  return kernels;
}

}  // namespace msda::small

#define MSDA_INSTANTIATE(type, revision, sm)                                      \
  template msda::small::Kernels msda::small::load_kernels<msda::ValueType::type>( \
      std::int64_t, msda::small::Rounds);
