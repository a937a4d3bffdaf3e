#include "cpu/simd/simd_windows.h"

#include "core/dtype.h"

#include <algorithm>

namespace msda::simd {
namespace {

// Values and gradients of a window are to stay in the second level of cache, and there are to be so
// few windows that counting them costs nothing beside the points.
constexpr std::int64_t kNearBytes = 384 * 1024;
constexpr int kLargestNearShift = 5;
constexpr std::int64_t kMaxWindows = 4096;
constexpr std::int64_t kFewPoints = 1;  // a pixel
// A problem is small whose tokens and points have so many channels of all heads: strips take it.
// Threads share the heads, of which there have to be some, and pixels must not share the sets of a
// cache.
constexpr std::int64_t kSmallProblem = 3 << 20;
constexpr std::int64_t kHeadsToShare = 4;
constexpr std::int64_t kSetBytes = 4096;
// Values and gradients of a strip, of all heads, are to stay in the second level of cache.
constexpr std::int64_t kStripBytes = 1536 * 1024;
// Sums of strips are formed in grad_value where all that a call reads and writes stays in a cache.
constexpr std::int64_t kCacheBytes = 18 << 20;
constexpr int kLargestStripShift = 3;
constexpr int kAllColumns = 31;

std::int64_t parts(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

bool has_windows(Level const& level) { return level.point_count > 0 && level.has_pixels(); }

std::int64_t bytes_of_window(std::int64_t side, std::int64_t padded_dim) {
  return (side + 1) * (side + 1) * 2 * padded_dim * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t windows_of(Problem const& problem, std::int64_t rows, std::int64_t columns) {
  std::int64_t count = 0;
  for (Level const& level : problem.levels) {
    if (has_windows(level))
      count += parts(level.height + 1, rows) * parts(level.width + 1, columns);
  }
  return count;
}

// The largest power of two, as a shift, up to which bytes(side) are near; a larger one where there
// would be too many windows.
template <class Bytes, class Count>
int choose_shift(Problem const& problem, int largest, std::int64_t near_bytes, Bytes bytes,
                 Count count) {
  int shift = largest;
  while (shift > 0 && bytes(std::int64_t{1} << shift) > near_bytes) --shift;
  auto const level_count = static_cast<std::int64_t>(problem.levels.size());
  while (count(std::int64_t{1} << shift) > kMaxWindows + level_count) ++shift;
  return shift;
}

int choose_window_shift(Problem const& problem, std::int64_t padded_dim) {
  return choose_shift(
      problem, kLargestNearShift, kNearBytes,
      [&](std::int64_t side) { return bytes_of_window(side, padded_dim); },
      [&](std::int64_t side) { return windows_of(problem, side, side); });
}

// Bytes of a token's sums.
std::int64_t row_bytes(Problem const& problem) {
  return problem.head_count * problem.head_dim * static_cast<std::int64_t>(sizeof(float));
}

int choose_strip_shift(Problem const& problem) {
  std::int64_t width = 0;
  for (Level const& level : problem.levels) width = std::max(width, level.width);
  return choose_shift(
      problem, kLargestStripShift, kStripBytes,
      [&](std::int64_t side) { return 2 * side * width * row_bytes(problem); },
      [&](std::int64_t side) { return windows_of(problem, side, std::int64_t{1} << kAllColumns); });
}

bool is_small(Problem const& problem) {
  std::int64_t const rows = problem.token_count + problem.query_count * problem.point_total;
  return problem.head_count >= kHeadsToShare && row_bytes(problem) % kSetBytes != 0 &&
         rows <= kSmallProblem / (problem.head_count * problem.head_dim);
}

bool fits_cache(Problem const& problem) {
  std::int64_t const rows = problem.batch * (2 * problem.token_count + problem.query_count);
  return rows <= kCacheBytes / row_bytes(problem);
}

// Levels may start in any order; they do not overlap.
void add_gaps(Problem const& problem, std::pmr::vector<TokenRange>& gaps) {
  std::vector<TokenRange> ranges = {{problem.token_count, problem.token_count}};
  for (Level const& level : problem.levels) {
    ranges.push_back({level.token_start, level.token_start + level.token_count});
  }
  std::ranges::sort(ranges, {}, &TokenRange::begin);
  std::int64_t end = 0;
  for (TokenRange const& range : ranges) {
    if (end < range.begin) gaps.push_back({end, range.begin});
    end = std::max(end, range.end);
  }
}

}  // namespace

Windows::Windows(Problem const& problem, std::int64_t lanes, std::pmr::memory_resource* memory)
    : levels(memory), gaps(memory), padded_dim(parts(problem.head_dim, lanes) * lanes) {
  std::int64_t const K = problem.point_total;
  takes_values = problem.value_dtype == MSDA_DTYPE_F32 && problem.head_dim == padded_dim;
  in_strips =
      problem.head_dim == padded_dim && dtype_bytes(problem.value_dtype) >= 2 && is_small(problem);
  stays_in_cache = in_strips && fits_cache(problem);
  shift = in_strips ? choose_strip_shift(problem) : choose_window_shift(problem, padded_dim);
  column_shift = in_strips ? kAllColumns : shift;
  side = std::int64_t{1} << shift;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    if (!has_windows(level)) continue;
    std::int64_t const across = parts(level.width + 1, std::int64_t{1} << column_shift);
    std::int64_t const bands = parts(level.height + 1, side);
    bool const has_few_points =
        problem.query_count * level.point_count < kFewPoints * level.height * level.width;
    levels.push_back({static_cast<std::int64_t>(l), window_count, across, band_count, bands,
                      edge_pixels, has_few_points});
    window_count += across * bands;
    band_count += bands;
    if (in_strips) {
      if (stays_in_cache && problem.grad_value_dtype == MSDA_DTYPE_F32) continue;
      strip_pixels = std::max(strip_pixels, (std::min(side, level.height) + 1) * level.width);
      continue;
    }
    edge_pixels += (bands - 1) * level.width;
    std::int64_t const pixels =
        (std::min(side, level.height + 1) + 1) * (std::min(side, level.width + 1) + 1);
    window_pixels = std::max(window_pixels, pixels);
  }
  add_gaps(problem, gaps);
  rows_of_chunk = K == 0 ? 1 : std::max(kChunkPoints / K, std::int64_t{1});
  chunks_of_row = K == 0 ? 1 : parts(K, kChunkPoints);
  chunk_count = parts(problem.query_count, rows_of_chunk) * chunks_of_row;
  records = problem.query_count * K;
}

LevelWindows const& Windows::level_of(std::int64_t band) const {
  return *(std::ranges::upper_bound(levels, band, {}, &LevelWindows::first_band) - 1);
}

Chunk Windows::chunk(Problem const& problem, std::int64_t index) const {
  std::int64_t const K = problem.point_total;
  Chunk chunk;
  chunk.first_row = index / chunks_of_row * rows_of_chunk;
  chunk.row_count = std::min(rows_of_chunk, problem.query_count - chunk.first_row);
  chunk.first_point = index % chunks_of_row * kChunkPoints;
  chunk.point_count = std::min(kChunkPoints, K - chunk.first_point);
  chunk.first_record = chunk.first_row * K + chunk.first_point;
  return chunk;
}

PointBlocks<PointWindows> point_windows(Problem const& problem, Windows const& windows,
                                        std::int64_t rows, std::pmr::memory_resource* memory) {
  PointBlocks<PointWindows> points(memory);
  if (!problem.has_samples()) return points;
  auto next = windows.levels.begin();
  points.fill(problem, rows, [&](PointWindows& block, std::int64_t i, Level const& level) {
    if (!has_windows(level)) return;
    Level const* const levels = problem.levels.data();
    while (levels + next->level != &level) ++next;
    block.columns[i] = static_cast<std::int32_t>(level.width + 1);
    block.rows[i] = static_cast<std::int32_t>(level.height + 1);
    block.first_window[i] = static_cast<std::int32_t>(next->first_window);
    block.across[i] = static_cast<std::int32_t>(next->across);
  });
  return points;
}

}  // namespace msda::simd
