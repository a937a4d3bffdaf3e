// Which problems a variant of the direct family takes, and how its generic backward orders points.

#include "kernels/direct/plan.h"

#include "core/dtype.h"
#include "core/tensor_sizes.h"
#include "kernels/common/divide_up.h"
#include "kernels/common/row_limits.h"

#include <algorithm>

namespace msda::direct {
namespace {

bool sizes_fit(Problem const& problem) {
  std::int64_t const bytes = problem.value.row * dtype_bytes(problem.value_dtype);
  if (problem.token_count >= kMaxTokens || bytes > kMaxBytes) return false;
  if (problem.head_count > INT32_MAX) return false;
  return std::all_of(problem.levels.begin(), problem.levels.end(), [&](Level const& level) {
    return bytes == 0 || level.row_tokens <= kMaxBytes / bytes;
  });
}

bool points_fit(Entry const& entry, Problem const& problem) {
  if (entry.points == pany) return problem.point_total <= kMaxPoints;
  return every_level_has(problem, entry.points);
}

}  // namespace

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  if (Reason const reason = reject_basics(variant, problem, device); reason != Reason::kNone) {
    return reason;
  }
  if (entry.channels == dany) return Reason::kNone;
  if (problem.backward()) return Reason::kOperation;
  if (problem.coord_dtype == MSDA_DTYPE_F64) return Reason::kCoordDtype;
  if (problem.weight_dtype == MSDA_DTYPE_F64) return Reason::kWeightDtype;
  if (device.sm_count_limit != 0) return Reason::kSmLimit;
  if (!head_dim_fits(problem.head_dim, entry.channels, 8)) return Reason::kHeadDim;
  if (!levels_are_near(problem)) return Reason::kLevels;
  if (!points_fit(entry, problem)) return Reason::kPoints;
  if (!rows_are_packed(problem)) return Reason::kStrides;
  return sizes_fit(problem) ? Reason::kNone : Reason::kTooLarge;
}

extern const FamilyModel kModel;
const FamilyModel kModel = {"direct", kTable.variants(), reject, cost, counts};

// ---- the generic backward

namespace {

// Records that a tile should have at most where points are spread evenly. A warp adds them one
// after the other; small problems have smaller tiles, so that there are about as many as warps fit
// a device in all turns.
constexpr double kMaxTileRecords = 256;
constexpr double kMinTileRecords = 64;
constexpr double kWantedTiles = 32768;

double tile_records(Problem const& problem) {
  double const rows = static_cast<double>(problem.batch) * static_cast<double>(problem.head_count) *
                      static_cast<double>(problem.query_count);
  return std::clamp(rows * static_cast<double>(problem.point_total) / kWantedTiles, kMinTileRecords,
                    kMaxTileRecords);
}

// Points of a chunk at least, and for each tile: then the places take half a word a point.
constexpr std::int64_t kMinChunkPoints = 1024;
constexpr std::int64_t kPointsOfPlace = 2;

std::size_t bytes_of(BinParams bins, std::int64_t heads, std::int64_t other_bytes) {
  Arena arena;
  arena.take<std::byte>(static_cast<std::size_t>(other_bytes));
  take_arrays(bins, heads, arena);
  return arena.used_bytes();
}

// Doubles the shorter side while tiles have too few records; neither grows past the map.
LevelTiles tiles_of(Level const& level, std::int64_t query_count, double most_records) {
  std::int64_t const width = level.width + 1, height = level.height + 1;  // cells
  double const density = static_cast<double>(level.point_count) * static_cast<double>(query_count) /
                         (static_cast<double>(width) * static_cast<double>(height));
  LevelTiles tiles{};
  for (double records = density; 2 * records <= most_records; records *= 2) {
    bool const can_widen = std::int64_t{1} << tiles.width_bits < width;
    bool const can_heighten = std::int64_t{1} << tiles.height_bits < height;
    if (!can_widen && !can_heighten) break;
    if (can_widen && (!can_heighten || tiles.width_bits <= tiles.height_bits)) {
      ++tiles.width_bits;
    } else {
      ++tiles.height_bits;
    }
  }
  tiles.across = divide_up(width, std::int64_t{1} << tiles.width_bits);
  return tiles;
}

std::vector<TileRange> levels_in_turn(Tiles const& tiles) {
  std::vector<TileRange> rounds;
  for (LevelTiles const& level : tiles.levels) {
    if (level.across == 0) continue;
    if (!rounds.empty()) rounds.back().end = level.first;
    rounds.push_back({level.first, tiles.count});
  }
  return rounds;
}

}  // namespace

Tiles make_tiles(Problem const& problem) {
  Tiles tiles;
  for (Level const& level : problem.levels) {
    LevelTiles of_level{};
    bool const has_points =
        level.width > 0 && level.height > 0 && level.point_count > 0 && problem.query_count > 0;
    if (has_points) of_level = tiles_of(level, problem.query_count, tile_records(problem));
    of_level.first = tiles.count;
    if (has_points) {
      tiles.count +=
          of_level.across * divide_up(level.height + 1, std::int64_t{1} << of_level.height_bits);
    }
    tiles.levels.push_back(of_level);
  }
  tiles.rounds = {{0, tiles.count}};
  if (problem.levels_overlap) tiles.rounds = levels_in_turn(tiles);
  return tiles;
}

BinParams bin_params(Problem const& problem, Tiles const& tiles) {
  BinParams bins{};
  if (tensor_is_empty(problem, Tensor::kGradValue)) return bins;  // nothing is added
  bins.points = problem.query_count * problem.point_total;
  bins.tiles = tiles.count;
  bins.chunk_points = std::max(kMinChunkPoints, kPointsOfPlace * tiles.count);
  bins.chunks = divide_up(bins.points, bins.chunk_points);
  bins.place_count = bins.tiles * bins.chunks;
  return bins;
}

void take_arrays(BinParams& bins, std::int64_t heads, Arena& arena) {
  bins.places = arena.take<std::int64_t>(static_cast<std::size_t>(heads * bins.place_count));
  bins.list = arena.take<std::int64_t>(static_cast<std::size_t>(heads * bins.points));
}

std::int64_t heads_within(Problem const& problem, BinParams const& bins, std::int64_t other_bytes,
                          std::size_t limit) {
  std::int64_t const all = std::max<std::int64_t>(problem.batch * problem.head_count, 1);
  if (limit == 0 || bytes_of(bins, all, other_bytes) <= limit) return all;
  std::int64_t fits = 1, too_many = all;
  while (too_many - fits > 1) {
    std::int64_t const middle = fits + (too_many - fits) / 2;
    (bytes_of(bins, middle, other_bytes) <= limit ? fits : too_many) = middle;
  }
  return fits;
}

namespace {

msda_dtype sum_dtype(Problem const& problem) {
  return problem.value_dtype == MSDA_DTYPE_F64 ? MSDA_DTYPE_F64 : MSDA_DTYPE_F32;
}

}  // namespace

bool needs_sums(Problem const& problem) {
  return problem.backward() && problem.grad_value_dtype != sum_dtype(problem);
}

std::int64_t sum_bytes(Problem const& problem) {
  return problem.batch * problem.token_count * problem.head_count * problem.head_dim *
         dtype_bytes(sum_dtype(problem));
}

std::byte* take_sums(Problem const& problem, Arena& arena) {
  if (!needs_sums(problem)) return nullptr;
  return arena.take<std::byte>(static_cast<std::size_t>(sum_bytes(problem)));
}

Order::Order(Problem const& problem, Device const& device)
    : tiles(make_tiles(problem)),
      bins(bin_params(problem, tiles)),
      run_heads(heads_within(problem, bins, needs_sums(problem) ? sum_bytes(problem) : 0,
                             device.workspace_limit_bytes)) {}

void workspace(Variant const&, Problem const& problem, Device const& device, Arena& arena) {
  if (!problem.backward()) return;
  Order order(problem, device);
  take_sums(problem, arena);
  take_arrays(order.bins, order.run_heads, arena);
}

}  // namespace msda::direct
