// The kernel of the persistent family. README.md here has the schedule and its count.
#pragma once

#include "kernels/common/pieces.cuh"
#include "kernels/common/sampling.cuh"
#include "kernels/persistent/inputs.cuh"
#include "kernels/persistent/persistent.h"

namespace msda::persistent {

#ifndef MSDA_THREADS
#define MSDA_THREADS 768
#endif
#ifndef MSDA_IN_FLIGHT
#define MSDA_IN_FLIGHT 2
#endif

template <ValueType kTypeOfValue, Channels kMostChannels, Points kPointsOfLevel, bool kIsFused,
          bool kIsSplit, bool kIsAligned>
struct RowsConfig {
  static constexpr ValueType kType = kTypeOfValue;
  using Element = typename ValueTraits<kType>::Element;
  static constexpr int kElementBytes = sizeof(Element);
  static constexpr int kPoints = kPointsOfLevel;
  static constexpr bool kFused = kIsFused;
  static constexpr bool kSplit = kIsSplit;      // lanes of a slot: half a left, half a right pixel
  static constexpr bool kAligned = kIsAligned;  // values
  static constexpr int kPieceBytes = persistent::kPieceBytes;
  static constexpr int kChannels = channels_of_piece(kElementBytes);
  static constexpr int kLanes = lanes_of(kMostChannels, kElementBytes, kSplit);  // of a slot
  static constexpr int kGroup = kSplit ? kLanes / 2 : kLanes;  // lanes that share the channels
  static constexpr int kPieces = kMostChannels / kChannels / kGroup;    // of a lane
  static constexpr int kSlots = 32 / kLanes;                            // of a warp
  static constexpr int kCorners = kSplit ? 2 : 4;                       // that a lane loads
  static constexpr int kBatch = kLanes <= 4 ? 4 : kLanes == 8 ? 2 : 1;  // points a lane prepares
  static constexpr int kChunk = kLanes * kBatch;                        // points of a row
  static constexpr int kInFlight =
      !kAligned || kPieces > 1 || kLanes == 1 ? 1 : MSDA_IN_FLIGHT;  // points whose loads are out
  static constexpr int kThreads = !kAligned ? 256 : kFused || kPoints == 0 ? 640 : MSDA_THREADS;
  // A level for all points of a batch, known when compiled.
  static constexpr bool kLevelOfBatch = kPoints > 0 && kPoints % kBatch == 0;
  static constexpr int kPlaces = kPoints > 0 ? kInlineLevels : kMostPoints;
};

// Of the level of a point, or of P points: what locating needs.
struct alignas(16) Place {
  float width;
  float height;
  std::uint32_t
      origin;         // of pixel (0, 0); steps and origin in bytes, or in tokens where not kAligned
  std::uint32_t row;  // from a pixel to the one below
};

// One located point. All four pixels that it names are inside the map.
struct alignas(16) Record {
  std::uint32_t first;  // upper left pixel; aligned: its byte | flags, else its token << 2 | flags
  float fx;             // share of the right pixel
  float upper;          // attention weight times share of the upper row
  float lower;
};
inline constexpr std::uint32_t kRecordsBytes = 32 * sizeof(Record);  // of a buffer
inline constexpr std::uint32_t kNothing = 0xffffffffu;  // as `first`: no pixel is inside
inline constexpr std::uint32_t kHasRight = 1;
inline constexpr std::uint32_t kHasLower = 2;

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
               "r"(__float_as_uint(record.fx)), "r"(__float_as_uint(record.upper)),
               "r"(__float_as_uint(record.lower))
               : "memory");
}
__device__ __forceinline__ Record get_record(std::uint32_t at) {
  std::uint32_t first, fx, upper, lower;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(first), "=r"(fx), "=r"(upper), "=r"(lower)
               : "r"(at));
  return {first, __uint_as_float(fx), __uint_as_float(upper), __uint_as_float(lower)};
}

// Of a point at (x, y) in pixels, which is at least half a pixel line inside.
template <class Config>
__device__ __forceinline__ Record locate(Place const& place, float x, float y, float weight,
                                         std::uint32_t pixel) {
  Axis const ax = axis_at(x, place.width);
  Axis const ay = axis_at(y, place.height);
  std::uint32_t const at = place.origin + static_cast<std::uint32_t>(ay.first) * place.row +
                           static_cast<std::uint32_t>(ax.first) * (Config::kAligned ? pixel : 1);
  std::uint32_t const flags = (ax.has_second ? kHasRight : 0) + (ay.has_second ? kHasLower : 0);
  float const total = weight * ax.inside * ay.inside;
  float const lower = total * ay.share;
  return {(Config::kAligned ? at : at << 2) + flags, ax.share, total - lower, lower};
}

// What a warp draws: a run of rows.
struct Job {
  std::uint32_t item;   // batch item
  std::uint32_t first;  // row of the item that the warp's first slot works on
  bool is_there;
};

// A lane's row.
struct Row {
  std::int64_t row;  // (b Q + q) M + m
  std::int32_t b, q, m;
  bool is_there;
};

template <class Config>
class Warp {
 public:
  __device__ Warp(Params const& p, Work const& work, Shared<Config>& shared)
      : p_(p),
        work_(work),
        shared_(shared),
        lane_(static_cast<int>(threadIdx.x) % 32),
        j_(lane_ % Config::kLanes),
        K_(static_cast<int>(p.point_total)) {
    auto const records = static_cast<std::uint32_t>(
        __cvta_generic_to_shared(&shared.records[threadIdx.x / 32][0][0]));
    put_ = records + static_cast<std::uint32_t>(lane_ * sizeof(Record));
    get_ = records + static_cast<std::uint32_t>((lane_ - j_) * sizeof(Record));
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
      if (next.is_there && j_ * Config::kBatch < K_) {
        prefetch_inputs(p_, work_, next_row.row * K_ + j_ * Config::kBatch);
      }
      set_bases(row);
      Softmax<float> softmax{};
      if constexpr (Config::kFused) softmax = softmax_of_row(row);
#pragma unroll 1
      for (int k0 = 0; k0 < K_; k0 += Config::kChunk) {
        do_chunk(row, next_row, next.is_there, softmax, k0, inputs);
      }
      if constexpr (Config::kSplit) add_halves();
      store(row);
      if (!next.is_there) return;
      row = next_row;
    }
  }

 private:
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
    if (index >= work_.jobs) return {0, 0, false};
    std::uint32_t const item = work_.item_jobs.quotient(index);
    return {item, (index - item * work_.item_jobs.divisor) * Config::kSlots, true};
  }

  __device__ Row row_of(Job const& job) const {
    std::uint32_t const wanted = job.first + static_cast<std::uint32_t>(lane_ / Config::kLanes);
    bool const is_there = wanted < work_.item_rows;
    std::uint32_t const in_item = is_there ? wanted : 0;
    std::uint32_t const visit = work_.heads.quotient(in_item);
    auto const m = static_cast<std::int32_t>(in_item - visit * work_.heads.divisor);
    auto const b = static_cast<std::int32_t>(job.item);
    std::int32_t const q =
        work_.order == nullptr ? static_cast<std::int32_t>(visit) : __ldg(work_.order + visit);
    return {(b * p_.query_count + q) * p_.head_count + m, b, q, m, is_there};
  }

  __device__ Inputs<Config::kBatch> read(Row const& row, int k0) const {
    int const k = k0 + j_ * Config::kBatch;
    return read_inputs<Config>(p_, work_, row.row * K_ + k, row.is_there ? K_ - k : 0, lane_);
  }

  // ---- where

  __device__ void set_bases(Row const& row) {
    const char* const values =
        static_cast<const char*>(p_.value) +
        (row.b * p_.value_strides.batch + row.m * p_.value_strides.head) * Config::kElementBytes;
    int const last = static_cast<int>(p_.head_dim) / Config::kChannels - 1;
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
      // Pieces behind the last one repeat it: they cost no line and are not stored.
      values_[n] =
          values + min(j_ % Config::kGroup + n * Config::kGroup, last) * Config::kPieceBytes;
      asm volatile("" : "+l"(values_[n]));
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) sum_[n][c] = 0.0f;
    }
  }

  __device__ int place_of(int k) const {
    return Config::kPoints > 0 ? k / max(Config::kPoints, 1) : min(k, K_ - 1);
  }

  __device__ Softmax<float> softmax_of_row(Row const& row) const {
    Softmax<float> result{-INFINITY, 0.0f};
    std::int64_t const first = row.row * K_;
    for (int k = j_; k < K_; k += Config::kLanes) {
      float const logit = load_narrow(p_.weight_dtype, p_.weight, first + k);
      result.largest = logit > result.largest ? logit : result.largest;
    }
#pragma unroll
    for (int distance = Config::kLanes / 2; distance > 0; distance /= 2) {
      float const other = __shfl_xor_sync(0xffffffffu, result.largest, distance);
      result.largest = other > result.largest ? other : result.largest;
    }
    for (int k = j_; k < K_; k += Config::kLanes) {
      result.sum += expf(load_narrow(p_.weight_dtype, p_.weight, first + k) - result.largest);
    }
#pragma unroll
    for (int distance = Config::kLanes / 2; distance > 0; distance /= 2) {
      result.sum += __shfl_xor_sync(0xffffffffu, result.sum, distance);
    }
    return result;
  }

  // A point in pixels of its level.
  __device__ float2 to_pixels(Row const& row, Place const& place, int k, float x, float y) const {
    if constexpr (!Config::kFused) {
      return {x * place.width - 0.5f, y * place.height - 0.5f};
    } else {
      Reference<float> const reference = reference_of(row, k);
      if (p_.reference_dim == 2) {
        return {reference.x * place.width - 0.5f + x, reference.y * place.height - 0.5f + y};
      }
      int const l = shared_.level_of[place_of(k)];
      float const step = 0.5f / static_cast<float>(p_.near_levels[l].point_count);
      return {(reference.x + x * (reference.width * step)) * place.width - 0.5f,
              (reference.y + y * (reference.height * step)) * place.height - 0.5f};
    }
  }

  __device__ Reference<float> reference_of(Row const& row, int k) const {
    int const l = shared_.level_of[place_of(k)];
    std::int64_t const of_query = (row.b * p_.query_count + row.q) * p_.level_count;
    return Reference<float>(p_, (of_query + l) * p_.reference_dim);
  }

  // The record of a point with no pixel inside. A weight that is NaN makes the result NaN, whatever
  // it weighs; a coordinate that is no number makes the point nothing.
  __device__ __forceinline__ static Record nothing(float weight, float check) {
    return {kNothing, 0.0f, check == check ? weight * 0.0f : 0.0f, 0.0f};
  }

  __device__ __forceinline__ Record record_of(Row const& row, Place const& place, int k, float x,
                                              float y, float weight) const {
    float2 const at = to_pixels(row, place, k, x, y);
    // False where a coordinate is no number, and in an empty level.
    bool const inside = at.x >= -1.0f && at.x < place.width && at.y >= -1.0f &&
                        at.y < place.height && place.width * place.height > 0.0f;
    if (inside) return locate<Config>(place, at.x, at.y, weight, work_.pixel_bytes);
    float check = zero_if_number(x) + zero_if_number(y);
    if constexpr (Config::kFused) {
      check += reference_of(row, k).check;
      if (p_.reference_dim == 2) check += at.x * 0.0f + at.y * 0.0f;
    }
    return nothing(weight, check);
  }

  // ---- a chunk: every lane prepares kBatch points, one after the other; after each, all lanes of
  // the slot add those of the slot's lanes.

  __device__ __forceinline__ void do_chunk(Row const& row, Row const& next_row, bool has_next,
                                           Softmax<float> const& softmax, int k0,
                                           Inputs<Config::kBatch>& inputs) {
    Batch<Config::kBatch> points = to_points(inputs, p_.coord_dtype, p_.weight_dtype);
    int const first = k0 + j_ * Config::kBatch;
    int const batches =
        min(Config::kLanes, (K_ - k0 + Config::kBatch - 1) / Config::kBatch);  // of the slot
    Place place;
    if constexpr (Config::kLevelOfBatch) place = shared_.places[place_of(min(first, K_ - 1))];
#pragma unroll
    for (int t = 0; t < Config::kBatch; ++t) {
      if constexpr (!Config::kLevelOfBatch)
        place = shared_.places[place_of(min(first + t, K_ - 1))];
      float const weight =
          Config::kFused && first + t < K_ ? softmax.weight(points.weight[t]) : points.weight[t];
      Record const record =
          record_of(row, place, min(first + t, K_ - 1), points.x[t], points.y[t], weight);
      put_record(put_ + buffer_, record);
      if (t == Config::kBatch - 1) {
        // Used up: the next ones travel while these are gathered.
        if (k0 + Config::kChunk < K_) {
          inputs = read(row, k0 + Config::kChunk);
        } else if (has_next) {
          inputs = read(next_row, 0);
        }
      }
      bool const careful = __any_sync(0xffffffffu, record.first == kNothing && j_ < batches);
      __syncwarp();
      if (careful) {
#pragma unroll 1
        for (int j = 0; j < batches; ++j) gather<1, true>(j, k0 + t);
      } else {
        gather_all(k0 + t, batches);
      }
      buffer_ ^= kRecordsBytes;
    }
  }

  __device__ __forceinline__ void gather_all(int k, int batches) {
    constexpr int U = Config::kInFlight;
    if (batches == Config::kLanes) {
#pragma unroll
      for (int j = 0; j < Config::kLanes; j += U) gather<U, false>(j, k);
    } else {
#pragma unroll 1
      for (int j = 0; j < batches; ++j) gather<1, false>(j, k);
    }
  }

  // Points k + j kBatch of lanes j to j + kCount - 1: all loads first, then the sums.
  template <int kCount, bool kCareful>
  __device__ __forceinline__ void gather(int j, int k) {
    Record record[kCount];
    PieceOf<Config::kPieceBytes> value[kCount][Config::kCorners][Config::kPieces];
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      record[u] = get_record(get_ + buffer_ + (j + u) * static_cast<int>(sizeof(Record)));
      std::uint32_t const first = record[u].first;
      if (kCareful && first == kNothing) {
#pragma unroll
        for (int i = 0; i < Config::kCorners; ++i) {
#pragma unroll
          for (int n = 0; n < Config::kPieces; ++n) value[u][i][n] = {};
        }
        continue;
      }
      std::uint32_t const row = row_bytes(k + (j + u) * Config::kBatch);
      load_corners(first, row, value[u]);
    }
#pragma unroll
    for (int u = 0; u < kCount; ++u) add(record[u], value[u]);
  }

  using Corner = PieceOf<Config::kPieceBytes>[Config::kPieces];

  __device__ __forceinline__ void load_corners(std::uint32_t first, std::uint32_t row,
                                               Corner (&value)[Config::kCorners]) const {
    // The flags as factors: the step to a pixel that is not there is none.
    std::uint32_t const has_right = first & kHasRight;
    std::uint32_t const twice_lower = first & kHasLower;
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
      const char* base = values_[n];
      std::uint32_t left = first & ~3u;
      if constexpr (!Config::kAligned) {
        base += static_cast<std::uint64_t>(first >> 2) * work_.pixel_bytes;
        left = 0;
      }
      if constexpr (Config::kSplit) left += is_right_half() ? has_right * work_.pixel_bytes : 0;
      std::uint32_t const below =
          left + (Config::kAligned ? twice_lower * (row / 2) : (twice_lower / 2) * row);
      load_piece_at<Config>(base, left, value[0][n]);
      if constexpr (Config::kSplit) {
        load_piece_at<Config>(base, below, value[1][n]);
      } else {
        load_piece_at<Config>(base, left + has_right * work_.pixel_bytes, value[1][n]);
        load_piece_at<Config>(base, below, value[2][n]);
        load_piece_at<Config>(base, below + has_right * work_.pixel_bytes, value[3][n]);
      }
    }
  }

  __device__ __forceinline__ void add(Record const& record,
                                      Corner const (&value)[Config::kCorners]) {
    float const fx = record.fx;
    float const upper = record.upper, lower = record.lower;
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
      if constexpr (Config::kSplit) {
        float const share = is_right_half() ? fx : 1.0f - fx;
        multiply_add<Config>(sum_[n], upper * share, value[0][n]);
        multiply_add<Config>(sum_[n], lower * share, value[1][n]);
      } else {
        multiply_add<Config>(sum_[n], upper - upper * fx, value[0][n]);
        multiply_add<Config>(sum_[n], upper * fx, value[1][n]);
        multiply_add<Config>(sum_[n], lower - lower * fx, value[2][n]);
        multiply_add<Config>(sum_[n], lower * fx, value[3][n]);
      }
    }
  }

  __device__ std::uint32_t row_bytes(int k) const {
    if constexpr (Config::kPoints > 0) {
      return work_.row_bytes[k / Config::kPoints];
    } else {
      std::uint32_t const row = shared_.places[min(k, K_ - 1)].row;
      return Config::kAligned ? row : row * work_.pixel_bytes;
    }
  }

  __device__ bool is_right_half() const { return j_ >= Config::kGroup; }

  // ---- results

  __device__ void add_halves() {
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) {
        sum_[n][c] += __shfl_xor_sync(0xffffffffu, sum_[n][c], Config::kGroup);
      }
    }
  }

  __device__ void store(Row const& row) const {
    if (!row.is_there || (Config::kSplit && is_right_half())) return;
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
      int const channel = (j_ + n * Config::kGroup) * Config::kChannels;
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
  int lane_;
  int j_;  // of the slot
  int K_;
  std::uint32_t put_, get_;  // in shared memory: the lane's record, the first of its slot
  std::uint32_t buffer_ = 0;
  const char* values_[Config::kPieces];
  float sum_[Config::kPieces][Config::kChannels];
};

// The block's table of places: a level each where all have kPoints points, else a point each.
template <class Config>
__device__ void fill_places(Params const& p, Work const& work, Shared<Config>& shared) {
  int const count = Config::kPoints > 0 ? p.level_count : static_cast<int>(p.point_total);
  std::uint32_t const unit = Config::kAligned ? work.pixel_bytes : 1;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += Config::kThreads) {
    int l = i;
    if constexpr (Config::kPoints == 0) {
      l = 0;
      while (i >= p.near_levels[l].point_start + p.near_levels[l].point_count) ++l;
    }
    LevelParams const& level = p.near_levels[l];
    shared.places[i] = {static_cast<float>(level.width), static_cast<float>(level.height),
                        static_cast<std::uint32_t>(level.origin) * unit,
                        static_cast<std::uint32_t>(level.row_tokens) * unit};
    shared.level_of[i] = static_cast<std::uint8_t>(l);
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    persistent_rows(const __grid_constant__ Params p, const __grid_constant__ Work work) {
  __shared__ Shared<Config> shared;
  fill_places<Config>(p, work, shared);
  if (threadIdx.x == 0) shared.taken = 0;
  __syncthreads();
  Warp<Config>(p, work, shared).run();
}

}  // namespace msda::persistent
