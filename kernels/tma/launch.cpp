// The tma family on a device: values that tensor maps bring to shared memory, a box a point or a
// window a tile of queries.

#include "kernels/attention/launch.h"
#include "core/device_array.h"
#include "core/status.h"
#include "kernels/tma/plan.h"
#include "kernels/tma/tensor_maps.h"

#include <algorithm>
#include <limits>

namespace msda::tma {
namespace {

// ---- tensor maps

constexpr std::int32_t kRank = 5;
constexpr int kMinVersion = 12000;  // of the driver, that has tensor maps
// Any address that a map may have; a plan's maps are not used as they are.
constexpr std::uintptr_t kAnyAddress = 4096;

template <typename Function>
Function driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  cuda::check(
      cudaGetDriverEntryPointByVersion(name, &found, kMinVersion, cudaEnableDefault, &result),
      "looking for the driver's tensor maps");
  if (result != cudaDriverEntryPointSuccess || found == nullptr) {
    fail(MSDA_ERROR_CUDA, "the CUDA driver has no {}()", name);
  }
  return reinterpret_cast<Function>(found);
}

// Calls a function of the driver. It needs a context, which a thread whose first CUDA call this is
// does not have before it sets its device.
template <typename Call>
CUresult with_context(Call const& call) {
  CUresult const result = call();
  if (result != CUDA_ERROR_INVALID_CONTEXT) return result;
  int device = 0;
  cuda::check(cudaGetDevice(&device), "reading the current device");
  cuda::check(cudaSetDevice(device), "making the current device's context");
  return call();
}

CUtensorMapDataType map_type(msda_dtype dtype) {
  return dtype == MSDA_DTYPE_F16    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
         : dtype == MSDA_DTYPE_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                    : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

// Dimensions from the fastest on: channels, x, y, head, batch item.
struct Shape5 {
  cuuint64_t sizes[kRank];
  cuuint64_t strides[kRank - 1];  // bytes, of all but the fastest

  Shape5(Problem const& problem, Level const& level) {
    auto const u64 = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
    std::int64_t const element = dtype_bytes(problem.value_dtype);
    std::int64_t const pixel = problem.value.row * element;
    // A dimension that is never stepped over may have any stride.
    auto const stride = [&](std::int64_t count, std::int64_t bytes) {
      return u64(count > 1 ? bytes : pixel);
    };
    sizes[0] = u64(problem.head_dim);
    sizes[1] = u64(level.width);
    sizes[2] = u64(level.height);
    sizes[3] = u64(problem.head_count);
    sizes[4] = u64(problem.batch);
    strides[0] = u64(pixel);
    strides[1] = stride(level.height, level.row_tokens * pixel);
    strides[2] = stride(problem.head_count, problem.value.head * element);
    strides[3] = stride(problem.batch, problem.value.batch * element);
  }
};

// The maps of a plan, which does not know where values will lie, and of its calls, which do.
class PlannedMaps {
 public:
  // boxes: of each level; none of one without points. Throws StatusError where the driver has no
  // tensor maps or refuses one.
  PlannedMaps(Problem const& problem, const Box (&boxes)[kInlineLevels])
      : replace_(driver_function<decltype(replace_)>("cuTensorMapReplaceAddress")) {
    auto const encode =
        driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
    for (std::size_t l = 0; l < problem.levels.size(); ++l) {
      if (boxes[l].columns == 0) continue;
      Shape5 const shape(problem, problem.levels[l]);
      cuuint32_t const box[kRank] = {static_cast<cuuint32_t>(problem.head_dim),
                                     static_cast<cuuint32_t>(boxes[l].columns),
                                     static_cast<cuuint32_t>(boxes[l].rows), 1, 1};
      cuuint32_t const element_strides[kRank] = {1, 1, 1, 1, 1};
      CUresult const error = with_context([&] {
        return encode(&maps_.level[l], map_type(problem.value_dtype), kRank,
                      reinterpret_cast<void*>(kAnyAddress), shape.sizes, shape.strides, box,
                      element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
      });
      if (error != CUDA_SUCCESS) {
        fail(MSDA_ERROR_CUDA,
             "the CUDA driver refuses a tensor map of level {}: boxes of {} x {} pixels with {} "
             "channels, {} bytes from pixel to pixel: error {}",
             l, boxes[l].columns, boxes[l].rows, problem.head_dim, shape.strides[0],
             static_cast<int>(error));
      }
      offset_[l] = problem.levels[l].origin * problem.value.row * dtype_bytes(problem.value_dtype);
      is_used_[l] = true;
    }
  }

  // Allocates nothing and keeps nothing. `value`: a multiple of 16 bytes.
  Maps at(const void* value) const {
    Maps maps = maps_;
    auto const begin = reinterpret_cast<std::uintptr_t>(value);
    for (std::int32_t l = 0; l < kInlineLevels; ++l) {
      if (!is_used_[l]) continue;
      auto* const address =
          reinterpret_cast<void*>(begin + static_cast<std::uintptr_t>(offset_[l]));
      if (with_context([&] { return replace_(&maps.level[l], address); }) != CUDA_SUCCESS) {
        fail(MSDA_ERROR_CUDA, "the CUDA driver refuses address {} in a tensor map", address);
      }
    }
    return maps;
  }

 private:
  Maps maps_{};
  std::int64_t offset_[kInlineLevels] = {};  // bytes from the first value to the level's
  bool is_used_[kInlineLevels] = {};
  decltype(&cuTensorMapReplaceAddress) replace_ = nullptr;
};

// Loads the kernels of each row of variants.inc.
constexpr Kernels (*kLoad[])(std::int64_t) = {
#define MSDA_VARIANT(type, channels, shape, sums, producers, stages, ...) \
  load_kernels<ValueType::type, channels, shape, sums, producers, stages>,
#include "rows/tma.inc"
#undef MSDA_VARIANT
};

// ---- prepare

// Tensor maps have no empty dimension: of a problem without rows there is none, and no launch.
struct TmaPlan final : Prepared {
  TmaPlan(Problem const& problem, TileTables const& tables, const Box (&sizes)[kInlineLevels],
          Device const& device)
      : maps(problem, sizes),
        queries(tables.queries, device),
        samples(tables.samples, device),
        params(make_params(problem)) {}
  PlannedMaps maps;
  DeviceArray<std::int32_t> queries;  // of a variant with windows
  DeviceArray<std::int32_t> samples;
  Params params;           // all but the buffers
  BoxParams boxes{};       // of a variant with boxes
  WindowParams windows{};  // of one with windows
  RowParams rows{};
  Kernels kernels{};
  attention::Writer attention;
  std::int64_t points_of_level = 0;
  std::int64_t shared_bytes = 0;
  std::int64_t blocks = 0;
  std::int64_t row_blocks = 0;
  bool has_output_vectors = false;  // as far as strides say
};

// As many blocks as SMs hold; a plan that keeps to some SMs has one on each.
std::int64_t blocks_for(std::int64_t work, std::int64_t shared_bytes, Device const& device) {
  constexpr std::int64_t kMaxOfSm = 2;           // by their registers
  constexpr std::int64_t kReservedBytes = 2048;  // of each block, the kernel's own and the system's
  std::int64_t const of_sm =
      device.sm_count_limit != 0
          ? 1
          : std::clamp<std::int64_t>(device.shared_bytes_per_sm / (shared_bytes + kReservedBytes),
                                     1, kMaxOfSm);
  return std::min(work, of_sm * device.sm_count);
}

void plan_boxes(TmaPlan& plan, Entry const& entry, Problem const& problem, Device const& device) {
  BoxParams& boxes = plan.boxes;
  boxes.rows = plan.rows.rows;
  std::int64_t const slots = kWarp / lanes_for(entry, problem);
  boxes.jobs = divide_up(boxes.rows, slots);
  boxes.producers = entry.producers;
  boxes.stages = entry.stages;
  boxes.pixel_bytes = pixel_bytes(problem);
  boxes.box_bytes = box_bytes(boxes.pixel_bytes);
  plan.shared_bytes = box_shared_bytes(entry, problem);
  std::int64_t const consumers = kBoxWarps - entry.producers;
  plan.blocks = blocks_for(divide_up(boxes.jobs, consumers), plan.shared_bytes, device);
}

// As rows of elements; false where a stride is too large.
bool to_bytes(RowBytes& bytes, Strides const& strides, msda_dtype dtype) {
  std::int64_t const element = dtype_bytes(dtype);
  constexpr std::int64_t kMax = std::numeric_limits<std::uint32_t>::max();
  bytes = {strides.batch * element, u32(strides.row * element), u32(strides.head * element)};
  return strides.row * element <= kMax && strides.head * element <= kMax;
}

// Bytes of a row to whose multiples its coordinates have to be aligned, and of weights.
std::int64_t coord_alignment(std::int64_t points) { return points * 8; }
std::int64_t weight_alignment(std::int64_t points) { return points * 4; }

// Whether inputs and output are as WindowParams::is_plain says, wherever they lie.
bool is_plain(WindowParams& windows, Problem const& problem) {
  std::int64_t const points = points_of_level(problem);
  bool const fit = to_bytes(windows.coord, problem.coord, problem.coord_dtype) &&
                   to_bytes(windows.weight, problem.weight, problem.weight_dtype) &&
                   to_bytes(windows.output, problem.output, problem.output_dtype);
  return fit && !problem.fused() && rows::input_types(problem) == rows::inputs_f32 &&
         problem.output_dtype == problem.value_dtype &&
         strides_are_multiples(problem.coord, MSDA_DTYPE_F32, coord_alignment(points)) &&
         strides_are_multiples(problem.weight, MSDA_DTYPE_F32, weight_alignment(points));
}

void plan_windows(TmaPlan& plan, Problem const& problem, WindowMemory const& memory,
                  std::int64_t tiles, Device const& device) {
  WindowParams& windows = plan.windows;
  windows.queries = plan.queries.data();
  windows.samples = plan.samples.data();
  windows.units = i32(problem.batch * problem.head_count * tiles);
  windows.pixels = memory.pixels;
  windows.is_plain = is_plain(windows, problem);
  windows.by_tiles = rows::divider(u32(tiles));
  windows.by_heads = rows::divider(u32(problem.head_count));
  std::int32_t first_pixel = 0;
  for (std::int32_t l = 0; l < i32(problem.levels.size()); ++l) {
    Box const& window = memory.windows[l];
    if (window.columns == 0) continue;
    std::int32_t const i = windows.level_count++;
    windows.levels[i] = {l, window.columns, window.rows, first_pixel};
    windows.first_byte[i] = u32(first_pixel * kPixelBytes);
    windows.row_bytes[i] = u32(window.columns * kPixelBytes);
    first_pixel += window.columns * window.rows;
  }
  plan.shared_bytes = memory.shared_bytes;
  plan.blocks = std::min<std::int64_t>(windows.units, device.sm_count);
}

PreparedPtr prepare(Variant const& variant, Problem const& problem, Device const& device,
                    std::pmr::memory_resource* memory) {
  Entry const& entry = kTable[variant];
  bool const is_empty = row_count(problem) == 0;
  TileTables tables;
  WindowMemory windows;
  std::int64_t tile_count = 0;
  if (entry.shape == win && !is_empty) {
    std::int64_t const rows_of_tile = tile_rows(points_of_level(problem));
    rows::QueryTiles const tiles = rows::make_query_tiles(problem, rows_of_tile, device.sm_count);
    windows = window_memory(problem, tiles, entry.sums == h, device);
    tables = tables_of(tiles, rows_of_tile);
    tile_count = static_cast<std::int64_t>(tiles.begin.size()) - 1;
  } else if (!is_empty) {
    for (std::size_t l = 0; l < problem.levels.size(); ++l) {
      if (problem.levels[l].point_count > 0) windows.windows[l] = {2, 2};
    }
  }
  PreparedPtr prepared = make_prepared<TmaPlan>(memory, problem, tables, windows.windows, device);
  auto& plan = static_cast<TmaPlan&>(*prepared);
  plan.rows.rows = row_count(problem);
  plan.has_output_vectors = strides_are_multiples(problem.output, problem.output_dtype, kVecBytes);
  plan.attention = attention::prepare(problem, device, plan);
  if (is_empty) return prepared;
  if (entry.shape == box) {
    plan_boxes(plan, entry, problem, device);
  } else {
    plan_windows(plan, problem, windows, tile_count, device);
  }
  std::int64_t const block_rows = std::int64_t{kBoxWarps} * (kWarp / lanes_for(entry, problem));
  plan.row_blocks = blocks_for(divide_up(plan.rows.rows, block_rows), 0, device);
  plan.kernels = kLoad[kTable.index_of(variant)](
      device.shared_bytes_per_block -
      (entry.shape == win ? kWindowStaticBytes : kStaticSharedBytes));
  plan.points_of_level = points_of_level(problem);
  return prepared;
}

// ---- launch

void launch(Variant const& variant, Launch const& launch) {
  auto const& plan = static_cast<TmaPlan const&>(*launch.prepared);
  if (plan.rows.rows == 0) return;
  Params const params = with_buffers(plan.params, launch.call);
  bool const aligned_output = plan.has_output_vectors && is_aligned(params.output, kMapAlignment);
  auto* const stream = static_cast<cudaStream_t>(launch.call.stream);
  attention::launch(plan.attention, params, stream);
  if (!is_aligned(params.value, kMapAlignment)) {
    RowParams rows = plan.rows;
    rows.aligned_output = aligned_output;
    launch_overlapping(plan.kernels.rows, {.blocks = plan.row_blocks, .threads = kBoxWarps * kWarp},
                       stream, params, rows);
    return;
  }
  LaunchOptions options{
      .blocks = plan.blocks, .threads = kBoxWarps * kWarp, .shared_bytes = plan.shared_bytes};
  if (kTable[variant].shape == box) {
    BoxParams boxes = plan.boxes;
    boxes.aligned_output = aligned_output;
    launch_overlapping(plan.kernels.boxes, options, stream, plan.maps.at(params.value), params,
                       boxes);
  } else {
    WindowParams windows = plan.windows;
    windows.aligned_output = aligned_output;
    windows.is_plain = windows.is_plain && aligned_output &&
                       is_aligned(params.coord, coord_alignment(plan.points_of_level)) &&
                       is_aligned(params.weight, weight_alignment(plan.points_of_level));
    options.threads = kWindowWarps * kWarp;
    auto const& kernels = plan.kernels.windows[plan.points_of_level == 8 ? 1 : 0];
    launch_overlapping(kernels[windows.is_plain ? 1 : 0], options, stream,
                       plan.maps.at(params.value), params, windows);
  }
}

}  // namespace

extern const FamilyCode kCode = {prepare, launch};

}  // namespace msda::tma
