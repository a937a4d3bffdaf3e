#include "cpu/simd/simd_cost.h"

#include "core/dtype.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace msda::simd {
namespace {

// Measured on one core of a Zen 4 at 3.6 GHz (32 KB, 1 MB and 32 MB of cache) with `msda bench`.
constexpr double kCallUs = 1.5;       // checks, tables, first touch of the inputs
constexpr double kWakeUs = 8.0;       // until the other threads work
constexpr double kRowNs = 14.0;       // a (batch, query, head) without points
constexpr double kPointNs = 2.2;      // to locate a point
constexpr double kFusedRowNs = 60.0;  // softmax and references of a row
constexpr double kVectorNs = 0.28;    // 64 bytes of float32 sums at one corner: load, multiply, add
constexpr double kConvertF16Ns = 0.12;  // more for values that are not float32
constexpr double kConvertF8Ns = 0.60;
// A line of values from where they lie: little is from the first two levels of cache, much from
// memory.
constexpr double kNearBytes = 256e3;
constexpr double kFarBytes = 32e6;
constexpr double kNearLineNs = 0.10;
constexpr double kFarLineNs = 1.2;
constexpr double kLocalShare =
    0.5;  // of that, when neighbouring queries are neighbours in an image

double convert_ns(msda_dtype dtype) {
  if (dtype == MSDA_F16) return kConvertF16Ns;
  return dtype == MSDA_F8_E4M3 ? kConvertF8Ns : 0.0;
}

double line_ns(double value_bytes, bool local) {
  double const clamped = std::clamp(value_bytes, kNearBytes, kFarBytes);
  double const share = std::log(clamped / kNearBytes) / std::log(kFarBytes / kNearBytes);
  return kNearLineNs + share * (kFarLineNs - kNearLineNs) * (local ? kLocalShare : 1.0);
}

}  // namespace

double predicted_us(Problem const& problem, Device const& device) {
  auto const number = [](std::int64_t n) { return static_cast<double>(n); };
  double const rows =
      number(problem.batch) * number(problem.query_count) * number(problem.head_count);
  double const row_bytes = number(problem.head_dim * dtype_bytes(problem.value_dtype));
  double const value_bytes = number(problem.token_count) * number(problem.head_count) * row_bytes;
  double const lines = std::ceil(row_bytes / 64.0);
  double const vectors = std::ceil(number(problem.head_dim) / 16.0);
  bool const local = !problem.query_grids.empty();
  double const corner_ns =
      vectors * (kVectorNs + convert_ns(problem.value_dtype)) + lines * line_ns(value_bytes, local);
  double const row_ns = kRowNs + (problem.fused() ? kFusedRowNs : 0.0) +
                        number(problem.point_total) * (kPointNs + 4.0 * corner_ns);
  double const threads = std::min(number(device.thread_count), std::max(rows / 64.0, 1.0));
  return kCallUs + (threads > 1 ? kWakeUs : 0.0) + rows * row_ns * 1e-3 / threads;
}

}  // namespace msda::simd
