// Tensors of more than 2^31 elements, every element of every result, forward and backward. Data
// repeat, with periods that are no power of two: an index that was cut to 32 bits meets another
// number. All numbers are such that sums are exact in any order, in halves too, so that results are
// compared by their bits. The same at a size that any tool can run shows that this file is right.

#include "core/build_config.h"

#if MSDA_HAS_CUDA
#include "command/problem/random_numbers.h"
#include "support/gpu_memory.h"
#include "support/gpu_tests.h"
#include "support/pattern_compare.h"
#include "support/runner.h"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace msda::test;

namespace {

constexpr std::int64_t kValuePeriod = 8191;  // elements
constexpr std::int64_t kRowPeriod = 1021;    // queries, where there is one batch item
constexpr double kFraction = 0.25;  // of a pixel, right of and below the one that a point is at

struct LargeCase {
  std::string what;
  ProblemShape shape;
};

// Each tensor in turn has a little more than 2^exponent elements; exponent is odd.
std::vector<LargeCase> large_cases(int exponent) {
  auto const power = [](int n) { return std::int64_t{1} << n; };
  auto const side = [](int log_of_square) { return std::int32_t{1} << (log_of_square / 2); };
  std::vector<LargeCase> cases;
  auto const add = [&](const char* what, std::vector<LevelShape> const& levels, std::int64_t heads,
                       std::int64_t queries, std::int64_t batch) -> ProblemShape& {
    ProblemShape shape;
    shape.set_dtypes(MSDA_DTYPE_F16);
    shape.output_dtype = shape.grad_value_dtype = MSDA_DTYPE_F32;
    shape.levels = levels;
    shape.head_count = heads;
    shape.head_dim = 8;
    shape.query_count = queries;
    shape.batch = batch;
    cases.push_back({what, shape});
    return cases.back().shape;
  };
  std::int32_t const fine = side(exponent - 3), coarse = fine / 16, batched = side(exponent - 7);
  // The second level begins at 2^exponent; gradients are summed up in a workspace.
  add("value", {{fine, fine, 1}, {coarse, coarse, 1}}, 1, 4001, 1).grad_value_dtype =
      MSDA_DTYPE_F16;
  add("value, by its batch", {{batched, batched, 1}}, 8, 500, 3);
  add("coord", {{16, 16, 16}}, 8, power(exponent - 8) + 5, 1);
  add("output", {{16, 16, 1}}, 8, power(exponent - 6) + 3, 1);
  add("batch", {{4, 4, 1}}, 1, 1, exponent > 30 ? 70'000 : 700);
  return cases;
}

// ---- data, and what comes of them
// ---------------------------------------------------------------------------------

struct Point {
  std::int64_t x, y;
  double weight;
};

// One period of each tensor, in float64.
struct LargeData {
  explicit LargeData(ProblemShape const& with) : shape(with) {
    std::int64_t const all = shape.batch * shape.query_count;
    rows = shape.batch == 1 ? std::min(all, kRowPeriod) : all;
    Rng rng(11);
    for (std::int64_t i = 0; i < kValuePeriod; ++i) value.push_back(0.25 * number(rng, -4, 3));
    for (std::int64_t row = 0; row < rows * shape.head_count; ++row) {
      for (LevelShape const& level : shape.levels) {
        for (int p = 0; p < level.points; ++p) add_point(rng, level);
      }
      for (std::int64_t d = 0; d < shape.head_dim; ++d) grad_output.push_back(number(rng, -1, 1));
    }
  }

  // How often a row of the period is among all rows.
  std::int64_t count_of(std::int64_t row) const {
    return (shape.batch * shape.query_count - row + rows - 1) / rows;
  }
  // First element of a pixel of one head, or -1 outside of the level.
  std::int64_t pixel(std::int64_t row, std::int64_t m, std::size_t l, std::int64_t x,
                     std::int64_t y) const {
    LevelShape const& level = shape.levels[l];
    if (x >= level.width || y >= level.height) return -1;
    std::int64_t const token = row / shape.query_count * shape.token_count() +
                               shape.level_starts()[l] + y * level.width + x;
    return (token * shape.head_count + m) * shape.head_dim;
  }
  double value_at(std::int64_t first, std::int64_t d) const {
    return first < 0 ? 0 : value[static_cast<std::size_t>((first + d) % kValuePeriod)];
  }

  ProblemShape shape;
  std::int64_t rows;
  std::vector<double> value, coord, weight, grad_output;
  std::vector<Point> points;

 private:
  static double number(Rng& rng, int least, int most) {
    return static_cast<double>(rng.integer(least, most));
  }
  void add_point(Rng& rng, LevelShape const& level) {
    constexpr double kWeights[] = {0.5, -0.5, 1};
    Point const point = {rng.integer(0, level.width - 1), rng.integer(0, level.height - 1),
                         kWeights[rng.integer(0, 2)]};
    points.push_back(point);
    weight.push_back(point.weight);
    coord.push_back((static_cast<double>(point.x) + 0.5 + kFraction) / level.width);
    coord.push_back((static_cast<double>(point.y) + 0.5 + kFraction) / level.height);
  }
};

// One period of each result; of grad_value the elements that are not zero.
struct LargeResults {
  explicit LargeResults(LargeData const& data) {
    ProblemShape const& shape = data.shape;
    std::size_t k = 0;
    for (std::int64_t row = 0; row < data.rows; ++row) {
      for (std::int64_t m = 0; m < shape.head_count; ++m) {
        std::vector<double> sums(static_cast<std::size_t>(shape.head_dim), 0);
        for (std::size_t l = 0; l < shape.levels.size(); ++l) {
          for (int p = 0; p < shape.levels[l].points; ++p) add_point(data, row, m, l, k++, sums);
        }
        output.insert(output.end(), sums.begin(), sums.end());
      }
    }
  }

  std::vector<double> output, grad_coord, grad_weight;
  std::map<std::int64_t, double> grad_value;
  // The most that is added up for an element of grad_value, in units of what all terms are
  // multiples of.
  double max_units() const {
    double most = 0;
    for (auto const& [element, magnitude] : magnitudes_) most = std::max(most, magnitude);
    return most * 32;  // a weight of a half, a sixteenth of a pixel
  }

 private:
  void add_point(LargeData const& data, std::int64_t row, std::int64_t m, std::size_t l,
                 std::size_t k, std::vector<double>& sums) {
    Point const& point = data.points[k];
    LevelShape const& level = data.shape.levels[l];
    std::int64_t const D = data.shape.head_dim;
    std::int64_t corner[2][2];
    for (int dy : {0, 1}) {
      for (int dx : {0, 1}) corner[dy][dx] = data.pixel(row, m, l, point.x + dx, point.y + dy);
    }
    double const part[2] = {1 - kFraction, kFraction};
    double by_x = 0, by_y = 0, by_weight = 0;
    for (std::int64_t d = 0; d < D; ++d) {
      double v[2][2];
      for (int dy : {0, 1}) {
        for (int dx : {0, 1}) v[dy][dx] = data.value_at(corner[dy][dx], d);
      }
      double const upper = part[0] * v[0][0] + part[1] * v[0][1];
      double const lower = part[0] * v[1][0] + part[1] * v[1][1];
      double const grad =
          data.grad_output[static_cast<std::size_t>((row * data.shape.head_count + m) * D + d)];
      sums[static_cast<std::size_t>(d)] += point.weight * (part[0] * upper + part[1] * lower);
      by_weight += grad * (part[0] * upper + part[1] * lower);
      by_x += grad * (part[0] * (v[0][1] - v[0][0]) + part[1] * (v[1][1] - v[1][0]));
      by_y += grad * (lower - upper);
      scatter(corner, part, d, point.weight * grad, data.count_of(row));
    }
    grad_weight.push_back(by_weight);
    grad_coord.push_back(point.weight * level.width * by_x);
    grad_coord.push_back(point.weight * level.height * by_y);
  }

  void scatter(const std::int64_t (&corner)[2][2], const double (&part)[2], std::int64_t d,
               double grad, std::int64_t count) {
    for (int dy : {0, 1}) {
      for (int dx : {0, 1}) {
        if (corner[dy][dx] < 0 || grad == 0) continue;
        double const term = part[dy] * part[dx] * grad * static_cast<double>(count);
        grad_value[corner[dy][dx] + d] += term;
        magnitudes_[corner[dy][dx] + d] += std::abs(term);
      }
    }
  }

  std::map<std::int64_t, double> magnitudes_;
};

// ---- on the device
// ---------------------------------------------------------------------------------

class DeviceArray {
 public:
  DeviceArray(std::int64_t elements, msda_dtype dtype)
      : elements_(static_cast<std::size_t>(elements)),
        dtype_(dtype),
        bytes_(elements_ * element_bytes(dtype)) {
    require_cuda(cudaMalloc(&data_, std::max<std::size_t>(bytes_, 1)), "cudaMalloc");
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(DeviceArray const&) = delete;

  void* data() const { return data_; }
  std::size_t elements() const { return elements_; }
  std::size_t bytes() const { return bytes_; }
  msda_dtype dtype() const { return dtype_; }

  void fill(int byte) { require_cuda(cudaMemset(data_, byte, bytes_), "cudaMemset"); }
  void repeat(std::vector<double> const& period) {
    std::vector<std::byte> const encoded = encode_all(period);
    std::size_t filled = std::min(encoded.size(), bytes_);
    put(0, encoded.data(), filled);
    while (filled < bytes_) {
      std::size_t const more = std::min(filled, bytes_ - filled);
      require_cuda(cudaMemcpy(at(filled), data_, more, cudaMemcpyDeviceToDevice), "repeating");
      filled += more;
    }
  }
  // Neighbours together: calls are what takes the time.
  void set(std::map<std::int64_t, double> const& values) {
    std::vector<double> together;
    for (auto it = values.begin(); it != values.end();) {
      std::int64_t const first = it->first;
      together.clear();
      for (; it != values.end() && it->first == first + std::ssize(together); ++it) {
        together.push_back(it->second);
      }
      std::vector<std::byte> const encoded = encode_all(together);
      put(static_cast<std::size_t>(first) * element_bytes(dtype_), encoded.data(), encoded.size());
    }
  }

 private:
  std::byte* at(std::size_t byte) const { return static_cast<std::byte*>(data_) + byte; }
  void put(std::size_t byte, const void* from, std::size_t count) {
    require_cuda(cudaMemcpy(at(byte), from, count, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  std::vector<std::byte> encode_all(std::vector<double> const& values) const {
    std::vector<std::byte> encoded(values.size() * element_bytes(dtype_));
    for (std::size_t i = 0; i < values.size(); ++i) {
      encode(dtype_, encoded.data() + i * element_bytes(dtype_), values[i]);
    }
    return encoded;
  }

  std::size_t elements_;
  msda_dtype dtype_;
  std::size_t bytes_;
  void* data_ = nullptr;
};

// A result's memory, and one period of what it should hold.
struct Checked {
  Checked(ProblemShape const& shape, TensorId id, std::vector<double> const& period)
      : tensor(id),
        actual(elements_of(shape, id), dtype_of(shape, id)),
        expected(std::ssize(period), dtype_of(shape, id)) {
    expected.repeat(period);
  }
  // Zero but for these.
  Checked(ProblemShape const& shape, TensorId id, std::map<std::int64_t, double> const& values)
      : tensor(id),
        actual(elements_of(shape, id), dtype_of(shape, id)),
        expected(elements_of(shape, id), dtype_of(shape, id)) {
    expected.fill(0);
    expected.set(values);
  }

  static std::int64_t elements_of(ProblemShape const& shape, TensorId id) {
    return layout_of(shape, id).element_count();
  }
  static msda_dtype dtype_of(ProblemShape const& shape, TensorId id) {
    return layout_of(shape, id).dtype;
  }

  void check() const {
    PatternDifferences const differences =
        compare_with_pattern(actual.data(), actual.elements(), expected.data(), expected.elements(),
                             element_bytes(actual.dtype()));
    CAPTURE(static_cast<int>(tensor));
    CAPTURE(differences.first);
    CHECK(differences.count == 0);
  }

  TensorId tensor;
  DeviceArray actual, expected;
};

using ResultList = std::vector<std::unique_ptr<Checked>>;

ResultList results_of(LargeData const& data, LargeResults const& results) {
  ProblemShape const& shape = data.shape;
  ResultList list;
  auto const add = [&](TensorId id, auto const& expected) {
    list.push_back(std::make_unique<Checked>(shape, id, expected));
  };
  if (!shape.backward()) {
    add(TensorId::kOutput, results.output);
    return list;
  }
  add(TensorId::kGradValue, results.grad_value);
  add(TensorId::kGradCoord, results.grad_coord);
  add(TensorId::kGradWeight, results.grad_weight);
  return list;
}

struct LargeInputs {
  explicit LargeInputs(LargeData const& data) {
    add(data.shape, TensorId::kValue, data.value);
    add(data.shape, TensorId::kCoord, data.coord);
    add(data.shape, TensorId::kWeight, data.weight);
    if (data.shape.backward()) add(data.shape, TensorId::kGradOutput, data.grad_output);
  }
  void add(ProblemShape const& shape, TensorId id, std::vector<double> const& period) {
    arrays.push_back(std::make_unique<DeviceArray>(Checked::elements_of(shape, id),
                                                   Checked::dtype_of(shape, id)));
    arrays.back()->repeat(period);
    set_pointer(tensors, id, arrays.back()->data());
  }

  std::vector<std::unique_ptr<DeviceArray>> arrays;
  msda_tensors tensors{};
};

void check_kernel(TestHandle const& handle, ProblemShape const& shape, std::string const& id,
                  LargeInputs const& inputs, ResultList const& results) {
  PlanResult const plan = make_plan(handle, shape, id);
  REQUIRE(plan.message == "");
  msda_tensors tensors = inputs.tensors;
  tensors.struct_size = sizeof(tensors);
  for (auto const& result : results) {
    result->actual.fill(0xff);
    set_pointer(tensors, result->tensor, result->actual.data());
  }
  tensors.workspace_bytes = plan_info(plan.plan.get()).workspace_bytes;
  DeviceArray workspace(static_cast<std::int64_t>(tensors.workspace_bytes), MSDA_DTYPE_F8_E4M3);
  workspace.fill(0xff);
  tensors.workspace = tensors.workspace_bytes == 0 ? nullptr : workspace.data();
  REQUIRE(msda_execute(plan.plan.get(), &tensors, nullptr) == MSDA_SUCCESS);
  require_cuda(cudaDeviceSynchronize(), "running");
  for (auto const& result : results) result->check();
}

void check_case(TestHandle const& handle, ProblemShape shape) {
  LargeData const data(shape);
  LargeResults const expected(data);
  REQUIRE(expected.max_units() < (1 << 24));  // sums in float32 are exact
  LargeInputs const inputs(data);
  ResultList const results = results_of(data, expected);
  std::vector<std::string> checked;
  for (msda_math_mode const mode : {MSDA_MATH_ACCURATE, MSDA_MATH_FAST}) {
    shape.math_mode = mode;
    for (std::string const& id : accepting_kernels(handle, shape)) {
      if (std::find(checked.begin(), checked.end(), id) != checked.end()) continue;
      checked.push_back(id);
      CAPTURE(id);
      check_kernel(handle, shape, id, inputs, results);
    }
  }
  CHECK(checked.size() >= 1);
}

void check_cases(int exponent, msda_operation operation) {
  TestHandle const handle(gpu_options());
  for (LargeCase& large : large_cases(exponent)) {
    large.shape.operation = operation;
    CAPTURE(large.what);
    check_case(handle, large.shape);
  }
}

}  // namespace

TEST_CASE("forward of tensors of more than 2^31 elements, on the GPU" * needs_gpu()) {
  check_cases(31, MSDA_FORWARD);
}
TEST_CASE("backward of tensors of more than 2^31 elements, on the GPU" * needs_gpu()) {
  check_cases(31, MSDA_BACKWARD);
}
TEST_CASE("forward of tensors of more than 2^17 elements, on the GPU" * needs_gpu()) {
  check_cases(17, MSDA_FORWARD);
}
TEST_CASE("backward of tensors of more than 2^17 elements, on the GPU" * needs_gpu()) {
  check_cases(17, MSDA_BACKWARD);
}

#endif
