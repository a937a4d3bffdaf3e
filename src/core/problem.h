// The canonical form of what the caller described: checked once at the C boundary, trusted ever
// after. Nothing behind src/api reads the C structs again.
#pragma once

#include <msda.h>

#include <algorithm>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace msda {

struct Level {
  std::int64_t height = 0;       // pixels
  std::int64_t width = 0;        // pixels
  std::int64_t token_start = 0;  // first stored token of the level, anywhere within S
  std::int64_t token_count = 0;  // stored tokens: row_tokens * (height + 2 * border)
  std::int64_t row_tokens = 0;   // stored tokens between pixel rows: width + 2 * border
  std::int64_t origin = 0;  // stored token of pixel (0, 0): token_start + border * (row_tokens + 1)
  std::int64_t point_start = 0;  // first of the level's points among the K of a query and head
  std::int64_t point_count = 0;

  bool has_pixels() const { return height > 0 && width > 0; }
};

struct Grid {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

// Element strides of the three outer dimensions; the inner dimensions are packed.
struct Strides {
  std::int64_t batch = 0;
  std::int64_t row = 0;  // a token of value, a query of everything else
  std::int64_t head = 0;

  std::int64_t at(std::int64_t b, std::int64_t r, std::int64_t m) const {
    return b * batch + r * row + m * head;
  }
};

struct Problem {
  explicit Problem(std::pmr::memory_resource* memory) : levels(memory), query_grids(memory) {}

  // Sizes, strides, choices and dtypes as in msda_problem; packed strides and dtypes are resolved.
#define MSDA_SIZE(name) std::int64_t name = 0;
#define MSDA_STRIDES(name, tensors) Strides tensors;
#define MSDA_CHOICE(name, type, ...) type name = 0;
#define MSDA_DTYPE(name, otherwise) msda_dtype name = MSDA_DTYPE_F32;
#include "core/problem_fields.inc"

  std::int64_t token_count = 0;  // S, border tokens and those of no level included
  std::int64_t point_total = 0;  // K
  bool levels_overlap = false;   // a token is of several levels

  std::pmr::vector<Level> levels;      // L of them
  std::pmr::vector<Grid> query_grids;  // locality hint; empty: none was given

  msda_input_mode input_mode = MSDA_INPUT_SAMPLED;
  std::int32_t reference_dim = 0;  // 2 or 4 when fused, else 0

  bool fused() const { return input_mode == MSDA_INPUT_FUSED; }
  bool backward() const { return operation == MSDA_BACKWARD; }
  bool nearest() const { return sampling_mode == MSDA_SAMPLING_NEAREST; }
  // Coordinates are float64, or relative to float64 references.
  bool points_are_f64() const {
    return coord_dtype == MSDA_DTYPE_F64 || (fused() && reference_dtype == MSDA_DTYPE_F64);
  }
  // Without points all results are 0, as far as they have elements.
  bool has_points() const {
    return batch > 0 && query_count > 0 && head_count > 0 && point_total > 0;
  }
  // Without pixels to sample all gradients are 0, too, but those of logits whose softmax is NaN.
  bool has_samples() const {
    return has_points() && std::ranges::any_of(levels, [](Level const& level) {
             return level.point_count > 0 && level.has_pixels();
           });
  }
  bool scattered() const { return point_locality == MSDA_POINTS_SCATTERED; }
};

}  // namespace msda
