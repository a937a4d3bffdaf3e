/**
 * @file shapes.h
 * From the shapes of a node's inputs to sizes of a problem, each checked. Letters as in msda.h.
 *
 * A dimension may be kUnknown: it then fits everything.
 */
#ifndef MSDA_PLUGINS_SHAPES_H_
#define MSDA_PLUGINS_SHAPES_H_

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "msda.hpp"

namespace msda::plugins {

/** The plugin refuses what it was given. */
[[noreturn]] inline void refuse(const std::string& message) {
  throw std::invalid_argument(message);
}

constexpr std::int64_t kUnknown = -1;  // a dimension that the host does not know yet

/** A tensor's shape with the name that messages have for it. */
struct NamedShape {
  const char* name = "";
  std::vector<std::int64_t> shape;
};

/** "value is [1, ?, 8]", for messages. */
inline std::string described(const NamedShape& tensor) {
  std::string text = std::string(tensor.name) + " is [";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    text += i == 0 ? "" : ", ";
    text += tensor.shape[i] == kUnknown ? "?" : std::to_string(tensor.shape[i]);
  }
  return text + "]";
}

inline void check_rank(const NamedShape& tensor, std::size_t rank, const char* shape) {
  if (tensor.shape.size() != rank) refuse(described(tensor) + ": must be " + shape);
}

inline void check_dim(const NamedShape& tensor, std::size_t axis, std::int64_t wanted,
                      const char* meaning) {
  if (tensor.shape[axis] == kUnknown || wanted == kUnknown || tensor.shape[axis] == wanted) return;
  refuse(described(tensor) + ": dimension " + std::to_string(axis) + " must be " +
         std::to_string(wanted) + ", " + meaning);
}

/** The points of all levels. They are on axes 3 and after, as K or as L P; `tail` is the number of
 * axes behind them. The problem has the other sizes. */
inline std::int64_t read_points(const NamedShape& tensor, std::size_t tail,
                                const msda_problem& problem) {
  const std::size_t rank = tensor.shape.size();
  if (rank != 4 + tail && rank != 5 + tail) {
    refuse(
        described(tensor) + ": must be " +
        (tail == 0 ? "[B, Q, M, K] or [B, Q, M, L, P]" : "[B, Q, M, K, 2] or [B, Q, M, L, P, 2]"));
  }
  check_dim(tensor, 0, problem.batch, "the batch of value");
  check_dim(tensor, 1, problem.query_count, "the queries");
  check_dim(tensor, 2, problem.head_count, "the heads of value");
  if (tail == 1) check_dim(tensor, rank - 1, 2, "x and y");
  if (rank == 4 + tail) return tensor.shape[3];
  check_dim(tensor, 3, problem.level_count, "the levels");
  const std::int64_t points = tensor.shape[4];
  std::int64_t total = 0;
  if (points == kUnknown) return kUnknown;
  if (__builtin_mul_overflow(points, std::int64_t{problem.level_count}, &total)) {
    refuse(described(tensor) + ": has too many points");
  }
  return total;
}

/** Deals the points of all levels: as many to each, or as the attribute `points` has them, which
 * the problem then points to. */
inline void share_points(const NamedShape& tensor, std::int64_t total,
                         const std::vector<std::int32_t>& points, msda_problem& problem) {
  const std::int64_t levels = problem.level_count;
  if (!points.empty()) {
    std::int64_t sum = 0;
    for (const std::int32_t count : points) sum += count;
    if (static_cast<std::int64_t>(points.size()) != levels || (total != kUnknown && sum != total)) {
      refuse("attribute points has " + std::to_string(points.size()) + " numbers with the sum " +
             std::to_string(sum) + ": must have one for each of the " + std::to_string(levels) +
             " levels, with the sum of the points of " + tensor.name +
             (total == kUnknown ? "" : ", " + std::to_string(total)));
    }
    problem.point_counts = points.data();
    return;
  }
  if (total == kUnknown) return;
  if (levels == 0 ? total != 0 : total % levels != 0) {
    refuse(described(tensor) + ": its " + std::to_string(total) +
           " points must be as many on each of the " + std::to_string(levels) +
           " levels where there is no attribute points");
  }
  const std::int64_t of_level = levels == 0 ? 0 : total / levels;
  if (of_level < 0 || of_level > std::numeric_limits<std::int32_t>::max()) {
    refuse(described(tensor) + ": the points of a level are " + std::to_string(of_level) +
           ", must be 0 to 2147483647");
  }
  problem.point_count = static_cast<std::int32_t>(of_level);
}

/** Points or boxes of the fused operator. */
inline void read_reference(const NamedShape& reference, msda_problem& problem) {
  const bool has_rank = reference.shape.size() == 4;
  const std::int64_t last = has_rank ? reference.shape[3] : 0;
  if (!has_rank || (last != 2 && last != 4 && last != kUnknown)) {
    refuse(described(reference) + ": must be [B, Q, L, 2] or [B, Q, L, 4]");
  }
  check_dim(reference, 0, problem.batch, "the batch of value");
  check_dim(reference, 1, problem.query_count, "the queries");
  check_dim(reference, 2, problem.level_count, "the levels");
  problem.input_mode = MSDA_INPUT_FUSED;
  problem.reference_dim = static_cast<std::int32_t>(last);
}

}  // namespace msda::plugins

#endif  // MSDA_PLUGINS_SHAPES_H_
