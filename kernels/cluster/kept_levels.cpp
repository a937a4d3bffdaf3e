#include "kernels/cluster/kept_levels.h"

#include "kernels/cluster/cluster_config.h"
#include "kernels/common/divide_up.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

namespace msda::cluster {
namespace {

// A level in a block: whole, or the rows that one of `size` blocks has of it.
struct Part {
  std::int64_t row_pixels = 0;
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
};

// Rows have an even number of pixels: their parity says in which half of a line they are (by_parity
// of persistent/layout.h).
Part part_of(Level const& level, std::int64_t pixel_bytes, std::int64_t size) {
  Part part;
  part.row_pixels = divide_up(level.width, 2) * 2;
  part.rows = divide_up(level.height, size);
  part.bytes = divide_up(part.rows * part.row_pixels * pixel_bytes, persistent::kLineBytes) *
               persistent::kLineBytes;
  return part;
}

// The smaller one of the two ways to keep it. The rows of a level that has one do not alternate: a
// point would have its second row in a block that has none.
Part least_part_of(Level const& level, std::int64_t pixel_bytes, std::int64_t size) {
  return part_of(level, pixel_bytes, level.height > 1 ? size : 1);
}

bool fits(Part const& part, std::int64_t bytes) {
  return part.rows * part.row_pixels <= kMaxKeptPixels && part.bytes <= bytes;
}

}  // namespace

KeptLevels choose_kept_levels(Problem const& problem, std::int64_t pixel_bytes, std::int64_t size,
                              std::int64_t max_bytes) {
  std::array<std::size_t, kInlineLevels> numbers;
  auto const order = std::span(numbers).first(problem.levels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, {}, [&](std::size_t l) { return problem.levels[l].height * problem.levels[l].width; });
  KeptLevels kept;
  std::array<Part, kInlineLevels> parts;
  for (std::size_t const l : order) {
    parts[l] = least_part_of(problem.levels[l], pixel_bytes, size);
    if (!fits(parts[l], max_bytes - kept.bytes)) break;
    kept.bytes += parts[l].bytes;
    kept.levels |= 1u << l;
    if (parts[l].rows < problem.levels[l].height) kept.split |= 1u << l;
  }
  for (std::size_t const l : order) {
    if (!kept.splits(l)) continue;
    Part const whole = part_of(problem.levels[l], pixel_bytes, 1);
    if (!fits(whole, max_bytes - kept.bytes + parts[l].bytes)) continue;
    kept.bytes += whole.bytes - parts[l].bytes;
    parts[l] = whole;
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
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (Level const& level : problem.levels) {
    least = std::min(least, least_part_of(level, pixel_bytes, size).bytes);
  }
  return least;
}

}  // namespace msda::cluster
