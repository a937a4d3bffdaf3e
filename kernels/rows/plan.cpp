#include "kernels/rows/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

namespace msda::rows {

// ---- the order of queries

namespace {

// Queries of the finest grid that make a tile of query_order(); where others come with them, half
// as many rows. Tiles of make_query_tiles() have at most one column more.
constexpr std::int64_t kTileWidth = 8, kTileHeight = 32;

// A part is the queries of one grid; `first` is the number of its first query.
struct Part {
  Grid grid;
  std::int64_t first;
  std::int64_t missing = 0;  // queries of the last row

  std::int64_t count() const { return grid.height * grid.width - missing; }
};

std::vector<Part> parts_of(Problem const& problem) {
  std::vector<Part> parts;
  std::int64_t first = 0;
  auto const add = [&](Grid const& grid) {
    Part const part{grid, first};
    first += part.count();
    if (part.count() > 0) parts.push_back(part);
  };
  for (Grid const& grid : problem.query_grids) add(grid);
  if (!problem.query_grids.empty()) return parts;
  for (Level const& level : problem.levels) add({level.height, level.width});
  return first == problem.query_count ? parts : std::vector<Part>();
}

Grid finest_of(std::span<Part const> parts) {
  return std::ranges::max_element(parts, {}, &Part::count)->grid;
}

// Whether two grids have one shape, within a factor of 2: then they are of one picture.
bool are_alike(Grid const& a, Grid const& b) {
  std::int64_t const across = a.height * b.width, along = a.width * b.height;
  return across <= 2 * along && along <= 2 * across;
}

struct Tiles {
  std::vector<std::uint32_t> of_query;
  std::uint32_t count = 0;
};

// A side of a picture is `size` long and cut at the multiples of `tile`.
struct Cut {
  std::int64_t size, tile;

  std::int64_t count() const { return divide_up(size, tile); }
  // The tile in which the centre of pixel i of n lies, at (i + 1/2) size / n.
  std::int64_t tile_of(std::int64_t i, std::int64_t n) const {
    return (2 * i + 1) * size / (2 * n * tile);
  }
};

// Tiles of one picture. Each has the queries of all grids whose centres lie in one part of the
// picture: they look at the same pixels, whichever grid they are of.
void add_tiles(std::span<Part const> picture, Cut const& columns, Cut const& rows, Tiles& tiles) {
  for (Part const& part : picture) {
    auto query = static_cast<std::size_t>(part.first);
    std::size_t const end = query + static_cast<std::size_t>(part.count());
    for (std::int64_t y = 0; y < part.grid.height; ++y) {
      std::int64_t const row = rows.tile_of(y, part.grid.height) * columns.count();
      for (std::int64_t x = 0; x < part.grid.width && query < end; ++x) {
        std::int64_t const column = columns.tile_of(x, part.grid.width);
        tiles.of_query[query++] = tiles.count + u32(row + column);
      }
    }
  }
  tiles.count += u32(columns.count() * rows.count());
}

// The queries of each tile from `first` on, which are those of `parts`.
std::vector<std::int32_t> query_counts(Tiles const& tiles, std::span<Part const> parts,
                                       std::uint32_t first = 0) {
  std::vector<std::int32_t> counts(tiles.count - first);
  for (Part const& part : parts) {
    auto const queries =
        std::span(tiles.of_query).subspan(count_of(part.first), count_of(part.count()));
    for (std::uint32_t const tile : queries) ++counts[tile - first];
  }
  return counts;
}

// Queries tile by tile, in each as they come.
std::vector<std::int32_t> tile_by_tile(Tiles const& tiles, std::vector<std::int32_t> counts) {
  std::exclusive_scan(counts.begin(), counts.end(), counts.begin(), 0);
  std::vector<std::int32_t> order(tiles.of_query.size());
  for (std::size_t query = 0; query < order.size(); ++query) {
    order[static_cast<std::size_t>(counts[tiles.of_query[query]]++)] = i32(query);
  }
  return order;
}

// Returns where tiles begin: a tile of more queries than `most` becomes several, an empty one
// none.
std::vector<std::int32_t> split(std::span<std::int32_t const> counts, std::int64_t most) {
  std::vector<std::int32_t> begin = {0};
  for (std::int64_t left : counts) {
    for (; left > 0; left -= std::min(left, most)) {
      begin.push_back(begin.back() + i32(std::min(left, most)));
    }
  }
  return begin;
}

// Calls fn with the parts of each picture, the largest first, and its finest grid.
template <typename Fn>
void for_pictures(std::vector<Part>& parts, Fn fn) {
  for (auto rest = std::span(parts); !rest.empty();) {
    Grid const finest = finest_of(rest);
    auto const others = std::ranges::stable_partition(
        rest, [&](Part const& part) { return are_alike(part.grid, finest); });
    fn(std::span<Part const>(rest.first(rest.size() - others.size())), finest);
    rest = others;
  }
}

// Takes a grid of one row for the last row of the wider grid before it, unless they are alike:
// where queries do not fill a grid, those of its last row would else have tiles of their own.
void join_last_rows(std::vector<Part>& parts) {
  for (std::size_t i = 1; i < parts.size();) {
    Part& before = parts[i - 1];
    Grid const last = parts[i].grid;
    if (last.height != 1 || last.width >= before.grid.width || before.missing != 0 ||
        are_alike(before.grid, last)) {
      ++i;
      continue;
    }
    ++before.grid.height;
    before.missing = before.grid.width - last.width;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// A picture cut evenly, and where its tiles begin.
struct EvenCut {
  std::int64_t across, down;
  std::vector<std::int32_t> begin;
};

// Cuts a picture into `across` columns of tiles, and as few rows as max_queries allows.
EvenCut cut_evenly(std::span<Part const> picture, Grid const& finest, std::int64_t across,
                   std::int64_t max_queries, Tiles tiles) {
  std::int64_t queries = 0;
  for (Part const& part : picture) queries += part.count();
  std::uint32_t const first = tiles.count;
  for (std::int64_t down = divide_up(queries, across * max_queries);; ++down) {
    tiles.count = first;
    add_tiles(picture, {across, 1}, {down, 1}, tiles);
    std::vector<std::int32_t> const counts = query_counts(tiles, picture, first);
    if (down >= finest.height || std::ranges::max(counts) <= max_queries)
      return {across, down, split(counts, max_queries)};
  }
}

// Into how many tiles that cuts a picture at most: each is taken to have the most pixels of every
// grid that one can have.
std::int64_t most_tiles(std::span<Part const> picture, Grid const& finest, std::int64_t across,
                        std::int64_t max_queries) {
  std::int64_t queries = 0;
  for (Part const& part : picture) queries += part.count();
  std::int64_t down = divide_up(queries, across * max_queries);
  auto const most = [&] {
    std::int64_t of_tile = 0;
    for (Part const& part : picture) {
      of_tile += divide_up(part.grid.width, across) * divide_up(part.grid.height, down);
    }
    return of_tile;
  };
  while (down < finest.height && most() > max_queries) ++down;
  return across * down;
}

// The load of the block that has most, where blocks take tiles in turn, all of them `repeats`
// times. A tile counts its warps, of kTileWidth queries, and some more for what it costs whatever
// it has: a level of 44 x 82 and three coarser ones took 74 us in 22 tiles, 81 in 30 (H200).
std::int64_t greatest_load(std::span<std::int32_t const> begin, std::int64_t repeats,
                           std::int64_t blocks) {
  constexpr std::int64_t kWarpsForATile = 10;
  std::vector<std::int64_t> loads(static_cast<std::size_t>(blocks));
  std::size_t block = 0;
  // As many repeats as there are blocks give all blocks the same.
  for (std::int64_t i = 0; i < std::min(repeats, blocks); ++i) {
    for (std::size_t tile = 1; tile < begin.size(); ++tile) {
      loads[block] += divide_up(begin[tile] - begin[tile - 1], kTileWidth) + kWarpsForATile;
      block = block + 1 < loads.size() ? block + 1 : 0;
    }
  }
  return std::ranges::max(loads);
}

}  // namespace

bool has_query_grids(Problem const& problem) { return !parts_of(problem).empty(); }

QueryOrder query_order(Problem const& problem) {
  bool const has_rows = problem.batch > 0 && problem.head_count > 0;
  std::vector<Part> parts = has_rows ? parts_of(problem) : std::vector<Part>();
  if (parts.empty()) return {};
  QueryOrder order;
  Tiles tiles;
  tiles.of_query.resize(static_cast<std::size_t>(problem.query_count));
  for_pictures(parts, [&](std::span<Part const> picture, Grid const& finest) {
    bool const mixes_grids = picture.size() > 1;
    if (tiles.count == 0) order.mixes_grids = mixes_grids;
    add_tiles(picture, {finest.width, kTileWidth},
              {finest.height, mixes_grids ? kTileHeight / 2 : kTileHeight}, tiles);
  });
  order.queries = tile_by_tile(tiles, query_counts(tiles, parts));
  return order;
}

QueryTiles make_query_tiles(Problem const& problem, std::int64_t max_queries, std::int64_t blocks) {
  QueryTiles result;
  std::vector<Part> parts = parts_of(problem);
  if (parts.empty()) {
    auto const all = i32(problem.query_count);
    result.begin = split({&all, 1}, max_queries);
    return result;
  }
  join_last_rows(parts);
  Tiles tiles;
  tiles.of_query.resize(static_cast<std::size_t>(problem.query_count));
  for_pictures(parts, [&](std::span<Part const> picture, Grid const& finest) {
    auto const cut = [&](std::int64_t width) {
      return cut_evenly(picture, finest, divide_up(finest.width, width), max_queries, tiles);
    };
    EvenCut const wide = cut(kTileWidth + 1), narrow = cut(kTileWidth);
    std::int64_t const repeats = problem.batch * problem.head_count;
    bool const is_wide =
        greatest_load(wide.begin, repeats, blocks) < greatest_load(narrow.begin, repeats, blocks);
    EvenCut const& best = is_wide ? wide : narrow;
    add_tiles(picture, {best.across, 1}, {best.down, 1}, tiles);
    if (result.width > 0) return;
    result.width = number(divide_up(finest.width, best.across)) / number(finest.width);
    result.height = number(divide_up(finest.height, best.down)) / number(finest.height);
  });
  std::vector<std::int32_t> counts = query_counts(tiles, parts);
  result.begin = split(counts, max_queries);
  result.order = tile_by_tile(tiles, std::move(counts));
  return result;
}

std::int64_t count_query_tiles(Problem const& problem, std::int64_t max_queries) {
  std::vector<Part> parts = parts_of(problem);
  if (parts.empty()) return divide_up(problem.query_count, max_queries);
  join_last_rows(parts);
  std::int64_t count = 0;
  for_pictures(parts, [&](std::span<Part const> picture, Grid const& finest) {
    auto const most = [&](std::int64_t width) {
      return most_tiles(picture, finest, divide_up(finest.width, width), max_queries);
    };
    count += std::min(most(kTileWidth + 1), most(kTileWidth));
  });
  return count;
}

// ---- limits

namespace {

bool points_fit(Entry const& entry, Problem const& problem) {
  if (problem.point_total == 0) return false;
  if (entry.points > 0) return every_level_has(problem, entry.points);
  return problem.point_total <= (entry.points == pfew ? kFewPoints : kMaxPoints);
}

}  // namespace

Reason reject_rows(Entry const& entry, Problem const& problem) {
  std::int32_t const multiple = std::max(channels_of_vec(element_bytes(problem)), 8);
  if (!head_dim_fits(problem.head_dim, entry.channels, multiple)) return Reason::kHeadDim;
  if (!levels_are_near(problem)) return Reason::kLevels;
  if (!points_fit(entry, problem)) return Reason::kPoints;
  if (!has_fp16_sums(entry.spread)) return Reason::kNone;
  if (problem.math_mode != MSDA_MATH_FAST) return Reason::kMathMode;
  std::int64_t const most = max_pixels_of(layout_for(entry, problem));
  bool const pixels_fit = std::ranges::all_of(problem.levels, [most](Level const& level) {
    return level.row_tokens * level.height <= most;
  });
  return pixels_fit ? Reason::kNone : Reason::kLevels;
}

bool sizes_fit(Entry const& entry, Problem const& problem) {
  if (problem.token_count >= kMaxTokens || item_bytes(problem) / kVecBytes > kMaxItemVecs)
    return false;
  if (problem.value.head * element_bytes(problem) > kMaxHeadBytes) return false;
  if (problem.query_count * problem.head_count >= kMaxJobs) return false;
  std::int64_t const jobs = jobs_of(entry, problem).of_item;
  if (jobs > 0 && problem.batch > kMaxJobs / jobs) return false;
  std::int64_t const points = problem.query_count * problem.head_count * problem.point_total;
  return points == 0 || problem.batch <= kMaxPointsOfAll / points;
}

bool groups_are_whole(Entry const& entry, Problem const& problem) {
  return problem.point_total % group_of(layout_for(entry, problem), entry.points) == 0;
}

bool levels_are_wide(Problem const& problem) {
  return std::ranges::all_of(
      problem.levels, [](Level const& level) { return level.width > 1 && level.height > 1; });
}

// ---- the schedule

Divider divider(std::uint32_t divisor) {
  auto const shift = u32(std::bit_width(divisor - 1));
  std::uint64_t const power = std::uint64_t{1} << (31 + shift);
  return {divisor, u32((power + divisor - 1) / divisor), shift};
}

namespace {

// Jobs are dealt in rounds, where there are enough: concurrent tiles are then neighbours that
// share L2, and cheap and dear regions spread over the SMs. Blocks keep to one region where all
// regions cost alike. There are more rounds where L2 would not hold the values that one reads.
constexpr std::int64_t kMinTileJobs = 48;       // jobs
constexpr std::int64_t kMinLargeTileJobs = 24;  // the same, where values are
constexpr double kUsualRounds = 6;
constexpr double kRoundBytes = 32e6;  // of values
constexpr double kAlikeRoundBytes = 16e6;

std::int64_t rounds_of(Problem const& problem, QueryOrder const& order, std::int64_t jobs,
                       std::int64_t blocks) {
  double const bytes = value_bytes(problem);
  double const round_bytes = order.mixes_grids ? kAlikeRoundBytes : kRoundBytes;
  double const usual = order.mixes_grids ? 1 : kUsualRounds;
  double const most = std::clamp<double>(bytes / round_bytes, usual, kMaxRounds);
  std::int64_t const least = blocks * (bytes > kRoundBytes ? kMinLargeTileJobs : kMinTileJobs);
  return std::clamp<std::int64_t>(jobs / std::max<std::int64_t>(least, 1), 1,
                                  static_cast<std::int64_t>(most));
}

}  // namespace

ScheduleParams make_schedule(Entry const& entry, Problem const& problem, QueryOrder const& order,
                             Device const& device) {
  Jobs const each = jobs_of(entry, problem);
  std::int64_t const jobs = each.of_item * problem.batch;
  std::int64_t const blocks = std::min<std::int64_t>(device.sm_count, jobs);
  std::int64_t const rounds = rounds_of(problem, order, jobs, blocks);
  std::int64_t const dealt = std::max<std::int64_t>(blocks * rounds, 1);
  // Beside an empty dimension a number may be too large for a call that is never made.
  auto const at_least_one = [&](std::int64_t n) {
    return u32(std::clamp<std::int64_t>(n, 1, std::numeric_limits<std::uint32_t>::max()));
  };
  ScheduleParams schedule{};
  schedule.jobs = u32(jobs);
  schedule.head_groups =
      divider(at_least_one(each.of_item / std::max<std::int64_t>(each.of_group, 1)));
  schedule.head_group_jobs = divider(at_least_one(each.of_group));
  schedule.tile_jobs = divider(at_least_one(divide_up(jobs, dealt)));
  schedule.blocks = at_least_one(blocks);
  schedule.rounds = u32(rounds);
  schedule.rotation = u32(blocks / (rounds + 1) + 1);
  schedule.visits = u32(problem.query_count);
  schedule.heads = u32(problem.head_count);
  schedule.points = u32(problem.point_total);
  schedule.head_dim = u32(problem.head_dim);
  std::int64_t const element = element_bytes(problem);
  schedule.item_bytes = static_cast<std::uint64_t>(problem.value.batch * element);
  schedule.head_bytes = u32(problem.value.head * element);
  schedule.exact_only = needs_exact_path(problem);
  std::int64_t const pixel_bytes = problem.value.row * element;
  schedule.pixel_stride = u32(pixel_bytes / kVecBytes);
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    schedule.places[l] = {static_cast<float>(level.width) * kPixel,
                          static_cast<float>(level.height) * kPixel, u32(level.row_tokens),
                          u32(level.origin * pixel_bytes / kVecBytes)};
    schedule.column_stride[l] = level.width > 1 ? schedule.pixel_stride : 0;
    schedule.row_stride[l] = level.height > 1 ? u32(level.row_tokens * pixel_bytes / kVecBytes) : 0;
  }
  return schedule;
}

// ---- grid ranges

namespace {

// Blocks with cached levels have a grid range every round, and in it a tile of each head group,
// for which they copy the group's levels. So a round reads no more values than L2 holds beside
// what streams through it.
constexpr double kCachedRoundBytes = 28e6;
constexpr std::int64_t kCopyingIndices = 12;  // jobs that could be done while levels are copied
constexpr double kMinBusy = 0.95;             // blocks, for ranges that each are of one group

}  // namespace

std::int64_t cached_rounds(double value_bytes) {
  return static_cast<std::int64_t>(
      std::clamp<double>(std::round(value_bytes / kCachedRoundBytes), 1, kMaxRounds));
}

GridRanges grid_ranges_of(std::int64_t jobs, std::int64_t groups, std::int64_t blocks,
                          double value_bytes) {
  std::int64_t const ranges = blocks * cached_rounds(value_bytes);
  std::int64_t const of_group = std::min(ranges / std::max<std::int64_t>(groups, 1), jobs);
  std::int64_t const indices = jobs + std::min(kCopyingIndices, jobs / 8);
  // Blocks that copy twice are late, so a few had better have nothing.
  if (number(of_group * groups) >= kMinBusy * number(ranges)) {
    std::int64_t const grid_range = divide_up(jobs, of_group);
    return {jobs, grid_range * of_group, grid_range};
  }
  return {jobs, indices, divide_up(indices * groups, ranges)};
}

void deal_grid_ranges(ScheduleParams& schedule, Problem const& problem) {
  std::int64_t const groups =
      std::max<std::int64_t>(schedule.head_groups.divisor * problem.batch, 1);  // B may be 0
  GridRanges const ranges = grid_ranges_of(schedule.head_group_jobs.divisor, groups,
                                           schedule.blocks, value_bytes(problem));
  schedule.head_group_indices = divider(u32(ranges.head_group_indices));
  schedule.index_count = u32(ranges.head_group_indices * groups);
  schedule.grid_range = u32(ranges.grid_range);
}

std::int64_t GridRanges::tile_count(std::int64_t groups) const {
  std::int64_t const end = head_group_indices * groups, copying = head_group_indices - jobs;
  std::int64_t tiles = 0;
  for (std::int64_t begin = 0; begin < end; begin += grid_range) {
    std::int64_t const range_end = std::min(begin + grid_range, end);
    for (std::int64_t index = begin; index < range_end;) {
      std::int64_t const group_begin = index / head_group_indices * head_group_indices;
      std::int64_t const next = std::min(group_begin + head_group_indices, range_end);
      if (next - group_begin > copying) ++tiles;
      index = next;
    }
  }
  return tiles;
}

}  // namespace msda::rows
