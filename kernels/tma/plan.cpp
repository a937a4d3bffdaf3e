// Which problems a variant of the tma family takes, in which time, and how large its windows are.

#include "kernels/tma/plan.h"

#include "core/dtype.h"
#include "kernels/common/plan.h"

#include <algorithm>
#include <cmath>

namespace msda::tma {
namespace {

#define MSDA_COSTS "kernels/tma/costs.inc"
#include "core/costs.inc"

// Pixels on each side of a tile that its points may lie beside it. Windows that held 99 % of the
// points of local workloads had 4 to 8; what they hold is read from L2 for every tile anew. A tile
// without a place has all that a stage holds.
constexpr std::int32_t kMaxMargin = 6;
constexpr std::int32_t kMinSide = 4;

}  // namespace

std::int32_t pixel_bytes(Problem const& problem) {
  return static_cast<std::int32_t>(problem.head_dim) * element_bytes(problem);
}

std::int32_t lanes_for(Entry const& entry, Problem const& problem) {
  return lanes_of(entry.channels, element_bytes(problem));
}

std::int64_t rows_of_unit(Entry const& entry, Problem const& problem) {
  return std::int64_t{kWindowWarps - entry.producers} * (kWarp / lanes_for(entry, problem));
}

std::int64_t box_shared_bytes(Entry const& entry, Problem const& problem) {
  return std::int64_t{entry.producers} * entry.stages * box_stage_bytes(pixel_bytes(problem)) +
         kAlignmentSlack;
}

WindowMemory memory_of(Entry const& entry, Problem const& problem, Device const& device) {
  return window_memory(lanes_for(entry, problem), entry.producers, entry.stages, device);
}

// ---- reject

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

namespace {

bool has_shared_memory(Entry const& entry, Problem const& problem, Device const& device) {
  if (entry.shape == box) {
    return box_shared_bytes(entry, problem) + kStaticSharedBytes <= device.shared_bytes_per_block;
  }
  return memory_of(entry, problem, device).stage_bytes >= min_stage_bytes(problem);
}

// Rows are counted in 31 bits, B and M are coordinates of a tensor map.
bool sizes_fit(Problem const& problem) {
  double const rows = static_cast<double>(problem.batch) *
                      static_cast<double>(problem.query_count) *
                      static_cast<double>(problem.head_count);
  double const heads = static_cast<double>(problem.batch) * static_cast<double>(problem.head_count);
  return rows < static_cast<double>(kMaxRows) && heads < static_cast<double>(kMaxRows) &&
         problem.query_count < kMaxRows;
}

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  Reason const reason = reject_forward(variant, problem, device, device.has_bulk_copy);
  if (reason != Reason::kNone) return reason;
  if (!head_dim_fits(problem.head_dim, entry.channels, 8)) return Reason::kHeadDim;
  if (!levels_are_near(problem)) return Reason::kLevels;
  if (problem.point_total == 0 || problem.point_total > kMaxPoints) return Reason::kPoints;
  if (entry.sums == h && problem.math_mode != MSDA_MATH_FAST) return Reason::kMathMode;
  if (Reason const broken = reject_maps(problem); broken != Reason::kNone) return broken;
  if (!sizes_fit(problem)) return Reason::kTooLarge;
  return has_shared_memory(entry, problem, device) ? Reason::kNone : Reason::kSharedMemory;
}

// ---- cost

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = kTable[variant];
  double const of_point = entry.shape == box ? costs.box_ps / static_cast<int>(entry.producers)
                          : entry.sums == h  ? costs.window_fp16_ps
                                             : costs.window_ps;
  double const factor = (pixel_bytes(problem) >= kLineBytes ? costs.wide_factor : 1.0) *
                        (problem.fused() ? costs.fused_factor : 1.0);
  return costs.launch_us +
         1e-6 * points_of(problem) * of_point * factor / std::max(device.sm_count, 1);
}

}  // namespace

// ---- windows

WindowMemory window_memory(std::int32_t lanes, std::int32_t producers, std::int32_t stages,
                           Device const& device) {
  std::int64_t const records =
      std::int64_t{kWindowWarps - producers} * warp_record_bytes(lanes) + kAlignmentSlack;
  std::int64_t const left = device.shared_bytes_per_block - kStaticSharedBytes - records;
  std::int64_t const stage_bytes = left / stages / kLineBytes * kLineBytes;
  return {stages, stage_bytes, stage_bytes * stages + records};
}

std::int64_t min_stage_bytes(Problem const& problem) {
  return std::int64_t{kMinSide} * kMinSide * problem.head_dim * dtype_bytes(problem.value_dtype);
}

void choose_windows(Problem const& problem, rows::QueryTiles const& tiles, std::int64_t stage_bytes,
                    Box (&windows)[kInlineLevels]) {
  std::int64_t const most =
      stage_bytes / (problem.head_dim * dtype_bytes(problem.value_dtype));  // pixels
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    if (level.point_count == 0) continue;
    bool const has_place = tiles.width > 0;
    double const across = std::min(tiles.width, 1.0) * static_cast<double>(level.width);
    double const down = std::min(tiles.height, 1.0) * static_cast<double>(level.height);
    auto const window_of = [&](std::int32_t margin) -> Box {
      auto const side = [margin](double of_tile, std::int64_t of_level) {
        std::int64_t const wanted = static_cast<std::int64_t>(std::ceil(of_tile)) + 2 * margin;
        return std::min<std::int64_t>({wanted, of_level + 3, kMaxBoxSide});
      };
      return {static_cast<std::int32_t>((side(across, level.width) + 1) / 2 * 2),
              static_cast<std::int32_t>(side(down, level.height))};
    };
    windows[l] = {kMinSide, kMinSide};
    for (std::int32_t margin = 0; margin <= (has_place ? kMaxMargin : kMaxBoxSide); ++margin) {
      Box const wider = window_of(margin);
      if (std::int64_t{wider.columns} * wider.rows > most) break;
      if (wider.columns >= 2 && wider.rows >= 2) windows[l] = wider;
    }
  }
}

const FamilyModel kModel = {
    .name = "tma",
    .variants = kTable.variants(),
    .reject = reject,
    .predict = predict<Costs, predicted_us>,
    .constants = kConstants,
};

}  // namespace msda::tma
