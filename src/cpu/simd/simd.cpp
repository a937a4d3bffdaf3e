// The SIMD family: a head's channels in the lanes of vectors. README.md here says how.

#include "core/dtype.h"
#include "core/family.h"
#include "cpu/simd/simd_backward.h"
#include "cpu/simd/simd_kernel.h"
#include "cpu/simd/simd_tables.h"
#include "cpu/thread_pool.h"
#include "cpu/zero_results.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

namespace msda::simd {
namespace {

#define MSDA_COSTS "cpu/simd/simd_costs.inc"
#include "core/costs.inc"

using ChooseGather = Gather (*)(Problem const&);
constexpr VariantTable kTable({
#define MSDA_VARIANT(name, dtype, revision)                                               \
  VariantRow<ChooseGather>{{.id = "simd.cpu." #name "@" #revision, .value_dtype = dtype}, \
                           choose_gather_##name},
#include "cpu/simd/variants.inc"
#undef MSDA_VARIANT
});

// Pixel positions are 32-bit integers, and the float32 nearest above a size must still fit one.
constexpr std::int64_t kLargestSide = std::numeric_limits<std::int32_t>::max() - 256;

// The pixel of a nearest point is a float32 number.
constexpr std::int64_t kLargestNearestSide = 1 << 24;

// Queries that one thread takes of one head before it asks for more work: long enough for the
// values of a head to be worth having near, short enough that the inputs of all heads of a run stay
// near too.
constexpr std::int64_t kLongestRun = 1024;
constexpr std::int64_t kShortestRun = 64;
constexpr std::int64_t kChunksPerThread = 16;

// Whether this machine has an instruction set of more than one lane. Dispatch remembers what the
// processor said: to ask it again takes 20 us on a virtual machine.
bool has_vectors() { return choose_bin() != nullptr; }

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  if (!device.is_cpu()) return Reason::kDeviceIsCuda;
  if (!has_vectors()) return Reason::kVectorUnit;
  if (problem.value_dtype != variant.value_dtype) return Reason::kValueDtype;
  if (problem.backward() && problem.head_dim == 0) return Reason::kHeadDim;  // nothing to sum
  if (problem.backward() && problem.levels_overlap) return Reason::kOverlap;
  std::int64_t const largest_side = problem.nearest() ? kLargestNearestSide : kLargestSide;
  for (Level const& level : problem.levels) {
    if (level.height > largest_side || level.width > largest_side) return Reason::kLevels;
  }
  return Reason::kNone;
}

// ---- the predicted time, from rates measured on one machine (docs/cpu.md)

double convert_ns(Costs const& costs, msda_dtype dtype) {
  if (dtype == MSDA_DTYPE_F16) return costs.convert_f16_ns;
  return dtype_bytes(dtype) == 1 ? costs.convert_f8_ns : 0.0;
}

double line_ns(Costs const& costs, double value_bytes, bool local) {
  double const clamped = std::clamp(value_bytes, costs.near_bytes, costs.far_bytes);
  double const share =
      std::log(clamped / costs.near_bytes) / std::log(costs.far_bytes / costs.near_bytes);
  return costs.near_line_ns +
         share * (costs.far_line_ns - costs.near_line_ns) * (local ? costs.local_share : 1.0);
}

double number(std::int64_t n) { return static_cast<double>(n); }

double vectors_of(Problem const& problem) { return std::ceil(number(problem.head_dim) / 16.0); }

// To locate the points of a row: by vectors of 16, which rows of 1, 2, 4 or 8 share.
double locate_row_ns(Costs const& costs, Problem const& problem) {
  std::int64_t const K = problem.point_total;
  bool const shares = K <= 8 && std::has_single_bit(static_cast<std::uint64_t>(K));
  double const vectors = shares ? number(K) / 16.0 : std::ceil(number(K) / 16.0);
  return vectors * (costs.locate_ns + (problem.fused() ? costs.fused_ns : 0.0));
}

double forward_row_ns(Costs const& costs, Problem const& problem) {
  double const row_bytes = number(problem.head_dim * dtype_bytes(problem.value_dtype));
  double const value_bytes = number(problem.token_count) * number(problem.head_count) * row_bytes;
  double const lines = std::ceil(row_bytes / 64.0);
  bool const local = !problem.query_grids.empty();
  double const corner_ns =
      vectors_of(problem) * (costs.vector_ns + convert_ns(costs, problem.value_dtype)) +
      lines * line_ns(costs, value_bytes, local);
  return costs.row_ns + locate_row_ns(costs, problem) +
         number(problem.point_total) * 4.0 * corner_ns;
}

double backward_row_ns(Costs const& costs, Problem const& problem) {
  double const point_ns = costs.backward_point_ns + vectors_of(problem) * costs.backward_vector_ns;
  return costs.row_ns + 2.0 * locate_row_ns(costs, problem) +  // once more to undo it
         number(problem.point_total) * point_ns;
}

double backward_value_us(Costs const& costs, Problem const& problem) {
  double const values = number(problem.batch) * number(problem.token_count) *
                        number(problem.head_count) * 16.0 * vectors_of(problem);
  return values * costs.backward_value_ns * 1e-3;
}

double predicted_us(Costs const& costs, Variant const&, Problem const& problem,
                    Device const& device) {
  double const rows =
      number(problem.batch) * number(problem.query_count) * number(problem.head_count);
  double const row_ns =
      problem.backward() ? backward_row_ns(costs, problem) : forward_row_ns(costs, problem);
  double const value_us = problem.backward() ? backward_value_us(costs, problem) : 0.0;
  double const threads = std::min(number(device.thread_count), std::max(rows / 64.0, 1.0));
  return costs.call_us + (threads > 1 ? costs.wake_us : 0.0) +
         (rows * row_ns * 1e-3 + value_us) / threads;
}

// ---- plans and launches

void workspace(Variant const&, Problem const& problem, Device const& device, Arena& arena) {
  if (problem.backward()) take_backward(problem, device, arena);
}

PreparedPtr prepare(Variant const& variant, Problem const& problem, Device const&,
                    std::pmr::memory_resource* memory) {
  if (problem.backward()) return make_prepared<BackwardTables>(memory, problem, memory);
  return make_prepared<Tables>(memory, problem, kTable[variant](problem), memory);
}

std::int64_t run_length(Problem const& problem, std::int64_t thread_count) {
  if (thread_count == 1) return kLongestRun;
  std::int64_t const heads = problem.batch * problem.head_count;
  std::int64_t const chunks_of_head = (thread_count * kChunksPerThread + heads - 1) / heads;
  std::int64_t const even = (problem.query_count + chunks_of_head - 1) / chunks_of_head;
  return std::clamp(even, kShortestRun, kLongestRun);
}

void run_forward(Launch const& launch) {
  Problem const& problem = launch.problem;
  std::int64_t const Q = problem.query_count;
  std::int64_t const M = problem.head_count;
  std::int64_t const K = problem.point_total;
  bool const has_attention =
      problem.fused() && problem.has_points() && launch.call[Tensor::kAttention] != nullptr;
  if (problem.head_dim == 0 && !has_attention) return;
  if (!problem.has_points()) return zero_results(problem, launch.call);
  auto const& tables = static_cast<Tables const&>(*launch.prepared);
  std::int64_t const run = run_length(problem, launch.device.thread_count);
  std::int64_t const runs = (Q + run - 1) / run;
  auto chunk = [&](std::int64_t i) {
    HeadSource const source(problem, launch.call, tables, i / M / runs, i % M);
    std::int64_t const first = i / M % runs * run, last = std::min(first + run, Q);
    if (problem.head_dim > 0) tables.gather(source, first, last);
    Softmax softmax;
    for (std::int64_t q = first; has_attention && q < last; ++q) {
      tables.read.store_attention(source, q, ((i / M / runs * Q + q) * M + i % M) * K, softmax);
    }
  };
  launch.device.pool->run(problem.batch * runs * M, chunk);
}

void launch(Variant const&, Launch const& launch) {
  if (launch.problem.backward()) {
    run_backward(launch);
  } else {
    run_forward(launch);
  }
}

}  // namespace

extern const FamilyModel kModel;
const FamilyModel kModel = {
    .name = "simd",
    .variants = kTable.variants(),
    .reject = reject,
    .predict = predict<Costs, predicted_us>,
    .constants = kConstants,
    .workspace = workspace,
};
extern const FamilyCode kCode = {prepare, launch};

}  // namespace msda::simd
