// Points in the order of windows, and back: a counting sort of one chunk. Compiled once a target.

#include "cpu/simd/simd_backward.h"

#define HWY_DISABLED_TARGETS MSDA_SIMD_DISABLED_TARGETS
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/simd_bins.cpp"
#include <hwy/foreach_target.h>
// After foreach_target:
#include "cpu/simd/simd_elements-inl.h"

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
BinChunk binner() { return nullptr; }
#else
// The points of a chunk in the order of rows. Whole vectors are written, so there is room for one
// more.
struct Unsorted {
  HWY_ALIGN Record records[kChunkPoints + kLanes];
  HWY_ALIGN std::uint32_t window[kChunkPoints + kLanes];
};

// Records and windows of a block of points; `at` is the place of the first in the chunk. Points
// without a cell get the window behind the last and no weight.
HWY_INLINE void place_block(Windows const& windows, PointWindows const& levels,
                            Points const& points, std::int64_t count, std::int64_t at,
                            Unsorted& unsorted) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const hn::RebindToUnsigned<Floats> du;
  auto const one = hn::Set(di, 1);
  auto const none = hn::Set(di, static_cast<std::int32_t>(windows.window_count));
  for (std::int64_t i = 0; i < count; i += kLanes) {
    auto const x = hn::Load(d, points.x + i), y = hn::Load(d, points.y + i);
    auto const column = hn::Add(hn::ConvertTo(di, hn::Floor(x)), one);
    auto const row = hn::Add(hn::ConvertTo(di, hn::Floor(y)), one);
    // As unsigned numbers the negative ones are beyond every size.
    auto const columns = hn::BitCast(du, hn::Load(di, levels.columns + i));
    auto const rows = hn::BitCast(du, hn::Load(di, levels.rows + i));
    auto const is_there = hn::RebindMask(
        di, hn::And(hn::Lt(hn::BitCast(du, column), columns), hn::Lt(hn::BitCast(du, row), rows)));
    auto const across = hn::ShiftRightSame(column, windows.column_shift);
    auto const down = hn::ShiftRightSame(row, windows.shift);
    auto const window = hn::Add(hn::Add(hn::Load(di, levels.first_window + i), across),
                                hn::Mul(down, hn::Load(di, levels.across + i)));
    auto const place = hn::Iota(di, static_cast<std::int32_t>(at + i));
    auto const kept = hn::RebindMask(d, is_there);
    hn::StoreInterleaved4(hn::IfThenElseZero(kept, x), hn::IfThenElseZero(kept, y),
                          hn::IfThenElseZero(kept, hn::Load(d, points.weight + i)),
                          hn::BitCast(d, place), d,
                          reinterpret_cast<float*>(unsorted.records + at + i));
    hn::StoreU(hn::IfThenElse(is_there, window, none), di,
               reinterpret_cast<std::int32_t*>(unsorted.window + at + i));
  }
}

void bin_chunk(HeadSource const& source, Windows const& windows,
               PointBlocks<PointWindows> const& windows_of_points, std::int64_t index,
               HeadScratch const& scratch) {
  Chunk const chunk = windows.chunk(source.problem, index);
  Unsorted unsorted;
  std::int64_t count = 0;
  std::int64_t const end = chunk.first_row + chunk.row_count;
  PointRange range;
  Softmax softmax;
  for (range.q = chunk.first_row; range.q < end; range.q += range.rows) {
    range.rows = std::min(source.tables.read.rows, end - range.q);
    for (std::int64_t row = 0; row < range.rows; ++row) {
      source.prefetch_inputs(std::min(range.q + row + 2 * range.rows, end - 1));
    }
    for (std::int64_t k = 0; k < chunk.point_count; k += kPointBlock) {
      range.first = chunk.first_point + k;
      range.count = std::min(chunk.point_count - k, kPointBlock);
      Points points;
      source.tables.read.points(source, range, softmax, points);
      place_block(windows, windows_of_points[range.first], points, range.size(), count, unsorted);
      count += range.size();
    }
  }

  std::int64_t const bins = windows.window_count + 1;
  std::uint16_t* const ends = scratch.ends + index * bins;
  std::memset(ends, 0, static_cast<std::size_t>(bins) * sizeof(std::uint16_t));
  for (std::int64_t i = 0; i < count; ++i) ++ends[unsorted.window[i]];
  std::uint16_t begin = 0;
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    std::uint16_t const size = ends[bin];
    ends[bin] = begin;
    begin = static_cast<std::uint16_t>(begin + size);
  }
  Record* const records = scratch.records + chunk.first_record;
  for (std::int64_t i = 0; i < count; ++i) {
    records[ends[unsorted.window[i]]++] = unsorted.records[i];
  }
}

BinChunk binner() { return bin_chunk; }
#endif  // HWY_TARGET

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msda::simd {

HWY_EXPORT(binner);
BinChunk choose_bin() { return HWY_DYNAMIC_DISPATCH(binner)(); }

}  // namespace msda::simd
#endif
