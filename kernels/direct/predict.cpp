// The time that a variant of the direct family is predicted to take, and what its forward asks of
// a GPU. README.md has the count of its usual case, docs/roofline.md what hardware counters say of
// it.

#include "core/dtype.h"
#include "kernels/common/divide_up.h"
#include "kernels/common/row_limits.h"
#include "kernels/common/work.h"
#include "kernels/direct/plan.h"

#include <algorithm>

namespace msda::direct {
namespace {

double generic_work_ns(Costs const& costs, Problem const& problem) {
  return points_of(problem) * number(problem.head_dim) * costs.generic_ns *
         (problem.backward() ? costs.generic_backward_factor : 1.0);
}

double row_work_ns(Costs const& costs, Entry const& entry, Problem const& problem,
                   RowWork const& row) {
  double const vec_ns =
      costs.point_vec_ns * (dtype_bytes(problem.value_dtype) == 4 ? costs.f32_factor : 1.0);
  double const gather_ns = std::max(costs.point_ns, vec_ns * number(row.all_vecs)) *
                           (entry.points == pany ? costs.any_points_factor : 1.0);
  double const locate_ns = costs.locate_ns + (problem.fused() ? costs.fused_ns : 0.0);
  return rows_of(problem) *
         (gather_ns * number(row.points) + locate_ns * number(row.chunks * row.lanes) +
          costs.row_vec_ns * number(row.all_vecs));
}

// The time that a row waits for its loads, one after the other.
double row_waits_us(Costs const& costs, Problem const& problem, RowWork const& row) {
  return costs.wait_us * number(row.points / row.in_flight) +
         costs.chunk_wait_us * number(row.chunks) + (problem.fused() ? costs.fused_wait_us : 0.0);
}

}  // namespace

RowWork work_of_row(Entry const& entry, Problem const& problem) {
  auto const bytes = static_cast<std::int32_t>(dtype_bytes(problem.value_dtype));
  RowWork row;
  row.all_vecs = entry.channels / channels_of_vec(bytes);
  std::int64_t const group = std::min<std::int64_t>(row.all_vecs, kWarp);
  row.split = problem.head_count % 2 == 1 && is_half_line(entry.channels, bytes);
  row.lanes = row.split ? 2 * group : group;
  row.vecs = row.all_vecs / group;
  row.in_flight = row.lanes < 2 || row.vecs > 1 ? 1 : 2;
  auto const add_chunks = [&row](std::int64_t count, std::int64_t points) {
    row.chunks += count;
    row.points += count * (divide_up(points, row.in_flight) * row.in_flight);
  };
  std::int64_t const left = problem.point_total % row.lanes;
  add_chunks(problem.point_total / row.lanes, row.lanes);
  if (left > 0) add_chunks(1, left);
  return row;
}

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = kTable[variant];
  double work_ns = 0, waits_us = 0;
  if (entry.channels == dany) {
    work_ns = generic_work_ns(costs, problem);
    waits_us = costs.generic_wait_us * number(problem.point_total) +
               (problem.backward() ? costs.generic_backward_us : 0.0);
  } else {
    RowWork const row = work_of_row(entry, problem);
    work_ns = row_work_ns(costs, entry, problem, row);
    waits_us = row_waits_us(costs, problem, row);
  }
  return costs.launch_us + waits_us +
         std::max(1e-3 * work_ns / device.sm_count, forward_bytes(problem) / costs.bytes_per_us);
}

double cost(Variant const& variant, Problem const& problem, Device const& device) {
  return predicted_us(Costs{}, variant, problem, device);
}

// ---- counts

namespace {

constexpr double kWavefrontBytes = 128;
constexpr double kWarpLanes = 32;

double divide_up(std::int64_t items, std::int64_t of_one) {
  return number((items + of_one - 1) / of_one);
}

// Instructions of a warp. These were not counted in the code: they are what two counters in
// README.md leave, fp16 with 16 and with 32 points a row, beside loads and sums.
constexpr double kRowInstructions = 184;    // once
constexpr double kChunkInstructions = 117;  // every lane locates a point
constexpr double kPointInstructions = 29;   // of each slot
constexpr double kAddressInstructions = 4;  // of each of its loads

// A load of a corner, its conversion and its sums.
double load_instructions(ValueType type) {
  // Multiply-adds, as many conversions to float32 where values are not, and two words of F8 each.
  return type == ValueType::f32 ? 1 + 4 : type == ValueType::f8 ? 1 + 8 + 8 + 4 : 1 + 8 + 8;
}

// Lines that a warp's lanes touch in an array with `bytes` of each of their rows, of which one
// load reads `loaded`.
double lines_of(double rows, double bytes, double loaded) {
  return std::max(std::max(1.0, rows * loaded / kWavefrontBytes),
                  rows * std::min(1.0, bytes / kWavefrontBytes));
}

void count_row_kernel(Entry const& entry, Problem const& problem, Counts& counts) {
  RowWork const row = work_of_row(entry, problem);
  double const element = number(dtype_bytes(problem.value_dtype));
  double const row_bytes = number(problem.head_dim) * element;
  double const slots = number(kWarp / row.lanes);
  std::int64_t const loads = row.split ? 2 : 4;  // of a lane for a vec of a point: corners
  double const coord_bytes = 2 * number(dtype_bytes(problem.coord_dtype));
  double const weight_bytes = number(dtype_bytes(problem.weight_dtype));
  double const K = number(problem.point_total);
  double const warps =
      divide_up(problem.batch * problem.query_count * problem.head_count, kWarp / row.lanes);
  double const of_chunks = warps * number(row.chunks), of_points = warps * number(row.points);
  counts.gather_loads = of_points * number(loads * row.vecs);
  counts.gather_wavefronts = of_points * 4 * slots * row_bytes / kWavefrontBytes;
  counts.lines_of_load = std::max(slots, 4.0);
  counts.row_bytes = row_bytes;
  counts.gathered_bytes = counts.gather_wavefronts * kWavefrontBytes;
  // A record is written by each lane in 16 bytes; one read takes as long as four different ones. So
  // do the places of the levels, of which lanes read one each.
  counts.record_wavefronts = of_points * 4 + of_chunks * (4 + 4);
  double const of_slot = number(row.lanes);  // points that one load reads
  counts.input_wavefronts =
      of_chunks *
      (lines_of(slots, K * coord_bytes, of_slot * coord_bytes) +
       (problem.fused() ? 3 : 1) * lines_of(slots, K * weight_bytes, of_slot * weight_bytes));
  counts.instructions =
      warps * kRowInstructions + of_chunks * kChunkInstructions +
      of_points * (kPointInstructions + number(loads * row.vecs) *
                                            (kAddressInstructions + load_instructions(entry.type)));
}

// A thread an output element. Its instructions were not counted.
void count_generic_kernel(Problem const& problem, Counts& counts) {
  double const element = number(dtype_bytes(problem.value_dtype));
  double const warps = rows_of(problem) * number(problem.head_dim) / kWarpLanes;
  double const points = warps * number(problem.point_total);
  double const load_bytes = kWarpLanes * element;
  counts.row_bytes = number(problem.head_dim) * element;
  counts.lines_of_load = std::max(1.0, load_bytes / kWavefrontBytes);
  counts.gather_loads = points * 4;
  counts.gathered_bytes = points_of(problem) * 4 * counts.row_bytes;
  counts.gather_wavefronts = counts.gather_loads * std::max(1.0, load_bytes / kWavefrontBytes);
  counts.input_wavefronts = points * 3;  // x, y and the weight, the same for all lanes
}

}  // namespace

std::optional<Counts> counts(Variant const& variant, Problem const& problem, Device const&) {
  Entry const& entry = kTable[variant];
  if (problem.backward()) return std::nullopt;
  // Vecs of values that are not aligned are loaded element by element.
  bool const has_vecs =
      value_strides_are_multiples(problem, dtype_bytes(problem.value_dtype) == 1 ? 8 : 16);
  if (entry.channels != dany && !has_vecs) return std::nullopt;
  Counts counts = counts_of_tensors(problem);
  counts.output_wavefronts = counts.output_bytes / kWavefrontBytes;
  if (entry.channels == dany) {
    count_generic_kernel(problem, counts);
  } else {
    count_row_kernel(entry, problem, counts);
  }
  return counts;
}

}  // namespace msda::direct
