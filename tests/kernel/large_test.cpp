// Offsets beyond 2^31 elements and counts beyond 65,535. Memory that is not touched costs nothing,
// so the tensors are as large as they say and only their far ends are used.

#include "support/expected_reason.h"
#include "support/random_problem.h"
#include "support/runner.h"
#include "support/tolerance.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <array>
#include <cmath>
#include <memory>
#include <vector>

using namespace msda::test;

namespace {

constexpr std::int64_t kFar = (std::int64_t{1} << 31) + 4096;  // elements

class SparseMemory {
 public:
  explicit SparseMemory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    void* const mapping = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(mapping != MAP_FAILED);
    data_ = static_cast<std::byte*>(mapping);
  }
  ~SparseMemory() { munmap(data_, bytes_); }
  SparseMemory(SparseMemory const&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

// Element i of a strided tensor, in packed order.
std::int64_t element_of(TensorLayout const& layout, std::int64_t i) {
  std::int64_t const inner = i % layout.dims[3], head = i / layout.dims[3] % layout.dims[2];
  std::int64_t const row = i / layout.dims[3] / layout.dims[2] % layout.dims[1];
  std::int64_t const batch = i / layout.dims[3] / layout.dims[2] / layout.dims[1];
  return batch * layout.strides[0] + row * layout.strides[1] + head * layout.strides[2] + inner;
}

ProblemShape small_shape(msda_dtype value_dtype) {
  ProblemShape shape;
  shape.levels = {{3, 4, 2}, {2, 2, 1}};
  shape.batch = 2;
  shape.query_count = 3;
  shape.head_count = 2;
  shape.head_dim = 20;
  shape.set_dtypes(value_dtype);
  return shape;
}

// The tensors of a call whose elements lie as far apart as the strides of `shape` say.
class SpreadTensors {
 public:
  SpreadTensors(ProblemShape const& shape, TestProblem const& near, msda_tensors const& packed)
      : shape_(shape), tensors_(packed) {
    for (TensorRow const& row : tensor_rows()) {
      bool const has_strides = !row.is_result() || row.id == TensorId::kOutput;
      if (!has_strides || !row.belongs_to(shape) || row.id == TensorId::kValueScale) continue;
      TensorLayout const layout = layout_of(shape, row.id);
      auto const bytes = static_cast<std::int64_t>(element_bytes(layout.dtype));
      auto& memory = memory_[static_cast<std::size_t>(row.id)];
      memory = std::make_unique<SparseMemory>(layout.span() * bytes);
      set_pointer(tensors_, row.id, memory->data());
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(near.inputs[row.id].size()); ++i) {
        encode(layout.dtype, memory->data() + element_of(layout, i) * bytes,
               near.inputs[row.id][static_cast<std::size_t>(i)]);
      }
    }
  }

  msda_tensors const& c() const { return tensors_; }
  std::vector<std::uint64_t> output_bits() const {
    TensorLayout const layout = layout_of(shape_, TensorId::kOutput);
    auto const bytes = static_cast<std::int64_t>(element_bytes(layout.dtype));
    std::byte const* const data = memory_[static_cast<std::size_t>(TensorId::kOutput)]->data();
    std::vector<std::uint64_t> bits;
    for (std::int64_t i = 0; i < layout.element_count(); ++i) {
      bits.push_back(raw_bits(layout.dtype, data + element_of(layout, i) * bytes));
    }
    return bits;
  }

 private:
  ProblemShape shape_;
  msda_tensors tensors_;
  std::array<std::unique_ptr<SparseMemory>, msda::kTensorCount> memory_;
};

// The same numbers spread and packed give the same bits, in every element of every result.
void check_spread(TestHandle const& handle, ProblemShape const& shape, TestProblem const& near,
                  std::string const& id) {
  CAPTURE(id);
  PlanResult const plan = make_plan(handle, shape, id);
  CallBuffers buffers(near, plan.plan.get(), 0);  // gradients are packed
  SpreadTensors const spread(shape, near, buffers.c());
  REQUIRE(msda_execute(plan.plan.get(), &spread.c(), nullptr) == MSDA_SUCCESS);
  RunResult const expected = run(handle, near, id);
  REQUIRE(expected.failure == "");
  for (TensorRow const& row : tensor_rows()) {
    if (!row.is_result() || !row.belongs_to(shape)) continue;
    CAPTURE(row.name);
    bool const is_output = row.id == TensorId::kOutput;
    std::vector<std::uint64_t> const& packed = expected.bits[static_cast<std::size_t>(row.id)];
    REQUIRE(!packed.empty());
    CHECK((is_output ? spread.output_bits() : buffers.tensor(row.id).bits()) == packed);
  }
}

void check_spread(ProblemShape shape) {
  TestHandle const handle;
  for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
    ProblemShape near_shape = small_shape(shape.value_dtype);
    shape.operation = near_shape.operation = operation;
    Rng rng(3);
    TestProblem const near = fill_problem(near_shape, DataKind{}, rng);
    for (std::string const& id : accepting_kernels(handle, shape)) {
      check_spread(handle, shape, near, id);
    }
  }
}

// Two levels of 2^31 + 2^12 tokens of one F8_E4M3 number each, which follows from the token. The
// sides are powers of two, positions and weights few bits: every float32 result is exact.
struct LargeMap {
  static constexpr std::int64_t kWidth = 1 << 16, kHeight = 1 << 15, kSide = 1 << 6;
  static constexpr std::int64_t kFirst = kWidth * kHeight;
  static constexpr std::int64_t kTokens = kFirst + kSide * kSide;

  LargeMap() : value(kTokens) {}

  // 1 to 1.875 in steps of 1/8.
  static std::uint8_t eighths(std::int64_t token) {
    return static_cast<std::uint8_t>(token * 0x9E3779B97F4A7C15 >> 61);
  }
  // The sample a quarter of a pixel right and three quarters below the middle of (y, x); writes the
  // pixels that it needs.
  double sample(std::int64_t level, std::int64_t y, std::int64_t x) {
    std::int64_t const width = level == 0 ? kWidth : kSide, height = level == 0 ? kHeight : kSide;
    double sum = 0;
    for (int corner = 0; corner < 4; ++corner) {
      std::int64_t const cx = x + (corner & 1), cy = y + (corner >> 1);
      if (cx >= width || cy >= height) continue;
      std::int64_t const token = level * kFirst + cy * width + cx;
      value.data()[token] = static_cast<std::byte>(0x38 + eighths(token));
      sum +=
          (corner & 1 ? 0.25 : 0.75) * (corner >> 1 ? 0.75 : 0.25) * (1 + 0.125 * eighths(token));
    }
    return sum;
  }

  SparseMemory value;
};

}  // namespace

TEST_CASE("batch items beyond 2^31 elements") {
  for (msda_dtype const value_dtype : kAllDtypes) {
    ProblemShape shape = small_shape(value_dtype);
    shape.value_strides = {kFar, 40, 20};
    shape.coord_strides = {kFar, 12, 6};
    shape.weight_strides = {kFar, 6, 3};
    shape.output_strides = {kFar, 40, 20};
    CAPTURE(type_name(value_dtype));
    check_spread(shape);
  }
}

TEST_CASE("queries and tokens beyond 2^31 elements") {
  for (msda_dtype const value_dtype : kAllDtypes) {
    ProblemShape shape = small_shape(value_dtype);
    shape.value_strides = {20, (std::int64_t{1} << 27) + 40,
                           40};  // of 16 tokens, the last is at 2^31
    shape.coord_strides = {6, kFar, 12};
    shape.weight_strides = {3, kFar, 6};
    shape.output_strides = {20, kFar, 40};
    CAPTURE(type_name(value_dtype));
    check_spread(shape);
  }
}

TEST_CASE("heads beyond 2^31 elements") {
  for (msda_dtype const value_dtype : kAllDtypes) {
    ProblemShape shape = small_shape(value_dtype);
    shape.value_strides = {20 * 16, 20, kFar};
    shape.coord_strides = {18, 6, kFar};
    shape.weight_strides = {9, 3, kFar};
    shape.output_strides = {60, 20, kFar};
    CAPTURE(type_name(value_dtype));
    check_spread(shape);
  }
}

TEST_CASE("a value tensor of more than 2^31 elements") {
  TestHandle const handle;
  ProblemShape shape;
  shape.levels = {{LargeMap::kHeight, LargeMap::kWidth, 1}, {LargeMap::kSide, LargeMap::kSide, 1}};
  shape.query_count = 200;
  shape.set_dtypes(MSDA_DTYPE_F8_E4M3);
  REQUIRE(shape.token_count() == LargeMap::kTokens);
  REQUIRE(LargeMap::kTokens > std::int64_t{1} << 31);
  LargeMap map;
  Rng rng(4);
  std::vector<float> coord, weight;
  std::vector<double> expected;
  for (std::int64_t q = 0; q < shape.query_count; ++q) {
    double output = 0;
    for (std::int64_t level = 0; level < 2; ++level) {
      std::int64_t const width = level == 0 ? LargeMap::kWidth : LargeMap::kSide;
      std::int64_t const height = level == 0 ? LargeMap::kHeight : LargeMap::kSide;
      // The first pixel, the last, and in between with the last rows more often than others.
      std::int64_t const y = q == 0   ? 0
                             : q == 1 ? height - 1
                                      : height - 1 - rng.integer(0, q % 3 == 0 ? height - 1 : 3);
      std::int64_t const x = q == 0 ? 0 : q == 1 ? width - 1 : rng.integer(0, width - 1);
      coord.push_back(
          static_cast<float>((static_cast<double>(x) + 0.75) / static_cast<double>(width)));
      coord.push_back(
          static_cast<float>((static_cast<double>(y) + 1.25) / static_cast<double>(height)));
      weight.push_back(static_cast<float>(rng.integer(1, 7)) / 8);
      output += weight.back() * map.sample(level, y, x);
    }
    expected.push_back(output);
  }
  for (std::string const& id : accepting_kernels(handle, shape)) {
    CAPTURE(id);
    PlanResult const plan = make_plan(handle, shape, id);
    GuardedBuffer const workspace(plan_info(plan.plan.get()).workspace_bytes, 256);
    std::vector<float> output(expected.size(), std::nanf(""));
    msda_tensors tensors{};
    tensors.struct_size = sizeof(tensors);
    tensors.value = map.value.data();
    tensors.coord = coord.data();
    tensors.weight = weight.data();
    tensors.output = output.data();
    tensors.workspace = workspace.data();
    tensors.workspace_bytes = workspace.size();
    REQUIRE(msda_execute(plan.plan.get(), &tensors, nullptr) == MSDA_SUCCESS);
    for (std::size_t q = 0; q < expected.size(); ++q) {
      CAPTURE(q);
      CHECK(output[q] == expected[q]);
    }
  }
}

TEST_CASE("more than 65535 batch items queries and heads") {
  TestHandle const handle;
  for (int dimension = 0; dimension < 3; ++dimension) {
    ProblemShape shape;
    shape.levels = {{2, 3, 1}};
    (dimension == 0 ? shape.batch : dimension == 1 ? shape.query_count : shape.head_count) = 70'001;
    Rng rng(9);
    TestProblem const problem = fill_problem(shape, DataKind{}, rng);
    for (std::string const& id : accepting_kernels(handle, shape)) {
      CAPTURE(id);
      RunResult const result = run(handle, problem, id);
      REQUIRE(result.failure == "");
      Expectations const expected(problem, arithmetic_of(id));
      CHECK(compare(expected[TensorId::kOutput], result.values[TensorId::kOutput]).failure == "");
    }
  }
}
