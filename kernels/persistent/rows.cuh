// The kernel of the persistent family. README.md here has the schedule and its count.
#pragma once

#include "kernels/common/pieces.cuh"
#include "kernels/common/sampling.cuh"
#include "kernels/persistent/inputs.cuh"
#include "kernels/persistent/persistent.h"

namespace msda::persistent {

template <ValueType kTypeOfValue, Channels kMostChannels, Points kPointsOfLevel,
          Spread kSpreadOfRow, bool kIsFused, bool kIsGrouped, bool kIsAligned>
struct RowsConfig {
  static constexpr ValueType kType = kTypeOfValue;
  using Element = typename ValueTraits<kType>::Element;
  static constexpr int kElementBytes = sizeof(Element);
  static constexpr int kPoints = kPointsOfLevel;
  static constexpr bool kFused = kIsFused;
  static constexpr bool kAligned = kIsAligned;  // values
  static constexpr int kPieceBytes = persistent::kPieceBytes;
  static constexpr int kChannels = channels_of_piece(kElementBytes);
  static constexpr Layout kLayout =
      layout_of(kMostChannels, kElementBytes, kSpreadOfRow, kIsGrouped);
  static constexpr int kLanes = kLayout.lanes;    // of a slot: they share the channels
  static constexpr int kHeads = kLayout.heads;    // neighbouring slots work on neighbouring heads
  static constexpr int kSpread = kLayout.spread;  // slots that share the points of a row
  static constexpr int kQueries = kLayout.queries;
  // Neighbouring slots share a row, and their banks by the parity of pixels.
  static constexpr bool kByParity = kLayout.by_parity;
  static constexpr int kPieces = kMostChannels / kChannels / kLanes;  // of a lane
  static constexpr int kBatch = kLanes * kSpread <= 4   ? 4
                                : kLanes * kSpread == 8 ? 2
                                                        : 1;  // points a lane prepares
  static constexpr int kChunk = kLanes * kSpread * kBatch;    // points of a row
  // Points whose loads are out at a time.
  static constexpr int kInFlight = !kAligned || kPieces > 1 || kLanes == 1 ? 1
                                   : kSpreadOfRow == s4 ? (kLanes < 4 ? kLanes : 4)
                                                        : 2;
  // As many as there are registers for without spilling; measured best for the first of them.
  static constexpr int kThreads = !kAligned                                          ? 256
                                  : kSpreadOfRow == s4                               ? 512
                                  : kFused || kPoints == 0 || kType == ValueType::f8 ? 640
                                                                                     : 768;
  // A level for all points of a batch, known when compiled.
  static constexpr bool kLevelOfBatch = kPoints > 0 && kPoints % kBatch == 0;
  // And the steps to the row below, one for each lane of a slot, few enough to be kept.
  static constexpr bool kRowsOfChunk = kLevelOfBatch && kSpread == 1 && kLanes <= 4;
  static constexpr int kPlaces = kPoints > 0 ? kInlineLevels : kMostPoints;
};

// Of the level of a point, or of P points: what locating needs.
struct alignas(16) Place {
  float width;
  float height;
  float row_tokens;      // from a pixel to the one below
  std::uint32_t origin;  // of pixel (0, 0), in steps of 16 bytes
};

// One located point: two neighbouring pixels of a row, and the two below.
struct alignas(16) Record {
  std::uint32_t first;  // the first pixel of the upper row, in steps of 16 bytes
  float share;          // of the second; negative: the second is to the left of the first
  float upper;          // attention weight times share of the upper row
  float lower;
};
inline constexpr std::uint32_t kRecordsBytes = 32 * sizeof(Record);  // of a buffer

template <class Config>
struct Shared {
  Record records[Config::kThreads / 32][2][32];
  Place places[Config::kPlaces];
  std::uint8_t level_of[Config::kPlaces];
  std::uint32_t taken;  // jobs drawn
};

// In shared memory, by its address there: written out, because the compiler else computes the
// address anew for each access.
__device__ __forceinline__ void put_record(std::uint32_t at, Record const& record) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(record.first),
               "r"(__float_as_uint(record.share)), "r"(__float_as_uint(record.upper)),
               "r"(__float_as_uint(record.lower))
               : "memory");
}
__device__ __forceinline__ Record get_record(std::uint32_t at) {
  std::uint32_t first, share, upper, lower;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(first), "=r"(share), "=r"(upper), "=r"(lower)
               : "r"(at));
  return {first, __uint_as_float(share), __uint_as_float(upper), __uint_as_float(lower)};
}

// A point on an axis of n pixels, between pixels `base` and base + 1, both of which are there where
// n is 2 or more. Where the point is beside the map, or half so, the weights say it.
struct Between {
  float base;
  float from_base;  // the point's distance from it: below 0 and from 1 on it is beside the two
  float share;      // of pixel base + 1
  float inside;     // what is left of the weight; 0 also where x is no number
};

__device__ __forceinline__ Between between(float x, float n) {
  float const base = floorf(fminf(fmaxf(x, 0.0f), fmaxf(n - 2.0f, 0.0f)));
  float const from_base = x - base;
  float const share = __saturatef(from_base);
  return {base, from_base, share, __saturatef(1.0f - fabsf(from_base - share))};
}

// What a warp draws: a run of rows.
struct Job {
  std::uint32_t item;   // batch item
  std::uint32_t group;  // of heads
  std::uint32_t first;  // visit of a query that the warp's first slot works on
  bool is_there;
};

// A lane's row.
struct Row {
  std::int64_t row;    // (b Q + q) M + m
  std::int64_t query;  // b Q + q
  std::int32_t m;
  const char* values;  // of the batch item and the head
  bool is_there;
};

template <class Config>
class Warp {
 public:
  __device__ Warp(Params const& p, Work const& work, Shared<Config>& shared)
      : p_(p),
        work_(work),
        shared_(shared),
        lane_(threadIdx.x % 32),
        j_(lane_ % Config::kLanes),
        sub_(lane_ / (Config::kLanes * Config::kHeads) % Config::kSpread),
        K_(static_cast<int>(p.point_total)) {
    auto const records = static_cast<std::uint32_t>(
        __cvta_generic_to_shared(&shared.records[threadIdx.x / 32][0][0]));
    put_ = records + lane_ * std::uint32_t{sizeof(Record)};
    get_ = records + (lane_ - j_) * std::uint32_t{sizeof(Record)};
    // A shuffle's result has to be kept, the formula would be computed again for each access.
    put_ = __shfl_sync(0xffffffffu, put_, lane_);
    get_ = __shfl_sync(0xffffffffu, get_, lane_);
  }

  __device__ void run() {
    Job job = draw();
    if (!job.is_there) return;
    Row row = row_of(job);
    Inputs<Config::kBatch> inputs = read(row, 0);
    while (true) {
      Job const next = draw();
      Row const next_row = next.is_there ? row_of(next) : row;
      start(row);
      if (Config::kAligned && !work_.strict) {
        sum_quickly(row, next_row, inputs);
      } else {
        inputs = read(next_row, 0);
      }
      if (!Config::kAligned || work_.strict || is_suspect()) {
        clear();
        sum_strictly(row);
      }
      add_subs();
      store(row);
      if (!next.is_there) return;
      row = next_row;
    }
  }

 private:
  using Corner = PieceOf<Config::kPieceBytes>[Config::kPieces];  // a pixel

  // ---- which rows

  __device__ Job draw() const {
    std::uint32_t n = 0;
    if (lane_ == 0) n = atomicAdd(&shared_.taken, 1u);
    n = __shfl_sync(0xffffffffu, n, 0);
    std::uint32_t const round = work_.piece_jobs.quotient(n);
    std::uint32_t const turned = blockIdx.x + round * work_.rotation;
    std::uint32_t const block = turned - work_.blocks.quotient(turned) * work_.blocks.divisor;
    std::uint32_t const piece = round * work_.blocks.divisor + block;
    std::uint32_t const index =
        piece * work_.piece_jobs.divisor + (n - round * work_.piece_jobs.divisor);
    if (index >= work_.jobs) return {0, 0, 0, false};
    std::uint32_t const item = work_.item_jobs.quotient(index);
    std::uint32_t const in_item = index - item * work_.item_jobs.divisor;
    std::uint32_t const group = work_.group_jobs.quotient(in_item);
    return {item, group, (in_item - group * work_.group_jobs.divisor) * Config::kQueries, true};
  }

  __device__ Row row_of(Job const& job) const {
    unsigned const slot = lane_ / Config::kLanes;
    std::uint32_t const wanted = job.first + slot / (Config::kHeads * Config::kSpread);
    bool const is_there = wanted < work_.visits;
    std::uint32_t const visit = is_there ? wanted : 0;
    auto const m = static_cast<std::int32_t>(job.group * Config::kHeads + slot % Config::kHeads);
    std::int32_t const q =
        work_.order == nullptr ? static_cast<std::int32_t>(visit) : __ldg(work_.order + visit);
    std::int64_t const query = job.item * p_.query_count + q;
    std::int64_t const first_value = job.item * p_.value_strides.batch + m * p_.value_strides.head;
    return {query * p_.head_count + m, query, m,
            static_cast<const char*>(p_.value) + first_value * Config::kElementBytes, is_there};
  }

  // The first point that the lane prepares of the chunk at k0.
  __device__ int first_point(int k0) const {
    return k0 + static_cast<int>((sub_ * Config::kLanes + j_) * Config::kBatch);
  }

  __device__ __forceinline__ Inputs<Config::kBatch> read(Row const& row, int k0) const {
    return read_inputs<Config::kBatch>(p_, work_, row.row * K_, first_point(k0), lane_);
  }

  // ---- a row

  __device__ __forceinline__ void start(Row const& row) {
    int const last = static_cast<int>(p_.head_dim) / Config::kChannels - 1;
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
      // Pieces behind the last one repeat it: they cost no line and are not stored.
      values_[n] =
          row.values + min(static_cast<int>(j_) + n * Config::kLanes, last) * Config::kPieceBytes;
      asm volatile("" : "+l"(values_[n]));
    }
    clear();
    if constexpr (Config::kFused) softmax_ = softmax_of_row(row);
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) sum_[n][c] = 0.0f;
    }
  }

  // Whether a pixel that is not part of the result, weighed with zero, may have spoilt it: it was
  // infinite or no number, and so is a sum now.
  __device__ __forceinline__ bool is_suspect() const {
    float check = 0.0f;
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) check = fmaf(sum_[n][c], 0.0f, check);
    }
    return __any_sync(0xffffffffu, check != check);
  }

  __device__ int place_of(int k) const {
    return Config::kPoints > 0 ? k / max(Config::kPoints, 1) : min(k, K_ - 1);
  }

  __device__ Softmax<float> softmax_of_row(Row const& row) const {
    Softmax<float> result{-INFINITY, 0.0f};
    std::int64_t const first = row.row * K_;
    int const lane = static_cast<int>(sub_ * Config::kLanes + j_);
    constexpr int kLanes = Config::kLanes * Config::kSpread;
    for (int k = lane; k < K_; k += kLanes) {
      float const logit = load_narrow(p_.weight_dtype, p_.weight, first + k);
      result.largest = logit > result.largest ? logit : result.largest;
    }
    for_lanes_of_row([&](int distance) {
      float const other = __shfl_xor_sync(0xffffffffu, result.largest, distance);
      result.largest = other > result.largest ? other : result.largest;
    });
    for (int k = lane; k < K_; k += kLanes) {
      result.sum += expf(load_narrow(p_.weight_dtype, p_.weight, first + k) - result.largest);
    }
    for_lanes_of_row(
        [&](int distance) { result.sum += __shfl_xor_sync(0xffffffffu, result.sum, distance); });
    return result;
  }

  // The distances over which a row's lanes are combined, its slots first.
  template <class Fn>
  __device__ __forceinline__ static void for_lanes_of_row(Fn fn) {
    for_subs(fn);
#pragma unroll
    for (int distance = Config::kLanes / 2; distance > 0; distance /= 2) fn(distance);
  }
  template <class Fn>
  __device__ __forceinline__ static void for_subs(Fn fn) {
#pragma unroll
    for (int sub = Config::kSpread / 2; sub > 0; sub /= 2)
      fn(sub * Config::kHeads * Config::kLanes);
  }

  // A point in pixels of its level.
  __device__ __forceinline__ float2 to_pixels(Row const& row, float width, float height, int k,
                                              float x, float y) const {
    if constexpr (!Config::kFused) {
      return {x * width - 0.5f, y * height - 0.5f};
    } else {
      Reference<float> const reference = reference_of(row, k);
      if (p_.reference_dim == 2) {
        return {reference.x * width - 0.5f + x, reference.y * height - 0.5f + y};
      }
      int const l = shared_.level_of[place_of(k)];
      float const step = 0.5f / static_cast<float>(p_.near_levels[l].point_count);
      return {(reference.x + x * (reference.width * step)) * width - 0.5f,
              (reference.y + y * (reference.height * step)) * height - 0.5f};
    }
  }

  __device__ __forceinline__ Reference<float> reference_of(Row const& row, int k) const {
    int const l = shared_.level_of[place_of(k)];
    return Reference<float>(p_, (row.query * p_.level_count + l) * p_.reference_dim);
  }

  // ---- quickly: every lane prepares kBatch points, one after the other; after each, all lanes of
  // a slot add those of the slot's lanes. Pixels that are not part of the result weigh nothing.

  __device__ __forceinline__ void sum_quickly(Row const& row, Row const& next_row,
                                              Inputs<Config::kBatch>& inputs) {
#pragma unroll 1
    for (int k0 = 0; k0 < K_; k0 += Config::kChunk) {
      Batch<Config::kBatch> points = to_points(inputs, p_.coord_dtype, p_.weight_dtype,
                                               halves_are_turned<Config::kBatch>(p_, work_, lane_));
      int const first = first_point(k0);
      int const batches = min(
          Config::kLanes, (K_ - k0 + Config::kBatch - 1) / Config::kBatch);  // of the first slot
      Place place;
      if constexpr (Config::kLevelOfBatch) place = shared_.places[place_of(min(first, K_ - 1))];
      // Known when compiled, but for k0: kept for the chunk.
      std::uint32_t rows[Config::kLanes];
      if constexpr (Config::kRowsOfChunk) {
#pragma unroll
        for (int j = 0; j < Config::kLanes; ++j) rows[j] = row_units(k0 + j * Config::kBatch);
      }
      auto const prepare = [&](int t) {
        int const k = min(first + t, K_ - 1);
        if constexpr (!Config::kLevelOfBatch) place = shared_.places[place_of(k)];
        float weight = Config::kFused ? softmax_.weight(points.weight[0]) : points.weight[0];
        if (first + t >= K_) weight = 0.0f;
        put_record(put_ + buffer_, locate(row, place, k, points.x[0], points.y[0], weight));
      };
      // Not unrolled: the loop would not fit the instruction cache.
#pragma unroll 1
      for (int t = 0; t < Config::kBatch - 1; ++t) {
        prepare(t);
        points.advance();
        gather_all(k0 + t, batches, rows);
      }
      prepare(Config::kBatch - 1);
      // Used up: the next ones travel while these are gathered.
      bool const is_last = k0 + Config::kChunk >= K_;
      inputs = read(is_last ? next_row : row, is_last ? 0 : k0 + Config::kChunk);
      gather_all(k0 + Config::kBatch - 1, batches, rows);
    }
  }

  __device__ __forceinline__ void gather_all(int k, int batches,
                                             std::uint32_t const (&rows)[Config::kLanes]) {
    __syncwarp();
    if (batches == Config::kLanes) {
#pragma unroll
      for (int j = 0; j < Config::kLanes; j += Config::kInFlight) {
        gather<Config::kInFlight>(j, k, rows);
      }
    } else {
#pragma unroll 1
      for (int j = 0; j < batches; ++j) gather<1, false>(j, k, rows);
    }
    buffer_ ^= kRecordsBytes;
  }

  __device__ __forceinline__ Record locate(Row const& row, Place const& place, int k, float x,
                                           float y, float weight) const {
    float2 const at = to_pixels(row, place.width, place.height, k, x, y);
    Between const bx = between(at.x, place.width), by = between(at.y, place.height);
    // Exact: levels of 2^24 tokens or more are summed strictly.
    auto pixel = static_cast<std::uint32_t>(
        static_cast<std::int32_t>(fmaf(by.base, place.row_tokens, bx.base)));
    float share = bx.share;
    if constexpr (Config::kByParity) {
      // Pixels are 64 bytes: parity says which half of a line they are.
      bool const turned = is_turned(pixel);
      pixel += turned ? 1 : 0;
      share = turned ? -(1.0f - share) : share;
    }
    float const total = weight * bx.inside * by.inside;
    float const lower = __fmul_rn(total, by.share);
    return {pixel * work_.pixel_units + place.origin, share, __fsub_rn(total, lower), lower};
  }

  // Whether the right one of two pixels comes first. All slots read even and odd ones in turn, and
  // neighbouring slots begin differently.
  __device__ __forceinline__ bool is_turned(std::uint32_t pixel) const {
    return (pixel & 1) != (sub_ & 1);
  }

  // Points k + j kBatch of lanes j to j + kCount - 1: all loads first, then the sums.
  template <int kCount, bool kRowsOfChunk = Config::kRowsOfChunk>
  __device__ __forceinline__ void gather(int j, int k,
                                         std::uint32_t const (&rows)[Config::kLanes]) {
    Record record[kCount];
    Corner value[kCount][4];
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      record[u] = get_record(get_ + buffer_ + (j + u) * static_cast<int>(sizeof(Record)));
      int const lane = j + u + (Config::kSpread == 1 ? 0 : static_cast<int>(sub_) * Config::kLanes);
      std::uint32_t const row = kRowsOfChunk ? rows[j + u] : row_units(k + lane * Config::kBatch);
      load_corners(record[u], row, value[u]);
    }
#pragma unroll
    for (int u = 0; u < kCount; ++u) add(record[u], value[u]);
  }

  __device__ __forceinline__ void load_corners(Record const& record, std::uint32_t row,
                                               Corner (&value)[4]) const {
    std::uint32_t beside = work_.pixel_units;
    if constexpr (Config::kByParity) {
      beside = __float_as_int(record.share) < 0 ? 0u - beside : beside;  // also of -0
    }
    std::uint32_t const units[4] = {record.first, record.first + beside, record.first + row,
                                    record.first + row + beside};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int n = 0; n < Config::kPieces; ++n) {
        value[i][n] =
            load_piece<Config>(values_[n] + static_cast<std::uint64_t>(units[i]) * kUnitBytes);
      }
    }
  }

  __device__ __forceinline__ void add(Record const& record, Corner const (&value)[4]) {
    float const share = Config::kByParity ? fabsf(record.share) : record.share;
    // As written, not contracted: add_inside() has to form the same numbers.
    float const second_upper = __fmul_rn(record.upper, share);
    float const second_lower = __fmul_rn(record.lower, share);
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
      multiply_add<Config>(sum_[n], __fsub_rn(record.upper, second_upper), value[0][n]);
      multiply_add<Config>(sum_[n], second_upper, value[1][n]);
      multiply_add<Config>(sum_[n], __fsub_rn(record.lower, second_lower), value[2][n]);
      multiply_add<Config>(sum_[n], second_lower, value[3][n]);
    }
  }

  __device__ __forceinline__ std::uint32_t row_units(int k) const {
    if constexpr (Config::kPoints > 0) {
      return work_.row_units[k / Config::kPoints];
    } else {
      return work_.row_units[shared_.level_of[min(k, K_ - 1)]];
    }
  }

  // ---- strictly: the same sums in the same order, but nothing is read that is not part of the
  // result. Any level, any alignment. A slot's lanes all locate every point.

  __device__ void sum_strictly(Row const& row) {
    if (!row.is_there) return;
#pragma unroll 1
    for (int k0 = 0; k0 < K_; k0 += Config::kChunk) {
#pragma unroll 1
      for (int t = 0; t < Config::kBatch; ++t) {
#pragma unroll 1
        for (int j = 0; j < Config::kLanes; ++j) {
          int const k = k0 + (static_cast<int>(sub_) * Config::kLanes + j) * Config::kBatch + t;
          if (k < K_) add_strictly(row, k);
        }
      }
    }
  }

  __device__ void add_strictly(Row const& row, int k) {
    std::int64_t const at = row.row * K_ + k;
    float const x = load_narrow(p_.coord_dtype, p_.coord, 2 * at);
    float const y = load_narrow(p_.coord_dtype, p_.coord, 2 * at + 1);
    float weight = load_narrow(p_.weight_dtype, p_.weight, at);
    if constexpr (Config::kFused) weight = softmax_.weight(weight);
    LevelParams const& level = p_.near_levels[shared_.level_of[place_of(k)]];
    auto const width = static_cast<float>(level.width), height = static_cast<float>(level.height);
    float2 const pixel = to_pixels(row, width, height, k, x, y);
    // False where a coordinate is no number, and in an empty level.
    bool const inside = pixel.x >= -1.0f && pixel.x < width && pixel.y >= -1.0f &&
                        pixel.y < height && width > 0.0f && height > 0.0f;
    if (inside) return add_inside(level, pixel, weight);
    // A weight that is NaN makes the result NaN, whatever it weighs; a coordinate that is no number
    // makes the point nothing.
    float check = zero_if_number(x) + zero_if_number(y);
    if constexpr (Config::kFused) {
      check += reference_of(row, k).check;
      if (p_.reference_dim == 2 && !(width > 0.0f && height > 0.0f)) return;
    }
    if (check != check) return;
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) sum_[n][c] += weight * 0.0f;
    }
  }

  __device__ void add_inside(LevelParams const& level, float2 const& at, float weight) {
    Between const bx = between(at.x, static_cast<float>(level.width));
    Between const by = between(at.y, static_cast<float>(level.height));
    auto const x = static_cast<std::int32_t>(bx.base);
    auto const y = static_cast<std::int32_t>(by.base);
    bool const has_left = bx.from_base < 1.0f;
    bool const has_right = bx.from_base >= 0.0f && x + 1 < level.width;
    bool const has_upper = by.from_base < 1.0f;
    bool const has_lower = by.from_base >= 0.0f && y + 1 < level.height;
    std::int64_t const in_level = y * level.row_tokens + x;
    // As in locate() and add().
    bool const turned = Config::kByParity && is_turned(static_cast<std::uint32_t>(in_level));
    float const share = turned ? 1.0f - bx.share : bx.share;
    float const total = weight * bx.inside * by.inside;
    float const lower = __fmul_rn(total, by.share);
    float const upper = __fsub_rn(total, lower);
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      bool const second = i & 1;
      int const dx = second != turned ? 1 : 0, dy = i / 2;
      if (!(dx == 0 ? has_left : has_right) || !(dy == 0 ? has_upper : has_lower)) continue;
      float const of_row = dy == 0 ? upper : lower;
      float const of_second = __fmul_rn(of_row, share);
      float const corner = second ? of_second : __fsub_rn(of_row, of_second);
      std::int64_t const token = level.origin + in_level + dy * level.row_tokens + dx;
#pragma unroll
      for (int n = 0; n < Config::kPieces; ++n) {
        auto const value =
            load_piece<Config>(values_[n] + token * p_.value_strides.row * Config::kElementBytes);
        multiply_add<Config>(sum_[n], corner, value);
      }
    }
  }

  // ---- results

  // The slots of a row each have the sum of their points.
  __device__ void add_subs() {
    for_subs([&](int distance) {
#pragma unroll
      for (int n = 0; n < Config::kPieces; ++n) {
#pragma unroll
        for (int c = 0; c < Config::kChannels; ++c) {
          sum_[n][c] += __shfl_xor_sync(0xffffffffu, sum_[n][c], distance);
        }
      }
    });
  }

  __device__ void store(Row const& row) const {
    if (!row.is_there || sub_ != 0) return;
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
      int const channel = (static_cast<int>(j_) + n * Config::kLanes) * Config::kChannels;
      if (channel >= p_.head_dim) continue;
      float scaled[Config::kChannels];
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) {
        scaled[c] = Config::kType == ValueType::f8 ? sum_[n][c] * p_.scale_of(row.m) : sum_[n][c];
      }
      store_piece<Config>(p_.output_dtype, p_.output, row.row * p_.head_dim + channel, scaled,
                          work_.aligned_output);
    }
  }

  Params const& p_;
  Work const& work_;
  Shared<Config>& shared_;
  unsigned lane_;
  unsigned j_;    // of the slot
  unsigned sub_;  // of the slots that share a row
  int K_;
  std::uint32_t put_, get_;  // in shared memory: the lane's record, the first of its slot
  std::uint32_t buffer_ = 0;
  Softmax<float> softmax_{};
  const char* values_[Config::kPieces];
  float sum_[Config::kPieces][Config::kChannels];
};

// The block's table of places: a level each where all have kPoints points, else a point each.
template <class Config>
__device__ void fill_places(Params const& p, Work const& work, Shared<Config>& shared) {
  int const count = Config::kPoints > 0 ? p.level_count : static_cast<int>(p.point_total);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += Config::kThreads) {
    int l = i;
    if constexpr (Config::kPoints == 0) {
      l = 0;
      while (i >= p.near_levels[l].point_start + p.near_levels[l].point_count) ++l;
    }
    LevelParams const& level = p.near_levels[l];
    shared.places[i] = {static_cast<float>(level.width), static_cast<float>(level.height),
                        static_cast<float>(level.row_tokens),
                        static_cast<std::uint32_t>(level.origin) * work.pixel_units};
    shared.level_of[i] = static_cast<std::uint8_t>(l);
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    persistent_rows(const __grid_constant__ Params p, const __grid_constant__ Work work) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
  __trap();  // kLastSm: reject() keeps these devices away
#else
  __shared__ Shared<Config> shared;
  fill_places<Config>(p, work, shared);
  if (threadIdx.x == 0) shared.taken = 0;
  __syncthreads();
  Warp<Config>(p, work, shared).run();
#endif
}

}  // namespace msda::persistent
