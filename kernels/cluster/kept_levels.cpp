#include "kernels/cluster/kept_levels.h"

#include "kernels/cluster/cluster_config.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

namespace msda::cluster {
namespace {

std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

// A level in a block: whole, or the rows that one of `size` blocks has of it.
struct Part {
  std::int64_t row_pixels = 0;
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
};

// An even number of pixels: their parity says in which half of a line they are (by_parity of
// persistent/layout.h).
std::optional<Part> part_of(Level const& level, std::int64_t pixel_bytes, std::int64_t size) {
  if (level.width < 1 || level.height < 1) return std::nullopt;
  if (size > 1 && level.height < 2) return std::nullopt;  // a point has no second row
  Part part;
  part.row_pixels = divide_up(level.width, 2) * 2;
  part.rows = divide_up(level.height, size);
  if (part.rows * part.row_pixels > kMaxKeptPixels) return std::nullopt;
  part.bytes = divide_up(part.rows * part.row_pixels * pixel_bytes, persistent::kLineBytes) *
               persistent::kLineBytes;
  return part;
}

// The smaller one of the two ways to keep it.
std::optional<Part> least_part_of(Level const& level, std::int64_t pixel_bytes, std::int64_t size) {
  std::optional<Part> const split = part_of(level, pixel_bytes, size);
  return split ? split : part_of(level, pixel_bytes, 1);
}

}  // namespace

KeptLevels choose_kept_levels(Problem const& problem, std::int64_t pixel_bytes, std::int64_t size,
                              std::int64_t max_bytes) {
  std::array<std::size_t, kInlineLevels> numbers;
  auto const order = std::span(numbers).first(problem.levels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t l) {
    return problem.levels[l].height * problem.levels[l].width;
  });
  KeptLevels kept;
  std::array<Part, kInlineLevels> parts;
  for (std::size_t const l : order) {
    std::optional<Part> const part = least_part_of(problem.levels[l], pixel_bytes, size);
    if (!part || kept.bytes + part->bytes > max_bytes) break;
    parts[l] = *part;
    kept.bytes += part->bytes;
    kept.levels |= 1u << l;
    if (part->rows < problem.levels[l].height) kept.split |= 1u << l;
  }
  for (std::size_t const l : order) {
    if (!kept.splits(l)) continue;
    std::optional<Part> const whole = part_of(problem.levels[l], pixel_bytes, 1);
    if (!whole || kept.bytes - parts[l].bytes + whole->bytes > max_bytes) continue;
    kept.bytes += whole->bytes - parts[l].bytes;
    parts[l] = *whole;
    kept.split &= ~(1u << l);
  }
  std::int64_t end = 0;
  for (std::size_t const l : order) {
    if (!kept.has(l)) continue;
    kept.begin[l] = end;
    kept.row_pixels[l] = parts[l].row_pixels;
    end += parts[l].bytes;
  }
  kept.buffers = kept.levels != 0 && 2 * kept.bytes <= max_bytes ? 2 : 1;
  return kept;
}

std::int64_t least_kept_bytes(Problem const& problem, std::int64_t pixel_bytes, std::int64_t size) {
  std::int64_t least = 0;
  for (Level const& level : problem.levels) {
    std::optional<Part> const part = least_part_of(level, pixel_bytes, size);
    if (part && (least == 0 || part->bytes < least)) least = part->bytes;
  }
  return least;
}

}  // namespace msda::cluster
