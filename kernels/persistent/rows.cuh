// The kernel of the persistent family: sums of rows. README.md here has the schedule and its count.
#pragma once

#include "kernels/common/pieces.cuh"
#include "kernels/persistent/kept_levels.cuh"
#include "kernels/persistent/row_reader.cuh"

namespace msda::persistent {

template <class Config>
class Warp : RowReader<Config> {
  using Reader = RowReader<Config>;
  using Reader::batch_to_pixels;
  using Reader::coord_dtype;
  using Reader::draw;
  using Reader::first_of;
  using Reader::first_point;
  using Reader::for_subs;
  using Reader::frame_of;
  using Reader::inputs_are_wide;
  using Reader::inverse_of_powers;
  using Reader::j_;
  using Reader::K_;
  using Reader::lane_;
  using Reader::level_of;
  using Reader::p_;
  using Reader::piece_;
  using Reader::place_of;
  using Reader::read;
  using Reader::row_of;
  using Reader::shared_;
  using Reader::softmax_;
  using Reader::start_softmax;
  using Reader::sub_;
  using Reader::to_pixels;
  using Reader::to_powers;
  using Reader::turn_;
  using Reader::weight_dtype;
  using Reader::work_;

 public:
  __device__ Warp(Params const& p, Work const& work, Shared<Config>& shared)
      : Reader(p, work, shared) {
    auto const records = static_cast<std::uint32_t>(
        __cvta_generic_to_shared(&shared.records[threadIdx.x / 32][0][0]));
    get_ = records + slot() * Table::kRecordBytes;
    put_ = Config::kInLines ? records + this->prepared_slot(0) * Table::kRecordBytes +
                                  static_cast<unsigned>(first_point(0)) * Table::kRowBytes
                            : get_ + j_ * Table::kRowBytes;
    // A shuffle's result has to be kept, the formula would be computed again for each access.
    put_ = __shfl_sync(0xffffffffu, put_, lane_);
    get_ = __shfl_sync(0xffffffffu, get_, lane_);
  }

  __device__ void run() {
    if constexpr (Config::kKeepsLevels) return run_pieces();
    Job const job = draw();
    if (!job.is_there) return;
    Row const row = row_of(job);
    sum_rows(row, read(row.row, row.query, 0));
  }

 private:
  using Corner = PieceOf<Config::kPieceBytes>[Config::kPieces];  // a pixel
  using Record = RecordOf<Config>;
  using Table = RecordTable<Config>;

  // Where levels are kept: piece by piece. A piece's first inputs travel while its levels are
  // copied.
  __device__ void run_pieces() {
    std::uint32_t const stride = work_.blocks * work_.share;
#pragma unroll 1
    for (std::uint32_t share = blockIdx.x * work_.share; share < work_.run_steps_of_all;
         share += stride) {
      std::uint32_t const end = min(share + work_.share, work_.run_steps_of_all);
#pragma unroll 1
      for (std::uint32_t step = share; step < end; step = piece_.next) {
        piece_ = piece_at(work_, step, end);
        Job const job = draw();
        Row const row = row_of(job);
        ChunkInputs<Config> const inputs = read(row.row, row.query, 0);
        __syncthreads();  // what was kept has been read
        if (piece_.first < piece_.end) copy_levels<Config>(p_, work_, piece_.run);
        if (threadIdx.x == 0) shared_.taken[turn_ ^ 1] = 0;
        __syncthreads();
        if (job.is_there) sum_rows(row, inputs);
        turn_ ^= 1;
      }
    }
  }

  // A warp's rows, beginning with one whose first inputs have been read.
  __device__ void sum_rows(Row row, ChunkInputs<Config> inputs) {
    while (true) {
      Job const next = draw();
      Row const next_row = next.is_there ? row_of(next) : row;
      start(row);
      if (Config::kAligned && !work_.strict) {
        if constexpr (Config::kInLines) {
          sum_in_lines(row, next_row, inputs);
        } else {
          sum_quickly(row, next_row, inputs);
        }
      } else {
        inputs = read(next_row.row, next_row.query, 0);
      }
      if (!Config::kAligned || work_.strict || is_suspect()) sum_strictly(row);
      add_subs();
      store(row);
      if (!next.is_there) return;
      row = next_row;
    }
  }

  struct Steps {
    std::uint32_t beside;  // from a pixel to the one on the right
    std::uint32_t row;     // to the one below
    std::uint32_t origin;  // from the first one of all to the level's; in halves
  };
  // By parity, those of even and those of odd pixels, whichever the slot reads first: added to one
  // another the bits are the same.
  static constexpr int kColumnSums = Config::kByParity ? 2 : 1;
  static constexpr int kOfLevel = Config::kPoints > 0 ? Config::kPoints : 1;
  // Of points behind the last one, before a softmax and without one.
  static constexpr float kNoWeight = Config::kFused ? -INFINITY : 0.0f;
  using HalfSums = __half2[kColumnSums][Config::kChannels / 2];

  // ---- a row

  __device__ __forceinline__ void start(Row const& row) {
    std::uint32_t const last = work_.head_dim / Config::kChannels - 1;
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
      std::uint32_t const piece = j_ + n * Config::kLanes;
      // Pieces behind the last one repeat it: they cost no line and are not stored.
      values_[n] = row.values + (Config::kIsKnown ? piece : min(piece, last)) * Config::kPieceBytes;
      asm volatile("" : "+l"(values_[n]));
    }
    if constexpr (Config::kKeepsLevels) {
      kept_ = kept_begin() + slot() % Config::kHeads * Config::kRowBytes + j_ * Config::kPieceBytes;
    }
    clear();
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) sum_[n][c] = 0.0f;
    }
  }

  __device__ __forceinline__ void multiply(float factor) {
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) sum_[n][c] = __fmul_rn(sum_[n][c], factor);
    }
  }

  // Whether a pixel that is not part of the result, weighed with zero, may have spoilt it: it was
  // infinite or no number, and so is a sum now.
  __device__ __forceinline__ bool is_suspect() const {
    return __any_sync(0xffffffffu, !is_finite());
  }
  __device__ __forceinline__ bool is_finite() const {
    float check = 0.0f;
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) check = fmaf(sum_[n][c], 0.0f, check);
    }
    return check == check;
  }

  // ---- quickly: every lane prepares kBatch points, one after the other; after each, all lanes of
  // a slot add those of the slot's lanes. Pixels that are not part of the result weigh nothing.

  __device__ __forceinline__ void sum_quickly(Row const& row, Row const& next_row,
                                              ChunkInputs<Config>& inputs) {
    if constexpr (Config::kFused) start_softmax(inputs);
#pragma unroll 1
    for (int k0 = 0; k0 < K_; k0 += Config::kChunk) {
      Batch<Config::kBatch> points =
          to_points(inputs.points[0], coord_dtype(), weight_dtype(),
                    halves_are_turned<Config::kBatch>(inputs_are_wide(), coord_dtype(), lane_));
      int const first = first_point(k0);
      int const batches = min(
          Config::kLanes, (K_ - k0 + Config::kBatch - 1) / Config::kBatch);  // of the first slot
      // Lanes behind the last point prepare it again, and slots read records in runs of kInFlight.
      if (!Config::kWholeChunks) {
#pragma unroll
        for (int t = 0; t < Config::kBatch; ++t) {
          // Three ways to write it: registers are short, and each device and type spills with
          // another's.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
          if (Config::kType == ValueType::f32 && Config::kPoints > 0 && k0 + Config::kChunk <= K_)
            break;
          points.weight[t] = first + t < K_ ? points.weight[t] : kNoWeight;
#else
          if (first + t >= K_) points.weight[t] = kNoWeight;
#endif
        }
      }
      if constexpr (Config::kFused) {
        to_powers(points.weight, [&](float factor) { multiply(factor); });
      }
      Place place;
      if constexpr (Config::kLevelOfBatch) {
        place = Config::kLevelOfChunk ? work_.places[k0 / Config::kPoints]
                                      : shared_.places[place_of(min(first, K_ - 1))];
        if constexpr (Config::kFused) {
          batch_to_pixels(frame_of(inputs.reference, min(first, K_ - 1)), place, points);
        }
      }
      // Kept for the chunk.
      Steps steps[Config::kSteps];
      if constexpr (Config::kFew) {
        steps[0] = steps_of(first);  // of the lane's own point
      } else if constexpr (Config::kStepsOfChunk) {
        int const own = k0 + static_cast<int>(sub_) * Config::kOfSlot;
        int const l = (Config::kSpread == 1 ? k0 : min(own, K_ - 1)) / Config::kPoints;
        steps[0] = steps_of_level(l);
#pragma unroll
        for (int i = 1; i < Config::kSteps; ++i)
          steps[i] = steps_of_level(min(l + i, kInlineLevels - 1));
      }
      // Rows of fewer points than a lane prepares end early.
      int const turns = Config::kLevelOfBatch ? Config::kBatch : min(Config::kBatch, K_ - k0);
      // Four of them would not fit the instruction cache.
      constexpr int kUnrolled = Config::kTogether == 1 ? Config::kBatch : 1;
#pragma unroll(kUnrolled)
      for (int t0 = 0; t0 < turns; t0 += Config::kTogether) {
        // The records before have been read.
        if constexpr (Config::kTables == Config::kTogether) __syncwarp();
#pragma unroll
        for (int i = 0; i < Config::kTogether; ++i) {
          float2 at = {points.x[i], points.y[i]};
          if constexpr (!Config::kLevelOfBatch) {
            int const k = min(first + t0 + i, K_ - 1);
            place = shared_.places[place_of(k)];
            at = to_pixels(frame_of(row, k), place.width, place.height, at.x, at.y);
          } else if constexpr (!Config::kFused) {
            at = to_pixels({}, place.width, place.height, at.x, at.y);
          }
          put_record(put_ + buffer_ + i * Table::kBytes,
                     locate(place, at, points.weight[i], slot(),
                            units_of(Config::kLevelOfChunk ? k0 : first)));
        }
        if (t0 + Config::kTogether < turns) {
          points.template advance<Config::kTogether>();
        } else {
          // Used up: the next ones travel while these are gathered.
          bool const is_last = k0 + Config::kChunk >= K_;
          inputs = read(is_last ? next_row.row : row.row, is_last ? next_row.query : row.query,
                        is_last ? 0 : k0 + Config::kChunk);
        }
        __syncwarp();
        gather_prepared(k0 + t0, min(turns - t0, Config::kTogether), batches, steps);
        if constexpr (Config::kTables > Config::kTogether) {
          buffer_ = Config::kTogether * Table::kBytes - buffer_;
        }
      }
    }
    if constexpr (Config::kFused) multiply(inverse_of_powers());
  }

  // The same where a lane prepares points of two rows. All of a chunk are located before they are
  // gathered.
  __device__ __forceinline__ void sum_in_lines(Row const& row, Row const& next_row,
                                               ChunkInputs<Config>& inputs) {
#pragma unroll 1
    for (int k0 = 0; k0 < K_; k0 += Config::kChunk) {
      int const first = first_point(k0);
      Place const place = shared_.places[place_of(min(first, K_ - 1))];
      __syncwarp();  // the records before have been read
#pragma unroll
      for (int i = 0; i < Config::kRowsOfLane; ++i) {
        Batch<Config::kBatch> const points =
            to_points(inputs.points[i], coord_dtype(), weight_dtype(), false);
#pragma unroll
        for (int t = 0; t < Config::kBatch; ++t) {
          float2 const at = to_pixels({}, place.width, place.height, points.x[t], points.y[t]);
          // Levels have an even number of points.
          float const weight = first < K_ ? points.weight[t] : 0.0f;
          put_record(put_ +
                         (this->prepared_slot(i) - this->prepared_slot(0)) * Table::kRecordBytes +
                         t * Table::kRowBytes,
                     locate(place, at, weight, this->prepared_slot(i), 0));
        }
      }
      // Used up: the next ones travel while these are gathered.
      bool const is_last = k0 + Config::kChunk >= K_;
      inputs = read(is_last ? next_row.row : row.row, is_last ? next_row.query : row.query,
                    is_last ? 0 : k0 + Config::kChunk);
      __syncwarp();
      int const count = min(Config::kChunk, K_ - k0);
      std::uint32_t table = get_;
      // Points of one level.
#pragma unroll 1
      for (int i = 0; i < count; i += kOfLevel) {
        Steps const steps[1] = {steps_of(k0 + i)};
        on_level(k0 + i, [&](auto kept) {
#pragma unroll
          for (int j = 0; j < kOfLevel; j += Config::kInFlight) {
            gather<Config::kInFlight, kept.value>(j, 0, table, steps);
          }
        });
        table += kOfLevel * Table::kRowBytes;
      }
    }
  }

  // What the lanes have prepared, of a slot's first lane point k and the next, `turns` in all.
  // Behind the first `batches` of its lanes the row has ended.
  __device__ __forceinline__ void gather_prepared(int k, int turns, int batches,
                                                  Steps const (&steps)[Config::kSteps]) {
#pragma unroll 1
    for (int t = 0; t < turns; t += Config::kTurnsInFlight) {
      std::uint32_t const table = get_ + buffer_ + static_cast<std::uint32_t>(t) * Table::kBytes;
      // Of a chunk on one level, at once; else of points that are.
      constexpr int kRun = Config::kLevelOfChunk ? Config::kLanes : Config::kInFlight;
#pragma unroll
      for (int j0 = 0; j0 < Config::kLanes; j0 += kRun) {
        if (!Config::kWholeChunks && j0 > 0 && j0 >= batches) break;
        on_level(k + j0 * Config::kBatch, [&](auto kept) {
#pragma unroll
          for (int j = j0; j < j0 + kRun; j += Config::kInFlight) {
            if (!Config::kWholeChunks && j > j0 && j >= batches) break;
            // Of few points none is read that is not there.
            if (Config::kFew && Config::kInFlight > 1 && j + 1 == batches) {
              gather<1, kept.value>(j, k + t, table, steps);
            } else {
              gather<Config::kInFlight, kept.value>(j, k + t, table, steps);
            }
          }
        });
      }
    }
  }

  __device__ __forceinline__ Record locate(Place const& place, float2 const& at, float weight,
                                           unsigned slot, std::uint32_t units) const {
    Between const bx = between<Config::kIsKnown>(at.x, place.width);
    Between const by = between<Config::kIsKnown>(at.y, place.height);
    // Exact: levels of 2^24 tokens or more are summed strictly.
    auto pixel = static_cast<std::uint32_t>(
        static_cast<std::int32_t>(fmaf(by.base, place.row_tokens, bx.base)));
    float share = bx.share;
    bool turned = false;
    if constexpr (Config::kByParity) {
      // Pixels are 64 bytes: parity says which half of a line they are. Of two neighbouring slots
      // one reads the even pixels of a row first, the other the odd ones.
      turned = (pixel & 1) != (slot & 1);
      pixel += turned && (Config::kIsKnown || place.width > 1.0f) ? 1 : 0;
      share = in_steps(share);
      share = turned ? 1.0f - share : share;
    }
    float const total = weight * bx.inside * by.inside;
    float const lower = __fmul_rn(total, by.share), upper = __fsub_rn(total, lower);
    if constexpr (Config::kHalves) {
      return HalfRecord::of<Config::kByParity>(pixel, turned, share, upper, lower);
    } else {
      return {pixel * units + place.origin, share, upper, lower};
    }
  }

  __device__ __forceinline__ unsigned slot() const { return lane_ / Config::kLanes; }

  // Steps of a pixel on the level of point k.
  __device__ __forceinline__ std::uint32_t units_of(int k) const {
    if constexpr (Config::kKeepsLevels) {
      if (is_kept(work_, level_of(min(k, K_ - 1)))) return Config::kKeptPixelBytes / kUnitBytes;
    }
    return pixel_units();
  }

  // Calls fn with whether the level of point k is kept.
  template <class Fn>
  __device__ __forceinline__ void on_level(int k, Fn fn) const {
    if constexpr (Config::kKeepsLevels) {
      if (is_kept(work_, level_of(min(k, K_ - 1)))) return fn(std::true_type());
    }
    fn(std::false_type());
  }

  // Point k of the slot's first lane and the next kTurnsInFlight - 1, and those of kCount lanes
  // from j0 on: all loads first, then the sums.
  template <int kCount, bool kKept = false>
  __device__ __forceinline__ void gather(int j0, int k, std::uint32_t table,
                                         Steps const (&steps)[Config::kSteps]) {
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
      int const lane = j + (Config::kSpread == 1 ? 0 : static_cast<int>(sub_) * Config::kLanes);
      load_corners<kKept>(record[u],
                          Config::kFew ? steps_of_lane(steps[0], j)
                          : Config::kStepsOfChunk
                              ? steps[steps_index(j)]
                              : steps_of(k + u / kCount + lane * Config::kBatch),
                          value[u]);
    }
    if constexpr (Config::kHalves) {
#pragma unroll
      for (int u = 0; u < kAll; u += 2) add_halves(record, value, u, u + 2 < kAll ? u + 2 : kAll);
    } else {
#pragma unroll
      for (int u = 0; u < kAll; ++u) add(record[u], value[u]);
    }
  }

  template <bool kKept>
  __device__ __forceinline__ void load_corners(Record const& record, Steps const& steps,
                                               Corner (&value)[4]) const {
    std::uint32_t first;
    std::uint32_t const pixel = kKept ? Config::kKeptPixelBytes / kUnitBytes : pixel_units();
    std::uint32_t beside = Config::kIsKnown ? pixel : steps.beside;
    if constexpr (Config::kHalves) {
      first = record.template number<Config::kByParity>() * pixel + steps.origin;
      beside = Config::kByParity && record.is_turned() ? 0u - beside : beside;
    } else {
      first = record.first;
    }
    // A pixel's distance that is known is part of the instruction.
    constexpr int kBeside = Config::kByParity ? 0
                            : kKept           ? Config::kKeptPixelBytes
                                              : Config::kPixelBytes;
    std::uint32_t const units[4] = {first, first + beside, first + steps.row,
                                    first + steps.row + beside};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int n = 0; n < Config::kPieces; ++n) {
        if constexpr (kKept) {
          value[i][n] = load_kept<Config::kPieceBytes>(
              kept_ + units[kBeside > 0 ? i / 2 * 2 : i] * kUnitBytes + i % 2 * kBeside);
          continue;
        }
        value[i][n] = load_piece<Config>(
            values_[n] +
            static_cast<std::uint64_t>(units[kBeside > 0 ? i / 2 * 2 : i]) * kUnitBytes +
            i % 2 * kBeside);
      }
    }
  }

  __device__ __forceinline__ void add(persistent::Record const& record, Corner const (&value)[4]) {
    // As written, not contracted: add_inside() has to form the same numbers.
    float const second_upper = __fmul_rn(record.upper, record.share);
    float const second_lower = __fmul_rn(record.lower, record.share);
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
      multiply_add<Config>(sum_[n], __fsub_rn(record.upper, second_upper), value[0][n]);
      multiply_add<Config>(sum_[n], second_upper, value[1][n]);
      multiply_add<Config>(sum_[n], __fsub_rn(record.lower, second_lower), value[2][n]);
      multiply_add<Config>(sum_[n], second_lower, value[3][n]);
    }
  }

  // Points from `begin` to `end`, at most two: 8 pixels in 16 bits, then to the sums.
  template <int kCount>
  __device__ __forceinline__ void add_halves(HalfRecord const (&record)[kCount],
                                             Corner const (&value)[kCount][4], int begin, int end) {
    HalfSums sums;
#pragma unroll
    for (int i = 0; i < kColumnSums; ++i) {
#pragma unroll
      for (int w = 0; w < Config::kChannels / 2; ++w) sums[i][w] = __half2half2(__half(0.0f));
    }
#pragma unroll
    for (int u = begin; u < end; ++u) {
      HalfWeights const weights = weights_of(record[u]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        multiply_add_halves<Config>(sums[i % kColumnSums], weights.of(i), value[u][i][0]);
      }
    }
    flush(sums);
  }

  __device__ __forceinline__ static HalfWeights weights_of(HalfRecord const& record) {
    return half_weights(halves_of(record.rows), record.share());
  }
  __device__ __forceinline__ static HalfWeights half_weights(__half2 rows, __half2 share) {
    if constexpr (!Config::kByParity) return HalfWeights(rows, share);
    // Either share may be the first one.
    return HalfWeights(rows, __hsub2_rn(__float2half2_rn(1.0f), share), share);
  }

  __device__ __forceinline__ void flush(HalfSums const& sums) {
#pragma unroll
    for (int w = 0; w < Config::kChannels / 2; ++w) {
      __half2 sum = sums[0][w];
      if constexpr (Config::kByParity) sum = __hadd2_rn(sum, sums[1][w]);
      float2 const pair = __half22float2(sum);
      sum_[0][2 * w] += pair.x;
      sum_[0][2 * w + 1] += pair.y;
    }
  }

  // On the level of point k, in steps of 16 bytes.
  __device__ __forceinline__ Steps steps_of(int k) const { return steps_of_level(level_of(k)); }
  __device__ __forceinline__ Steps steps_of_level(int l) const {
    return {work_.beside_units[l], work_.row_units[l],
            Config::kHalves ? work_.places[l].origin : 0};
  }
  // What a lane of the slot has.
  __device__ __forceinline__ static Steps steps_of_lane(Steps const& own, int j) {
    auto const of_lane = [&](std::uint32_t x) {
      return __shfl_sync(0xffffffffu, x, j, Config::kLanes);
    };
    return {Config::kIsKnown ? 0 : of_lane(own.beside), of_lane(own.row), 0};
  }
  // Of a slot's lane.
  __device__ __forceinline__ static constexpr int steps_index(int j) {
    return Config::kSteps == 1 ? 0 : j * Config::kBatch / max(Config::kPoints, 1);
  }

  __device__ __forceinline__ std::uint32_t pixel_units() const {
    return Config::kIsKnown ? Config::kPixelBytes / kUnitBytes : work_.pixel_units;
  }

  // ---- strictly: the same sums in the same order, but nothing is read that is not part of the
  // result. Any level, any alignment. A slot's lanes all locate every point.

  // Where halves, or powers, take the sums beyond what holds them, they are formed of weights and
  // in float32.
  __device__ void sum_strictly(Row const& row) {
    auto const nothing = [](int) {};
    auto const itself = [](float weight) { return weight; };
    clear();
    if constexpr (Config::kFused) {
      add_strictly<Config::kHalves>(
          row, [&](int k0) { start_chunk_strictly(row, k0); },
          [&](float logit) { return softmax_.power(softmax_.exponent(logit)); });
      multiply(inverse_of_powers());
    } else {
      add_strictly<Config::kHalves>(row, nothing, itself);
    }
    if (!(Config::kHalves || Config::kFused) || is_finite()) return;
    clear();
    if constexpr (Config::kFused) {
      add_strictly<false>(row, nothing, weights_of_row(row));
    } else {
      add_strictly<false>(row, nothing, itself);
    }
  }

  // What happens to powers before a chunk's points are added.
  __device__ void start_chunk_strictly(Row const& row, int k0) {
    float logits[Config::kBatch];
#pragma unroll
    for (int t = 0; t < Config::kBatch; ++t) {
      int const k = first_point(k0) + t;
      logits[t] = k < K_ ? weight_in_memory(row, k) : kNoWeight;
    }
    if (k0 == 0) start_softmax(logits);
    to_powers(logits, [&](float factor) { multiply(factor); });
  }

  // From logits to weights, whatever they are.
  __device__ auto weights_of_row(Row const& row) const {
    float largest = -INFINITY, sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < K_; ++k) largest = fmaxf(largest, weight_in_memory(row, k));
#pragma unroll 1
    for (int k = 0; k < K_; ++k) sum += expf(weight_in_memory(row, k) - largest);
    return [largest, sum](float logit) { return expf(logit - largest) / sum; };
  }

  // Of every lane's points first those that it prepares first.
  static constexpr int kStrictTurns = Config::kInOrder ? 1 : Config::kBatch;

  // The row's points, of which `weigh` makes weights from what is in memory.
  template <bool kHalves, class BeforeChunk, class Weigh>
  __device__ void add_strictly(Row const& row, BeforeChunk before_chunk, Weigh weigh) {
#pragma unroll 1
    for (int k0 = 0; k0 < K_; k0 += Config::kChunk) {
      before_chunk(k0);
#pragma unroll 1
      for (int t = 0; t < kStrictTurns; ++t) {
        HalfSums halves = {};
#pragma unroll 1
        for (int j = 0; j < Config::kOfSlot / kStrictTurns; ++j) {
          int const k = k0 + static_cast<int>(sub_) * Config::kOfSlot + j * kStrictTurns + t;
          if (k < K_) {
            add_point_strictly<kHalves>(row, k, weigh(weight_in_memory(row, k)), halves);
          }
          if (!kHalves || j % 2 == 0) continue;
          flush(halves);
#pragma unroll
          for (auto& column : halves) {
#pragma unroll
            for (__half2& pair : column) pair = __half2half2(__half(0.0f));
          }
        }
      }
    }
  }

  // Of a row's point k; a logit where input is fused.
  __device__ float weight_in_memory(Row const& row, int k) const {
    return load_narrow(p_.weight_dtype, p_.weight,
                       std::int64_t{first_of(row)} + static_cast<std::uint32_t>(k));
  }

  template <bool kHalves>
  __device__ void add_point_strictly(Row const& row, int k, float weight, HalfSums& halves) {
    std::int64_t const at = first_of(row) + static_cast<std::uint32_t>(k);
    float const x = load_narrow(p_.coord_dtype, p_.coord, 2 * at);
    float const y = load_narrow(p_.coord_dtype, p_.coord, 2 * at + 1);
    LevelParams const& level = p_.near_levels[level_of(k)];
    auto const width = static_cast<float>(level.width), height = static_cast<float>(level.height);
    Frame const frame = frame_of(row, k);
    float2 const pixel = to_pixels(frame, width, height, x, y);
    // False where a coordinate is no number, and in an empty level.
    bool const inside = pixel.x >= -1.0f && pixel.x < width && pixel.y >= -1.0f &&
                        pixel.y < height && width > 0.0f && height > 0.0f;
    if (inside) return add_inside<kHalves>(level, pixel, weight, halves);
    // A weight that is NaN makes the result NaN, whatever it weighs; a coordinate that is no number
    // makes the point nothing.
    float check = zero_if_number(x) + zero_if_number(y);
    if constexpr (Config::kFused) {
      check += frame.check;
      if (p_.reference_dim == 2 && !(width > 0.0f && height > 0.0f)) return;
    }
    if (check != check) return;
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) sum_[n][c] += weight * 0.0f;
    }
  }

  template <bool kHalves>
  __device__ void add_inside(LevelParams const& level, float2 const& at, float weight,
                             HalfSums& halves) {
    Between const bx = between(at.x, static_cast<float>(level.width));
    Between const by = between(at.y, static_cast<float>(level.height));
    auto const x = static_cast<std::int32_t>(bx.base);
    auto const y = static_cast<std::int32_t>(by.base);
    bool const has_left = bx.from_base < 1.0f;
    bool const has_right = bx.from_base >= 0.0f && x + 1 < level.width;
    bool const has_upper = by.from_base < 1.0f;
    bool const has_lower = by.from_base >= 0.0f && y + 1 < level.height;
    std::int64_t const in_level = y * level.row_tokens + x;
    // As in locate() and add(), of a slot that reads even pixels first.
    bool const turned = Config::kByParity && (in_level & 1) != 0;
    float const from_left = Config::kByParity ? in_steps(bx.share) : bx.share;
    float const share = turned ? 1.0f - from_left : from_left;
    float const total = weight * bx.inside * by.inside;
    float const lower = __fmul_rn(total, by.share);
    float const upper = __fsub_rn(total, lower);
    HalfWeights const in_halves =
        half_weights(__floats2half2_rn(upper, lower), __float2half2_rn(share));
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
        if constexpr (kHalves) {
          multiply_add_halves<Config>(halves[i % kColumnSums], in_halves.of(i), value);
        } else {
          multiply_add<Config>(sum_[n], corner, value);
        }
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
    if (sub_ != 0) return;
#pragma unroll
    for (int n = 0; n < Config::kPieces; ++n) {
      std::uint32_t const channel = (j_ + n * Config::kLanes) * Config::kChannels;
      if (!Config::kIsKnown && channel >= work_.head_dim) continue;
      float scaled[Config::kChannels];
#pragma unroll
      for (int c = 0; c < Config::kChannels; ++c) {
        scaled[c] = Config::kType == ValueType::f8 ? sum_[n][c] * p_.scale_of(row.m) : sum_[n][c];
      }
      store_piece<Config>(
          p_.output_dtype, p_.output,
          static_cast<std::int64_t>(std::uint64_t{row.row} * work_.head_dim + channel), scaled,
          work_.aligned_output);
    }
  }

  std::uint32_t put_, get_;  // in shared memory: the lane's record, the first of its slot
  std::uint32_t buffer_ = 0;
  const char* values_[Config::kPieces];
  std::uint32_t kept_ = 0;  // the same, of levels in shared memory
  float sum_[Config::kPieces][Config::kChannels];
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    persistent_rows(const __grid_constant__ Params p, const __grid_constant__ Work work) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
  __trap();  // kLastSm: reject() keeps these devices away
#else
  __shared__ Shared<Config> shared;
  fill_places<Config>(p, work, shared);
  if constexpr (!Config::kKeepsLevels) fill_pieces<Config>(work, shared);
  if (threadIdx.x < 2) shared.taken[threadIdx.x] = 0;
  __syncthreads();
  Warp<Config>(p, work, shared).run();
#endif
}

}  // namespace msda::persistent
