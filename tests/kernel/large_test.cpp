// Offsets beyond 2^31 elements and counts beyond 65,535. Memory that is not touched costs nothing,
// so the tensors are as large as they say and only their far ends are used.

#include "support/random_problem.h"
#include "support/runner.h"
#include "support/tolerance.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

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

void check_spread(ProblemShape const& shape) {
  TestHandle const handle;
  Rng rng(3);
  TestProblem const near = fill_problem(small_shape(shape.value_dtype), DataKind{}, rng);
  TensorId const ids[] = {TensorId::kValue, TensorId::kCoord, TensorId::kWeight, TensorId::kOutput};
  for (std::string const& id : accepting_kernels(handle, shape)) {
    CAPTURE(id);
    PlanResult const plan = make_plan(handle, shape, id);
    CallBuffers const near_buffers(near, plan.plan.get(), 0);
    msda_tensors tensors = near_buffers.c();  // for its workspace
    std::vector<std::unique_ptr<SparseMemory>> memory;
    for (TensorId const tensor : ids) {
      TensorLayout const layout = layout_of(shape, tensor);
      auto const bytes = static_cast<std::int64_t>(element_bytes(layout.dtype));
      memory.push_back(std::make_unique<SparseMemory>(layout.span() * bytes));
      set_pointer(tensors, tensor, memory.back()->data());
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(near.inputs[tensor].size()); ++i) {
        encode(layout.dtype, memory.back()->data() + element_of(layout, i) * bytes,
               near.inputs[tensor][static_cast<std::size_t>(i)]);
      }
    }
    REQUIRE(msda_execute(plan.plan.get(), &tensors, nullptr) == MSDA_SUCCESS);
    // The same numbers packed give the same bits.
    RunResult const expected = run(handle, near, id);
    REQUIRE(expected.failure == "");
    TensorLayout const layout = layout_of(shape, TensorId::kOutput);
    std::int64_t same = 0;
    for (std::int64_t i = 0; i < layout.element_count(); ++i) {
      std::byte const* const element =
          memory.back()->data() +
          element_of(layout, i) * static_cast<std::int64_t>(element_bytes(layout.dtype));
      same +=
          raw_bits(layout.dtype, element) ==
          expected.bits[static_cast<std::size_t>(TensorId::kOutput)][static_cast<std::size_t>(i)];
    }
    CHECK(same == layout.element_count());
  }
}

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
  shape.levels = {{46342, 46342, 1}};  // squared: a little more than 2^31
  shape.query_count = 4;
  shape.set_dtypes(MSDA_F8_E4M3);
  std::int64_t const tokens = shape.token_count();
  REQUIRE(tokens > std::int64_t{1} << 31);
  SparseMemory const value(tokens);
  // The last four pixels; the points sit in their middles.
  float coord[4][2], weight[4] = {1, 1, 1, 1}, output[4];
  for (int q = 0; q < 4; ++q) {
    std::uint8_t const sixteenths = static_cast<std::uint8_t>(0x38 + q);  // 1, 1.125, 1.25, 1.375
    std::int64_t const token = tokens - 4 + q;
    value.data()[token] = static_cast<std::byte>(sixteenths);
    coord[q][0] = static_cast<float>((static_cast<double>(token % 46342) + 0.5) / 46342);
    coord[q][1] = static_cast<float>((46341 + 0.5) / 46342);
  }
  for (std::string const& id : accepting_kernels(handle, shape)) {
    CAPTURE(id);
    PlanResult const plan = make_plan(handle, shape, id);
    GuardedBuffer const workspace(plan_info(plan.plan.get()).workspace_bytes, 256);
    msda_tensors tensors{};
    tensors.struct_size = sizeof(tensors);
    tensors.value = value.data();
    tensors.coord = coord;
    tensors.weight = weight;
    tensors.output = output;
    tensors.workspace = workspace.data();
    tensors.workspace_bytes = workspace.size();
    REQUIRE(msda_execute(plan.plan.get(), &tensors, nullptr) == MSDA_SUCCESS);
    for (int q = 0; q < 4; ++q) {
      // float32 coordinates of 46,342 pixels are good to a few thousandths of a pixel.
      CHECK(output[q] == doctest::Approx(1 + 0.125 * q).epsilon(0.02));
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
      // As one long row of queries of one head the points are the same.
      Expectations const expected(problem, Arithmetic::kFloat32);
      CHECK(compare(expected[TensorId::kOutput], result.values[TensorId::kOutput]).failure == "");
    }
  }
}
