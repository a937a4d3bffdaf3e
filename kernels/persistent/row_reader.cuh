// Which rows a warp works on, and what it knows of their points before it adds anything up.
#pragma once

#include "kernels/common/sampling.cuh"
#include "kernels/persistent/inputs.cuh"
#include "kernels/persistent/record.cuh"

#include <cfloat>

namespace msda::persistent {

template <class Config>
struct Shared {
  alignas(16) char records[Config::kThreads / 32][Config::kTables][RecordTable<Config>::kBytes];
  Place places[Config::kPlaces];
  std::uint8_t level_of[Config::kPlaces];
  std::uint32_t taken[2];                // jobs drawn; where levels are kept, in turn of each piece
  std::uint32_t pieces[kMaxRounds + 1];  // the block's: the first job of each; behind them `jobs`
};

// What a lane has of a row before it works on a chunk: the points that it prepares. Fused: also
// what their coordinates are relative to, if that is one level's.
template <class Config>
struct ChunkInputs {
  Inputs<Config::kBatch> points[Config::kRowsOfLane];
  std::uint32_t reference[4];
};

// What a warp draws: a run of rows.
struct Job {
  std::uint32_t item;   // batch item
  std::uint32_t group;  // of heads
  std::uint32_t first;  // visit of a query that the warp's first slot works on
  bool is_there;
};

// Where levels are kept: neighbouring jobs of one run, that is of one batch item and group of
// heads.
struct Piece {
  std::uint32_t first;
  std::uint32_t end;
  std::uint32_t run;
  std::uint32_t next;  // the step behind it
};

// A row's softmax. Points weigh powers, exp(logit - reference), and the row's sums are divided by
// the sum of the powers in the end. The reference is the largest logit of the first chunk; a chunk
// that has one far above moves it up, and what has been added up with it. After Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018.
template <bool kHalves>
struct RowSoftmax {
  float reference;   // of halves, in powers of 2
  float sum = 0.0f;  // of the lane's own points

  // Of halves to the base 2. Rounded once: the error of the reference is the same factor for all
  // powers of a row.
  __device__ __forceinline__ float exponent(float logit) const {
    return kHalves ? fmaf(logit, kLog2OfE, -reference) : __fsub_rn(logit, reference);
  }
  // Of halves to 2^-17 or so, nothing below 2^-126.
  __device__ __forceinline__ static float power(float exponent) {
    if constexpr (!kHalves) return expf(exponent);
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
    return power;
  }
  // Finite, and where it is rounded not so large that exponents have no digits. Powers of larger
  // logits are infinite, or no number.
  __device__ __forceinline__ static float reference_for(float logit) {
    constexpr float kLargest = kHalves ? 1 << 20 : FLT_MAX;
    float const within = fminf(fmaxf(logit, -kLargest), kLargest);
    return kHalves ? within * kLog2OfE : within;
  }
  // The sum of powers is 1 to K times the largest one, or 0, infinite, or no number: then so is the
  // result.
  __device__ __forceinline__ static float inverse(float sum) {
    float guess;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(guess) : "f"(sum));
    return fmaf(guess, fmaf(-sum, guess, 1.0f), guess);
  }

  // Larger exponents move the reference: a power of this, times a value, fits the sums.
  static constexpr float kMaxExponent = kHalves ? 3.0f : 16.0f;

 private:
  static constexpr float kLog2OfE = 1.44269504f;
};

// Of fused input: a reference point, and what an offset of 1 moves a point of a box.
struct Frame {
  float x, y, x_step, y_step;
  float check;  // no number where the reference has none
};

// A lane's row.
struct Row {
  std::uint32_t row;    // (b Q + q) M + m
  std::uint32_t query;  // b Q + q
  std::uint32_t m;
  const char* values;  // of the batch item and the head
};

template <class Config>
class RowReader {
 protected:
  using Softmax = RowSoftmax<Config::kHalves>;

  __device__ RowReader(Params const& p, Work const& work, Shared<Config>& shared)
      : p_(p),
        work_(work),
        shared_(shared),
        lane_(threadIdx.x % 32),
        j_(lane_ % Config::kLanes),
        sub_(lane_ / (Config::kLanes * Config::kHeads) % Config::kSpread),
        K_(static_cast<int>(work.points)) {}

  __device__ Job draw() const {
    // Not an addition: of that the compiler makes one for all lanes that could take part.
    std::uint32_t n;
    asm volatile(
        "{\n.reg .pred first;\nsetp.eq.u32 first, %2, 0;\nmov.u32 %0, 0;\n"
        "@first atom.shared.inc.u32 %0, [%1], 0x7fffffff;\n}"
        : "=r"(n)
        : "r"(static_cast<std::uint32_t>(
              __cvta_generic_to_shared(&shared_.taken[Config::kKeepsLevels ? turn_ : 0]))),
          "r"(lane_)
        : "memory");
    n = __shfl_sync(0xffffffffu, n, 0);
    std::uint32_t index;
    if constexpr (Config::kKeepsLevels) {
      index = piece_.first + n;
      if (index >= piece_.end) return {0, 0, 0, false};
    } else {
      std::uint32_t const round = min(work_.piece_jobs.quotient(n), work_.rounds);
      index = shared_.pieces[round] + (n - round * work_.piece_jobs.divisor);
      if (index >= work_.jobs) return {0, 0, 0, false};
    }
    std::uint32_t const run = work_.group_jobs.quotient(index);
    std::uint32_t item, group;
    if constexpr (Config::kIsKnown) {
      constexpr std::uint32_t kGroups = Config::kHeadCount / Config::kHeads;
      item = run / kGroups;
      group = run % kGroups;
    } else {
      item = work_.groups.quotient(run);
      group = run - item * work_.groups.divisor;
    }
    return {item, group, (index - run * work_.group_jobs.divisor) * Config::kQueries, true};
  }

  __device__ Row row_of(Job const& job) const {
    unsigned const slot = lane_ / Config::kLanes;
    std::uint32_t const wanted = job.first + slot / (Config::kHeads * Config::kSpread);
    // Behind the last query it is done again, with the same result.
    std::uint32_t const visit = min(wanted, work_.visits - 1);
    std::uint32_t const m = job.group * Config::kHeads + slot % Config::kHeads;
    std::uint32_t const q = work_.order == nullptr ? visit : __ldg(work_.order + visit);
    std::uint32_t const query = job.item * work_.visits + q;
    std::uint32_t const heads = Config::kIsKnown ? Config::kHeadCount : work_.heads;
    std::uint64_t const first_value =
        job.item * work_.item_bytes + std::uint64_t{m} * work_.head_bytes;
    return {query * heads + m, query, m, static_cast<const char*>(p_.value) + first_value};
  }

  // The number among all points of a row's first.
  __device__ std::uint32_t first_of(Row const& row) const { return row.row * work_.points; }

  // The first point that the lane prepares of the chunk at k0.
  __device__ int first_point(int k0) const {
    unsigned const lane =
        Config::kInLines ? lane_ % Config::kPreparing : sub_ * Config::kLanes + j_;
    return k0 + static_cast<int>(lane * Config::kBatch);
  }

  // The slot whose row is the lane's number i to prepare.
  __device__ unsigned prepared_slot(int i) const {
    return Config::kInLines
               ? static_cast<unsigned>(i) * (32 / Config::kPreparing) + lane_ / Config::kPreparing
               : lane_ / Config::kLanes;
  }

  // By numbers: which of two rows is asked for may not be known when compiled.
  __device__ __forceinline__ ChunkInputs<Config> read(std::uint32_t row, std::uint32_t query,
                                                      int k0) const {
    std::uint32_t first = row * work_.points;
    // Or the addresses of all ways to read would be kept while others are gathered.
    asm volatile("" : "+r"(first));
    ChunkInputs<Config> inputs;
#pragma unroll
    for (int i = 0; i < Config::kRowsOfLane; ++i) {
      std::uint32_t const prepared =
          Config::kInLines
              ? __shfl_sync(0xffffffffu, first, static_cast<int>(prepared_slot(i)) * Config::kLanes)
              : first;
      inputs.points[i] =
          read_inputs<Config::kBatch, Config::kInputs>(p_, work_, prepared, first_point(k0), lane_);
    }
    if constexpr (Config::kFused && Config::kLevelOfBatch) {
      read_reference(query, Config::kLevelOfChunk ? k0 : min(first_point(k0), K_ - 1),
                     inputs.reference);
    }
    return inputs;
  }

  __device__ bool inputs_are_wide() const {
    return Config::kInputs == inputs_f32 || work_.wide_inputs;
  }
  __device__ msda_dtype coord_dtype() const {
    return Config::kInputs == inputs_f32 ? MSDA_F32 : p_.coord_dtype;
  }
  __device__ msda_dtype weight_dtype() const {
    return Config::kInputs == inputs_f32 ? MSDA_F32 : p_.weight_dtype;
  }

  __device__ int place_of(int k) const {
    constexpr unsigned kOfLevel = Config::kPoints > 0 ? Config::kPoints : 1;
    return Config::kPoints > 0 ? static_cast<int>(static_cast<unsigned>(k) / kOfLevel)
                               : min(k, K_ - 1);
  }

  // Before a row's first chunk, whose logits these are.
  __device__ __forceinline__ void start_softmax(float const (&logits)[Config::kBatch]) {
    softmax_ = {Softmax::reference_for(largest_of_row(logits))};
  }
  __device__ __forceinline__ void start_softmax(ChunkInputs<Config> const& inputs) {
    float logits[Config::kBatch];
    weights_of(inputs.points[0].weight, weight_dtype(), logits);
    start_softmax(logits);
  }

  // The logits of a chunk become powers. Where the reference moves, `multiply` is called with what
  // everything that has been added up has to be multiplied by.
  template <class Fn>
  __device__ __forceinline__ void to_powers(float (&logits)[Config::kBatch], Fn multiply) {
    float exponents[Config::kBatch];
    float largest = -INFINITY;
#pragma unroll
    for (int t = 0; t < Config::kBatch; ++t) {
      exponents[t] = softmax_.exponent(logits[t]);
      largest = fmaxf(largest, exponents[t]);
    }
    if (__any_sync(0xffffffffu, largest > Softmax::kMaxExponent)) {
      // Of the rows that have one; the others' factor is the power of 0, which is 1.
      float const top = largest_of_row(logits), before = softmax_.reference;
      if (softmax_.exponent(top) > Softmax::kMaxExponent)
        softmax_.reference = Softmax::reference_for(top);
      float const factor = Softmax::power(__fsub_rn(before, softmax_.reference));
      softmax_.sum = __fmul_rn(softmax_.sum, factor);
      multiply(factor);
#pragma unroll
      for (int t = 0; t < Config::kBatch; ++t) exponents[t] = softmax_.exponent(logits[t]);
    }
#pragma unroll
    for (int t = 0; t < Config::kBatch; ++t) {
      logits[t] = Softmax::power(exponents[t]);
      softmax_.sum = __fadd_rn(softmax_.sum, logits[t]);
    }
  }

  // Of what all lanes of a row have.
  __device__ __forceinline__ static float largest_of_row(float const (&logits)[Config::kBatch]) {
    float largest = logits[0];
#pragma unroll
    for (int t = 1; t < Config::kBatch; ++t) largest = fmaxf(largest, logits[t]);
    for_lanes_of_row([&](int distance) {
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
    });
    return largest;
  }

  // What a row's sums have to be multiplied by, behind the last chunk.
  __device__ __forceinline__ float inverse_of_powers() const {
    float sum = softmax_.sum;
    for_lanes_of_row(
        [&](int distance) { sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, distance)); });
    return Softmax::inverse(sum);
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

  // Fused: what a query's coordinates on the level of point k are relative to.
  __device__ __forceinline__ Frame frame_of(Row const& row, int k) const {
    if constexpr (!Config::kFused) return {};
    Reference<float> const reference(
        p_, static_cast<std::int64_t>(reference_number(row.query, k)) * p_.reference_dim);
    float const step = half_step(k);
    return {reference.x, reference.y, reference.width * step, reference.height * step,
            reference.check};
  }
  // The same of a reference that has been read; the check is not made.
  __device__ __forceinline__ Frame frame_of(std::uint32_t const (&reference)[4], int k) const {
    auto const element = [&](int i) {
      if (coord_dtype() == MSDA_F32) return __uint_as_float(reference[i]);
      float2 const pair = pair_of(coord_dtype(), reference[i / 2]);
      return i % 2 == 0 ? pair.x : pair.y;
    };
    // Of a box; else nothing reads them.
    float const step = half_step(k);
    return {element(0), element(1), element(2) * step, element(3) * step, 0.0f};
  }
  // As it lies in memory.
  __device__ __forceinline__ void read_reference(std::uint32_t query, int k,
                                                 std::uint32_t (&to)[4]) const {
    bool const is_box = p_.reference_dim == 4;
    bool const is_float32 = coord_dtype() == MSDA_F32;
    std::uint32_t const bytes = static_cast<std::uint32_t>(p_.reference_dim) * (is_float32 ? 4 : 2);
    const char* const at =
        static_cast<const char*>(p_.reference) + std::uint64_t{reference_number(query, k)} * bytes;
    if (is_float32) {
      stream_reference<4>(at, is_box, to);
    } else {
      stream_reference<2>(at, is_box, to);
    }
  }
  // A load for the point and one for the box: of two that may write the same register the second
  // would wait for the first.
  template <int kElementBytes>
  __device__ __forceinline__ void stream_reference(const char* at, bool is_box,
                                                   std::uint32_t (&to)[4]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (i > 0 && !is_box) continue;
      if (inputs_are_wide()) {
        stream<2 * kElementBytes>(at + i * 2 * kElementBytes, to + i * kElementBytes / 2);
      } else {
        stream_pair<kElementBytes>(at + i * 2 * kElementBytes, to + i * kElementBytes / 2);
      }
    }
  }
  __device__ int level_of(int k) const {
    return Config::kPoints > 0 ? place_of(k) : shared_.level_of[place_of(k)];
  }
  // Among all references, that of a query and the level of point k. Levels without points may be
  // more than points are, of which there are fewer than 2^32.
  using ReferenceNumber = std::conditional_t<(Config::kPoints > 0), std::uint32_t, std::uint64_t>;
  __device__ ReferenceNumber reference_number(std::uint32_t query, int k) const {
    return ReferenceNumber{query} * static_cast<std::uint32_t>(p_.level_count) +
           static_cast<std::uint32_t>(level_of(k));
  }
  __device__ float half_step(int k) const {
    if constexpr (Config::kPoints > 0) return 0.5f / Config::kPoints;
    return 0.5f / static_cast<float>(p_.near_levels[level_of(k)].point_count);
  }

  // A point in pixels of its level. Operations are written out: quick and strict sums are of the
  // same numbers.
  __device__ __forceinline__ float2 to_pixels(Frame const& frame, float width, float height,
                                              float x, float y) const {
    if constexpr (!Config::kFused) {
      return {fmaf(x, width, -0.5f), fmaf(y, height, -0.5f)};
    } else {
      return p_.reference_dim == 2 ? to_pixels<false>(frame, width, height, x, y)
                                   : to_pixels<true>(frame, width, height, x, y);
    }
  }
  template <bool kBox>
  __device__ __forceinline__ static float2 to_pixels(Frame const& frame, float width, float height,
                                                     float x, float y) {
    if constexpr (kBox) {
      return {fmaf(fmaf(x, frame.x_step, frame.x), width, -0.5f),
              fmaf(fmaf(y, frame.y_step, frame.y), height, -0.5f)};
    } else {
      return {__fadd_rn(fmaf(frame.x, width, -0.5f), x),
              __fadd_rn(fmaf(frame.y, height, -0.5f), y)};
    }
  }
  // Of a batch on one level.
  __device__ __forceinline__ void batch_to_pixels(Frame const& frame, Place const& place,
                                                  Batch<Config::kBatch>& points) const {
    auto const convert = [&](auto is_box) {
#pragma unroll
      for (int t = 0; t < Config::kBatch; ++t) {
        float2 const at = to_pixels<decltype(is_box)::value>(frame, place.width, place.height,
                                                             points.x[t], points.y[t]);
        points.x[t] = at.x;
        points.y[t] = at.y;
      }
    };
    if (p_.reference_dim == 2) {
      convert(std::false_type());
    } else {
      convert(std::true_type());
    }
  }

  Params const& p_;
  Work const& work_;
  Shared<Config>& shared_;
  unsigned lane_;
  unsigned j_;    // of the slot
  unsigned sub_;  // of the slots that share a row
  int K_;
  // Where levels are kept: what jobs are drawn from.
  Piece piece_ = {};
  std::uint32_t turn_ = 0;  // of the two counts of jobs drawn
  Softmax softmax_;
};

// Where the block's pieces begin.
template <class Config>
__device__ void fill_pieces(Work const& work, Shared<Config>& shared) {
  std::uint32_t const round = threadIdx.x;
  if (round > work.rounds) return;
  std::uint32_t const block = (blockIdx.x + round * work.rotation) % work.blocks;
  shared.pieces[round] =
      round < work.rounds ? (round * work.blocks + block) * work.piece_jobs.divisor : work.jobs;
}

// The block's table of places: a level each where all have kPoints points, else a point each.
template <class Config>
__device__ void fill_places(Params const& p, Work const& work, Shared<Config>& shared) {
  int const count = Config::kPoints > 0 ? p.level_count : static_cast<int>(p.point_total);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += Config::kThreads) {
    int const l = level_of_place<Config>(p, i);
    shared.places[i] = work.places[l];
    shared.level_of[i] = static_cast<std::uint8_t>(l);
  }
}

}  // namespace msda::persistent
