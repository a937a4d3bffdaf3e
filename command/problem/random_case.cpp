// Random tensors of a workload, as bench/workloads.json describes them.
#include "command/problem/random_numbers.h"
#include "command/problem/workloads.h"

#include <algorithm>
#include <cmath>

namespace msda::command {
namespace {

constexpr double kNoise = 1.5;      // of local offsets, in pixels
constexpr double kFusedSpread = 2;  // of offsets from uniform references
constexpr int kDirections = 8;

// Every tensor has random numbers of its own, so that leaving one out changes no other.
Rng numbers_for(std::string_view tensor, std::uint64_t seed) {
  std::uint64_t hash = 0xCBF29CE484222325u ^ seed;  // FNV-1a
  for (char const letter : tensor)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3u;
  return Rng(hash);
}

struct FloatArray : Array {
  explicit FloatArray(Shape dimensions) : Array(MSDA_DTYPE_F32, std::move(dimensions)) {}
  std::size_t size() const { return bytes.size() / sizeof(float); }
  float get(std::size_t i) const { return reinterpret_cast<const float*>(bytes.data())[i]; }
  void set(std::size_t i, double value) {
    reinterpret_cast<float*>(bytes.data())[i] = static_cast<float>(value);
  }
};

FloatArray normal_array(std::string_view tensor, Shape shape, std::uint64_t seed) {
  FloatArray array(std::move(shape));
  Rng random = numbers_for(tensor, seed);
  for (std::size_t i = 0; i < array.size(); i += 2) {
    auto const pair = random.normal_pair();
    array.set(i, pair[0]);
    if (i + 1 < array.size()) array.set(i + 1, pair[1]);
  }
  return array;
}

// softmax(N(0, 1)) over the points of each head.
FloatArray softmax_array(ProblemShape const& spec, Shape shape, std::uint64_t seed) {
  FloatArray array = normal_array("weight", std::move(shape), seed);
  auto const points = static_cast<std::size_t>(spec.point_total());
  for (std::size_t row = 0; row < array.size(); row += points) {
    double total = 0;
    for (std::size_t k = row; k < row + points; ++k) total += std::exp(array.get(k));
    for (std::size_t k = row; k < row + points; ++k) array.set(k, std::exp(array.get(k)) / total);
  }
  return array;
}

// The border of each level holds zeros.
void clear_border(ProblemShape const& spec, FloatArray& value) {
  std::int64_t const bytes = spec.head_count * spec.head_dim * std::int64_t{sizeof(float)};
  std::vector<std::int64_t> const starts = spec.level_starts();
  for (std::int64_t b = 0; b < spec.batch; ++b) {
    for (std::size_t l = 0; l < spec.levels.size(); ++l) {
      std::int64_t const height = spec.levels[l].height + 2;
      std::int64_t const width = spec.levels[l].width + 2;
      for (std::int64_t i = 0; i < height * width; ++i) {
        std::int64_t const token = b * spec.token_count() + starts[l] + i;
        std::int64_t const y = i / width;
        std::int64_t const x = i % width;
        if (y > 0 && x > 0 && y + 1 < height && x + 1 < width) continue;
        std::fill_n(value.bytes.begin() + token * bytes, bytes, std::byte{0});
      }
    }
  }
}

struct Point {
  double x;
  double y;
};

// The places that queries look from.
std::vector<Point> references(Workload const& workload) {
  std::vector<Point> points;
  if (!workload.reference_grid && workload.has_query_per_pixel()) {
    for (LevelShape const& level : workload.shape.levels) {
      for (std::int32_t y = 0; y < level.height; ++y) {
        for (std::int32_t x = 0; x < level.width; ++x)
          points.push_back({(x + 0.5) / level.width, (y + 0.5) / level.height});
      }
    }
    return points;
  }
  auto const side = static_cast<std::int64_t>(std::ceil(std::sqrt(workload.shape.query_count)));
  auto grid = workload.reference_grid.value_or(std::array{side, side});
  if (grid[0] * grid[1] < workload.shape.query_count) grid = {side, side};
  for (std::int64_t q = 0; q < workload.shape.query_count; ++q) {
    auto const place = [](std::int64_t i, std::int64_t count) {
      return count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0.5;
    };
    double const u = place(q % grid[1], grid[1]);
    double const v = place(q / grid[1], grid[0]);
    points.push_back({0.05 + 0.9 * u, 0.1 + 0.8 * v * v});
  }
  return points;
}

// In pixels: a star of points a head, as the usual initialisation gives, and noise.
Point local_offset(Workload const& workload, std::int64_t head, std::int32_t point, Rng& random) {
  double const angle =
      2 * std::numbers::pi * static_cast<double>(head % kDirections) / kDirections +
      workload.angle_step * point;
  double const radius = point % 4 + 1;
  auto const [noise_x, noise_y] = random.normal_pair();
  return {radius * std::cos(angle) + kNoise * noise_x, radius * std::sin(angle) + kNoise * noise_y};
}

// Calls fill(index of the point in [B][Q][M][K], b * M + m, q, level, point of the level).
template <typename Fill>
void for_each_point(ProblemShape const& spec, Fill fill) {
  std::size_t index = 0;
  for (std::int64_t b = 0; b < spec.batch; ++b) {
    for (std::int64_t q = 0; q < spec.query_count; ++q) {
      for (std::int64_t m = 0; m < spec.head_count; ++m) {
        for (std::size_t l = 0; l < spec.levels.size(); ++l) {
          for (std::int32_t p = 0; p < spec.levels[l].points; ++p) {
            fill(index++, b * spec.head_count + m, static_cast<std::size_t>(q), l, p);
          }
        }
      }
    }
  }
}

// Coordinates, or the offsets of fused input.
FloatArray places_of_points(std::string_view tensor, Workload const& workload,
                            ProblemShape const& spec, Shape shape, std::uint64_t seed) {
  FloatArray array(std::move(shape));
  Rng random = numbers_for(tensor, seed);
  bool const is_coord = tensor == "coord";
  std::vector<Point> reference;
  if (is_coord && workload.local) reference = references(workload);
  auto const place = [&](std::int64_t head, std::size_t q, LevelShape const& level,
                         std::int32_t p) -> Point {
    if (workload.local) {
      Point const offset = local_offset(workload, head, p, random);
      if (!is_coord) return offset;
      return {reference[q].x + offset.x / level.width, reference[q].y + offset.y / level.height};
    }
    if (is_coord) return {random.unit(), random.unit()};
    auto const [x, y] = random.normal_pair();
    return {kFusedSpread * x, kFusedSpread * y};
  };
  for_each_point(
      spec, [&](std::size_t i, std::int64_t head, std::size_t q, std::size_t l, std::int32_t p) {
        Point const point = place(head, q, spec.levels[l], p);
        array.set(2 * i, point.x);
        array.set(2 * i + 1, point.y);
      });
  return array;
}

// [B][Q][L][2|4]: the query's place on every level, and a box of a fifth to half the map.
FloatArray reference_array(Workload const& workload, ProblemShape const& spec, Shape shape,
                           std::uint64_t seed) {
  FloatArray array(std::move(shape));
  Rng random = numbers_for("reference", seed);
  std::vector<Point> const local = workload.local ? references(workload) : std::vector<Point>();
  std::size_t i = 0;
  for (std::int64_t b = 0; b < spec.batch; ++b) {
    for (std::int64_t q = 0; q < spec.query_count; ++q) {
      Point const place =
          workload.local ? local[static_cast<std::size_t>(q)] : Point{random.unit(), random.unit()};
      for (std::int64_t l = 0; l < spec.level_count(); ++l) {
        array.set(i++, place.x);
        array.set(i++, place.y);
        for (std::int32_t r = 2; r < spec.reference_dim; ++r)
          array.set(i++, 0.2 + 0.3 * random.unit());
      }
    }
  }
  return array;
}

FloatArray random_tensor(Workload const& workload, ProblemShape const& spec, TensorRow const& row,
                         std::uint64_t seed) {
  Shape const shape = tensor_shape(spec, row);
  if (row.name == "weight") return softmax_array(spec, shape, seed);
  if (row.name == "reference") return reference_array(workload, spec, shape, seed);
  if (row.name == "coord" || row.name == "offset") {
    return places_of_points(row.name, workload, spec, shape, seed);
  }
  FloatArray array = normal_array(row.name, shape, seed);
  if (row.name == "value" && spec.value_border == 1) clear_border(spec, array);
  return array;
}

// At a pixel line a derivative jumps, and what lies beside it in float64 may lie on it in float32.
// So points of a backward problem keep away from lines by more than float32's rounding of the
// largest maps. In pixels:
constexpr double kLineDistance = 0x1p-10;

// A coordinate of a point in pixels of its level: start + scale * the number stored for it.
struct PixelPosition {
  double start;
  double scale;
};

// `from` is the query's reference on the level, null of sampled input.
PixelPosition pixel_position(ProblemShape const& spec, double const* from, std::size_t level,
                             std::size_t axis) {
  LevelShape const& map = spec.levels[level];
  double const size = axis == 0 ? map.width : map.height;
  if (from == nullptr) return {-0.5, size};
  double const start = from[axis] * size - 0.5;
  if (spec.reference_dim == 2) return {start, 1};
  return {start, size * from[2 + axis] / (2.0 * map.points)};
}

// Moves the points that are nearer: their sampled coordinates, or their offsets.
void leave_pixel_lines(Case& input) {
  ProblemShape const& spec = input.spec;
  Array& stored = input.arrays.find(spec.fused() ? "offset" : "coord")->second;
  std::vector<double> numbers = stored.decode();
  std::vector<double> reference;
  if (spec.fused()) reference = input.find("reference")->decode();
  auto const move = [&](std::size_t i, std::int64_t head, std::size_t q, std::size_t l,
                        std::int32_t) {
    std::int64_t const query =
        head / spec.head_count * spec.query_count + static_cast<std::int64_t>(q);
    auto const at = static_cast<std::size_t>(
        (query * spec.level_count() + static_cast<std::int64_t>(l)) * spec.reference_dim);
    for (std::size_t axis = 0; axis < 2; ++axis) {
      double& number = numbers[2 * i + axis];
      auto const [start, scale] =
          pixel_position(spec, spec.fused() ? &reference[at] : nullptr, l, axis);
      double const position = start + scale * number;
      double const beyond = position - std::nearbyint(position);
      if (std::fabs(beyond) >= kLineDistance || scale <= 0) continue;
      double const step = std::max(2 * kLineDistance / scale, 4 * HalfUlp(stored.type)(number));
      number += std::copysign(step, beyond);
    }
  };
  for_each_point(spec, move);
  encode_elements(stored.type, numbers, stored.bytes);
}

}  // namespace

Case random_case(Workload const& workload, ProblemShape const& spec, std::uint64_t seed) {
  Case result;
  result.spec = spec;
  for (TensorRow const& row : tensor_rows()) {
    if (row.is_result() || row.is_optional() || !row.belongs_to(spec)) continue;
    Array array = random_tensor(workload, spec, row, seed);
    // These numbers fit every type.
    result.arrays.emplace(row.name, convert(std::move(array), tensor_type(spec, row)));
  }
  if (spec.backward()) leave_pixel_lines(result);
  return result;
}

}  // namespace msda::command
