// The limits of a family's kernels: what tests expect them to refuse and to do. Each family's
// folder has them in <family>_limits_test.cpp, written by hand and apart from its plan: a kernel
// that starts to refuse more, or quietly takes what it cannot do, fails the tests.
#pragma once

#include "command/check/forward_bound.h"
#include "support/test_problem.h"

#include <msda.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msda::test {

using command::Arithmetic;
using command::ProblemShape;

// "persistent.sm80.f16.d32.p4.h1@1" by its parts, 0 to 5 of them.
class KernelId {
 public:
  explicit KernelId(std::string_view id);
  std::string const& family() const { return parts_.at(0); }
  bool is_for_gpu() const { return parts_.at(1) != "cpu"; }
  std::string const& part(std::size_t index) const { return parts_.at(index); }
  std::int64_t number(std::size_t index) const;  // 32 of the part "d32"
  msda_dtype value_dtype() const;
  std::int64_t channels() const { return number(3); }

 private:
  std::vector<std::string> parts_;
};

struct KernelLimits {
  const char* family;
  // "" where the kernel is expected to take the problem, else the reason in the words of
  // msda_explain().
  std::string (*reason)(KernelId const&, ProblemShape const&);
  bool (*does_forward)(KernelId const&) = [](KernelId const&) { return true; };
  bool (*does_backward)(KernelId const&) = [](KernelId const&) { return true; };
  // Whether it takes a plan with this sm_count_limit.
  bool (*keeps_sm_limit)(KernelId const&, std::int64_t) = [](KernelId const&, std::int64_t) {
    return true;
  };
  bool (*sums_in_float16)(KernelId const&) = [](KernelId const&) { return false; };
  bool (*caches_levels)(KernelId const&) = [](KernelId const&) { return false; };
  // Blocks of a cluster, for which the device must have as many multiprocessors.
  std::int64_t (*cluster_blocks)(KernelId const&) = [](KernelId const&) { return std::int64_t{1}; };
  bool sums_in_float64 = false;  // whatever the values' type
  bool is_deterministic = true;
};

// For tables of limits: what a kernel never or always does.
inline bool never(KernelId const&) { return false; }
inline bool refuses_sm_limits(KernelId const&, std::int64_t) { return false; }

// ---- limits that several families share

inline constexpr const char* kWrongValueDtype = "does not take this value_dtype";
inline constexpr const char* kWrongOperation = "does not do this operation";
inline constexpr const char* kWrongHeadDim = "does not take this head_dim";
inline constexpr const char* kWrongInputMode = "does not take this input_mode";
inline constexpr const char* kWrongLevels = "does not take these levels";
inline constexpr const char* kWrongPoints = "does not take these point counts";
inline constexpr const char* kWrongStrides = "does not take these strides";
inline constexpr const char* kWrongMathMode = "does not do this math_mode";
inline constexpr const char* kWrongSampling = "does not do this sampling_mode";
inline constexpr const char* kOverlap = "does not compute gradients of levels that overlap";
inline constexpr const char* kTooLarge = "a tensor is too large for its index type";

bool levels_overlap(ProblemShape const& shape);
// float64 coordinates and weights are for kernels of any row alone.
std::string float64_reason(ProblemShape const& shape);
// Levels of more than 2^24 rows or columns have pixels between which float32 does not tell.
std::string far_levels_reason(ProblemShape const& shape);
std::int64_t row_tokens(ProblemShape const& shape,
                        command::LevelShape const& level);  // the border's, too
// The packed ones of a tensor that is packed but for those of dimensions of 1, which lead nowhere.
command::Strides3 strides_that_count(ProblemShape const& shape, command::TensorId id);

// Kernels that work on whole rows of a forward. `points` is the id's part: "p4" are as many on
// every level, "pfew" at most 8 of a row, "pany" from `min_points` to `max_points`. Channels are a
// multiple of `multiple`.
struct RowLimits {
  std::string points;
  std::int64_t multiple = 8;
  std::int64_t min_points = 0;
  std::int64_t max_points = 512;
};
std::string row_reason(KernelId const& id, ProblemShape const& shape, RowLimits const& limits);

// Backward kernels of rows whose channels are a multiple of 8, at most 256, with strides and types
// of any kind; `takes_overlap`: of levels that overlap, too.
std::string points_reason(KernelId const& id, ProblemShape const& shape, bool takes_overlap);

// Sums in float16 take MSDA_MATH_FAST and levels of at most 2^17 pixels, 2^16 where rows of 64
// bytes do not come in pairs.
std::string float16_sums_reason(KernelId const& id, ProblemShape const& shape);

}  // namespace msda::test
