// From a point to its record where levels may be kept: see persistent/record.cuh for the others.
#pragma once

#include "kernels/cluster/cluster_lane.cuh"
#include "kernels/persistent/locate.cuh"

namespace msda::cluster {

using persistent::Between;
using persistent::RecordOf;

// A row of a split level lies in one block and the next row in the next block. Of a point's two
// rows the even one is the first of its record, so that its sum has one order in every block. With
// clusters of two the even rows are those of block 0: all lanes of a load read the same block.
struct SplitRows {
  std::uint32_t even;  // the even row's number in its block
  std::uint32_t rank;  // of that block
  bool is_lower;       // of the point's two rows the even one is the lower one
};

// y: of the upper row.
__device__ __forceinline__ SplitRows split_rows(std::uint32_t y, std::uint32_t mask,
                                                std::uint32_t shift) {
  std::uint32_t const is_odd = y & 1, even = y + is_odd;
  return {even >> shift, even & mask, is_odd != 0};
}

// How a record says it. With fp16 sums the number of the pixel has 12 bits, then half the rank,
// then whether the even row is the lower one; in other records the first pixel has 28 bits.
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

// Of a slot's row, at a point in pixels of its level; pixel_vecs: from a pixel to the next one.
template <class Config>
__device__ __forceinline__ RecordOf<Config> locate(Lane<Config> const& lane, Place const& place,
                                                   bool is_split, std::uint32_t pixel_vecs,
                                                   float2 const& at, float weight) {
  Between const bx = persistent::between<Config::kIsKnown>(at.x, place.width);
  Between const by = persistent::between<Config::kIsKnown>(at.y, place.height);
  auto const row = static_cast<std::uint32_t>(by.base);
  SplitRows const rows = split_rows(row, lane.size_mask(), lane.size_shift());
  bool const swaps_rows = is_split && rows.is_lower;
  std::uint32_t pixel =
      (is_split ? rows.even : row) * place.row_tokens + static_cast<std::uint32_t>(bx.base);
  float fraction = bx.fraction;
  bool turned = false;
  if constexpr (Config::kByParity) {
    // As in the persistent family: rows of kept levels have an even number of pixels.
    turned = (pixel & 1) != (lane.slot() & 1);
    pixel += turned && (Config::kIsKnown || place.width > persistent::kPixel) ? 1 : 0;
    fraction = persistent::in_fp16_units(fraction);
    fraction = turned ? 1.0f - fraction : fraction;
  }
  float const total = weight * bx.inside * by.inside;
  float const lower = __fmul_rn(total, by.fraction), upper = __fsub_rn(total, lower);
  float const first_row = swaps_rows ? lower : upper, second_row = swaps_rows ? upper : lower;
  std::uint32_t const bits = is_split ? SplitBits<Config>::of(rows) : 0;
  if constexpr (Config::kFp16Sums) {
    return persistent::Fp16Record::of<Config::kByParity>(pixel | bits, turned, fraction, first_row,
                                                         second_row);
  } else {
    return {(pixel * pixel_vecs + place.origin) | bits, fraction, first_row, second_row};
  }
}

// A warp's records: a row for each lane of a slot and each of the points that it prepares at a
// time, with those of all slots. Slots are numbered anew in some rows, so that lanes of one slot
// write to different banks.
template <class Config>
struct KeptRecords {
  static constexpr int kRecordBytes = sizeof(RecordOf<Config>);
  static constexpr int kSlots = 32 / Config::kLanes;
  static constexpr int kRowBytes = kSlots * kRecordBytes;
  static constexpr int kRowsOfLine = std::max(persistent::kLineBytes / kRowBytes, 1);
  static constexpr int kFirstStep = kSlots * kRowsOfLine / Config::kLanes;
  static constexpr int kStep = std::max(kFirstStep, 1);
  static_assert(Config::kRecords * kRowBytes <= cluster::kRecordBytes,
                "a warp's records fit what it has");

  // The place of a slot in the rows in which slots are not numbered anew.
  __device__ __forceinline__ static std::uint32_t place(std::uint32_t table, unsigned slot) {
    return table + slot * kRecordBytes;
  }
  // In a row of lane j. Rows lie at multiples of their size.
  __device__ __forceinline__ static std::uint32_t at(std::uint32_t place, int row, int j) {
    constexpr auto kSlotsOfRow = static_cast<unsigned>(kSlots);
    unsigned const by = static_cast<unsigned>(j / kRowsOfLine * kStep) % kSlotsOfRow;
    return (place ^ by * kRecordBytes) + static_cast<std::uint32_t>(row * kRowBytes);
  }
};

}  // namespace msda::cluster
