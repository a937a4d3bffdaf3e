// The kernel of windows: a window of each level for each unit, a tile of queries with one head,
// which a tensor map brings to where the mean of some of the tile's points lies.
//
// A block an SM has every gridDim-th unit. Each level has one window in shared memory. The producer
// warp says where the next unit's will lie (`placed`) and fills each when all consumer warps have
// left it (`empty`), while they gather from others (`full`). Four lanes, a slot, have a row or two:
//
//   locate   lane j locates the points of level j, whose inputs were loaded a unit ahead, and
//            stores records of all levels in shared memory; rounding down by adding 1.5 * 2^23
//   gather   level by level, sums in registers: a record's four pixels, 16 bytes a lane; those of
//            far points, which lie in the level but not in its window, from memory
//
// Bits depend neither on windows nor on slots: a point is added at its turn, wherever its pixels
// are read from, and even and odd columns have sums of their own.
//
// 32 points of fp16 are 8,192 bytes of pixels; they take 64 wavefronts of shared memory to gather.
// Of two slots of a quarter warp one begins with even, the other with odd columns: else both would
// meet the same banks. Zeros beside the map need no clamping, since tensor maps bring them.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/tma/tensor_maps.h"
#include "kernels/tma/tma_rows.cuh"

namespace msda::tma {

// ---- configuration and shared memory

// kIsPlain: see WindowParams::is_plain.
template <ValueType kType, Sums kSums, int kPointsOfLevel, bool kIsPlain>
struct WindowConfig : TmaConfig<kType, d32, win, kSums, true> {
  using Base = TmaConfig<kType, d32, win, kSums, true>;
  static_assert(Base::kLanes == kWindowLanes && Base::kSlots == kWindowSlots);
  static constexpr bool kPlain = kIsPlain;
  static constexpr int kPoints = kPointsOfLevel;  // of every level
  static constexpr int kPairs = kPoints / 2;
  static constexpr int kPasses = passes_of(kPoints);  // rows of a slot in a unit
  static constexpr int kTileRows = tile_rows(kPoints);
  // Points of a row whose pixels are loaded before they are added.
  static constexpr int kInFlight = Base::kFp16Sums ? kFp16Points : 2;
  static_assert(kPoints % kInFlight == 0, "a level's points are gathered in whole groups");
  // Whether a unit's inputs are loaded while the one before is gathered: as registers allow.
  static constexpr bool kLoadsAhead = kPlain || kPoints == 4;
  // 16 bytes of each slot: two records with fp16 sums, or one.
  static constexpr int kPlaneBytes = kWindowSlots * Base::kVecBytes;
  static constexpr int kPairBytes = kPlaneBytes * (Base::kFp16Sums ? 1 : 2);
  static constexpr int kLevelBytes = level_record_bytes(kPoints, Base::kFp16Sums);
  static constexpr int kPassBytes = kMaxWindows * kLevelBytes;
  static constexpr int kWarpBytes = warp_record_bytes(kPoints, Base::kFp16Sums);
};

inline constexpr float kFloorTo = 12582912.0f;              // 1.5 * 2^23
inline constexpr std::int32_t kBitsOfFloorTo = 0x4b400000;  // the same as an integer

struct WindowOrigin {
  std::int32_t x, y;
};

// A WindowPlace is what locating a point needs of a level's window; `full` and `empty` below are
// the windows' mbarriers.
struct alignas(16) WindowPlace {
  std::int32_t x, y;    // the origin and kBitsOfFloorTo
  float width, height;  // of the level
  std::uint32_t columns;
  std::uint32_t last_column, last_row;
};

struct WindowShared {
  std::uint64_t full[kMaxWindows];
  std::uint64_t empty[kMaxWindows];
  std::uint64_t asked;      // the producer has asked for the points of its first unit
  std::uint64_t placed[2];  // places are there: of units in turn
  WindowPlace places[2][kMaxWindows];
  std::uint32_t far_pixels[kWindowConsumers][kWarpRecords];
};

// A tile of queries with one head of one batch item.
struct Unit {
  std::int32_t tile, b, m;

  __device__ __forceinline__ Unit(WindowParams const& schedule, std::int32_t index) {
    auto const divide = [](rows::Divider const& by, std::int32_t n) {
      return static_cast<std::int32_t>(by.quotient(static_cast<std::uint32_t>(n)));
    };
    std::int32_t const item_head = divide(schedule.by_tiles, index);
    tile = index - item_head * static_cast<std::int32_t>(schedule.by_tiles.divisor);
    b = divide(schedule.by_heads, item_head);
    m = item_head - b * static_cast<std::int32_t>(schedule.by_heads.divisor);
  }
};

// Behind the last unit the last one: what is loaded ahead is there.
__device__ __forceinline__ Unit unit_or_last(WindowParams const& schedule, std::int32_t index) {
  return {schedule, min(index, schedule.units - 1)};
}

__device__ __forceinline__ const char* row_at(const char* first, RowBytes const& bytes,
                                              Row const& row) {
  const char* const head =
      ptx::row_at(first + row.b * bytes.batch, static_cast<std::uint32_t>(row.m), bytes.head);
  return ptx::row_at(head, static_cast<std::uint32_t>(row.q), bytes.row);
}

// ---- the producer

// Lane 4 i + j has points j, j + 4, ... of each level of the tile's query i to sample.
template <class Config>
class Producer {
 public:
  __device__ __forceinline__ Producer(Maps const& maps, Params const& p,
                                      WindowParams const& schedule, WindowShared& shared)
      : maps_(maps), p_(p), schedule_(schedule), shared_(shared) {}

  __device__ __forceinline__ void run() {
    auto const stride = static_cast<std::int32_t>(gridDim.x);
    auto index = static_cast<std::int32_t>(blockIdx.x);
    std::int32_t next = sample_of(index);
    load(index, next);
    bool const is_first_lane = threadIdx.x % kWarp == 0;
    if (is_first_lane) ptx::arrive_mbarrier(shared_address(&shared_.asked));
    next = sample_of(index + stride);
#pragma unroll 1
    for (std::uint32_t turn = 0; index < schedule_.units; index += stride, ++turn) {
      Unit const unit(schedule_, index);
      WindowOrigin origin[kMaxWindows];
#pragma unroll
      for (int i = 0; i < kMaxWindows; ++i) {
        if (i < schedule_.level_count) origin[i] = origin_of(i, unit);
      }
      if (is_first_lane) place(origin, turn);
      __syncwarp();
      // The next unit's points travel while windows are waited for.
      load(index + stride, next);
      next = sample_of(index + 2 * stride);
      if (is_first_lane) fill(unit, origin, turn);
      __syncwarp();
    }
  }

 private:
  static constexpr int kOfLane = Config::kPoints / 4;  // of a level

  __device__ __forceinline__ PointRow row_of(Unit const& unit) const {
    return {p_, unit.b, query_, unit.m};
  }

  // The lane's query of a unit.
  __device__ __forceinline__ std::int32_t sample_of(std::int32_t index) const {
    unsigned const lane = threadIdx.x % kWarp;
    return __ldg(schedule_.samples + unit_or_last(schedule_, index).tile * kSamples +
                 static_cast<int>(lane / 4));
  }
  __device__ __forceinline__ void load(std::int32_t index, std::int32_t query) {
    unsigned const lane = threadIdx.x % kWarp;
    query_ = query;
    PointRow const row = row_of(unit_or_last(schedule_, index));
#pragma unroll
    for (int i = 0; i < kMaxWindows; ++i) {
      if (i >= schedule_.level_count) break;
#pragma unroll
      for (int n = 0; n < kOfLane; ++n) {
        std::int64_t const k =
            p_.near_levels[schedule_.levels[i].level].point_start + 4 * n + lane % 4;
        std::int64_t const at = row.coord + 2 * k;
        if constexpr (Config::kPlain) {  // types that are converted would be waited for
          float2 const plain =
              __ldg(reinterpret_cast<const float2*>(static_cast<const float*>(p_.coord) + at));
          raw_[i][n] = {plain.x, plain.y, 0.0f};
        } else {
          raw_[i][n] = {load_narrow(p_.coord_dtype, p_.coord, at),
                        load_narrow(p_.coord_dtype, p_.coord, at + 1), 0.0f};
        }
      }
    }
  }

  // The origin of a window whose middle is the mean of the lanes' points: no further out than the
  // points' pixels are, at an even column.
  __device__ __forceinline__ WindowOrigin origin_of(int i, Unit const& unit) const {
    WindowLevel const& window = schedule_.levels[i];
    LevelParams const& level = p_.near_levels[window.level];
    float x = 0.0f, y = 0.0f;
#pragma unroll
    for (int n = 0; n < kOfLane; ++n) {
      Point<float> const at = position_of(p_, row_of(unit), level, window.level, raw_[i][n]);
      x += fminf(fmaxf(at.x, -1.0f), static_cast<float>(level.width));
      y += fminf(fmaxf(at.y, -1.0f), static_cast<float>(level.height));
    }
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      x += __shfl_xor_sync(0xffffffffu, x, distance);
      y += __shfl_xor_sync(0xffffffffu, y, distance);
    }
    // To the next of all numbers, or of even ones: half of one is added before it is rounded down.
    auto const begin = [](float sum, std::int32_t side, float half, std::int32_t least,
                          std::int32_t most) {
      float const middle = sum * (1.0f / (kWarp * kOfLane)) - 0.5f * static_cast<float>(side - 1);
      return max(least, min(static_cast<std::int32_t>(floorf(middle + half)), most));
    };
    std::int32_t const left = begin(x, window.columns, 1.0f, -2, level.width + 2 - window.columns);
    return {left & ~1, begin(y, window.rows, 0.5f, -1, level.height + 1 - window.rows)};
  }

  // One lane says where windows will lie. All have left the unit whose places these replace.
  __device__ __forceinline__ void place(WindowOrigin const (&origin)[kMaxWindows],
                                        std::uint32_t turn) {
#pragma unroll
    for (int i = 0; i < kMaxWindows; ++i) {
      WindowOrigin const at = i < schedule_.level_count ? origin[i] : origin[0];
      WindowPlace& place = shared_.places[turn % 2][i];
      place.x = at.x + kBitsOfFloorTo;
      place.y = at.y + kBitsOfFloorTo;
    }
    ptx::arrive_mbarrier(shared_address(&shared_.placed[turn % 2]));
  }

  // One lane fills windows, each when all have left it.
  __device__ __forceinline__ void fill(Unit const& unit, WindowOrigin const (&origin)[kMaxWindows],
                                       std::uint32_t turn) {
#pragma unroll
    for (int i = 0; i < kMaxWindows; ++i) {
      if (i >= schedule_.level_count) break;
      ptx::wait_parity_in_block(shared_address(&shared_.empty[i]), (turn + 1) % 2);
      WindowLevel const& window = schedule_.levels[i];
      std::uint32_t const full = shared_address(&shared_.full[i]);
      ptx::arrive_and_expect(
          full, static_cast<std::uint32_t>(window.columns * window.rows * kPixelBytes));
      ptx::tensor_load(stage_begin() + static_cast<std::uint32_t>(window.first_pixel * kPixelBytes),
                       &maps_.level[window.level], {0, origin[i].x, origin[i].y, unit.m, unit.b},
                       full);
    }
  }

  Maps const& maps_;
  Params const& p_;
  WindowParams const& schedule_;
  WindowShared& shared_;
  std::int32_t query_ = 0;
  RawPoint raw_[kMaxWindows][kOfLane];
};

// ---- records

// The first word of a record, from the highest bit down: 10 bits are the pixel of the level's
// window that the slot reads first, so that the upper half is what lies between the window's first
// byte and that pixel's; whether the point is far; whether the second pixel of a pair lies right of
// the first one. With fp16 sums the last 15 bits are the fraction of the second.
inline constexpr int kPixelShift = 22;
static_assert(kMaxWindowPixels <= 1 << (32 - kPixelShift));
static_assert(kPixelBytes == 1 << (kPixelShift - 16));
inline constexpr std::uint32_t kIsFar = 0x10000, kSecondIsRight = 0x8000;
static_assert(2 * kPixelBytes == kSecondIsRight >> 8);

struct WindowRecord {
  // As in LocatedPoint; with fp16 sums `second` are rows.
  std::uint32_t first, second, upper, lower;

  __device__ __forceinline__ bool is_far() const { return (first & kIsFar) != 0; }
};

// Weights with fp16 sums.
__device__ __forceinline__ Fp16Weights weights_of(WindowRecord const& record) {
  return {half2_of(record.second), __habs2(__low2half2(half2_of(record.first)))};
}

// ---- the consumers

template <class Config>
class Consumer {
 public:
  __device__ __forceinline__ Consumer(Params const& p, WindowParams const& schedule,
                                      WindowShared& shared)
      : p_(p),
        schedule_(schedule),
        shared_(shared),
        j_(threadIdx.x % kWindowLanes),
        vecs_(stage_begin() + j_ * Config::kVecBytes) {
    ptx::pin(vecs_);  // or it is formed anew for each level
    records_ =
        stage_begin() +
        static_cast<std::uint32_t>(schedule.pixels * kPixelBytes + warp() * Config::kWarpBytes) +
        slot() * Config::kVecBytes;
  }

  __device__ __forceinline__ void run() {
    auto const stride = static_cast<std::int32_t>(gridDim.x);
    auto index = static_cast<std::int32_t>(blockIdx.x);
    std::int32_t next = query_of(index);
    std::int32_t after = query_of(index + stride);
    // The points that tell where windows lie come first.
    ptx::wait_parity_in_block(shared_address(&shared_.asked), 0);
    if (Config::kLoadsAhead) load(index, next);
#pragma unroll 1
    for (std::uint32_t turn = 0; index < schedule_.units; index += stride, ++turn) {
      ptx::wait_parity_in_block(shared_address(&shared_.placed[turn % 2]), turn / 2 % 2);
      std::int32_t const query = next;
      if (!Config::kLoadsAhead) load(index, query);
      // Slots without a query are a tile's last: a pass has rows if its first slot has one.
      unsigned const slots = __ballot_sync(0xffffffffu, query >= 0);
      unsigned far = 0;  // bit 16 pass + i: level i has far points
      __syncwarp();      // the records before have been read
#pragma unroll
      for (int pass = 0; pass < Config::kPasses; ++pass) {
        if (is_busy(slots, pass)) far |= locate(index, query, pass, turn) << 16 * pass;
      }
      __syncwarp();
      next = after;
      after = query_of(index + 2 * stride);
      unsigned exact_passes = 0;
#pragma unroll 1
      do {
        // Again behind the exact path, where no register holds inputs.
        if (Config::kLoadsAhead) load(index + stride, next);
        if (exact_passes != 0) break;
        RowSums<Config> sums[Config::kPasses];
#pragma unroll
        for (int pass = 0; pass < Config::kPasses; ++pass) sums[pass].clear();
        if (far == 0) {
          gather_levels<false>(index, query, slots, far, turn, sums);
        } else {
          gather_levels<true>(index, query, slots, far, turn, sums);
        }
#pragma unroll
        for (int pass = 0; pass < Config::kPasses; ++pass) {
          if (!is_busy(slots, pass)) continue;
          if (__any_sync(0xffffffffu, !sums[pass].is_finite())) exact_passes |= 1u << pass;
          store(row_of(index, query, pass), sums[pass]);
        }
        if (exact_passes != 0) sum_again(index, query, exact_passes);
      } while (exact_passes != 0);
    }
  }

 private:
  // The warp in the block; computed anew each time, for want of registers.
  __device__ __forceinline__ static std::int32_t warp() {
    return static_cast<std::int32_t>(threadIdx.x / kWarp);
  }
  __device__ __forceinline__ static unsigned slot() { return threadIdx.x % kWarp / kWindowLanes; }

  // The query of a row of the slot in a unit, as in WindowParams::queries: lane j has that of pass
  // j. Of a unit behind the last one it is what can be loaded.
  __device__ __forceinline__ std::int32_t query_of(std::int32_t index) const {
    auto const pass = static_cast<std::int32_t>(j_ % Config::kPasses);
    std::int32_t const place = unit_or_last(schedule_, index).tile * Config::kTileRows +
                               (pass * kWindowConsumers + warp()) * kWindowSlots +
                               static_cast<std::int32_t>(slot());
    return __ldg(schedule_.queries + place);
  }
  __device__ __forceinline__ static bool is_busy(unsigned slots, int pass) {
    return (slots >> pass & 1) != 0;
  }
  // All lanes of the warp call it.
  __device__ __forceinline__ Row row_of(std::int32_t index, std::int32_t query, int pass) const {
    return row_of_query(index, __shfl_sync(0xffffffffu, query, pass, kWindowLanes));
  }
  __device__ __forceinline__ Row row_of_query(std::int32_t index, std::int32_t query) const {
    Unit const unit = unit_or_last(schedule_, index);
    return {unit.b, max(query, ~query), unit.m, query >= 0};
  }
  // A lane takes the pairs of its level in an order of its own, so that eight lanes load from
  // different banks.
  __device__ __forceinline__ static unsigned first_pair() {
    return Config::kPairs == 2 ? slot() % 2 : threadIdx.x / 2 % Config::kPairs;
  }
  __device__ __forceinline__ static unsigned pair(int i) {
    return static_cast<unsigned>(i) ^ first_pair();
  }
  __device__ __forceinline__ static int point_of_level(int n) {
    return static_cast<int>(pair(n / 2)) * 2 + n % 2;
  }

  // The lane's level; those without one locate what is not read.
  __device__ __forceinline__ bool has_level() const {
    return static_cast<std::int32_t>(j_) < schedule_.level_count;
  }
  __device__ __forceinline__ WindowLevel const& window() const {
    return schedule_.levels[has_level() ? j_ : 0];
  }

  // ---- inputs of the lane's level

  // Slots without a row load the tile's first one: if all loaded the same, they would wait for it.
  __device__ __forceinline__ void load(std::int32_t index, std::int32_t query) {
    // Shuffles behind loads would wait until these have left.
    Row row[Config::kPasses];
#pragma unroll
    for (int pass = 0; pass < Config::kPasses; ++pass) row[pass] = row_of(index, query, pass);
#pragma unroll
    for (int pass = 0; pass < Config::kPasses; ++pass) {
      if constexpr (Config::kPlain) {
        load_vectors(row[pass], raw_[pass]);
      } else {
        load_located(row[pass], raw_[pass]);
      }
    }
  }
  // L1 keeps the sectors of a pair for the pair beside it.
  __device__ __forceinline__ void load_vectors(Row const& row,
                                               RawPoint (&raw)[Config::kPoints]) const {
    std::uint32_t const first = (has_level() ? j_ : 0) * Config::kPairs ^ first_pair();
    auto const coord = reinterpret_cast<std::uintptr_t>(
        row_at(static_cast<const char*>(p_.coord) + first * 16, schedule_.coord, row));
    auto const weight = reinterpret_cast<std::uintptr_t>(
        row_at(static_cast<const char*>(p_.weight) + first / 2 * 16, schedule_.weight, row));
#pragma unroll
    for (int i = 0; i < Config::kPairs; i += 2) {
      std::uint32_t at[2][4], weights[4];
      ptx::load_global(reinterpret_cast<const char*>(coord ^ (i * 16)), at[0]);
      ptx::load_global(reinterpret_cast<const char*>(coord ^ (i * 16 + 16)), at[1]);
      ptx::load_global(reinterpret_cast<const char*>(weight ^ (i * 8)), weights);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        raw[2 * i + n] = {__uint_as_float(at[n / 2][n % 2 * 2]),
                          __uint_as_float(at[n / 2][n % 2 * 2 + 1]), __uint_as_float(weights[n])};
      }
    }
  }
  // The weight of the lane's point n. Those of two pairs are one vector, the even pair's first.
  __device__ __forceinline__ float weight_of(int pass, int n) const {
    RawPoint const(&raw)[Config::kPoints] = raw_[pass];
    bool const is_turned = Config::kPlain && (first_pair() & 1) != 0;
    return is_turned ? raw[n ^ 2].weight : raw[n].weight;
  }
  // Any inputs, as positions in pixels and weights. All lanes of the warp call it.
  __device__ __forceinline__ void load_located(Row const& row,
                                               RawPoint (&raw)[Config::kPoints]) const {
    PointRow const points(p_, row.b, row.q, row.m);
    RowWeights<Config> const weights(p_, points, j_);
    LevelParams const& level = p_.near_levels[window().level];
#pragma unroll 1
    for (int n = 0; n < Config::kPoints; ++n) {
      RawPoint const from = load_point(p_, points, level.point_start + point_of_level(n));
      Point<float> const at = position_of(p_, points, level, window().level, from);
      RawPoint const point{at.is_number ? at.x : INFINITY, at.y, weights(from.weight)};
#pragma unroll
      for (int to = 0; to < Config::kPoints; ++to) {
        if (to == n) raw[to] = point;
      }
    }
  }

  // ---- locate

  // The address of the lane's records of its pair number i.
  __device__ __forceinline__ std::uint32_t records_of(int pass, int i) const {
    return records_ + pass * Config::kPassBytes + j_ * Config::kLevelBytes +
           pair(i) * Config::kPairBytes;
  }
  // Two points' records.
  __device__ __forceinline__ void put(int pass, int i, WindowRecord const (&record)[2]) const {
    if constexpr (Config::kFp16Sums) {
      ptx::store_shared(records_of(pass, i), record[0].first, record[0].second, record[1].first,
                        record[1].second);
    } else {
      put_one(pass, 2 * i, record[0]);
      put_one(pass, 2 * i + 1, record[1]);
    }
  }
  // A point's record.
  __device__ __forceinline__ void put_one(int pass, int n, WindowRecord const& record) const {
    std::uint32_t const at = records_of(pass, n / 2);
    if constexpr (Config::kFp16Sums) {
      ptx::store_shared(at + n % 2 * (Config::kVecBytes / 2), record.first, record.second);
    } else {
      ptx::store_shared(at + n % 2 * Config::kPlaneBytes, record.first, record.second, record.upper,
                        record.lower);
    }
  }
  // Adding 1.5 * 2^23 rounds a number down to the last bits of the sum, which are the number's.
  struct Floor {
    std::int32_t bits;
    float fraction;

    __device__ __forceinline__ explicit Floor(float x) {
      float const sum = __fadd_rd(x, kFloorTo);
      bits = __float_as_int(sum);
      fraction = __fsub_rn(x, __fsub_rn(sum, kFloorTo));
    }
  };
  __device__ __forceinline__ static Floor floor_of(float x, float size) {
    return Floor(Config::kPlain ? to_pixel(x, size) : x);
  }

  // left: the left one of the upper pixels, in the window.
  __device__ __forceinline__ static WindowRecord record_of(std::uint32_t left, std::uint32_t flags,
                                                           float fraction, float upper,
                                                           float lower) {
    bool const is_turned = ((left ^ slot()) & 1) != 0;
    float const right = in_units<Config::kFp16Sums>(fraction);
    float const second = is_turned ? 1.0f - right : right;
    std::uint32_t first = (left << kPixelShift) + flags;
    first += is_turned ? 1u << kPixelShift : kSecondIsRight;
    if constexpr (Config::kFp16Sums) {
      return {first + bits_of(__floats2half2_rn(second, 0.0f)),
              bits_of(__floats2half2_rn(upper, lower)), 0, 0};
    } else {
      return {first, __float_as_uint(second), __float_as_uint(upper), __float_as_uint(lower)};
    }
  }

  // Locates the points of the lane's level. Returns a bit for each level that has far points. What
  // is no number, or too far out to be rounded, is in no window and no level.
  __device__ __forceinline__ unsigned locate(std::int32_t index, std::int32_t query, int pass,
                                             std::uint32_t turn) const {
    WindowPlace const place = shared_.places[turn % 2][j_];
    std::uint32_t column[Config::kPoints], window_row[Config::kPoints];
    bool is_inside = true;
#pragma unroll
    for (int i = 0; i < Config::kPairs; ++i) {
      WindowRecord record[2];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        RawPoint const& raw = raw_[pass][2 * i + n];
        std::uint32_t &c = column[2 * i + n], &l = window_row[2 * i + n];
        Floor const x = floor_of(raw.x, place.width), y = floor_of(raw.y, place.height);
        c = static_cast<std::uint32_t>(x.bits - place.x);
        l = static_cast<std::uint32_t>(y.bits - place.y);
        is_inside = is_inside && c < place.last_column && l < place.last_row;
        float const weight = weight_of(pass, 2 * i + n);
        float const lower = __fmul_rn(weight, y.fraction);
        record[n] =
            record_of(l * place.columns + c, 0, x.fraction, __fsub_rn(weight, lower), lower);
      }
      put(pass, i, record);
    }
    if (__all_sync(0xffffffffu, is_inside)) return 0;
    std::int32_t const of_pass = __shfl_sync(0xffffffffu, query, pass, kWindowLanes);
    bool has_far = false;
    if (!is_inside) {
#pragma unroll
      for (int n = 0; n < Config::kPoints; ++n) {
        if (column[n] < place.last_column && window_row[n] < place.last_row) continue;
        has_far = put_outside(index, of_pass, pass, n, place, column[n], window_row[n]) || has_far;
      }
    }
    unsigned lanes = __ballot_sync(0xffffffffu, has_far);
#pragma unroll
    for (int distance = kWarp / 2; distance >= kWindowLanes; distance /= 2)
      lanes |= lanes >> distance;
    return lanes & ((1u << schedule_.level_count) - 1);
  }

  // Stores the record of a point that is not in its window anew. Returns whether it is far: some of
  // its pixels are in the level.
  __device__ __forceinline__ bool put_outside(std::int32_t index, std::int32_t query, int pass,
                                              int n, WindowPlace const& place, std::uint32_t column,
                                              std::uint32_t window_row) const {
    RawPoint const& raw = raw_[pass][n];
    float const weight = weight_of(pass, n);
    LevelParams const& level = p_.near_levels[window().level];
    std::uint32_t const right = column + static_cast<std::uint32_t>(place.x - kBitsOfFloorTo + 1);
    std::uint32_t const below =
        window_row + static_cast<std::uint32_t>(place.y - kBitsOfFloorTo + 1);
    if (right < static_cast<std::uint32_t>(level.width + 1) &&
        below < static_cast<std::uint32_t>(level.height + 1)) {
      Floor const x = floor_of(raw.x, place.width), y = floor_of(raw.y, place.height);
      float const lower = __fmul_rn(weight, y.fraction);
      put_one(pass, n, record_of(x.bits & 1, kIsFar, x.fraction, __fsub_rn(weight, lower), lower));
      far_pixel(static_cast<int>(j_), pass, point_of_level(n)) = below << 16 | right;
      fetch_far(row_of_query(index, query), level, below << 16 | right);
      return true;
    }
    // A weight that is no number makes the result none, whatever it weighs.
    float const none = weight * 0.0f;
    put_one(pass, n, record_of(slot() & 1, 0, 0.0f, none, none));
    return false;
  }

  // Column + 1 and row + 1 of a far point's upper left pixel.
  __device__ __forceinline__ std::uint32_t& far_pixel(int level, int pass, int n) const {
    return shared_
        .far_pixels[warp()][((pass * kMaxWindows + level) * Config::kPoints + n) * kWindowSlots +
                            static_cast<int>(slot())];
  }

  // ---- gather

  using Vec = msda::Vec<Config::kVecBytes>;

  // The records of two points, those of the slot; at: of the first.
  __device__ __forceinline__ static void get(std::uint32_t at, WindowRecord* records) {
    std::uint32_t words[4];
    ptx::load_shared(at, words);
    if constexpr (Config::kFp16Sums) {
      records[0] = {words[0], words[1], 0, 0};
      records[1] = {words[2], words[3], 0, 0};
    } else {
      records[0] = {words[0], words[1], words[2], words[3]};
      ptx::load_shared(at + Config::kPlaneBytes, words);
      records[1] = {words[0], words[1], words[2], words[3]};
    }
  }

  // A point's pixels as RowSums takes them; row_bytes: from a row of the window to the next.
  __device__ __forceinline__ static void load_pixels(std::uint32_t window, std::uint32_t row_bytes,
                                                     WindowRecord const& record, Vec (&value)[4]) {
    std::uint32_t const first = window + (record.first >> 16);
    std::uint32_t is_right = record.first & kSecondIsRight;
    ptx::pin(is_right);  // or bits are shifted, masked and added one by one
    std::uint32_t const second = first + (is_right >> 8);
    ptx::load_shared(first, value[0].word);
    ptx::load_shared(second - kPixelBytes, value[1].word);
    ptx::load_shared(first + row_bytes, value[2].word);
    ptx::load_shared(second + row_bytes - kPixelBytes, value[3].word);
  }

  // The pixels of a far point, far_pixel(), from memory; zeros beside the level.
  __device__ __forceinline__ void load_far(LaneValues<Config> const& values,
                                           LevelParams const& level, std::uint32_t far_pixel,
                                           Vec (&value)[4]) const {
    std::int32_t const x = static_cast<std::int32_t>(far_pixel & 0xffffu) - 1;
    std::int32_t const y = static_cast<std::int32_t>(far_pixel >> 16) - 1;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int const column = static_cast<int>((static_cast<unsigned>(i) ^ slot()) & 1);
      value[i] = values.load(level, column_of<Config>(x, column), y + i / 2);
    }
  }

  // Brings the pixels of a far point to L1.
  __device__ __forceinline__ void fetch_far(Row const& row, LevelParams const& level,
                                            std::uint32_t far_pixel) const {
    LaneValues<Config> const values(p_, row, 0);
    std::int32_t const x = static_cast<std::int32_t>(far_pixel & 0xffffu) - 1;
    std::int32_t const y = static_cast<std::int32_t>(far_pixel >> 16) - 1;
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      if (!values.is_in(level, x + i % 2, y + i / 2)) continue;
      const char* const pixel = values.at(level, x + i % 2, y + i / 2);
      std::uint32_t words[4];
      ptx::load_global(pixel, words);
      ptx::load_global(pixel + kPixelBytes / 2, words);
    }
  }

  // Adds the points of a level, all of which lie in its window.
  __device__ __forceinline__ static void gather(std::uint32_t at, std::uint32_t window,
                                                std::uint32_t row_bytes, RowSums<Config>& sums) {
    constexpr int kInFlight = Config::kInFlight;
#pragma unroll 1
    for (int n = 0; n < Config::kPoints; n += kInFlight) {
      WindowRecord record[kInFlight];
      Vec value[kInFlight][4];
#pragma unroll
      for (int u = 0; u < kInFlight; u += 2) get(at + u / 2 * Config::kPairBytes, record + u);
      at += kInFlight / 2 * Config::kPairBytes;
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) load_pixels(window, row_bytes, record[u], value[u]);
      if constexpr (Config::kFp16Sums) {
        Fp16ColumnSums<Config> columns;
#pragma unroll
        for (int u = 0; u < kInFlight; ++u) {
          columns.add(weights_of(record[u]), value[u], [](int) { return true; });
        }
        sums.add(columns);
      } else {
#pragma unroll
        for (int u = 0; u < kInFlight; ++u) add_one(record[u], value[u], sums);
      }
    }
  }
  // Adds the points of all levels. kHasFar: some have to be read from memory.
  template <bool kHasFar>
  __device__ __forceinline__ void gather_levels(std::int32_t index, std::int32_t query,
                                                unsigned slots, unsigned far, std::uint32_t turn,
                                                RowSums<Config> (&sums)[Config::kPasses]) const {
    std::uint32_t records = records_;
#pragma unroll 1
    for (std::int32_t i = 0; i < schedule_.level_count; ++i) {
      ptx::wait_parity_in_block(shared_address(&shared_.full[i]), turn % 2);
      std::uint32_t const row_bytes = schedule_.row_bytes[i];
      std::uint32_t const window = vecs_ + schedule_.first_byte[i];
#pragma unroll
      for (int pass = 0; pass < Config::kPasses; ++pass) {
        if (!is_busy(slots, pass)) continue;
        std::uint32_t const at = records + pass * Config::kPassBytes;
        if (kHasFar && (far >> (16 * pass + i) & 1) != 0) {
          gather_far(i, pass, at, window, row_bytes, row_of(index, query, pass), sums[pass]);
        } else {
          gather(at, window, row_bytes, sums[pass]);
        }
      }
      records += Config::kLevelBytes;
      __syncwarp();
      if (threadIdx.x % kWarp == 0) ptx::arrive_mbarrier(shared_address(&shared_.empty[i]));
    }
  }
  // As gather(); some points have to be read from memory.
  __device__ __forceinline__ void gather_far(std::int32_t i, int pass, std::uint32_t at,
                                             std::uint32_t window, std::uint32_t row_bytes,
                                             Row const& row, RowSums<Config>& sums) const {
    Fp16ColumnSums<Config> columns;
#pragma unroll 1
    for (int n = 0; n < Config::kPoints; n += 2) {
      WindowRecord record[2];
      get(at, record);
      at += Config::kPairBytes;
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        Vec value[4];
        if (record[u].is_far()) {
          load_far(LaneValues<Config>(p_, row, j_), p_.near_levels[schedule_.levels[i].level],
                   far_pixel(i, pass, n + u), value);
        } else {
          load_pixels(window, row_bytes, record[u], value);
        }
        if constexpr (Config::kFp16Sums) {
          columns.add(weights_of(record[u]), value, [](int) { return true; });
        } else {
          add_one(record[u], value, sums);
        }
      }
      if (Config::kFp16Sums && n % kFp16Points == kFp16Points - 2) {
        sums.add(columns);
        columns = {};
      }
    }
  }
  __device__ __forceinline__ static void add_one(WindowRecord const& record, Vec const (&value)[4],
                                                 RowSums<Config>& sums) {
    sums.add_one({0, record.second, record.upper, record.lower}, value, false);
  }

  // ---- results

  __device__ __forceinline__ void store(Row const& row, RowSums<Config> const& sums) const {
    if constexpr (Config::kPlain) {
      if (!row.is_there) return;
      float total[Config::kChannels];
      sums.total(total);
      char* const output = static_cast<char*>(p_.output) + j_ * Config::kVecBytes;
      store_vec<Config>(Config::kType == ValueType::f16 ? MSDA_DTYPE_F16 : MSDA_DTYPE_BF16,
                        output + (row_at(output, schedule_.output, row) - output), 0, total, true);
    } else {
      store_row(p_, row, j_, sums, schedule_.aligned_output);
    }
  }

  // Sums and stores the rows of some passes on the exact path.
  __device__ __forceinline__ void sum_again(std::int32_t index, std::int32_t query,
                                            unsigned passes) const {
#pragma unroll 1
    for (int pass = 0; pass < Config::kPasses; ++pass) {
      if ((passes >> pass & 1) == 0) continue;
      Row const row = row_of(index, query, pass);
      PointRow const points(p_, row.b, row.q, row.m);
      RowWeights<Config> const weights(p_, points, j_);
      RowSums<Config> sums;
      sum_exact(p_, row, points, weights, LaneValues<Config>(p_, row, j_), sums);
      store_row(p_, row, j_, sums, schedule_.aligned_output);
    }
  }

  Params const& p_;
  WindowParams const& schedule_;
  WindowShared& shared_;
  unsigned j_;
  std::uint32_t vecs_;     // the lane's vec of the first pixel in shared memory
  std::uint32_t records_;  // the slot's first one
  RawPoint raw_[Config::kPasses][Config::kPoints];
};

template <class Config>
__global__ void __launch_bounds__(kWindowWarps* kWarp, 1)
    sum_windows(const __grid_constant__ Maps maps, const __grid_constant__ Params p,
                const __grid_constant__ WindowParams schedule) {
  MSDA_SHARED(WindowShared, shared, );
  if (threadIdx.x == 0) {
    for (int i = 0; i < kMaxWindows; ++i) {
      ptx::init_mbarrier(shared_address(&shared.full[i]), 1);
      ptx::init_mbarrier(shared_address(&shared.empty[i]), kWindowConsumers);
      WindowLevel const& window = schedule.levels[i < schedule.level_count ? i : 0];
      LevelParams const& level = p.near_levels[window.level];
      shared.places[0][i] = {0,
                             0,
                             static_cast<float>(level.width),
                             static_cast<float>(level.height),
                             static_cast<std::uint32_t>(window.columns),
                             static_cast<std::uint32_t>(window.columns - 1),
                             static_cast<std::uint32_t>(window.rows - 1)};
      shared.places[1][i] = shared.places[0][i];
    }
    for (std::uint64_t* one : {&shared.asked, &shared.placed[0], &shared.placed[1]}) {
      ptx::init_mbarrier(shared_address(one), 1);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  ptx::launch_dependents();
  ptx::wait_for_previous_grid();
  if (uniform_warp() == kWindowConsumers) {
    Producer<Config>(maps, p, schedule, shared).run();
  } else {
    Consumer<Config>(p, schedule, shared).run();
  }
}

}  // namespace msda::tma
