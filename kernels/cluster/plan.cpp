// Which problems a variant of the cluster family takes, in which time, and how their rows are
// dealt.

#include "kernels/cluster/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

namespace msda::cluster {
namespace {

#define MSDA_COSTS "kernels/cluster/variants.inc"
#include "core/costs.inc"

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  bool const has_clusters = device.max_cluster_blocks != 0 && device.has_bulk_copy;
  Reason const reason = reject_forward(variant, problem, device, has_clusters);
  if (reason != Reason::kNone) return reason;
  if (device.sm_count < entry.size) {
    return device.sm_count_limit != 0 ? Reason::kSmLimit : Reason::kClusters;
  }
  if (Reason const wrong = reject_rows(entry.rows, problem); wrong != Reason::kNone) return wrong;
  if (!rows_are_packed(problem)) return Reason::kStrides;
  if (problem.fused()) return Reason::kInputMode;
  if (needs_exact_path(problem)) return Reason::kLevels;
  // Values are loaded in vecs, and those of a group of heads are copied together.
  if (!value_strides_are_multiples(problem, kVecBytes)) return Reason::kStrides;
  if (layout_for(entry.rows, problem).heads > 1 && problem.value.head != problem.head_dim) {
    return Reason::kStrides;
  }
  if (!sizes_fit(entry.rows, problem)) return Reason::kTooLarge;
  if (device.shared_bytes_per_block < kMaxBlockBytes) return Reason::kSharedMemory;
  return cached_levels_of(entry, problem).levels == 0 ? Reason::kSharedMemory : Reason::kNone;
}

std::string numbers_of(Reason reason, Variant const& variant, Problem const& problem,
                       Device const& device) {
  Entry const& entry = kTable[variant];
  if (reason == Reason::kClusters || reason == Reason::kSmLimit) {
    return fmt::format("{} of {}", entry.size, device.sm_count);
  }
  if (reason != Reason::kSharedMemory) return "";
  if (device.shared_bytes_per_block < kMaxBlockBytes) {
    return fmt::format("{} bytes of {}", kMaxBlockBytes, device.shared_bytes_per_block);
  }
  std::int64_t const level_bytes =
      least_cached_bytes(problem, head_group_bytes(entry.rows, problem), entry.size);
  return fmt::format("{} bytes of {}, with a block's part of the smallest level",
                     kDeclaredBytes + kLineBytes + level_bytes, kMaxBlockBytes);
}

// ---- cost

// The time of a row on one SM.
double row_ns(Costs const& costs, Entry const& entry, Problem const& problem) {
  CachedLevels const cached = cached_levels_of(entry, problem);
  double const group = number(head_group_bytes(entry.rows, problem));
  double const far = entry.size > 2 ? costs.far_factor : 1.0;
  double const point_ns =
      has_fp16_sums(entry.rows.spread) ? costs.fp16_point_ns : costs.f32_point_ns;
  double points_ns = 0;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    double const bytes = number(level.height * level.width) * group;
    double const more = cached.splits(l) ? costs.remote_ns * far
                        : cached.has(l)  ? 0
                                         : costs.miss_ns * bytes / (bytes + costs.l1_bytes);
    points_ns += number(level.point_count) * (point_ns + more);
  }
  double const row_bytes = number(std::int64_t{entry.rows.channels} * element_bytes(problem));
  return costs.row_ns + points_ns * std::max(row_bytes / 64, 1.0);
}

// Rows of pixels are one copy where nothing lies between them, else each pixel is.
bool copies_rows(Problem const& problem, std::int64_t pixel_bytes) {
  return problem.value.row * element_bytes(problem) == pixel_bytes;
}

// The time of a tile's copies.
double copy_us(Costs const& costs, Entry const& entry, Problem const& problem) {
  std::int64_t const pixel_bytes = head_group_bytes(entry.rows, problem);
  if (copies_rows(problem, pixel_bytes)) return costs.copy_us;
  double const pixels = number(cached_levels_of(entry, problem).bytes / pixel_bytes);
  return costs.copy_us + 1e-3 * pixels * costs.copy_pixel_ns;
}

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = kTable[variant];
  double const clusters = std::max(std::floor(number(device.sm_count) / entry.size), 1.0);
  double const work_us =
      1e-3 * rows_of(problem) / (clusters * entry.size) * row_ns(costs, entry, problem);
  double const groups =
      number(problem.batch) * number(problem.head_count) / layout_for(entry.rows, problem).heads;
  double const tiles = number(cached_rounds(value_bytes(problem))) + groups / clusters;
  return costs.launch_us + copy_us(costs, entry, problem) * tiles +
         std::max(work_us, forward_bytes(problem) / costs.bytes_per_us);
}

// ---- cached levels

// A level in a block: whole, or the rows that one of `size` blocks has of it.
struct Part {
  std::int64_t row_pixels = 0;
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
};

// Rows have an even number of pixels: their parity says in which half of a line they are (by_parity
// of rows/layout.h).
Part part_of(Level const& level, std::int64_t pixel_bytes, std::int64_t size) {
  Part part;
  part.row_pixels = divide_up(level.width, 2) * 2;
  part.rows = divide_up(level.height, size);
  part.bytes = divide_up(part.rows * part.row_pixels * pixel_bytes, kLineBytes) * kLineBytes;
  return part;
}

// The smaller one of the two ways to cache a level. The rows of a level that has one row do not
// alternate: a point would have its second row in a block that has none.
Part least_part_of(Level const& level, std::int64_t pixel_bytes, std::int64_t size) {
  return part_of(level, pixel_bytes, level.height > 1 ? size : 1);
}

bool fits(Part const& part, std::int64_t bytes) {
  return part.rows * part.row_pixels <= kMaxCachedPixels && part.bytes <= bytes;
}

}  // namespace

// ---- what plan.h declares

CachedLevels cached_levels_of(Entry const& entry, Problem const& problem) {
  return choose_cached_levels(problem, head_group_bytes(entry.rows, problem), entry.size,
                              kMaxCachedBytes);
}

CachedLevels choose_cached_levels(Problem const& problem, std::int64_t pixel_bytes,
                                  std::int64_t size, std::int64_t max_bytes) {
  std::array<std::size_t, kInlineLevels> numbers;
  auto const order = std::span(numbers).first(problem.levels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, {}, [&](std::size_t l) { return problem.levels[l].height * problem.levels[l].width; });
  CachedLevels cached;
  std::array<Part, kInlineLevels> parts;
  for (std::size_t const l : order) {
    parts[l] = least_part_of(problem.levels[l], pixel_bytes, size);
    if (!fits(parts[l], max_bytes - cached.bytes)) break;
    cached.bytes += parts[l].bytes;
    cached.levels |= 1u << l;
    if (parts[l].rows < problem.levels[l].height) cached.split |= 1u << l;
  }
  for (std::size_t const l : order) {
    if (!cached.splits(l)) continue;
    Part const whole = part_of(problem.levels[l], pixel_bytes, 1);
    if (!fits(whole, max_bytes - cached.bytes + parts[l].bytes)) continue;
    cached.bytes += whole.bytes - parts[l].bytes;
    parts[l] = whole;
    cached.split &= ~(1u << l);
  }
  std::int64_t end = 0;
  for (std::size_t const l : order) {
    if (!cached.has(l)) continue;
    cached.begin[l] = end;
    cached.row_pixels[l] = parts[l].row_pixels;
    end += parts[l].bytes;
  }
  cached.buffers = cached.levels != 0 && 2 * cached.bytes <= max_bytes ? 2 : 1;
  return cached;
}

std::int64_t least_cached_bytes(Problem const& problem, std::int64_t pixel_bytes,
                                std::int64_t size) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (Level const& level : problem.levels) {
    least = std::min(least, least_part_of(level, pixel_bytes, size).bytes);
  }
  return least;
}

CacheParams cache_params(Entry const& entry, Problem const& problem, CachedLevels const& levels) {
  CacheParams cached{};
  std::int64_t const pixel_bytes = head_group_bytes(entry.rows, problem);
  cached.size_mask = u32(entry.size - 1);
  cached.size_shift = u32(std::countr_zero(u32(entry.size)));
  cached.cached_levels = levels.levels;
  cached.split_levels = levels.split;
  cached.buffer_bytes = u32(levels.bytes);
  cached.buffers = u32(levels.buffers);
  cached.pixel_bytes = u32(pixel_bytes);
  cached.copies_rows = copies_rows(problem, pixel_bytes);
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    cached.begin[l] = u32(levels.begin[l]);
    cached.row_pixels[l] = u32(levels.row_pixels[l]);
    Level const& level = problem.levels[l];
    std::fill_n(cached.level_of + level.point_start, level.point_count,
                static_cast<std::uint8_t>(l));
  }
  return cached;
}

ScheduleParams cluster_schedule(Entry const& entry, Problem const& problem, QueryOrder const& order,
                                Device const& device, CachedLevels const& cached,
                                std::int64_t clusters) {
  ScheduleParams schedule = make_schedule(entry.rows, problem, order, device);
  std::int64_t const pixel_vecs = head_group_bytes(entry.rows, problem) / kVecBytes;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    if (!cached.has(l)) continue;
    schedule.places[l].row_tokens = u32(cached.row_pixels[l]);
    schedule.places[l].origin = u32(cached.begin[l] / kVecBytes);
    schedule.row_stride[l] =
        problem.levels[l].height > 1 ? u32(cached.row_pixels[l] * pixel_vecs) : 0;
  }
  schedule.blocks =
      u32(std::clamp<std::int64_t>(clusters, 1, std::max<std::int64_t>(schedule.jobs, 1)));
  deal_grid_ranges(schedule, problem);
  return schedule;
}

const FamilyModel kModel = {
    .name = "cluster",
    .variants = kTable.variants(),
    .reject = reject,
    .predict = predict<Costs, predicted_us>,
    .constants = kConstants,
    .numbers_of = numbers_of,
};

}  // namespace msda::cluster
