// Which problems a variant of the tma family takes, in which time, and how large its windows are.

#include "kernels/tma/plan.h"

#include <algorithm>
#include <cmath>

namespace msda::tma {
namespace {

#define MSDA_COSTS "kernels/tma/variants.inc"
#include "core/costs.inc"

// Pixels on each side of a tile that its points may lie beside it. With 5, 6, 8 and 9 enc-local
// took 107, 84, 83 and 87 us, bev-local 429, 348, 299 and 294 (fast, H200). A tile without a place
// has all that there is room for.
constexpr std::int32_t kMaxMargin = 8;
constexpr std::int32_t kMinSide = 4;

// Shared memory of a block, of 228 KB that it has together with L1, through which inputs and far
// points come: with 222 KB float32 sums took 2 % longer on enc-local.
constexpr std::int64_t kMaxSharedBytes = 210 * 1024;

// Queries of a plan with windows, which has a table of them.
constexpr std::int64_t kMaxQueries = 1 << 24;

// ---- reject

// A slot's lanes each have a level, with points that come in whole vectors and groups.
Reason reject_windows(Entry const& entry, Problem const& problem) {
  if (problem.head_dim != entry.channels) return Reason::kHeadDim;
  auto const with_points = std::ranges::count_if(
      problem.levels, [](Level const& level) { return level.point_count > 0; });
  if (with_points > kMaxWindows) return Reason::kLevels;
  if (std::int64_t const points = points_of_level(problem); points != 4 && points != 8)
    return Reason::kPoints;
  return problem.query_count > kMaxQueries ? Reason::kTooLarge : Reason::kNone;
}

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  Reason const reason = reject_forward(variant, problem, device, device.has_bulk_copy);
  if (reason != Reason::kNone) return reason;
  if (!head_dim_fits(problem.head_dim, entry.channels, 8)) return Reason::kHeadDim;
  if (!levels_are_near(problem)) return Reason::kLevels;
  if (problem.point_total == 0 || problem.point_total > kMaxPoints) return Reason::kPoints;
  if (entry.shape == win) {
    if (Reason const broken = reject_windows(entry, problem); broken != Reason::kNone)
      return broken;
  }
  if (entry.sums == h && problem.math_mode != MSDA_MATH_FAST) return Reason::kMathMode;
  if (Reason const broken = reject_maps(problem); broken != Reason::kNone) return broken;
  // Rows are counted in 31 bits, B and M are coordinates of a tensor map.
  double const heads = number(problem.batch) * number(problem.head_count);
  if (std::max({rows_of(problem), heads, number(problem.query_count)}) >= number(kMaxRows)) {
    return Reason::kTooLarge;
  }
  bool const is_room = entry.shape == win ? windows_fit(problem, entry.sums == h, device)
                                          : box_shared_bytes(entry, problem) + kStaticSharedBytes <=
                                                device.shared_bytes_per_block;
  return is_room ? Reason::kNone : Reason::kSharedMemory;
}

// ---- cost

// Blocks take units in turn, each of which takes as long whatever rows it has. Windows hold hardly
// any point of those that are scattered, or of queries in no order: each is read from device
// memory.
double window_us(Costs const& costs, Entry const& entry, Problem const& problem, double sms) {
  std::int64_t const rows = tile_rows(points_of_level(problem));
  bool const is_far = problem.scattered() || !rows::has_query_grids(problem);
  double const units = number(problem.batch) * number(problem.head_count) *
                       number(rows::count_query_tiles(problem, rows));
  double const of_point = (entry.sums == h ? costs.window_fp16_ps : costs.window_ps) +
                          (is_far ? costs.window_far_ps : 0.0);
  double const of_unit = costs.window_unit_us + (problem.fused() ? costs.window_fused_us : 0.0) +
                         1e-6 * number(rows * problem.point_total) * of_point;
  return costs.window_launch_us + std::ceil(units / sms) * of_unit;
}

double box_us(Costs const& costs, Entry const& entry, Problem const& problem, double sms) {
  double const of_point = costs.box_ps / static_cast<int>(entry.producers) *
                          (pixel_bytes(problem) >= kLineBytes ? costs.wide_factor : 1.0) *
                          (problem.fused() ? costs.fused_factor : 1.0);
  return costs.launch_us + 1e-6 * points_of(problem) * of_point / sms;
}

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = kTable[variant];
  double const sms = std::max(device.sm_count, 1);
  return entry.shape == box ? box_us(costs, entry, problem, sms)
                            : window_us(costs, entry, problem, sms);
}

// ---- windows

std::int64_t fixed_bytes(Problem const& problem, bool fp16_sums) {
  return kAlignmentSlack +
         std::int64_t{kWindowConsumers} * warp_record_bytes(points_of_level(problem), fp16_sums);
}

// Pixels of all windows that there is room for.
std::int64_t max_pixels(Problem const& problem, bool fp16_sums, Device const& device) {
  return (std::min(device.shared_bytes_per_block, kMaxSharedBytes) - kWindowStaticBytes -
          fixed_bytes(problem, fp16_sums)) /
         kPixelBytes;
}

// The window of a level for a tile with so many pixels beside it on each side.
Box window_of(Level const& level, rows::QueryTiles const& tiles, std::int32_t margin) {
  auto const side = [margin](double of_tile, std::int64_t of_level) {
    double const across = std::min(of_tile, 1.0) * number(of_level);
    std::int64_t const wanted = static_cast<std::int64_t>(std::ceil(across)) + 2 * margin;
    return std::max<std::int64_t>(std::min<std::int64_t>({wanted, of_level + 3, kMaxBoxSide}), 2);
  };
  return {i32((side(tiles.width, level.width) + 1) / 2 * 2), i32(side(tiles.height, level.height))};
}

}  // namespace

// ---- what plan.h declares

Reason reject_maps(Problem const& problem) {
  std::int64_t const element = dtype_bytes(problem.value_dtype);
  for (Level const& level : problem.levels) {
    if (level.height > kMaxSide || level.width > kMaxSide) return Reason::kMapLevels;
    if (level.point_count > 0 && (level.height < 1 || level.width < 1)) return Reason::kMapLevels;
  }
  auto const is_fit = [&](std::int64_t count, std::int64_t stride) {
    std::int64_t const bytes = stride * element;
    return count <= 1 ||
           (bytes % kMapAlignment == 0 && bytes >= kMapAlignment && bytes < kMaxMapStride);
  };
  bool fits = problem.value.row >= problem.head_dim && is_fit(2, problem.value.row) &&
              is_fit(problem.head_count, problem.value.head) &&
              is_fit(problem.batch, problem.value.batch);
  for (Level const& level : problem.levels) {
    fits = fits && is_fit(level.height, level.row_tokens * problem.value.row);
  }
  return fits ? Reason::kNone : Reason::kMapStrides;
}

std::int64_t points_of_level(Problem const& problem) {
  std::int64_t points = 0;
  for (Level const& level : problem.levels) {
    if (level.point_count == 0) continue;
    if (points != 0 && level.point_count != points) return 0;
    points = level.point_count;
  }
  return points;
}

TileTables tables_of(rows::QueryTiles const& tiles, std::int64_t rows) {
  // Eighths of a tile's width, each once, with the mean of all in each half.
  constexpr std::int32_t kEighths[kSamples] = {1, 6, 3, 4, 0, 7, 2, 5};
  TileTables tables;
  std::size_t const count = tiles.begin.size() - 1;
  tables.queries.resize(count * static_cast<std::size_t>(rows));
  tables.samples.reserve(count * kSamples);
  auto const query_at = [&](std::int32_t place) {
    return tiles.order.empty() ? place : tiles.order[static_cast<std::size_t>(place)];
  };
  for (std::size_t tile = 0; tile < count; ++tile) {
    std::int32_t const begin = tiles.begin[tile], size = tiles.begin[tile + 1] - begin;
    for (std::int32_t i = 0; i < rows; ++i) {
      tables.queries[tile * static_cast<std::size_t>(rows) + static_cast<std::size_t>(i)] =
          i < size ? query_at(begin + i) : ~query_at(begin);
    }
    std::int32_t width = 1;  // of the finest grid's rows: the longest run of queries
    for (std::int32_t i = 1, run = 1; i < size; ++i) {
      run = query_at(begin + i) == query_at(begin + i - 1) + 1 ? run + 1 : 1;
      width = std::max(width, run);
    }
    for (std::int32_t i = 0; i < kSamples; ++i) {
      std::int32_t const place = (2 * i + 1) * size / (2 * kSamples) / width * width +
                                 (2 * kEighths[i] + 1) * width / (2 * kSamples);
      tables.samples.push_back(query_at(begin + std::min(place, size - 1)));
    }
  }
  return tables;
}

bool windows_fit(Problem const& problem, bool fp16_sums, Device const& device) {
  return max_pixels(problem, fp16_sums, device) >= kMaxWindows * kMinSide * kMinSide;
}

WindowMemory window_memory(Problem const& problem, rows::QueryTiles const& tiles, bool fp16_sums,
                           Device const& device) {
  WindowMemory memory;
  std::int64_t const most = max_pixels(problem, fp16_sums, device);
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    if (problem.levels[l].point_count == 0) continue;
    memory.windows[l] = {kMinSide, kMinSide};
    memory.pixels += kMinSide * kMinSide;
  }
  for (std::int32_t margin = 0; margin <= (tiles.width > 0 ? kMaxMargin : kMaxBoxSide); ++margin) {
    WindowMemory wider;
    std::int64_t pixels = 0, of_level = 0;
    for (std::size_t l = 0; l < problem.levels.size(); ++l) {
      if (problem.levels[l].point_count == 0) continue;
      wider.windows[l] = window_of(problem.levels[l], tiles, margin);
      std::int64_t const window = std::int64_t{wider.windows[l].columns} * wider.windows[l].rows;
      pixels += window;
      of_level = std::max(of_level, window);
    }
    if (pixels > most || of_level > kMaxWindowPixels) break;
    wider.pixels = i32(pixels);
    memory = wider;
  }
  memory.shared_bytes = fixed_bytes(problem, fp16_sums) + memory.pixels * kPixelBytes;
  return memory;
}

extern const FamilyModel kModel = {
    .name = "tma",
    .variants = kTable.variants(),
    .reject = reject,
    .predict = predict<Costs, predicted_us>,
    .constants = kConstants,
};

}  // namespace msda::tma
