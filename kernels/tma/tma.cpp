// The tma family: values that tensor maps bring to shared memory, a box a point or a window a tile
// of queries.

#include "kernels/tma/tma.h"

#include "core/cuda.h"
#include "core/dtype.h"
#include "core/family.h"
#include "kernels/common/device_array.h"
#include "kernels/common/make_params.h"
#include "kernels/common/row_limits.h"
#include "kernels/common/work.h"
#include "kernels/tma/tensor_maps.h"
#include "kernels/tma/tma_costs.h"
#include "kernels/tma/window_plan.h"

#include <algorithm>

namespace msda::tma {

namespace {

// What the id says.
struct Entry {
  Channels channels;
  Shape shape;
  Sums sums;
  Producers producers;
  Stages stages;
  Kernels (*load)(std::int64_t);
};
constexpr VariantTable kTable({
#define MSDA_VARIANT(type, channels, shape, sums, producers, stages, revision, sm, architecture, \
                     ...)                                                                        \
  VariantRow<Entry>{{.id = "tma.sm" #sm "." #type "." #channels "." #shape "." #sums             \
                           "." #producers #stages "@" #revision,                                 \
                     .value_dtype = dtype_of(ValueType::type),                                   \
                     .sm_min = sm,                                                               \
                     .sm_max = last_sm(#architecture, 0) __VA_OPT__(, .__VA_ARGS__ = true)},     \
                    {channels, shape, sums, producers, stages,                                   \
                     load_kernels<ValueType::type, channels, shape, sums, producers, stages>}},
#include "rows/tma.inc"
#undef MSDA_VARIANT
});

std::int32_t element_bytes(Problem const& problem) {
  return static_cast<std::int32_t>(dtype_bytes(problem.value_dtype));
}

std::int32_t pixel_bytes(Problem const& problem) {
  return static_cast<std::int32_t>(problem.head_dim) * element_bytes(problem);
}

std::int32_t lanes_for(Entry const& entry, Problem const& problem) {
  return lanes_of(entry.channels, element_bytes(problem));
}

std::int64_t rows_in(Problem const& problem) {
  return problem.batch * problem.query_count * problem.head_count;
}

// Rows of a unit of windows: one a slot of the consumer warps.
std::int64_t rows_of_unit(Entry const& entry, Problem const& problem) {
  return std::int64_t{kWindowWarps - entry.producers} * (kWarp / lanes_for(entry, problem));
}

std::int64_t box_shared_bytes(Entry const& entry, Problem const& problem) {
  return std::int64_t{entry.producers} * entry.stages * box_stage_bytes(pixel_bytes(problem)) +
         kAlignmentSlack;
}

WindowMemory memory_of(Entry const& entry, Problem const& problem, Device const& device) {
  return window_memory(lanes_for(entry, problem), entry.producers, entry.stages, device);
}

// ---- reject

bool has_shared_memory(Entry const& entry, Problem const& problem, Device const& device) {
  if (entry.shape == box) {
    return box_shared_bytes(entry, problem) + kStaticSharedBytes <= device.shared_bytes_per_block;
  }
  return memory_of(entry, problem, device).stage_bytes >= least_stage_bytes(problem);
}

// Rows are counted in 31 bits, B and M are coordinates of a tensor map.
bool sizes_fit(Problem const& problem) {
  double const rows = static_cast<double>(problem.batch) *
                      static_cast<double>(problem.query_count) *
                      static_cast<double>(problem.head_count);
  double const heads = static_cast<double>(problem.batch) * static_cast<double>(problem.head_count);
  return rows < static_cast<double>(kMaxRows) && heads < static_cast<double>(kMaxRows) &&
         problem.query_count < kMaxRows;
}

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  if (device.is_cpu()) return Reason::kDeviceIsCpu;
  if (!variant.runs_on(device) || !device.has_bulk_copy) return Reason::kComputeCapability;
  if (problem.value_dtype != variant.value_dtype) return Reason::kValueDtype;
  if (problem.backward()) return Reason::kOperation;
  if (problem.coord_dtype == MSDA_DTYPE_F64) return Reason::kCoordDtype;
  if (problem.weight_dtype == MSDA_DTYPE_F64) return Reason::kWeightDtype;
  if (!head_dim_fits(problem.head_dim, entry.channels, 8)) return Reason::kHeadDim;
  if (!levels_are_near(problem)) return Reason::kLevels;
  if (problem.point_total == 0 || problem.point_total > kMaxPoints) return Reason::kPoints;
  if (entry.sums == h && problem.math_mode != MSDA_MATH_FAST) return Reason::kMathMode;
  if (Reason const reason = reject_maps(problem); reason != Reason::kNone) return reason;
  if (!sizes_fit(problem)) return Reason::kTooLarge;
  return has_shared_memory(entry, problem, device) ? Reason::kNone : Reason::kSharedMemory;
}

double cost(Variant const& variant, Problem const& problem, Device const& device) {
  return predicted_us(Costs{}, variant, problem, device);
}

void workspace(Variant const&, Problem const&, Device const&, Arena&) {}

// ---- prepare

// Tensor maps have no empty dimension: of a problem without rows there is none, and no launch.
struct TmaPlan final : Prepared {
  TmaPlan(Problem const& problem, QueryTiles const& tiles, const Box (&sizes)[kInlineLevels],
          Device const& device)
      : maps(problem, sizes),
        order(tiles.order, device),
        tile_begin(tiles.begin, device),
        params(make_params(problem, nullptr)) {}
  PlannedMaps maps;
  DeviceArray<std::int32_t> order;
  DeviceArray<std::int32_t> tile_begin;
  Params params;           // all but the buffers
  BoxParams boxes{};       // of a variant with boxes
  WindowParams windows{};  // of one with windows
  RowParams rows{};
  Kernels kernels{};
  std::int64_t shared_bytes = 0;
  std::int64_t blocks = 0;
  std::int64_t row_blocks = 0;
  bool has_output_vectors = false;  // as far as strides say
};

bool output_is_in_vectors(Problem const& problem) {
  Strides const& output = problem.output;
  return (output.batch | output.row | output.head) * dtype_bytes(problem.output_dtype) %
             kVecBytes ==
         0;
}

// As many blocks as SMs hold; a plan that keeps to some SMs has one on each.
std::int64_t blocks_for(std::int64_t work, std::int64_t shared_bytes, Device const& device) {
  constexpr std::int64_t kMaxBlocks = 2;         // by their registers
  constexpr std::int64_t kReservedBytes = 2048;  // of each block, the kernel's own and the system's
  std::int64_t const of_sm =
      device.sm_count_limit != 0
          ? 1
          : std::clamp<std::int64_t>(device.shared_bytes_per_sm / (shared_bytes + kReservedBytes),
                                     1, kMaxBlocks);
  return std::min(work, of_sm * device.sm_count);
}

void plan_boxes(TmaPlan& plan, Entry const& entry, Problem const& problem, Device const& device) {
  BoxParams& boxes = plan.boxes;
  boxes.rows = plan.rows.rows;
  std::int64_t const slots = kWarp / lanes_for(entry, problem);
  boxes.jobs = (boxes.rows + slots - 1) / slots;
  boxes.producers = entry.producers;
  boxes.stages = entry.stages;
  boxes.pixel_bytes = pixel_bytes(problem);
  boxes.box_bytes = box_bytes(boxes.pixel_bytes);
  plan.shared_bytes = box_shared_bytes(entry, problem);
  std::int64_t const consumers = kBoxWarps - entry.producers;
  plan.blocks = blocks_for((boxes.jobs + consumers - 1) / consumers, plan.shared_bytes, device);
}

void plan_windows(TmaPlan& plan, Entry const& entry, Problem const& problem,
                  QueryTiles const& tiles, const Box (&boxes)[kInlineLevels],
                  Device const& device) {
  WindowParams& windows = plan.windows;
  WindowMemory const memory = memory_of(entry, problem, device);
  windows.order = plan.order.data();
  windows.tile_begin = plan.tile_begin.data();
  windows.tiles = static_cast<std::int32_t>(tiles.begin.size()) - 1;
  windows.units = static_cast<std::int32_t>(problem.batch * problem.head_count * windows.tiles);
  windows.producers = entry.producers;
  windows.stages = entry.stages;
  windows.stage_bytes = static_cast<std::int32_t>(memory.stage_bytes);
  windows.pixel_bytes = pixel_bytes(problem);
  for (std::int32_t l = 0; l < static_cast<std::int32_t>(problem.levels.size()); ++l) {
    if (boxes[l].columns == 0) continue;
    windows.levels[windows.level_count++] = {l, boxes[l].columns, boxes[l].rows};
  }
  plan.shared_bytes = memory.shared_bytes;
  plan.blocks = std::min<std::int64_t>(windows.units, device.sm_count);
}

PreparedPtr prepare(Variant const& variant, Problem const& problem, Device const& device,
                    std::pmr::memory_resource* memory) {
  Entry const& entry = kTable[variant];
  bool const is_empty = rows_in(problem) == 0;
  QueryTiles tiles;
  Box boxes[kInlineLevels] = {};
  if (entry.shape == win && !is_empty) {
    tiles = make_query_tiles(problem, rows_of_unit(entry, problem));
    choose_windows(problem, tiles, memory_of(entry, problem, device).stage_bytes, boxes);
  } else if (!is_empty) {
    for (std::size_t l = 0; l < problem.levels.size(); ++l) {
      if (problem.levels[l].point_count > 0) boxes[l] = {2, 2};
    }
  }
  PreparedPtr prepared = make_prepared<TmaPlan>(memory, problem, tiles, boxes, device);
  auto& plan = static_cast<TmaPlan&>(*prepared);
  plan.rows.rows = rows_in(problem);
  plan.has_output_vectors = output_is_in_vectors(problem);
  if (is_empty) return prepared;
  if (entry.shape == box) {
    plan_boxes(plan, entry, problem, device);
  } else {
    plan_windows(plan, entry, problem, tiles, boxes, device);
  }
  std::int64_t const block_rows = std::int64_t{kBoxWarps} * (kWarp / lanes_for(entry, problem));
  plan.row_blocks = blocks_for((plan.rows.rows + block_rows - 1) / block_rows, 0, device);
  plan.kernels = entry.load(device.shared_bytes_per_block - kStaticSharedBytes);
  return prepared;
}

// ---- launch

bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % kMapAlignment == 0;
}

void launch(Variant const& variant, Launch const& launch) {
  auto const& plan = static_cast<TmaPlan const&>(*launch.prepared);
  if (plan.rows.rows == 0) return;
  Params params = plan.params;
  set_buffers(params, launch.call);
  bool const aligned_output = plan.has_output_vectors && is_aligned(params.output);
  auto* const stream = static_cast<cudaStream_t>(launch.call.stream);
  if (!is_aligned(params.value)) {
    RowParams rows = plan.rows;
    rows.aligned_output = aligned_output;
    launch_kernel(
        plan.kernels.rows,
        {.blocks = plan.row_blocks, .threads = kBoxWarps * kWarp, .overlaps_previous = true},
        stream, params, rows);
    return;
  }
  LaunchOptions options{.blocks = plan.blocks,
                        .threads = kBoxWarps * kWarp,
                        .shared_bytes = static_cast<std::size_t>(plan.shared_bytes),
                        .overlaps_previous = true};
  if (kTable[variant].shape == box) {
    BoxParams boxes = plan.boxes;
    boxes.aligned_output = aligned_output;
    launch_kernel(plan.kernels.boxes, options, stream, plan.maps.at(params.value), params, boxes);
  } else {
    WindowParams windows = plan.windows;
    windows.aligned_output = aligned_output;
    options.threads = kWindowWarps * kWarp;
    launch_kernel(plan.kernels.windows, options, stream, plan.maps.at(params.value), params,
                  windows);
  }
}

}  // namespace

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = kTable[variant];
  double const of_point = entry.shape == box ? costs.box_ps / static_cast<int>(entry.producers)
                          : entry.sums == h  ? costs.window_fp16_ps
                                             : costs.window_ps;
  double const factor = (pixel_bytes(problem) >= kLineBytes ? costs.wide_factor : 1.0) *
                        (problem.fused() ? costs.fused_factor : 1.0);
  return costs.launch_us +
         1e-6 * points_of(problem) * of_point * factor / std::max(device.sm_count, 1);
}

extern const Family kFamily;
const Family kFamily = {"tma", kTable.variants(), reject, cost, workspace, prepare, launch};

}  // namespace msda::tma
