// Which problems a variant of the direct family takes, how its generic backward orders points, the
// time that a variant is predicted to take, and what its forward asks of a GPU: README.md has the
// count of its usual case, docs/roofline.md what hardware counters say of it.

#include "kernels/direct/plan.h"

#include "core/tensor_sizes.h"

#include <algorithm>

namespace msda::direct {
namespace {

#define MSDA_COSTS "kernels/direct/variants.inc"
#include "core/costs.inc"

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  if (entry.channels == dany) return reject_basics(variant, problem, device);
  Reason const reason = reject_forward(variant, problem, device);
  if (reason != Reason::kNone) return reason;
  if (device.sm_count_limit != 0) return Reason::kSmLimit;
  if (!head_dim_fits(problem.head_dim, entry.channels, 8)) return Reason::kHeadDim;
  if (!levels_are_near(problem)) return Reason::kLevels;
  bool const points_fit = entry.points == pany ? problem.point_total <= kMaxPoints
                                               : every_level_has(problem, entry.points);
  if (!points_fit) return Reason::kPoints;
  if (!rows_are_packed(problem)) return Reason::kStrides;
  return tokens_fit(problem) ? Reason::kNone : Reason::kTooLarge;
}

// ---- the generic backward

// Records that a tile should have at most where points are spread evenly. A warp adds them one
// after the other; small problems have smaller tiles, so that there are about as many as warps fit
// a device in all turns.
constexpr double kMaxTileRecords = 256;
constexpr double kMinTileRecords = 64;
constexpr double kWantedTiles = 32768;

// Points of a chunk at least, and for each tile: then the places take half a word a point.
constexpr std::int64_t kMinChunkPoints = 1024;
constexpr std::int64_t kPointsOfPlace = 2;

// Doubles the shorter side while tiles have too few records; neither grows past the map.
LevelTiles tiles_of(Level const& level, std::int64_t query_count, double most_records) {
  std::int64_t const width = level.width + 1, height = level.height + 1;  // cells
  double const density =
      number(level.point_count) * number(query_count) / (number(width) * number(height));
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

msda_dtype sum_dtype(Problem const& problem) {
  return problem.value_dtype == MSDA_DTYPE_F64 ? MSDA_DTYPE_F64 : MSDA_DTYPE_F32;
}

void workspace(Variant const&, Problem const& problem, Device const& device, Arena& arena) {
  if (!problem.backward()) return;
  Order order(problem, device);
  take_sums(problem, arena);
  take_arrays(order.bins, order.run_heads, arena);
}

// ---- cost

// The work of a slot's lanes for a row of the row kernel, as RowConfig in direct.cuh deals
// them.
struct RowWork {
  std::int64_t all_vecs = 0;   // of the row
  std::int64_t vecs = 0;       // that a lane loads
  std::int64_t lanes = 0;      // of the slot
  bool split = false;          // a lane loads left or right pixels
  std::int64_t in_flight = 0;  // points whose loads are in flight
  std::int64_t chunks = 0;     // of points: each lane locates one
  std::int64_t points = 0;     // that are gathered, those that fill the last pair too
};

RowWork work_of_row(Entry const& entry, Problem const& problem) {
  auto const bytes = i32(dtype_bytes(problem.value_dtype));
  RowWork row;
  row.all_vecs = entry.channels / channels_of_vec(bytes);
  std::int64_t const group = std::min<std::int64_t>(row.all_vecs, kWarp);
  row.split = problem.head_count % 2 == 1 && is_half_line(entry.channels, bytes);
  row.lanes = row.split ? 2 * group : group;
  row.vecs = row.all_vecs / group;
  row.in_flight = row.lanes < 2 || row.vecs > 1 ? 1 : 2;
  auto const add_chunks = [&row](std::int64_t count, std::int64_t points) {
    row.chunks += count;
    row.points += count * (divide_up(points, row.in_flight) * row.in_flight);
  };
  std::int64_t const left = problem.point_total % row.lanes;
  add_chunks(problem.point_total / row.lanes, row.lanes);
  if (left > 0) add_chunks(1, left);
  return row;
}

double generic_work_ns(Costs const& costs, Problem const& problem) {
  return points_of(problem) * number(problem.head_dim) * costs.generic_ns *
         (problem.backward() ? costs.generic_backward_factor : 1.0);
}

double row_work_ns(Costs const& costs, Entry const& entry, Problem const& problem,
                   RowWork const& row) {
  double const vec_ns = costs.point_vec_ns * f32_factor(problem, costs.f32_factor);
  double const gather_ns = std::max(costs.point_ns, vec_ns * number(row.all_vecs)) *
                           (entry.points == pany ? costs.any_points_factor : 1.0);
  double const locate_ns = costs.locate_ns + (problem.fused() ? costs.fused_ns : 0.0);
  return rows_of(problem) *
         (gather_ns * number(row.points) + locate_ns * number(row.chunks * row.lanes) +
          costs.row_vec_ns * number(row.all_vecs));
}

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = kTable[variant];
  double work_ns = 0, waits_us = 0;
  if (entry.channels == dany) {
    work_ns = generic_work_ns(costs, problem);
    waits_us = costs.generic_wait_us * number(problem.point_total) +
               (problem.backward() ? costs.generic_backward_us : 0.0);
  } else {
    RowWork const row = work_of_row(entry, problem);
    work_ns = row_work_ns(costs, entry, problem, row);
    // A row waits for its loads one after the other.
    waits_us = costs.wait_us * number(row.points / row.in_flight) +
               costs.chunk_wait_us * number(row.chunks) +
               (problem.fused() ? costs.fused_wait_us : 0.0);
  }
  return costs.launch_us + waits_us +
         std::max(1e-3 * work_ns / device.sm_count, forward_bytes(problem) / costs.bytes_per_us);
}

// ---- counts

// Instructions of a warp. These were not counted in the code: they are what two counters in
// README.md leave, fp16 with 16 and with 32 points a row, beside loads and sums.
constexpr double kRowInstructions = 184;    // once
constexpr double kChunkInstructions = 117;  // every lane locates a point
constexpr double kPointInstructions = 29;   // of each slot
constexpr double kAddressInstructions = 4;  // of each of its loads

// A load of a corner, its conversion and its sums.
double load_instructions(ValueType type) {
  // Multiply-adds, as many conversions to float32 where values are not, and two words of F8 each.
  return type == ValueType::f32 ? 1 + 4 : type == ValueType::f8 ? 1 + 8 + 8 + 4 : 1 + 8 + 8;
}

// Lines that a warp's lanes touch in an array with `bytes` of each of their rows, of which one
// load reads `loaded`.
double lines_of(double rows, double bytes, double loaded) {
  return std::max(std::max(1.0, rows * loaded / kWavefrontBytes),
                  rows * std::min(1.0, bytes / kWavefrontBytes));
}

void count_row_kernel(Entry const& entry, Problem const& problem, Counts& counts) {
  RowWork const row = work_of_row(entry, problem);
  double const element = number(dtype_bytes(problem.value_dtype));
  double const row_bytes = number(problem.head_dim) * element;
  double const slots = number(kWarp / row.lanes);
  std::int64_t const loads = row.split ? 2 : 4;  // of a lane for a vec of a point: corners
  double const coord_bytes = 2 * number(dtype_bytes(problem.coord_dtype));
  double const weight_bytes = number(dtype_bytes(problem.weight_dtype));
  double const K = number(problem.point_total);
  double const warps = number(divide_up(row_count(problem), kWarp / row.lanes));
  double const of_chunks = warps * number(row.chunks), of_points = warps * number(row.points);
  counts.gather_loads = of_points * number(loads * row.vecs);
  counts.gather_wavefronts = of_points * 4 * slots * row_bytes / kWavefrontBytes;
  counts.lines_of_load = std::max(slots, 4.0);
  counts.row_bytes = row_bytes;
  counts.gathered_bytes = counts.gather_wavefronts * kWavefrontBytes;
  // A record is written by each lane in 16 bytes; one read takes as long as four different ones. So
  // do the places of the levels, of which lanes read one each.
  counts.record_wavefronts = of_points * 4 + of_chunks * (4 + 4);
  double const of_slot = number(row.lanes);  // points that one load reads
  counts.input_wavefronts =
      of_chunks *
      (lines_of(slots, K * coord_bytes, of_slot * coord_bytes) +
       (problem.fused() ? 3 : 1) * lines_of(slots, K * weight_bytes, of_slot * weight_bytes));
  counts.instructions =
      warps * kRowInstructions + of_chunks * kChunkInstructions +
      of_points * (kPointInstructions + number(loads * row.vecs) *
                                            (kAddressInstructions + load_instructions(entry.type)));
}

// A thread an output element. Its instructions were not counted.
void count_generic_kernel(Problem const& problem, Counts& counts) {
  double const element = number(dtype_bytes(problem.value_dtype));
  double const warps = rows_of(problem) * number(problem.head_dim) / kWarp;
  double const points = warps * number(problem.point_total);
  double const load_bytes = kWarp * element;
  counts.row_bytes = number(problem.head_dim) * element;
  counts.lines_of_load = std::max(1.0, load_bytes / kWavefrontBytes);
  counts.gather_loads = points * 4;
  counts.gathered_bytes = points_of(problem) * 4 * counts.row_bytes;
  counts.gather_wavefronts = counts.gather_loads * std::max(1.0, load_bytes / kWavefrontBytes);
  counts.input_wavefronts = points * 3;  // x, y and the weight, the same for all lanes
}

std::optional<Counts> counts(Variant const& variant, Problem const& problem, Device const&) {
  Entry const& entry = kTable[variant];
  if (problem.backward() || problem.nearest()) return std::nullopt;
  // Vecs of values that are not aligned are loaded element by element.
  if (entry.channels != dany && !values_are_aligned(problem)) return std::nullopt;
  Counts counts = counts_of_tensors(problem);
  counts.output_wavefronts = counts.output_bytes / kWavefrontBytes;
  if (entry.channels == dany) {
    count_generic_kernel(problem, counts);
  } else {
    count_row_kernel(entry, problem, counts);
  }
  return counts;
}

}  // namespace

// ---- what plan.h declares

Tiles make_tiles(Problem const& problem) {
  double const most_records =
      std::clamp(points_of(problem) / kWantedTiles, kMinTileRecords, kMaxTileRecords);
  Tiles tiles;
  for (Level const& level : problem.levels) {
    LevelTiles of_level{};
    if (level.has_pixels() && level.point_count > 0 && problem.query_count > 0) {
      of_level = tiles_of(level, problem.query_count, most_records);
    }
    of_level.first = tiles.count;
    tiles.count +=
        of_level.across * divide_up(level.height + 1, std::int64_t{1} << of_level.height_bits);
    tiles.levels.push_back(of_level);
    if (problem.levels_overlap && of_level.across > 0) {
      tiles.rounds.push_back({of_level.first, tiles.count});
    }
  }
  if (!problem.levels_overlap) tiles.rounds = {{0, tiles.count}};
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
  bins.places = arena.take<std::int64_t>(count_of(heads * bins.place_count));
  bins.list = arena.take<std::int64_t>(count_of(heads * bins.points));
}

std::int64_t heads_within(Problem const& problem, BinParams bins, std::int64_t other_bytes,
                          std::size_t limit) {
  std::int64_t const all = std::max<std::int64_t>(problem.batch * problem.head_count, 1);
  return most_that_fit(all, limit, [&](std::int64_t heads) {
    Arena arena;
    arena.take<std::byte>(count_of(other_bytes));
    take_arrays(bins, heads, arena);
    return arena.used_bytes();
  });
}

bool needs_sums(Problem const& problem) {
  return problem.backward() && problem.grad_value_dtype != sum_dtype(problem);
}

std::int64_t sum_bytes(Problem const& problem) {
  return value_count(problem) * dtype_bytes(sum_dtype(problem));
}

std::byte* take_sums(Problem const& problem, Arena& arena) {
  if (!needs_sums(problem)) return nullptr;
  return arena.take<std::byte>(count_of(sum_bytes(problem)));
}

Order::Order(Problem const& problem, Device const& device)
    : tiles(make_tiles(problem)),
      bins(bin_params(problem, tiles)),
      run_heads(heads_within(problem, bins, needs_sums(problem) ? sum_bytes(problem) : 0,
                             device.workspace_limit_bytes)) {}

extern const FamilyModel kModel = {
    .name = "direct",
    .variants = kTable.variants(),
    .reject = reject,
    .predict = predict<Costs, predicted_us>,
    .constants = kConstants,
    .workspace = workspace,
    .counts = counts,
};

}  // namespace msda::direct
