// The gather of the fast path: for each record of a slot all its lanes load four pixels and add
// them up. Pixels that are not part of the result weigh nothing.
#pragma once

#include "kernels/persistent/cached_levels.cuh"
#include "kernels/persistent/sums.cuh"

namespace msda::persistent {

// Of a level, in vecs.
struct Strides {
  std::uint32_t column;  // from a pixel to the one on the right
  std::uint32_t row;     // to the one below
  std::uint32_t origin;  // from the first pixel of all to the level's; with fp16 sums
};

template <class Config>
class Gather {
 public:
  using Record = RecordOf<Config>;
  using Table = RecordTable<Config>;
  using StridesOfChunk = Strides[Config::kStrides];

  std::uint32_t records;     // the slot's first one, in shared memory
  std::uint32_t buffer = 0;  // bytes from there to the table in use

  // Where a row's values are.
  __device__ __forceinline__ void start(Lane<Config> const& lane, Row const& row) {
    std::uint32_t const last = lane.schedule.head_dim / Config::kChannels - 1;
#pragma unroll
    for (int n = 0; n < Config::kVecs; ++n) {
      std::uint32_t const vec = lane.j + n * Config::kLanes;
      // Vecs behind the last one repeat it: they cost no line and are not stored.
      values_[n] = row.values + (Config::kIsKnown ? vec : min(vec, last)) * Config::kVecBytes;
      ptx::pin(values_[n]);
    }
    if constexpr (Config::kCachesLevels) {
      cached_ = cache_begin() + lane.slot() % Config::kHeads * Config::kRowBytes +
                lane.j * Config::kVecBytes;
    }
  }
  // The lane's vec n of the first pixel of all.
  __device__ __forceinline__ const char* values(int n) const { return values_[n]; }

  // Of the level of point k.
  __device__ __forceinline__ static Strides strides_of(Lane<Config> const& lane, int k) {
    return strides_of_level(lane, lane.level_of(k));
  }
  // Of the slot's points of the chunk at k0, whose first that the lane prepares is `first`.
  __device__ __forceinline__ static void load_strides(Lane<Config> const& lane, int k0, int first,
                                                      StridesOfChunk& strides) {
    if constexpr (Config::kFew) {
      strides[0] = strides_of(lane, first);  // of the lane's own point
    } else if constexpr (Config::kStridesOfChunk) {
      int const own = k0 + static_cast<int>(lane.sub) * Config::kOfSlot;
      int const l = (Config::kSpread == 1 ? k0 : min(own, lane.K - 1)) / Config::kPoints;
      strides[0] = strides_of_level(lane, l);
#pragma unroll
      for (int i = 1; i < Config::kStrides; ++i)
        strides[i] = strides_of_level(lane, min(l + i, kInlineLevels - 1));
    }
  }

  // Calls fn with whether the level of point k is cached.
  template <class Fn>
  __device__ __forceinline__ static void on_level(Lane<Config> const& lane, int k, Fn fn) {
    if constexpr (Config::kCachesLevels) {
      if (lane.is_cached(lane.level_of(min(k, lane.K - 1)))) return fn(std::true_type());
    }
    fn(std::false_type());
  }

  // What the lanes have prepared, of a slot's first lane point k and the next, `turns` in all.
  // Behind the first `batches` of its lanes the row has ended.
  __device__ __forceinline__ void add_prepared(Lane<Config> const& lane, RowSums<Config>& sums,
                                               int k, int turns, int batches,
                                               StridesOfChunk const& strides) const {
#pragma unroll 1
    for (int t = 0; t < turns; t += Config::kTurnsInFlight) {
      std::uint32_t const table = records + buffer + static_cast<std::uint32_t>(t) * Table::kBytes;
      // Of a chunk on one level, at once; else of points that are.
      constexpr int kOnLevel = Config::kLevelOfChunk ? Config::kLanes : Config::kInFlight;
#pragma unroll
      for (int j0 = 0; j0 < Config::kLanes; j0 += kOnLevel) {
        if (!Config::kWholeChunks && j0 > 0 && j0 >= batches) break;
        on_level(lane, k + j0 * Config::kBatch, [&](auto cached) {
#pragma unroll
          for (int j = j0; j < j0 + kOnLevel; j += Config::kInFlight) {
            if (!Config::kWholeChunks && j > j0 && j >= batches) break;
            // Of few points none is read that is not there.
            if (Config::kFew && Config::kInFlight > 1 && j + 1 == batches) {
              add<1, cached.value>(lane, sums, j, k + t, table, strides);
            } else {
              add<Config::kInFlight, cached.value>(lane, sums, j, k + t, table, strides);
            }
          }
        });
      }
    }
  }

  // Point k of the slot's first lane and the next kTurnsInFlight - 1, and those of kCount lanes
  // from j0 on: all loads first, then the sums.
  template <int kCount, bool kCached>
  __device__ __forceinline__ void add(Lane<Config> const& lane, RowSums<Config>& sums, int j0,
                                      int k, std::uint32_t table,
                                      StridesOfChunk const& strides) const {
    constexpr int kAll = kCount * Config::kTurnsInFlight;
    Record record[kAll];
    Corner value[kAll][4];
#pragma unroll
    for (int u = 0; u < kAll; ++u) {
      get_record(table + u / kCount * Table::kBytes + (j0 + u % kCount) * Table::kRowBytes,
                 record[u]);
    }
#pragma unroll
    for (int u = 0; u < kAll; ++u) {
      int const j = j0 + u % kCount;
      int const of_row =
          j + (Config::kSpread == 1 ? 0 : static_cast<int>(lane.sub) * Config::kLanes);
      load_corners<kCached>(lane, record[u],
                            Config::kFew ? strides_of_lane(strides[0], j)
                            : Config::kStridesOfChunk
                                ? strides[strides_index(j)]
                                : strides_of(lane, k + u / kCount + of_row * Config::kBatch),
                            value[u]);
    }
    if constexpr (Config::kFp16Sums) {
#pragma unroll
      for (int u = 0; u < kAll; u += 2)
        sums.add_fp16(record, value, u, u + 2 < kAll ? u + 2 : kAll);
    } else {
#pragma unroll
      for (int u = 0; u < kAll; ++u) sums.add(record[u], value[u]);
    }
  }

 private:
  using Corner = typename RowSums<Config>::Corner;

  template <bool kCached>
  __device__ __forceinline__ void load_corners(Lane<Config> const& lane, Record const& record,
                                               Strides const& strides, Corner (&value)[4]) const {
    std::uint32_t first;
    std::uint32_t const pixel =
        kCached ? Config::kCachedPixelBytes / kVecBytes : lane.pixel_stride();
    std::uint32_t column = Config::kIsKnown ? pixel : strides.column;
    if constexpr (Config::kFp16Sums) {
      first = record.template number<Config::kByParity>() * pixel + strides.origin;
      column = Config::kByParity && record.is_turned() ? 0u - column : column;
    } else {
      first = record.first;
    }
    // A pixel's distance that is known is part of the instruction.
    constexpr int kColumn = Config::kByParity ? 0
                            : kCached         ? Config::kCachedPixelBytes
                                              : Config::kPixelBytes;
    // Added to the address, not to the offset, where conversions fill the pipe that multiplies.
    constexpr bool kAddsRow = kColumn > 0 && !Config::kFp16Sums;
    std::uint32_t const vecs[4] = {first, first + column, first + strides.row,
                                   first + strides.row + column};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int n = 0; n < Config::kVecs; ++n) {
        if constexpr (kCached) {
          value[i][n] = load_cached<Config::kVecBytes>(
              cached_ + vecs[kColumn > 0 ? i / 2 * 2 : i] * kVecBytes + i % 2 * kColumn);
          continue;
        }
        int const from = kColumn == 0 ? i : kAddsRow ? 0 : i / 2 * 2;
        const char* at = values_[n] + static_cast<std::uint64_t>(vecs[from]) * kVecBytes;
        if (kAddsRow && i / 2 == 1) {
          at = ptx::add_wide(at, std::uint64_t{strides.row} * kVecBytes);
        }
        value[i][n] = load_vec<Config>(at + i % 2 * kColumn);
      }
    }
  }

  __device__ __forceinline__ static Strides strides_of_level(Lane<Config> const& lane, int l) {
    ScheduleParams const& schedule = lane.schedule;
    return {schedule.column_stride[l], schedule.row_stride[l],
            Config::kFp16Sums ? schedule.places[l].origin : 0};
  }
  // What a lane of the slot has.
  __device__ __forceinline__ static Strides strides_of_lane(Strides const& own, int j) {
    auto const of_lane = [&](std::uint32_t x) {
      return __shfl_sync(0xffffffffu, x, j, Config::kLanes);
    };
    return {Config::kIsKnown ? 0 : of_lane(own.column), of_lane(own.row), 0};
  }
  // Of a slot's lane.
  __device__ __forceinline__ static constexpr int strides_index(int j) {
    return Config::kStrides == 1 ? 0 : j * Config::kBatch / max(Config::kPoints, 1);
  }

  const char* values_[Config::kVecs];
  std::uint32_t cached_ = 0;  // the same, of levels in shared memory
};

}  // namespace msda::persistent
