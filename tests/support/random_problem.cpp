#include "support/random_problem.h"

#include "support/environment.h"
#include "support/oracle_points.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace msda::test {
namespace {

constexpr std::uint64_t kMaxSeed = 1'000'000'000'000'000'000, kMaxProblems = 1'000'000'000;
// Four corners of every channel of every point: what the oracle's time depends on.
constexpr std::int64_t kLargestWork = 150'000;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<LevelShape> random_levels(Rng& rng) {
  std::vector<LevelShape> levels(static_cast<std::size_t>(rng.integer(1, 5)));
  bool const ragged = rng.chance(0.4);
  auto const points = static_cast<std::int32_t>(rng.integer(1, 8));
  for (LevelShape& level : levels) {
    std::int64_t const most = rng.pick<std::int64_t>({2, 7, 20});
    level.height = static_cast<std::int32_t>(rng.integer(1, most));
    level.width = static_cast<std::int32_t>(rng.integer(1, most));
    level.points =
        ragged ? static_cast<std::int32_t>(std::max<std::int64_t>(rng.integer(-3, 9), 0)) : points;
  }
  return levels;
}

// Half of the problems have one to three dimensions of 0. Sizes of levels
// come more often: elsewhere they are seen less, for a point of another dimension 0 is not there.
void make_empty(Rng& rng, ProblemShape& shape) {
  if (!rng.chance(0.5)) return;
  int const count = rng.pick({1, 2, 2, 3});
  for (int i = 0; i < count; ++i) {
    std::int64_t const dimension =
        rng.pick<std::int64_t>({0, 0, 1, 1, 2, 2, 3, 3, 7, 7, 4, 4, 4, 5, 5, 5, 6, 6, 6});
    std::int64_t const most = static_cast<std::int64_t>(shape.levels.size()) - 1;
    bool const of_all = rng.chance(0.3);  // levels; else of one
    std::int64_t const one = most > 0 ? rng.integer(0, most) : 0;
    std::int64_t* const sizes[] = {&shape.batch, &shape.query_count, &shape.head_count,
                                   &shape.head_dim};
    if (dimension < 4) *sizes[dimension] = 0;
    for (std::int64_t l = 0; l <= most; ++l) {
      LevelShape& level = shape.levels[static_cast<std::size_t>(l)];
      if (dimension == 4) level.points = 0;
      if (!of_all && l != one) continue;
      if (dimension == 5) level.height = 0;
      if (dimension == 6) level.width = 0;
    }
    if (dimension == 7) shape.levels.clear();
  }
}

void random_dtypes(Rng& rng, ProblemShape& shape) {
  shape.set_dtypes(rng.pick({MSDA_DTYPE_F32, MSDA_DTYPE_F32, MSDA_DTYPE_F32, MSDA_DTYPE_F16,
                             MSDA_DTYPE_F16, MSDA_DTYPE_BF16, MSDA_DTYPE_BF16, MSDA_DTYPE_F8_E4M3,
                             MSDA_DTYPE_F8_E4M3, MSDA_DTYPE_F64, MSDA_DTYPE_F64}));
  auto const any = [&] {
    return rng.pick({MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16, MSDA_DTYPE_F64});
  };
  if (rng.chance(0.5)) shape.coord_dtype = any();
  if (rng.chance(0.5)) shape.weight_dtype = any();
  if (rng.chance(0.5)) shape.output_dtype = any();
  if (rng.chance(0.5)) shape.grad_value_dtype = any();
}

// Strides of a group of [batch][rows][heads][inner]: packed, padded, heads outside rows, or
// repeating.
enum StridesKind { kPacked, kPadded, kPermuted, kRepeating };

Strides3 strides_of_kind(Rng& rng, std::array<std::int64_t, 4> const& dims, StridesKind kind) {
  if (kind == kPacked) return {0, 0, 0};
  std::array<std::size_t, 3> order = {2, 1, 0};  // from the inside out
  if (kind != kPadded && rng.chance(0.7)) std::swap(order[0], order[1]);
  if (kind != kPadded && (order[0] == 2 || rng.chance(0.2))) std::swap(order[1], order[2]);
  std::size_t const repeated = kind == kRepeating ? order[rng.next() % 3] : order.size();
  Strides3 strides = {};
  std::int64_t extent = dims[3];
  for (std::size_t const i : order) {
    extent += rng.chance(0.5) ? 0 : rng.integer(1, 17);
    strides[i] = extent;
    if (i == repeated || (kind == kRepeating && rng.chance(0.1))) strides[i] = 0;
    extent = strides[i] * (std::max<std::int64_t>(dims[i], 1) - 1) + extent;
  }
  return strides;
}

Strides3 random_strides(Rng& rng, std::array<std::int64_t, 4> const& dims, bool may_repeat) {
  StridesKind const drawn = rng.pick({kPacked, kPadded, kPermuted, kPermuted, kRepeating});
  return strides_of_kind(rng, dims, drawn == kRepeating && !may_repeat ? kPermuted : drawn);
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
        weight.push_back(rng.uniform(-1, 1));
      }
    }
  }
}

// Element `k` of row `row`: in steps of 1/8, so that differences are exact. Weights are 2^-100 at
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
    logit.push_back(odd                 ? rng.pick({-kInfinity, -40.0, 40.0})
                    : kind.steep_logits ? steep_logit(rng, i / points, i % points)
                                        : spread * rng.normal());
  }
}

// About one in 30 of the numbers becomes one of `odd`, and one at least.
void spoil(std::vector<double>& numbers, std::initializer_list<double> odd, Rng& rng) {
  if (numbers.empty()) return;
  auto const last = static_cast<std::int64_t>(numbers.size()) - 1;
  for (std::int64_t count = 1 + last / 30; count > 0; --count) {
    numbers[static_cast<std::size_t>(rng.integer(0, last))] = rng.pick(odd);
  }
}

// So large that what is a few times their size is still a number of the type, and what is 1000
// times their size, of float32, too.
double huge_value(msda_dtype dtype) {
  return dtype == MSDA_DTYPE_F16 ? 1e4 : dtype == MSDA_DTYPE_F8_E4M3 ? 100 : 1e34;
}

// What is of no level is NaN, which no result may show.
void fill_values(TestProblem& problem, DataKind const& kind, Rng& rng) {
  ProblemShape const& shape = problem.shape;
  std::vector<double>& value = problem.inputs[TensorId::kValue];
  std::int64_t const pixel = shape.head_count * shape.head_dim;
  std::int32_t const border = shape.value_border;
  double const scale = kind.huge_values ? huge_value(shape.value_dtype) : kind.value_scale;
  std::int64_t const tokens = shape.token_count();
  value.assign(static_cast<std::size_t>(shape.batch * tokens * pixel), kNan);
  std::vector<std::int64_t> const starts = shape.level_starts();
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::size_t l = 0; l < shape.levels.size(); ++l) {
      LevelShape const& level = shape.levels[l];
      auto to = value.begin() + (b * tokens + starts[l]) * pixel;
      for (std::int32_t y = -border; y < level.height + border; ++y) {
        for (std::int32_t x = -border; x < level.width + border; ++x) {
          bool const inside = y >= 0 && y < level.height && x >= 0 && x < level.width;
          bool const odd = kind.odd_values && rng.chance(0.05);
          for (std::int64_t i = 0; i < pixel; ++i) {
            double number = inside ? scale * rng.normal() : 0.0;
            if (inside && odd) number = rng.pick({kNan, kNan, kInfinity, -kInfinity});
            *to++ = number;
          }
        }
      }
    }
  }
  if (shape.value_dtype != MSDA_DTYPE_F8_E4M3 || rng.chance(0.3)) return;
  for (std::int64_t m = 0; m < shape.head_count; ++m) {
    problem.inputs[TensorId::kValueScale].push_back(rng.uniform(-2, 2));
  }
}

// Moves points that lie near a pixel line to where there is no pixel at all.
void keep_off_lines(TestProblem& problem) {
  ProblemShape const& shape = problem.shape;
  std::vector<double>& place = problem.inputs[shape.fused() ? TensorId::kOffset : TensorId::kCoord];
  oracle::Points const points = oracle::make_points(problem);
  oracle::for_each_point(shape, points, [&](oracle::Point const& p) {
    LevelShape const& level = shape.levels[oracle::at(p.level)];
    auto const i = oracle::at(2 * p.index(shape));
    double const away = shape.fused() ? 1e4 : 5;
    if (!clear_of_lines(p.x, level.width)) place[i] = -away;
    if (!clear_of_lines(p.y, level.height)) place[i + 1] = away;
  });
}

// What models have: whole vectors of channels, the same points on every level, packed tensors.
void make_usual(Rng& rng, ProblemShape& shape) {
  shape.head_dim = rng.pick<std::int64_t>({8, 16, 24, 32, 32, 32, 40, 64, 64, 72, 128, 136, 256});
  std::int32_t const points = rng.pick({4, 8, 1, 3});
  for (LevelShape& level : shape.levels) level.points = points;
  shape.value_strides = shape.coord_strides = {0, 0, 0};
  shape.weight_strides = shape.output_strides = {0, 0, 0};
}

// Keeps the oracle's work down, by the queries; then lays them out.
void limit_queries(Rng& rng, ProblemShape& shape) {
  std::int64_t const per_query = 4 * std::max<std::int64_t>(shape.point_total(), 1) *
                                 std::max<std::int64_t>(shape.batch, 1) * shape.head_count *
                                 std::max<std::int64_t>(shape.head_dim, 1);
  shape.query_count =
      std::min(shape.query_count, kLargestWork / std::max<std::int64_t>(per_query, 1) + 1);
  random_query_grids(rng, shape);
}

// What the kernels of a type are compiled for. Every second forward problem is for one of these,
// each in its turn, because random shapes alone reach some kernels rarely or never.
enum class Rows {
  kFew,         // up to 8 points
  kAny,         // any points of each level
  kFours,       // 4 or 8 points on every level
  kKeptFours,   // 4, and what kernels that keep levels take
  kKeptEights,  // the same with 8
  kSpread,      // any, and what kernels that spread levels over blocks take
};
struct Target {
  std::int64_t channels;  // heads have these, or some less
  Rows rows;
  bool fast = false;   // in MSDA_MATH_FAST, for sums in float16; else in either mode
  bool fused = false;  // what kernels that keep levels of fused input take
  bool takes_type(msda_dtype type) const {
    if (fused && type == MSDA_DTYPE_F8_E4M3) return false;
    return !fast || type == MSDA_DTYPE_F16 || type == MSDA_DTYPE_F8_E4M3;
  }
};
constexpr Target kTargets[] = {
    {8, Rows::kAny},
    {16, Rows::kFew},
    {32, Rows::kFew},
    {32, Rows::kKeptFours},
    {32, Rows::kKeptEights},
    {32, Rows::kFours},
    {64, Rows::kFew},
    {64, Rows::kSpread},
    {128, Rows::kAny},
    {256, Rows::kAny},
    {32, Rows::kKeptFours, true},
    {32, Rows::kKeptEights, true},
    {64, Rows::kFours, true},
    {64, Rows::kSpread, true},
    {32, Rows::kKeptFours, false, true},
    {32, Rows::kKeptEights, false, true},
    {32, Rows::kKeptFours, true, true},
    {32, Rows::kKeptEights, true, true},
};
constexpr msda_dtype kTargetTypes[] = {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16,
                                       MSDA_DTYPE_F8_E4M3};

bool is_kept(Rows rows) {
  return rows == Rows::kKeptFours || rows == Rows::kKeptEights || rows == Rows::kSpread;
}

std::vector<LevelShape> target_levels(Rng& rng, Rows rows) {
  std::vector<LevelShape> levels(static_cast<std::size_t>(rng.integer(1, 3)));
  bool const ragged = rng.chance(0.4);
  auto const most = rows == Rows::kFew ? 8 / static_cast<std::int64_t>(levels.size()) : 9;
  std::int64_t const same = rows == Rows::kKeptFours    ? 4
                            : rows == Rows::kKeptEights ? 8
                            : rows == Rows::kFours      ? rng.pick<std::int64_t>({4, 8})
                                                        : rng.integer(1, most);
  bool const varies = ragged && (rows == Rows::kFew || rows == Rows::kAny);
  for (LevelShape& level : levels) {
    std::int64_t const side = rows == Rows::kSpread ? rng.pick<std::int64_t>({7, 45})
                                                    : rng.pick<std::int64_t>({3, 7, 20});
    level.height = static_cast<std::int32_t>(rng.integer(is_kept(rows) ? 2 : 1, side));
    level.width = static_cast<std::int32_t>(rng.integer(is_kept(rows) ? 2 : 1, side));
    level.points = static_cast<std::int32_t>(varies ? rng.integer(1, most) : same);
  }
  return levels;
}

// Narrow types have more channels in 16 bytes, of which heads have a multiple.
std::int64_t target_head_dim(Rng& rng, Target const& target, msda_dtype type) {
  std::int64_t const multiple = type == MSDA_DTYPE_F8_E4M3 ? 16 : 8;
  std::int64_t const less = target.channels / 2 / multiple;
  if (is_kept(target.rows) || less == 0 || rng.chance(0.5)) return target.channels;
  return target.channels - multiple * rng.integer(0, less - 1);
}

ProblemShape target_shape(Rng& rng, Target const& target, msda_dtype type) {
  ProblemShape shape;
  bool const kept = is_kept(target.rows);
  shape.set_dtypes(type);
  auto const narrow = [&] { return rng.pick({MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16}); };
  if (rng.chance(0.4)) shape.coord_dtype = narrow();
  if (rng.chance(0.4)) shape.weight_dtype = narrow();
  if (rng.chance(0.4)) shape.output_dtype = rng.chance(0.25) ? MSDA_DTYPE_F64 : narrow();
  shape.levels = target_levels(rng, target.rows);
  shape.batch = rng.integer(1, 3);
  shape.query_count = rng.integer(1, rng.pick<std::int64_t>({3, 20, 70}));
  shape.head_count = kept ? rng.pick<std::int64_t>({1, 8}) : rng.integer(1, 9);
  shape.head_dim = target_head_dim(rng, target, type);
  shape.value_border = rng.chance(0.2) ? 1 : 0;
  shape.reference_dim = target.fused ? rng.pick({2, 4}) : kept ? 0 : rng.pick({0, 0, 2, 4});
  shape.math_mode = target.fast || rng.chance(0.3) ? MSDA_MATH_FAST : MSDA_MATH_ACCURATE;
  limit_queries(rng, shape);
  if (rng.chance(0.7)) return shape;
  TensorLayout const value = layout_of(shape, TensorId::kValue);
  shape.value_strides = random_strides(rng, value.dims, true);
  if (kept) {  // only batch items may lie apart, by whole pieces
    shape.value_strides = value.strides;
    shape.value_strides[0] += 16 * rng.integer(0, 5);
  }
  return shape;
}

// The forward problems of neighbouring seeds go through all targets and types.
// Every other forward is drawn so that one kernel takes it.
bool is_for_kernel(std::uint64_t seed, msda_operation operation) {
  return operation == MSDA_FORWARD && seed % 2 == 0;
}

ProblemShape random_forward_shape(std::uint64_t seed, Rng& rng) {
  if (!is_for_kernel(seed, MSDA_FORWARD)) return random_shape(rng);
  struct Turn {
    Target target;
    msda_dtype type;
  };
  static std::vector<Turn> const turns = [] {
    std::vector<Turn> result;
    for (Target const& target : kTargets) {
      for (msda_dtype const type : kTargetTypes) {
        if (target.takes_type(type)) result.push_back({target, type});
      }
    }
    return result;
  }();
  std::size_t const number = seed / 2 % (turns.size() + 1);
  if (number < turns.size()) return target_shape(rng, turns[number].target, turns[number].type);
  ProblemShape shape = random_shape(rng);  // which no GPU kernel but one takes
  shape.set_dtypes(MSDA_DTYPE_F64);
  return shape;
}

}  // namespace

ProblemShape random_shape(Rng& rng) {
  ProblemShape shape;
  shape.levels = random_levels(rng);
  shape.batch = rng.integer(1, 3);
  shape.query_count = rng.integer(1, rng.pick<std::int64_t>({3, 20, 70}));
  shape.head_count = rng.integer(1, 9);
  shape.head_dim =
      rng.chance(0.05) ? rng.pick<std::int64_t>({96, 128, 200, 256, 300}) : rng.integer(1, 71);
  bool const usual = rng.chance(0.35);
  if (usual) make_usual(rng, shape);
  shape.value_border = rng.chance(0.2) ? 1 : 0;
  shape.reference_dim = rng.pick({0, 0, 0, 2, 4});
  shape.math_mode = rng.chance(usual ? 0.4 : 0.2) ? MSDA_MATH_FAST : MSDA_MATH_ACCURATE;
  random_dtypes(rng, shape);
  shape.point_locality = rng.pick({MSDA_POINTS_UNKNOWN, MSDA_POINTS_LOCAL, MSDA_POINTS_SCATTERED});
  make_empty(rng, shape);
  limit_queries(rng, shape);
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
  bool const special = rng.chance(0.6);
  auto const chance = [&](double part) { return special && rng.chance(part); };
  kind.odd_coords = chance(0.4);
  kind.odd_weights = chance(0.35);
  kind.infinite_weights = chance(0.7) && !shape.fused();
  // Repeating coordinates would bring points back to where they must not be.
  bool const repeats = std::ranges::count(shape.coord_strides, 0) % 3 != 0;
  kind.odd_values = chance(0.6) && !repeats;
  if (repeats) kind.infinite_weights = false;
  kind.odd_grads = chance(0.5) && shape.backward();
  // A box below float32's numbers is 0 there, and 0 times an infinite gradient is none.
  if (shape.reference_dim == 4 && (kind.odd_values || kind.odd_grads)) kind.odd_coords = false;
  // What is no number must not hang on the side of a line that rounding chooses.
  bool const may_be_on_lines = !(kind.odd_values || kind.odd_weights || kind.infinite_weights ||
                                 kind.odd_grads || shape.fused());
  kind.on_pixel_lines = may_be_on_lines && rng.chance(0.6);
  double const scale = shape.value_dtype == MSDA_DTYPE_F8_E4M3 ? 16 : 1000;
  kind.value_scale = rng.pick({1.0, 1.0, 1 / scale, scale});
  // A weight below float32's numbers is 0 there, and 0 times an infinity is none.
  bool const may_be_steep = shape.fused() && !kind.odd_values && !kind.odd_grads;
  kind.steep_logits = may_be_steep && rng.chance(0.6);
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
  TensorId const weight = shape.fused() ? TensorId::kLogit : TensorId::kWeight;
  if (kind.odd_weights) spoil(problem.inputs[weight], {kNan}, rng);
  if (kind.infinite_weights) spoil(problem.inputs[weight], {kInfinity, -kInfinity}, rng);
  if (kind.odd_grads) {
    spoil(problem.inputs[TensorId::kGradOutput], {kNan, kInfinity, -kInfinity}, rng);
  }
  problem.settle();
  bool const hangs_on_lines = kind.odd_values || kind.infinite_weights || kind.odd_grads;
  if (hangs_on_lines && !shape.nearest()) {
    keep_off_lines(problem);
    problem.settle();
  }
  return problem;
}

namespace {

// Moves value strides apart as far as a problem with more tokens needs.
void fit_value_strides(ProblemShape& shape) {
  Strides3& strides = shape.value_strides;
  if (strides == Strides3{0, 0, 0}) return;
  std::array<std::int64_t, 4> const dims = layout_of(shape, TensorId::kValue).dims;
  std::array<std::size_t, 3> order = {2, 1, 0};
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return strides[i]; });
  std::int64_t extent = dims[3];
  for (std::size_t const i : order) {
    if (strides[i] == 0) continue;  // repeats
    strides[i] = std::max(strides[i], extent);
    extent += strides[i] * (std::max<std::int64_t>(dims[i], 1) - 1);
  }
}

// Moves the levels of every second problem to another order, apart from each other or, without
// borders, over each other, and puts tokens of no level behind them. From random numbers of its
// own, so that it changes nothing else of a seed's problem but value strides that become too small.
void move_levels(std::uint64_t seed, ProblemShape& shape) {
  Rng rng(seed ^ 0x5EED0F1E7E15u);
  if (!rng.chance(0.5)) return;
  // Tokens of no level are NaN, so they cannot be the same elements as others.
  bool const may_part = shape.value_strides == Strides3{0, 0, 0} || shape.value_strides[1] != 0;
  bool const may_overlap = shape.value_border == 0 && rng.chance(0.9);
  std::vector<std::size_t> order(shape.levels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.next() % i]);
  shape.level_start.resize(shape.levels.size());
  std::int64_t end = 0;
  for (std::size_t const l : order) {
    std::int64_t start = end + (may_part && rng.chance(0.5) ? rng.integer(1, 9) : 0);
    if (may_overlap && rng.chance(0.7)) start = rng.integer(0, end);
    shape.level_start[l] = start;
    end = std::max(end, start + shape.level_tokens(shape.levels[l]));
  }
  if (may_part && rng.chance(0.5)) shape.tokens = end + rng.integer(1, 9);
  fit_value_strides(shape);
}

// Gives the gradients of points strides of their own, those of most problems. From random
// numbers of its own, so that it changes nothing else of a seed's problem.
void move_gradients(std::uint64_t seed, ProblemShape& shape) {
  Rng rng(seed ^ 0x57121DE56DADu);
  if (!shape.backward() || !rng.chance(0.6)) return;
  auto const strides = [&](TensorId id) {
    return strides_of_kind(rng, layout_of(shape, id).dims,
                           rng.pick({kPacked, kPadded, kPadded, kPermuted, kPermuted}));
  };
  shape.grad_coord_strides = strides(TensorId::kGradCoord);
  shape.grad_weight_strides = strides(TensorId::kGradWeight);
}

// A quarter of the problems that are not for one kernel sample the nearest pixel.
void choose_sampling(std::uint64_t seed, ProblemShape& shape) {
  Rng rng(seed ^ 0x4EA2E57ull);
  if (is_for_kernel(seed, shape.operation)) return;
  if (rng.chance(0.25)) shape.sampling_mode = MSDA_SAMPLING_NEAREST;
}

// Gives references of fused problems any type; float64, which few kernels take, none that is drawn
// for one kernel. From random numbers of its own, as above; with these every pair of properties
// comes in the problems of a CPU.
void retype_references(std::uint64_t seed, ProblemShape& shape) {
  Rng rng(seed ^ 0x2EFE2E9C04u);
  shape.reference_dtype = shape.coord_dtype;
  if (!shape.fused()) return;
  shape.reference_dtype = !is_for_kernel(seed, shape.operation) && rng.chance(0.25)
                              ? MSDA_DTYPE_F64
                              : rng.pick({MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16});
}

RandomDraw draw(std::uint64_t seed, msda_operation operation, Rng& rng) {
  ProblemShape shape =
      operation == MSDA_FORWARD ? random_forward_shape(seed, rng) : random_shape(rng);
  shape.operation = operation;
  retype_references(seed, shape);
  move_levels(seed, shape);
  move_gradients(seed, shape);
  choose_sampling(seed, shape);
  DataKind const kind = random_data_kind(rng, shape);
  return {std::move(shape), kind};
}

}  // namespace

RandomDraw random_draw(std::uint64_t seed, msda_operation operation) {
  Rng rng(seed);
  return draw(seed, operation, rng);
}

ProblemShape random_problem_shape(std::uint64_t seed, msda_operation operation) {
  return random_draw(seed, operation).shape;
}

TestProblem random_problem(std::uint64_t seed, msda_operation operation) {
  Rng rng(seed);
  RandomDraw const drawn = draw(seed, operation, rng);
  return fill_problem(drawn.shape, drawn.kind, rng);
}

RandomRange random_range(std::uint64_t default_count) {
  std::uint64_t const first = environment_number("MSDA_TEST_SEED", kDefaultSeed, {0, kMaxSeed});
  std::uint64_t const count =
      environment_number("MSDA_TEST_PROBLEMS", default_count, {1, kMaxProblems});
  // Neighbours stay together: they are drawn to reach every kernel.
  Shard const shard = shard_of_tests();
  std::uint64_t const begin = count * (shard.number - 1) / shard.count;
  return {first + begin, count * shard.number / shard.count - begin};
}

std::string repro(const char* test_case, std::uint64_t seed, TestProblem const& problem) {
  return fmt::format(
      "repeat: MSDA_TEST_SEED={} MSDA_TEST_PROBLEMS=1 msda_test_kernel -tc='{}'\n  {}", seed,
      test_case, problem.shape.describe());
}

}  // namespace msda::test
