// The kernel of windows: a window of each level for each unit, a tile of queries with one head,
// which a tensor map brings to where the mean of some of the tile's points lies.
//
// A block an SM has every gridDim-th unit. Each level has one window in shared memory. The producer
// warp fills it for the next unit as soon as all consumer warps have left it (`empty`), while they
// gather from the other levels' (`full`). A slot of four lanes has one row of a unit, or two
// (passes):
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

template <ValueType kType, Sums kSums, int kPointsOfLevel>
struct WindowConfig : TmaConfig<kType, d32, win, kSums, true> {
  using Base = TmaConfig<kType, d32, win, kSums, true>;
  static_assert(Base::kLanes == kWindowLanes && Base::kSlots == kWindowSlots);
  static constexpr int kPoints = kPointsOfLevel;  // of every level
  static constexpr int kPairs = kPoints / 2;
  static constexpr int kPasses = passes_of(kPoints);  // rows of a slot in a unit
  static constexpr int kTileRows = tile_rows(kPoints);
  // Points of a row whose pixels are loaded before they are added.
  static constexpr int kInFlight = Base::kFp16Sums ? 4 : 2;
  static_assert(kPoints % kInFlight == 0, "a level's points are gathered in whole groups");
  static constexpr int kRecordBytes = window_record_bytes(Base::kFp16Sums);
  static constexpr int kPairBytes = kWindowSlots * 2 * kRecordBytes;  // the slots' same pair
  static constexpr int kLevelBytes = level_record_bytes(kPoints, Base::kFp16Sums);
  static constexpr int kPassBytes = kMaxWindows * kLevelBytes;
  static constexpr int kWarpBytes = warp_record_bytes(kPoints, Base::kFp16Sums);
};

struct WindowOrigin {
  std::int32_t x, y;
};

struct WindowShared {
  std::uint64_t full[kMaxWindows];
  std::uint64_t empty[kMaxWindows];
  WindowOrigin origin[kMaxWindows];
  std::uint32_t far_places[kWindowConsumers][kWarpRecords];
};

// A tile of queries with one head of one batch item.
struct Unit {
  std::int32_t tile, b, m;

  __device__ __forceinline__ Unit(Params const& p, WindowParams const& schedule,
                                  std::int32_t index) {
    std::int32_t const item_head = index / schedule.tiles;
    auto const heads = static_cast<std::int32_t>(p.head_count);
    tile = index - item_head * schedule.tiles;
    b = item_head / heads;
    m = item_head - b * heads;
  }
};

// ---- the producer

// Lane 4 i + j has points j, j + 4, ... of each level of the tile's query i to sample.
template <class Config>
class Producer {
 public:
  __device__ __forceinline__ Producer(Maps const& maps, Params const& p,
                                      WindowParams const& schedule, WindowShared& shared)
      : maps_(maps), p_(p), schedule_(schedule), shared_(shared) {}

  __device__ __forceinline__ void run() {
    std::uint32_t parity = 1;
    auto index = static_cast<std::int32_t>(blockIdx.x);
    if (index < schedule_.units) load(index);
#pragma unroll 1
    for (; index < schedule_.units; index += static_cast<std::int32_t>(gridDim.x)) {
      Unit const unit(p_, schedule_, index);
      WindowOrigin origin[kMaxWindows];
#pragma unroll
      for (int i = 0; i < kMaxWindows; ++i) {
        if (i < schedule_.level_count) origin[i] = origin_of(i, unit);
      }
      // The next unit's points travel while windows are waited for.
      std::int32_t const next = index + static_cast<std::int32_t>(gridDim.x);
      if (next < schedule_.units) load(next);
      if (threadIdx.x % kWarp == 0) fill(unit, origin, parity);
      __syncwarp();
      parity ^= 1;
    }
  }

 private:
  static constexpr int kOfLane = Config::kPoints / 4;  // of a level

  __device__ __forceinline__ PointRow row_of(Unit const& unit) const {
    return {p_, unit.b, query_, unit.m};
  }

  __device__ __forceinline__ void load(std::int32_t index) {
    unsigned const lane = threadIdx.x % kWarp;
    Unit const unit(p_, schedule_, index);
    query_ = __ldg(schedule_.samples + unit.tile * kSamples + static_cast<int>(lane / 4));
    PointRow const row = row_of(unit);
#pragma unroll
    for (int i = 0; i < kMaxWindows; ++i) {
      if (i >= schedule_.level_count) break;
#pragma unroll
      for (int n = 0; n < kOfLane; ++n) {
        std::int64_t const k =
            p_.near_levels[schedule_.levels[i].level].point_start + 4 * n + lane % 4;
        raw_[i][n] = {load_narrow(p_.coord_dtype, p_.coord, row.coord + 2 * k),
                      load_narrow(p_.coord_dtype, p_.coord, row.coord + 2 * k + 1), 0.0f};
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

  // One lane fills all windows. Consumers read origins before they leave the first level.
  __device__ __forceinline__ void fill(Unit const& unit, WindowOrigin const (&origin)[kMaxWindows],
                                       std::uint32_t parity) {
#pragma unroll
    for (int i = 0; i < kMaxWindows; ++i) {
      if (i >= schedule_.level_count) break;
      ptx::wait_parity_in_block(shared_address(&shared_.empty[i]), parity);
      if (i == 0) {
#pragma unroll
        for (int n = 0; n < kMaxWindows; ++n) shared_.origin[n] = origin[n];
      }
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

// The first word of a record: the pixel of shared memory that the slot reads first; whether the
// point is far; as the sign, whether the second pixel of a pair lies left of the first one. With
// fp16 sums the upper half is the fraction of the second.
inline constexpr std::uint32_t kPixelMask = 0xfff, kIsFar = 0x8000;

struct WindowRecord {
  // As in LocatedPoint; with fp16 sums `second` are rows.
  std::uint32_t place, second, upper, lower;

  __device__ __forceinline__ bool is_far() const { return (place & kIsFar) != 0; }
  // The bytes from the first to the second pixel.
  __device__ __forceinline__ std::uint32_t to_second() const {
    return static_cast<std::int32_t>(place) < 0 ? 0u - kPixelBytes : kPixelBytes;
  }
};

template <class Config>
__device__ __forceinline__ WindowRecord record_of(std::uint32_t pixel, bool is_turned,
                                                  float fraction, float upper, float lower) {
  if constexpr (Config::kFp16Sums) {
    float const fraction_with_sign = is_turned ? -fraction : fraction;
    return {bits_of(__floats2half2_rn(0.0f, fraction_with_sign)) | pixel,
            bits_of(__floats2half2_rn(upper, lower)), 0, 0};
  } else {
    return {pixel | (is_turned ? 0x80000000u : 0u), __float_as_uint(fraction),
            __float_as_uint(upper), __float_as_uint(lower)};
  }
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
    std::uint32_t const records =
        stage_begin() +
        static_cast<std::uint32_t>(schedule.pixels * kPixelBytes + warp() * Config::kWarpBytes);
    records_ = records + slot() * 2 * Config::kRecordBytes;
  }

  __device__ __forceinline__ void run() {
    auto const stride = static_cast<std::int32_t>(gridDim.x);
    auto index = static_cast<std::int32_t>(blockIdx.x);
    std::uint32_t parity = 0;
    UnitRows next = rows_of(index);
    load(next);
    UnitRows after = rows_of(index + stride);
#pragma unroll 1
    for (; index < schedule_.units; index += stride) {
      ptx::wait_parity_in_block(shared_address(&shared_.full[0]), parity);
      UnitRows const rows = next;
      bool is_busy[Config::kPasses];
      unsigned far = 0;  // a bit for each pass in which the lane's level has far points
      __syncwarp();      // the records before have been read
#pragma unroll
      for (int pass = 0; pass < Config::kPasses; ++pass) {
        is_busy[pass] = __any_sync(0xffffffffu, row_of(rows, pass).is_there);
        if (is_busy[pass]) far |= locate(pass) ? 1u << pass : 0u;
      }
      __syncwarp();
      next = after;
      load(next);
      after = rows_of(index + 2 * stride);
      RowSums<Config> sums[Config::kPasses];
#pragma unroll
      for (int pass = 0; pass < Config::kPasses; ++pass) sums[pass].clear();
#pragma unroll 1
      for (std::int32_t i = 0; i < schedule_.level_count; ++i) {
        if (i > 0) ptx::wait_parity_in_block(shared_address(&shared_.full[i]), parity);
        auto const row_bytes =
            static_cast<std::uint32_t>(schedule_.levels[i].columns * kPixelBytes);
#pragma unroll
        for (int pass = 0; pass < Config::kPasses; ++pass) {
          if (!is_busy[pass]) continue;
          unsigned const far_lanes = __ballot_sync(0xffffffffu, (far >> pass & 1) != 0);
          if ((far_lanes & kLanesOfLevel << i) != 0) {
            gather<true>(i, pass, row_bytes, rows, sums[pass]);
          } else {
            gather<false>(i, pass, row_bytes, rows, sums[pass]);
          }
        }
        __syncwarp();
        if (threadIdx.x % kWarp == 0) ptx::arrive_mbarrier(shared_address(&shared_.empty[i]));
      }
      unsigned exact_passes = 0;
#pragma unroll
      for (int pass = 0; pass < Config::kPasses; ++pass) {
        if (!is_busy[pass]) continue;
        if (__any_sync(0xffffffffu, !sums[pass].is_finite())) exact_passes |= 1u << pass;
        store_row(p_, row_of(rows, pass), j_, sums[pass], schedule_.aligned_output);
      }
      if (exact_passes != 0) {
        sum_again(rows, exact_passes);
        load(next);  // again: registers do not hold inputs meanwhile
      }
      parity ^= 1;
    }
  }

 private:
  static constexpr unsigned kLanesOfLevel = 0x11111111;  // lanes 4 i, that have level 0

  // Not kept in registers.
  __device__ __forceinline__ static std::int32_t warp() {
    return static_cast<std::int32_t>(threadIdx.x / kWarp);
  }
  __device__ __forceinline__ static unsigned slot() { return threadIdx.x % kWarp / kWindowLanes; }

  // The slot's rows of a unit: lane j has the query of pass j.
  struct UnitRows {
    std::int32_t b, m;
    std::int32_t query;  // -1: none
  };

  __device__ __forceinline__ UnitRows rows_of(std::int32_t index) const {
    Unit const unit(p_, schedule_, min(index, schedule_.units - 1));
    auto const pass = static_cast<std::int32_t>(j_ % Config::kPasses);
    std::int32_t const place = unit.tile * Config::kTileRows +
                               (pass * kWindowConsumers + warp()) * kWindowSlots +
                               static_cast<std::int32_t>(slot());
    return {unit.b, unit.m, index < schedule_.units ? __ldg(schedule_.queries + place) : -1};
  }
  // All lanes of the warp call it.
  __device__ __forceinline__ Row row_of(UnitRows const& rows, int pass) const {
    std::int32_t const query = __shfl_sync(0xffffffffu, rows.query, pass, kWindowLanes);
    return {rows.b, max(query, 0), rows.m, query >= 0};
  }
  // The lane's pair i of points on its level.
  __device__ __forceinline__ unsigned pair(int i) const {
    // Eight lanes load from, and store to, different banks.
    unsigned const first = Config::kPairs == 2 ? slot() % 2 : threadIdx.x / 2 % Config::kPairs;
    return static_cast<unsigned>(i) ^ first;
  }
  __device__ __forceinline__ int point_of_level(int n) const {
    return static_cast<int>(pair(n / 2)) * 2 + n % 2;
  }

  // The lane's level; those without one locate what is not read.
  __device__ __forceinline__ bool has_level() const {
    return static_cast<std::int32_t>(j_) < schedule_.level_count;
  }
  __device__ __forceinline__ WindowLevel const& window() const {
    return schedule_.levels[has_level() ? j_ : 0];
  }

  // Loads the inputs of the lane's level: past L1 where they lie in vectors. Points that are not
  // there lie nowhere.
  __device__ __forceinline__ void load(UnitRows const& rows) {
#pragma unroll
    for (int pass = 0; pass < Config::kPasses; ++pass) {
#pragma unroll
      for (RawPoint& point : raw_[pass]) point = {INFINITY, 0.0f, 0.0f};
      if (schedule_.wide_inputs) {
        load_vectors(rows, pass, raw_[pass]);
      } else {
        load_located(rows, pass, raw_[pass]);
      }
    }
  }
  __device__ __forceinline__ void load_vectors(UnitRows const& rows, int pass,
                                               RawPoint (&raw)[Config::kPoints]) const {
    Row const at_row = row_of(rows, pass);
    if (!at_row.is_there || !has_level()) return;
    PointRow const row(p_, at_row.b, at_row.q, at_row.m);
    std::int64_t const k0 = p_.near_levels[window().level].point_start;
    const char* const coord = static_cast<const char*>(p_.coord) + (row.coord + 2 * k0) * 4;
    const char* const weight = static_cast<const char*>(p_.weight) + (row.weight + k0) * 4;
#pragma unroll
    for (int i = 0; i < Config::kPairs; ++i) {
      std::uint32_t at[4], weights[2];
      ptx::stream_global<16>(coord + pair(i) * 16, at);
      ptx::stream_global<8>(weight + pair(i) * 8, weights);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        raw[2 * i + n] = {__uint_as_float(at[2 * n]), __uint_as_float(at[2 * n + 1]),
                          __uint_as_float(weights[n])};
      }
    }
  }
  // Any inputs, as positions in pixels and weights. All lanes of the warp call it.
  __device__ __forceinline__ void load_located(UnitRows const& rows, int pass,
                                               RawPoint (&raw)[Config::kPoints]) const {
    Row const row = row_of(rows, pass);
    PointRow const points(p_, row.b, row.q, row.m);
    RowWeights<Config> const weights(p_, points, j_);
    if (!row.is_there || !has_level()) return;
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

  __device__ __forceinline__ void put(int pass, int n, WindowRecord const& record) const {
    std::uint32_t const at = records_ + pass * Config::kPassBytes + j_ * Config::kLevelBytes +
                             pair(n / 2) * Config::kPairBytes + n % 2 * Config::kRecordBytes;
    if constexpr (Config::kFp16Sums) {
      ptx::store_shared(at, record.place, record.second);
    } else {
      ptx::store_shared(at, record.place, record.second, record.upper, record.lower);
    }
  }
  // Adding 1.5 * 2^23 rounds a number down to the last bits of the sum, which are the number's.
  struct Floor {
    std::int32_t pixel;
    float fraction;

    __device__ __forceinline__ explicit Floor(float x) {
      constexpr float kRoundTo = 12582912.0f;
      float const sum = __fadd_rd(x, kRoundTo);
      pixel = __float_as_int(sum) - __float_as_int(kRoundTo);
      fraction = __fsub_rn(x, __fsub_rn(sum, kRoundTo));
    }
  };

  // Locates the points of the lane's level. Returns whether some are far. What is no number, or
  // too far out to be rounded, is in no window and no level.
  __device__ __forceinline__ bool locate(int pass) const {
    WindowLevel const window = this->window();
    LevelParams const& level = p_.near_levels[window.level];
    WindowOrigin const origin = shared_.origin[has_level() ? j_ : 0];
    auto const columns = static_cast<std::uint32_t>(window.columns - 1);
    auto const lines = static_cast<std::uint32_t>(window.rows - 1);
    auto const level_columns = static_cast<std::uint32_t>(level.width + 1);
    auto const level_lines = static_cast<std::uint32_t>(level.height + 1);
    float const width = schedule_.wide_inputs ? static_cast<float>(level.width) : 1.0f;
    float const height = schedule_.wide_inputs ? static_cast<float>(level.height) : 1.0f;
    float const shift = schedule_.wide_inputs ? -0.5f : -0.0f;
    bool has_far = false;
#pragma unroll
    for (int n = 0; n < Config::kPoints; ++n) {
      RawPoint const& raw = raw_[pass][n];
      Floor x(__fadd_rn(__fmul_rn(raw.x, width), shift));
      Floor y(__fadd_rn(__fmul_rn(raw.y, height), shift));
      float weight = raw.weight;
      auto const column = static_cast<std::uint32_t>(x.pixel - origin.x);
      auto const line = static_cast<std::uint32_t>(y.pixel - origin.y);
      std::uint32_t left = line * (columns + 1) + column, flags = 0;
      if (!(column < columns && line < lines)) {
        left = x.pixel & 1;
        if (static_cast<std::uint32_t>(x.pixel + 1) < level_columns &&
            static_cast<std::uint32_t>(y.pixel + 1) < level_lines) {
          flags = kIsFar;
          has_far = true;
          far_place(static_cast<int>(j_), pass, point_of_level(n)) =
              static_cast<std::uint32_t>(y.pixel + 1) << 16 |
              static_cast<std::uint32_t>(x.pixel + 1);
        } else {  // a weight that is no number makes the result none, whatever it weighs
          weight *= 0.0f;
          x.fraction = y.fraction = 0.0f;
        }
      }
      left += static_cast<std::uint32_t>(window.first_pixel);
      bool const is_turned = ((left ^ slot()) & 1) != 0;
      float const right = in_units<Config::kFp16Sums>(x.fraction);
      float const lower = __fmul_rn(weight, y.fraction);
      put(pass, n,
          record_of<Config>((left + (is_turned ? 1 : 0)) | flags, is_turned,
                            is_turned ? 1.0f - right : right, __fsub_rn(weight, lower), lower));
    }
    return has_far;
  }

  // Column + 1 and row + 1 of a far point's upper left pixel.
  __device__ __forceinline__ std::uint32_t& far_place(int level, int pass, int n) const {
    return shared_
        .far_places[warp()][((pass * kMaxWindows + level) * Config::kPoints + n) * kWindowSlots +
                            static_cast<int>(slot())];
  }

  // ---- gather

  using Vec = msda::Vec<Config::kVecBytes>;

  __device__ __forceinline__ static void get(std::uint32_t at, WindowRecord (&records)[2]) {
    std::uint32_t words[4];
    ptx::load_shared(at, words);
    if constexpr (Config::kFp16Sums) {
      records[0] = {words[0], words[1], 0, 0};
      records[1] = {words[2], words[3], 0, 0};
    } else {
      records[0] = {words[0], words[1], words[2], words[3]};
      ptx::load_shared(at + Config::kRecordBytes, words);
      records[1] = {words[0], words[1], words[2], words[3]};
    }
  }

  // A point's pixels as RowSums takes them; row_bytes: from a row of the window to the next.
  __device__ __forceinline__ void load_pixels(std::uint32_t row_bytes, WindowRecord const& record,
                                              Vec (&value)[4]) const {
    std::uint32_t const first = vecs_ + (record.place & kPixelMask) * kPixelBytes;
    std::uint32_t const second = first + record.to_second();
    ptx::load_shared(first, value[0].word);
    ptx::load_shared(second, value[1].word);
    ptx::load_shared(first + row_bytes, value[2].word);
    ptx::load_shared(second + row_bytes, value[3].word);
  }

  // The pixels of a far point, from memory; zeros beside the level.
  __device__ __forceinline__ void load_far(LaneValues<Config> const& values,
                                           LevelParams const& level, std::uint32_t place,
                                           Vec (&value)[4]) const {
    std::int32_t const x = static_cast<std::int32_t>(place & 0xffffu) - 1;
    std::int32_t const y = static_cast<std::int32_t>(place >> 16) - 1;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int const column = static_cast<int>((static_cast<unsigned>(i) ^ slot()) & 1);
      value[i] = values.load(level, column_of<Config>(x, column), y + i / 2);
    }
  }

  // Adds the points of a level; kHasFar: some of them have to be read from memory.
  template <bool kHasFar>
  __device__ __forceinline__ void gather(std::int32_t i, int pass, std::uint32_t row_bytes,
                                         UnitRows const& rows, RowSums<Config>& sums) const {
    constexpr int kInFlight = kHasFar ? 2 : Config::kInFlight;
    Row const row = kHasFar ? row_of(rows, pass) : Row{};
    constexpr bool kOneByOne = kHasFar && !Config::kFp16Sums;  // or addresses take all registers
    std::uint32_t at =
        records_ + pass * Config::kPassBytes + static_cast<std::uint32_t>(i) * Config::kLevelBytes;
#pragma unroll 1
    for (int n = 0; n < Config::kPoints; n += kInFlight) {
      constexpr int kPairs = kInFlight / 2;
      WindowRecord record[kPairs][2];
      Vec value[kPairs][2][4];
#pragma unroll
      for (int u = 0; u < kPairs; ++u) get(at + u * Config::kPairBytes, record[u]);
      at += kPairs * Config::kPairBytes;
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) {
        if (kHasFar && record[u / 2][u % 2].is_far()) {
          load_far(LaneValues<Config>(p_, row, j_), p_.near_levels[schedule_.levels[i].level],
                   far_place(i, pass, n + u), value[u / 2][u % 2]);
        } else {
          load_pixels(row_bytes, record[u / 2][u % 2], value[u / 2][u % 2]);
        }
        if constexpr (kOneByOne) add_one(record[u / 2][u % 2], value[u / 2][u % 2], sums);
      }
#pragma unroll
      for (int u = 0; u < kPairs && !kOneByOne; ++u) add(record[u], value[u], sums);
    }
  }

  __device__ __forceinline__ static void add(WindowRecord const (&record)[2],
                                             Vec const (&value)[2][4], RowSums<Config>& sums) {
    if constexpr (Config::kFp16Sums) {
      auto const weights = [](WindowRecord const& of) {
        return Fp16Weights(half2_of(of.second), __habs2(__high2half2(half2_of(of.place))));
      };
      Fp16Weights const of_points[2] = {weights(record[0]), weights(record[1])};
      sums.add_fp16(of_points, value, [](int, int) { return true; });
    } else {
      add_one(record[0], value[0], sums);
      add_one(record[1], value[1], sums);
    }
  }
  __device__ __forceinline__ static void add_one(WindowRecord const& record, Vec const (&value)[4],
                                                 RowSums<Config>& sums) {
    sums.add_one({0, record.second, record.upper, record.lower}, value, false,
                 [](int) { return true; });
  }

  // Sums and stores the rows of some passes on the exact path.
  __device__ __forceinline__ void sum_again(UnitRows const& rows, unsigned passes) const {
#pragma unroll 1
    for (; passes != 0; passes &= passes - 1) {
      Row const row = row_of(rows, Config::kPasses > 1 && (passes & 1) == 0 ? 1 : 0);
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
  std::uint32_t records_;  // the slot's first pair
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
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  ptx::launch_dependents();
  ptx::wait_for_previous_grid();
  auto const warp = static_cast<std::int32_t>(threadIdx.x / kWarp);
  if (warp == kWindowConsumers) {
    Producer<Config>(maps, p, schedule, shared).run();
  } else {
    Consumer<Config>(p, schedule, shared).run();
  }
}

}  // namespace msda::tma
