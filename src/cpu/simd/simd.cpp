// The SIMD family: forward on the CPU with vectors over a head's channels.

#include "core/dtype.h"
#include "cpu/simd/simd_forward.h"
#include "cpu/simd/simd_tables.h"
#include "registry.h"

#include <algorithm>
#include <cstdint>

namespace msda::simd {
namespace {

const Variant kVariants[] = {
#define MSDA_VARIANT(name, dtype, revision) {"simd.cpu." #name "@" #revision, dtype, 0, 0},
#include "cpu/simd/variants.inc"
#undef MSDA_VARIANT
};

// Tokens, token strides and pixel positions are 32-bit in the kernel, positions exact in float32.
constexpr std::int64_t kLargestToken = INT32_MAX / 2;
constexpr std::int64_t kLargestSide = std::int64_t{1} << 24;

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  if (!device.is_cpu()) return Reason::kDeviceIsCuda;
  if (problem.backward()) return Reason::kOperation;
  if (problem.value_dtype != variant.value_dtype) return Reason::kValueDtype;
  if (problem.token_count > kLargestToken || problem.value.row > INT32_MAX) return Reason::kTooLarge;
  for (Level const& level : problem.levels) {
    if (level.height > kLargestSide || level.width > kLargestSide) return Reason::kTooLarge;
  }
  return Reason::kNone;
}

double cost(Variant const&, Problem const& problem, Device const& device) {
  double const rows = static_cast<double>(problem.batch) * static_cast<double>(problem.query_count) *
                      static_cast<double>(problem.head_count);
  double const points = rows * static_cast<double>(problem.point_total);
  double const bytes = 4 * points * static_cast<double>(problem.head_dim) *
                       static_cast<double>(dtype_bytes(problem.value_dtype));
  return 1 + (points * 8.0 + bytes * 0.02) * 1e-3 / device.thread_count;
}

void workspace(Variant const&, Problem const&, Device const&, Arena&) {}

PreparedPtr prepare(Variant const&, Problem const& problem, Device const&,
                    std::pmr::memory_resource* memory) {
  return make_prepared<Tables>(memory, problem, memory);
}

void launch(Variant const&, Launch const& launch) {
  if (launch.problem.head_dim == 0) return;
  run_forward(launch, *static_cast<const Tables*>(launch.prepared));
}

}  // namespace

extern const Family kFamily;
const Family kFamily = {"simd", kVariants, reject, cost, workspace, prepare, launch};

}  // namespace msda::simd
