#include "support/random_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>

namespace msda::test {
namespace {

constexpr std::uint64_t kDefaultSeed = 20260;
// Four corners of every channel of every point: what the oracle's time depends on.
constexpr std::int64_t kLargestWork = 150'000;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Mostly 1 to `most`, now and then 0.
std::int64_t size_up_to(Rng& rng, std::int64_t most) {
  return rng.chance(0.02) ? 0 : rng.integer(1, most);
}

std::vector<LevelShape> random_levels(Rng& rng) {
  std::vector<LevelShape> levels(static_cast<std::size_t>(size_up_to(rng, 5)));
  bool const ragged = rng.chance(0.4);
  auto const points = static_cast<std::int32_t>(size_up_to(rng, 8));
  for (LevelShape& level : levels) {
    std::int64_t const most = rng.pick<std::int64_t>({2, 7, 20});
    level.height = static_cast<std::int32_t>(size_up_to(rng, most));
    level.width = static_cast<std::int32_t>(size_up_to(rng, most));
    level.points = ragged ? static_cast<std::int32_t>(rng.integer(0, 9)) : points;
  }
  return levels;
}

void random_dtypes(Rng& rng, ProblemShape& shape) {
  shape.set_dtypes(rng.pick({MSDA_F32, MSDA_F32, MSDA_F32, MSDA_F16, MSDA_F16, MSDA_BF16, MSDA_BF16,
                             MSDA_F8_E4M3, MSDA_F8_E4M3, MSDA_F64}));
  auto const any = [&] { return rng.pick({MSDA_F32, MSDA_F16, MSDA_BF16, MSDA_F64}); };
  if (rng.chance(0.4)) shape.coord_dtype = any();
  if (rng.chance(0.4)) shape.weight_dtype = any();
  if (rng.chance(0.4)) shape.output_dtype = any();
  if (rng.chance(0.4)) shape.grad_value_dtype = any();
}

// Strides of a group of [batch][rows][heads][inner]: packed, padded, heads outside rows, or
// repeating.
Strides3 random_strides(Rng& rng, std::array<std::int64_t, 4> const& dims, bool may_repeat) {
  if (rng.chance(0.55)) return {0, 0, 0};
  std::array<std::size_t, 3> order = {2, 1, 0};  // from the inside out
  if (rng.chance(0.3)) std::swap(order[0], order[1]);
  if (rng.chance(0.2)) std::swap(order[1], order[2]);
  Strides3 strides = {};
  std::int64_t extent = dims[3];
  for (std::size_t const i : order) {
    extent += rng.chance(0.5) ? 0 : rng.integer(1, 17);
    strides[i] = extent;
    if (may_repeat && rng.chance(0.1)) strides[i] = 0;
    extent = strides[i] * (std::max<std::int64_t>(dims[i], 1) - 1) + extent;
  }
  return strides;
}

void random_query_grids(Rng& rng, ProblemShape& shape) {
  if (rng.chance(0.75)) return;
  std::int64_t left = shape.query_count;
  while (left > 0 || shape.query_hw.empty()) {
    std::int64_t const height = rng.integer(0, std::min<std::int64_t>(left, 6));
    std::int64_t const width = height == 0 ? rng.integer(0, 5) : left / height;
    shape.query_hw.push_back(static_cast<std::int32_t>(height));
    shape.query_hw.push_back(static_cast<std::int32_t>(width));
    left -= height * width;
  }
}

// Pixel position of a coordinate, and whether float32 and 16-bit rounding keep it between the same
// lines.
bool clear_of_lines(double coord, std::int32_t size) {
  if (!std::isfinite(coord)) return true;
  double const pixel = coord * size - 0.5;
  if (std::fabs(pixel) > 1e4) return true;
  double const fraction = pixel - std::floor(pixel);
  return fraction > 0.01 && fraction < 0.99;
}

double odd_coord(Rng& rng) {
  return rng.pick({kNan, kInfinity, -kInfinity, 1e38, -1e38, 3e38, 1e-40, -1e-40, 4e-45, 0.0, -0.0,
                   65504.0, -65504.0, 1e9, -3e9, 5e9, 1e18, -1e19});
}

// Coordinates of sampled points, and for fused ones what reference + offset would be.
double draw_coord(Rng& rng, DataKind const& kind, std::int32_t size) {
  if (kind.odd_coords && rng.chance(0.06)) return odd_coord(rng);
  if (kind.on_pixel_lines && rng.chance(0.5)) {
    double const position = static_cast<double>(rng.integer(-1, size));
    return (position + rng.pick({0.0, 0.5, 1.0})) / std::max(size, 1);
  }
  return rng.uniform(kind.low, kind.high);
}

void fill_sampled(TestProblem& problem, DataKind const& kind, Rng& rng) {
  ProblemShape const& shape = problem.shape;
  std::vector<double>& coord = problem.inputs[TensorId::kCoord];
  std::vector<double>& weight = problem.inputs[TensorId::kWeight];
  for (std::int64_t row = 0; row < shape.batch * shape.query_count * shape.head_count; ++row) {
    for (LevelShape const& level : shape.levels) {
      for (std::int32_t p = 0; p < level.points; ++p) {
        coord.push_back(draw_coord(rng, kind, level.width));
        coord.push_back(draw_coord(rng, kind, level.height));
        weight.push_back(kind.odd_weights && rng.chance(0.03) ? kNan : rng.uniform(-1, 1));
      }
    }
  }
}

// Of row `row`, `k` along it: in steps of 1/8, so that differences are exact. Weights are 2^-100 at
// least, or so small that nothing is left of any value.
double steep_logit(Rng& rng, std::int64_t row, std::int64_t k) {
  double const part = std::floor(8 * rng.uniform(0, 1)) / 8;
  double const position = static_cast<double>(k);
  switch (row % 10) {
    case 0:
      return part + 0.25 * position;
    case 1:
      return part + std::min(60.0, 1.75 * position);
    case 2:
      return part - std::min(60.0, 1.75 * position);
    case 3:
      return part + 200 * std::floor(position / 8) - 4096;
    case 4:
      return k < 8 ? -kInfinity : part;
    case 5:
      return k < 8 ? -1e9 : part;  // masked
    case 6:
      return -1e9;
    case 7:
      return k % 3 == 0 ? 1e30 : part;
    case 8:
      return -kInfinity;
    default:
      return k < 9 ? part : part + 40;
  }
}

void fill_fused(TestProblem& problem, DataKind const& kind, Rng& rng) {
  ProblemShape const& shape = problem.shape;
  std::vector<double>& reference = problem.inputs[TensorId::kReference];
  for (std::int64_t query = 0; query < shape.batch * shape.query_count; ++query) {
    for (std::size_t l = 0; l < shape.levels.size(); ++l) {
      for (std::int32_t i = 0; i < shape.reference_dim; ++i) {
        bool const odd = kind.odd_coords && rng.chance(0.02);
        reference.push_back(odd ? odd_coord(rng)
                                : rng.uniform(i < 2 ? 0.0 : 0.05, i < 2 ? 1.0 : 0.6));
      }
    }
  }
  std::vector<double>& offset = problem.inputs[TensorId::kOffset];
  std::vector<double>& logit = problem.inputs[TensorId::kLogit];
  double const spread = rng.pick({0.0, 1.0, 3.0});
  std::int64_t const points = shape.point_total();
  for (std::int64_t i = 0; i < layout_of(shape, TensorId::kLogit).element_count(); ++i) {
    for (int axis = 0; axis < 2; ++axis) {
      offset.push_back(kind.odd_coords && rng.chance(0.04) ? odd_coord(rng) : 2 * rng.normal());
    }
    bool const odd = kind.odd_weights && rng.chance(0.02);
    logit.push_back(odd                 ? rng.pick({kNan, -kInfinity, -40.0, 40.0})
                    : kind.steep_logits ? steep_logit(rng, i / points, i % points)
                                        : spread * rng.normal());
  }
}

// So large that what is a few times their size is still a number of the type, and what is 1000
// times their size, of float32, too.
double huge_value(msda_dtype dtype) {
  return dtype == MSDA_F16 ? 1e4 : dtype == MSDA_F8_E4M3 ? 100 : 1e34;
}

void fill_values(TestProblem& problem, DataKind const& kind, Rng& rng) {
  ProblemShape const& shape = problem.shape;
  std::vector<double>& value = problem.inputs[TensorId::kValue];
  std::int64_t const pixel = shape.head_count * shape.head_dim;
  std::int32_t const border = shape.value_border;
  double const scale = kind.huge_values ? huge_value(shape.value_dtype) : kind.value_scale;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (LevelShape const& level : shape.levels) {
      for (std::int32_t y = -border; y < level.height + border; ++y) {
        for (std::int32_t x = -border; x < level.width + border; ++x) {
          bool const inside = y >= 0 && y < level.height && x >= 0 && x < level.width;
          bool const odd = kind.odd_values && rng.chance(0.05);
          for (std::int64_t i = 0; i < pixel; ++i) {
            double number = inside ? scale * rng.normal() : 0.0;
            if (inside && odd) number = rng.pick({kNan, kNan, kInfinity, -kInfinity});
            value.push_back(number);
          }
        }
      }
    }
  }
  if (shape.value_dtype != MSDA_F8_E4M3 || rng.chance(0.3)) return;
  for (std::int64_t m = 0; m < shape.head_count; ++m) {
    problem.inputs[TensorId::kValueScale].push_back(rng.uniform(-2, 2));
  }
}

// Moves coordinates that storage rounding brought near a pixel line to where there is no pixel at
// all.
void keep_off_lines(TestProblem& problem) {
  ProblemShape const& shape = problem.shape;
  std::vector<double>& coord = problem.inputs[TensorId::kCoord];
  std::size_t i = 0;
  for (std::int64_t row = 0; row < shape.batch * shape.query_count * shape.head_count; ++row) {
    for (LevelShape const& level : shape.levels) {
      for (std::int32_t p = 0; p < level.points; ++p, i += 2) {
        if (!clear_of_lines(coord[i], level.width)) coord[i] = -4;
        if (!clear_of_lines(coord[i + 1], level.height)) coord[i + 1] = 5;
      }
    }
  }
}

// What models have: whole vectors of channels, the same points on every level, packed tensors.
void make_usual(Rng& rng, ProblemShape& shape) {
  shape.head_dim = rng.pick<std::int64_t>({8, 16, 24, 32, 32, 32, 40, 64, 64, 72, 128, 136, 256});
  std::int32_t const points = rng.pick({4, 8, 1, 3});
  for (LevelShape& level : shape.levels) level.points = points;
  shape.value_strides = shape.coord_strides = {0, 0, 0};
  shape.weight_strides = shape.output_strides = {0, 0, 0};
}

std::uint64_t environment_number(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  std::uint64_t const number = std::strtoull(text, &end, 10);
  if (*end != '\0') throw std::runtime_error(fmt::format("{}={}: must be a number", name, text));
  return number;
}

}  // namespace

ProblemShape random_shape(Rng& rng) {
  ProblemShape shape;
  shape.levels = random_levels(rng);
  shape.batch = size_up_to(rng, 3);
  shape.query_count = size_up_to(rng, rng.pick<std::int64_t>({3, 20, 70}));
  shape.head_count = size_up_to(rng, 9);
  shape.head_dim =
      rng.chance(0.05) ? rng.pick<std::int64_t>({96, 128, 200, 256, 300}) : size_up_to(rng, 71);
  bool const usual = rng.chance(0.4);
  if (usual) make_usual(rng, shape);
  shape.value_border = rng.chance(0.2) ? 1 : 0;
  shape.reference_dim = rng.pick({0, 0, 0, 2, 4});
  shape.math_mode = rng.chance(usual ? 0.4 : 0.2) ? MSDA_MATH_FAST : MSDA_MATH_ACCURATE;
  random_dtypes(rng, shape);
  std::int64_t const per_query = 4 * std::max<std::int64_t>(shape.point_total(), 1) *
                                 std::max<std::int64_t>(shape.batch, 1) * shape.head_count *
                                 std::max<std::int64_t>(shape.head_dim, 1);
  shape.query_count =
      std::min(shape.query_count, kLargestWork / std::max<std::int64_t>(per_query, 1) + 1);
  random_query_grids(rng, shape);
  if (usual) return shape;
  auto const strides = [&](TensorId id, bool may_repeat) {
    return random_strides(rng, layout_of(shape, id).dims, may_repeat);
  };
  shape.value_strides = strides(TensorId::kValue, true);
  shape.coord_strides = strides(TensorId::kCoord, true);
  shape.weight_strides = strides(TensorId::kWeight, true);
  shape.output_strides = strides(TensorId::kOutput, false);
  return shape;
}

DataKind random_data_kind(Rng& rng, ProblemShape const& shape) {
  DataKind kind;
  if (rng.chance(0.2)) kind.low = -2, kind.high = 3;
  kind.odd_coords = rng.chance(0.3);
  // Repeating coordinates or values would put them where they must not be.
  bool const plain = !shape.fused() && rng.chance(0.25);
  kind.odd_values = plain && rng.chance(0.6);
  kind.odd_weights = rng.chance(0.1);
  // What is no number must not hang on the side of a line that rounding chooses.
  kind.on_pixel_lines = !kind.odd_values && !kind.odd_weights && rng.chance(0.3);
  double const scale = shape.value_dtype == MSDA_F8_E4M3 ? 16 : 1000;
  kind.value_scale = rng.pick({1.0, 1.0, 1 / scale, scale});
  kind.steep_logits = shape.fused() && rng.chance(0.1);
  return kind;
}

TestProblem fill_problem(ProblemShape const& shape, DataKind const& kind, Rng& rng) {
  TestProblem problem{shape, {}};
  fill_values(problem, kind, rng);
  if (shape.fused()) {
    fill_fused(problem, kind, rng);
  } else {
    fill_sampled(problem, kind, rng);
  }
  if (shape.backward()) {
    std::int64_t const count = layout_of(shape, TensorId::kGradOutput).element_count();
    for (std::int64_t i = 0; i < count; ++i) {
      problem.inputs[TensorId::kGradOutput].push_back(rng.normal());
    }
  }
  problem.settle();
  if (kind.odd_values && !shape.fused()) {
    keep_off_lines(problem);
    problem.settle();
  }
  return problem;
}

TestProblem random_problem(std::uint64_t seed, msda_operation operation) {
  Rng rng(seed);
  ProblemShape shape = random_shape(rng);
  shape.operation = operation;
  DataKind const kind = random_data_kind(rng, shape);
  return fill_problem(shape, kind, rng);
}

RandomRange random_range(std::uint64_t default_count) {
  return {environment_number("MSDA_TEST_SEED", kDefaultSeed),
          environment_number("MSDA_TEST_PROBLEMS", default_count)};
}

std::string repro(const char* test_case, std::uint64_t seed, TestProblem const& problem) {
  return fmt::format(
      "repeat: MSDA_TEST_SEED={} MSDA_TEST_PROBLEMS=1 msda_test_kernel -tc='{}'\n  {}", seed,
      test_case, problem.shape.describe());
}

}  // namespace msda::test
