// A problem with its data, as the tests make it: shapes and types, and the numbers in float64.
#pragma once

#include "support/host_tensor.h"

#include <msda.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace msda::test {

struct LevelShape {
  std::int32_t height = 0;
  std::int32_t width = 0;
  std::int32_t points = 0;
};

using Strides3 = std::array<std::int64_t, 3>;  // 0 0 0: packed

// Everything in msda_problem. The dtypes are resolved: MSDA_DTYPE_NONE appears in none of them.
struct ProblemShape {
  std::vector<LevelShape> levels;
  std::int64_t batch = 1;
  std::int64_t query_count = 1;
  std::int64_t head_count = 1;
  std::int64_t head_dim = 1;
  std::int32_t value_border = 0;
  std::int32_t reference_dim = 0;  // 0: sampled; 2, 4: fused
  msda_operation operation = MSDA_FORWARD;
  msda_math_mode math_mode = MSDA_MATH_ACCURATE;
  msda_determinism determinism = MSDA_DETERMINISTIC;
  msda_dtype value_dtype = MSDA_F32;
  msda_dtype coord_dtype = MSDA_F32;
  msda_dtype weight_dtype = MSDA_F32;
  msda_dtype output_dtype = MSDA_F32;
  msda_dtype grad_value_dtype = MSDA_F32;
  Strides3 value_strides = {0, 0, 0};
  Strides3 coord_strides = {0, 0, 0};
  Strides3 weight_strides = {0, 0, 0};
  Strides3 output_strides = {0, 0, 0};
  std::vector<std::int32_t> query_hw;  // [grids][2], or empty

  bool fused() const { return reference_dim != 0; }
  bool backward() const { return operation == MSDA_BACKWARD; }
  std::int64_t level_tokens(LevelShape const& level) const;
  std::int64_t token_count() const;  // S
  std::int64_t point_total() const;  // K

  // value_dtype, and what the library takes for the others when they are left open.
  void set_dtypes(msda_dtype value);
  // One line of key=value words, as the msda command and tests/cases/*.txt write a problem.
  std::string describe() const;
};

enum class TensorId {
  kValue,
  kCoord,
  kWeight,
  kReference,
  kOffset,
  kLogit,
  kValueScale,
  kGradOutput,
  kOutput,
  kGradValue,
  kGradCoord,
  kGradWeight,
  kGradReference,
  kGradOffset,
  kGradLogit,
};
inline constexpr std::size_t kTensorIdCount = 15;

struct TensorRow {
  TensorId id;
  std::string name;  // of the member of msda_tensors
  bool in_forward, in_backward, in_sampled, in_fused;
  bool is_result;

  bool belongs_to(ProblemShape const& shape) const {
    return (shape.backward() ? in_backward : in_forward) && (shape.fused() ? in_fused : in_sampled);
  }
};
std::array<TensorRow, kTensorIdCount> const& tensor_rows();
TensorLayout layout_of(ProblemShape const& shape, TensorId id);
void set_pointer(msda_tensors& tensors, TensorId id, void* pointer);

// The numbers of a problem, packed, by TensorId. Empty: not there.
struct Arrays {
  std::array<std::vector<double>, kTensorIdCount> by_id;

  std::vector<double>& operator[](TensorId id) { return by_id[static_cast<std::size_t>(id)]; }
  std::vector<double> const& operator[](TensorId id) const {
    return by_id[static_cast<std::size_t>(id)];
  }
};

struct TestProblem {
  ProblemShape shape;
  Arrays inputs;  // as the storage types hold them

  // Rounds every input to its storage type, and where strides repeat an element makes the repeats
  // equal.
  void settle();
};

// A msda_problem and the arrays it points to.
class ProblemView {
 public:
  explicit ProblemView(ProblemShape const& shape);
  ProblemView(ProblemView const&) = delete;
  msda_problem c;

 private:
  std::vector<std::int32_t> level_hw_, point_counts_, query_hw_;
};

}  // namespace msda::test
