// Records of located points, and the sums of a row. A row's points are added in their order, each
// column of them apart: the bits depend neither on where a pixel is read from nor on the slot.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/tma/point_rows.cuh"

namespace msda::tma {

// What a slot's lanes know of a point that one of them has located.
struct alignas(16) Record {
  std::uint32_t place;   // of its pixels; what it says is the kernel's
  std::uint32_t second;  // fraction of the second column: float32, or with fp16 sums two float16,
                         // of the first and the second; the sign: see is_far()
  std::uint32_t upper;   // float32; with fp16 sums two float16, upper and lower
  std::uint32_t lower;   // float32

  // Whether the place is not in the window.
  __device__ __forceinline__ bool is_far() const { return (second & 0x80000000u) != 0; }
};
static_assert(sizeof(Record) == kRecordBytes);

template <class Config>
__device__ __forceinline__ Record record_of(Located const& point, std::uint32_t place,
                                            bool is_far) {
  std::uint32_t const far = is_far ? 0x80000000u : 0;
  if constexpr (Config::kFp16Sums) {
    return {place, bits_of(__floats2half2_rn(1.0f - point.second, point.second)) | far,
            bits_of(__floats2half2_rn(point.upper, point.lower)), 0};
  } else {
    return {place, __float_as_uint(point.second) | far, __float_as_uint(point.upper),
            __float_as_uint(point.lower)};
  }
}

__device__ __forceinline__ void put_record(std::uint32_t at, Record const& record) {
  ptx::store_shared(at, record.place, record.second, record.upper, record.lower);
}
__device__ __forceinline__ Record get_record(std::uint32_t at) {
  std::uint32_t words[4];
  ptx::load_shared(at, words);
  return {words[0], words[1], words[2], words[3]};
}

template <class Config>
class RowSums {
 public:
  using Vec = msda::Vec<Config::kVecBytes>;

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int c = 0; c < Config::kChannels; ++c) sum_[0][c] = sum_[1][c] = 0.0f;
  }

  // Two points. Of each: upper pixel of the column that is read first, of the other one, then the
  // lower ones. turned: the second column is read first. Pixels that `has` leaves out are no part
  // of the result.
  template <class Has>
  __device__ __forceinline__ void add_pair(Record const (&record)[2], Vec const (&value)[2][4],
                                           bool turned, Has has) {
    if constexpr (Config::kFp16Sums) {
      add_fp16(record, value, turned, has);
    } else {
      add_one(record[0], value[0], turned, [&](int i) { return has(0, i); });
      add_one(record[1], value[1], turned, [&](int i) { return has(1, i); });
    }
  }

  // The same in float32, whatever the sums.
  template <class Has>
  __device__ __forceinline__ void add_one(Record const& record, Vec const (&value)[4], bool turned,
                                          Has has) {
    static_assert(!Config::kFp16Sums, "records of fp16 sums have no float32");
    float const second = __uint_as_float(record.second & 0x7fffffffu);
    add_weighted(second, __uint_as_float(record.upper), __uint_as_float(record.lower), value,
                 turned, has);
  }
  template <class Has>
  __device__ __forceinline__ void add_weighted(float second, float upper, float lower,
                                               Vec const (&value)[4], bool turned, Has has) {
    float const upper_second = __fmul_rn(upper, second), lower_second = __fmul_rn(lower, second);
    float const upper_first = __fsub_rn(upper, upper_second);
    float const lower_first = __fsub_rn(lower, lower_second);
    float const weight[4] = {
        turned ? upper_second : upper_first, turned ? upper_first : upper_second,
        turned ? lower_second : lower_first, turned ? lower_first : lower_second};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (has(i)) multiply_add<Config>(sum_[i % 2], weight[i], value[i]);
    }
  }

  // A point's sample, which is the sum of its corners alone.
  __device__ __forceinline__ void add_sample(float weight, RowSums const& sample) {
    float of_corners[Config::kChannels];
    sample.total(of_corners);
#pragma unroll
    for (int c = 0; c < Config::kChannels; ++c) {
      sum_[0][c] = fmaf(weight, of_corners[c], sum_[0][c]);
    }
  }
  // What is beside the map, but for its weight, which may be no number.
  __device__ __forceinline__ void add_outside(float weight) {
#pragma unroll
    for (int c = 0; c < Config::kChannels; ++c) sum_[0][c] += weight * 0.0f;
  }

  __device__ __forceinline__ void total(float (&sum)[Config::kChannels]) const {
#pragma unroll
    for (int c = 0; c < Config::kChannels; ++c) sum[c] = __fadd_rn(sum_[0][c], sum_[1][c]);
  }
  __device__ __forceinline__ bool is_finite() const {
    float sum[Config::kChannels], check = 0.0f;
    total(sum);
#pragma unroll
    for (int c = 0; c < Config::kChannels; ++c) check = fmaf(sum[c], 0.0f, check);
    return check == check;
  }

 private:
  template <class Has>
  __device__ __forceinline__ void add_fp16(Record const (&record)[2], Vec const (&value)[2][4],
                                           bool turned, Has has) {
    __half2 sum[2][Config::kChannels / 2];
    __half2 const zero = __float2half2_rn(0.0f);
#pragma unroll
    for (int w = 0; w < Config::kChannels / 2; ++w) sum[0][w] = sum[1][w] = zero;
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      __half2 const columns = half2_of(record[u].second & 0x7fffffffu);
      __half2 const rows = half2_of(record[u].upper);
      __half2 const left = __hmul2_rn(rows, __low2half2(columns));
      __half2 const right = __hmul2_rn(rows, __high2half2(columns));
      __half2 const first = turned ? right : left, other = turned ? left : right;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (!has(u, i)) continue;
        __half2 const column = i % 2 == 0 ? first : other;
        multiply_add_fp16<Config>(
            sum[i % 2], i / 2 == 0 ? __low2half2(column) : __high2half2(column), value[u][i]);
      }
    }
#pragma unroll
    for (int w = 0; w < Config::kChannels / 2; ++w) {
      float2 const pair = __half22float2(__hadd2_rn(sum[0][w], sum[1][w]));
      sum_[0][2 * w] += pair.x;
      sum_[0][2 * w + 1] += pair.y;
    }
  }

  float sum_[2][Config::kChannels];
};

// The columns' sums of fp16 sums are added to the first alone; the second one stays 0.

// Of a lane: its vec of the pixels of a batch item and head. Lanes behind the row's last vec repeat
// that one, and do not store it.
template <class Config>
struct LaneValues {
  const char* begin;
  std::int64_t pixel_bytes;

  __device__ __forceinline__ LaneValues(Params const& p, Row const& row, unsigned vec)
      : begin(static_cast<const char*>(p.value) +
              (row.b * p.value_strides.batch + row.m * p.value_strides.head) *
                  Config::kElementBytes +
              vec * Config::kVecBytes),
        pixel_bytes(p.value_strides.row * Config::kElementBytes) {}

  __device__ __forceinline__ static bool is_in(LevelParams const& level, std::int32_t x,
                                               std::int32_t y) {
    return x >= 0 && x < level.width && y >= 0 && y < level.height;
  }
  // Zeros beside the map.
  __device__ __forceinline__ msda::Vec<Config::kVecBytes> load(LevelParams const& level,
                                                               std::int32_t x,
                                                               std::int32_t y) const {
    if (!is_in(level, x, y)) return {};
    return load_vec<Config>(begin + (level.origin + y * level.row_tokens + x) * pixel_bytes);
  }
};

__device__ __forceinline__ unsigned vec_of_lane(std::int64_t head_dim, int channels, unsigned j) {
  return min(j, static_cast<unsigned>(head_dim / channels) - 1);
}

// The exact path: a row's points in the same order as on the fast path, but nothing is read that is
// not part of the result. A slot's lanes all locate every point. kFp16: as the variant has it.
template <class Config, bool kFp16>
__device__ void add_exact(Params const& p, Row const& row, PointRow const& points,
                          RowWeights<Config> const& weights, LaneValues<Config> const& values,
                          RowSums<Config>& sums) {
#pragma unroll 1
  for (std::int32_t l = 0; l < p.level_count; ++l) {
    LevelParams const& level = p.near_levels[l];
#pragma unroll 1
    for (std::int64_t i = 0; i < level.point_count; i += kFp16 ? 2 : 1) {
      Record record[2] = {};
      msda::Vec<Config::kVecBytes> value[2][4] = {};
      unsigned has = 0;  // a bit for each pixel
#pragma unroll 1
      for (int u = 0; u < (kFp16 ? 2 : 1) && i + u < level.point_count; ++u) {
        RawPoint const raw = load_point(p, points, level.point_start + i + u);
        float const weight = weights(raw.weight);
        bool const of_sample = !kFp16 && is_infinite(weight);
        Located at = locate<Config>(position_of(p, points, level, l, raw), weight, level);
        if (!at.is_inside) {
          sums.add_outside(at.upper);
          continue;
        }
        if (of_sample) {
          at = locate<Config>(position_of(p, points, level, l, raw), 1.0f, level);
        }
        msda::Vec<Config::kVecBytes> pixel[4];
        unsigned is_in = 0;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          std::int32_t const x = column_of<Config>(at.x, n % 2), y = at.y + n / 2;
          is_in |= (LaneValues<Config>::is_in(level, x, y) ? 1u : 0u) << n;
          pixel[n] = values.load(level, x, y);
        }
        if constexpr (!kFp16) {
          auto const has_pixel = [is_in](int n) { return (is_in >> n & 1) != 0; };
          if (of_sample) {
            RowSums<Config> sample;
            sample.clear();
            sample.add_weighted(at.second, at.upper, at.lower, pixel, false, has_pixel);
            sums.add_sample(weight, sample);
          } else {
            sums.add_weighted(at.second, at.upper, at.lower, pixel, false, has_pixel);
          }
        } else {
          has |= is_in << (4 * u);
#pragma unroll
          for (int slot = 0; slot < 2; ++slot) {
            if (slot != u) continue;
            record[slot] = record_of<Config>(at, 0, false);
#pragma unroll
            for (int n = 0; n < 4; ++n) value[slot][n] = pixel[n];
          }
        }
      }
      if constexpr (kFp16) {
        sums.add_pair(record, value, false,
                      [has](int u, int n) { return (has >> (4 * u + n) & 1) != 0; });
      }
    }
  }
}

// By all lanes of the warp, where a sum of one of its rows is not finite. What float16 cannot hold
// is formed in float32.
template <class Config>
__device__ void sum_exact(Params const& p, Row const& row, PointRow const& points,
                          RowWeights<Config> const& weights, LaneValues<Config> const& values,
                          RowSums<Config>& sums) {
  sums.clear();
  add_exact<Config, Config::kFp16Sums>(p, row, points, weights, values, sums);
  if (!Config::kFp16Sums) return;
  // A row's lanes agree: each of its channels is formed in the same way.
  bool is_finite = sums.is_finite();
#pragma unroll
  for (int distance = Config::kLanes / 2; distance > 0; distance /= 2) {
    is_finite = __shfl_xor_sync(0xffffffffu, is_finite ? 1 : 0, distance) != 0 && is_finite;
  }
  if (is_finite) return;
  sums.clear();
  add_exact<Config, false>(p, row, points, weights, values, sums);
}

// By all lanes of the warp.
template <class Config>
__device__ __forceinline__ void store_row(Params const& p, Row const& row, unsigned j,
                                          RowSums<Config> const& sums, bool aligned_output) {
  std::int64_t const channel = std::int64_t{j} * Config::kChannels;
  if (!row.is_there || channel >= p.head_dim) return;
  float total[Config::kChannels];
  sums.total(total);
  store_vec<Config>(p.output_dtype, p.output, p.output_strides.at(row.b, row.q, row.m) + channel,
                    total, aligned_output);
}

}  // namespace msda::tma
