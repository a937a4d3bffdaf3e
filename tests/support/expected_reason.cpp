#include "support/expected_reason.h"

#include "support/tolerance.h"

#include "core/dtype.h"

#include <algorithm>
#include <stdexcept>

namespace msda::test {
namespace {

std::string family_of(std::string const& kernel_id) {
  return kernel_id.substr(0, kernel_id.find('.'));
}

// Part 2 of "direct.sm75.f16.d32.p4@1" is "f16".
std::string part_of(std::string const& kernel_id, int part) {
  std::size_t begin = 0;
  for (int i = 0; i < part; ++i) begin = kernel_id.find('.', begin) + 1;
  return kernel_id.substr(begin, kernel_id.find_first_of(".@", begin) - begin);
}

// The ids say "f8" for F8_E4M3.
msda_dtype dtype_of(std::string const& kernel_id) {
  std::string const name = part_of(kernel_id, 2);
  if (auto const found = type_from_name(name == "f8" ? "f8_e4m3" : name)) return *found;
  throw std::runtime_error("no dtype in kernel id " + kernel_id);
}

bool levels_overlap(ProblemShape const& shape) {
  std::vector<std::int64_t> const starts = shape.level_starts();
  for (std::size_t l = 0; l < starts.size(); ++l) {
    for (std::size_t other = 0; other < l; ++other) {
      std::int64_t const begin = std::max(starts[l], starts[other]);
      if (begin < starts[l] + shape.level_tokens(shape.levels[l]) &&
          begin < starts[other] + shape.level_tokens(shape.levels[other])) {
        return true;
      }
    }
  }
  return false;
}

constexpr const char* kOverlapReason = "does not compute gradients of levels that overlap";

std::string simd_reason(std::string const& kernel_id, ProblemShape const& shape) {
  if (shape.value_dtype != dtype_of(kernel_id)) return "does not take this value_dtype";
  return shape.backward() && levels_overlap(shape) ? kOverlapReason : "";
}

bool is_packed(ProblemShape const& shape, TensorId id) {
  TensorLayout const layout = layout_of(shape, id);
  return layout.strides == packed(layout.dims);
}

// Of kernels that work on whole rows; `multiple` is what the channels have to be one of, `points`
// what a variant says of the points of every level.
std::string row_reason(std::string const& kernel_id, std::string const& points,
                       ProblemShape const& shape, std::int64_t multiple, std::int64_t min_points,
                       std::int64_t max_points) {
  if (shape.backward()) return "does not do this operation";
  if (shape.coord_dtype == MSDA_DTYPE_F64) return "does not take this coord_dtype";
  if (shape.weight_dtype == MSDA_DTYPE_F64) return "does not take this weight_dtype";
  std::int64_t const D = shape.head_dim;
  std::int64_t const most = std::stoll(part_of(kernel_id, 3).substr(1));
  std::int64_t const least = most == multiple ? multiple : most / 2 + 1;
  if (D % multiple != 0 || D < least || D > most) return "does not take this head_dim";
  if (shape.levels.size() > 16) return "does not take these levels";
  for (LevelShape const& level : shape.levels) {
    if (level.height > 1 << 24 || level.width > 1 << 24) return "does not take these levels";
  }
  bool const few = points == "pfew", any = few || points == "pany";
  for (LevelShape const& level : shape.levels) {
    if (!any && level.points != std::stoi(points.substr(1))) {
      return "does not take these point counts";
    }
  }
  if ((any && shape.point_total() > (few ? 8 : max_points)) || shape.point_total() < min_points) {
    return "does not take these point counts";
  }
  TensorId const coord = shape.fused() ? TensorId::kOffset : TensorId::kCoord;
  TensorId const weight = shape.fused() ? TensorId::kLogit : TensorId::kWeight;
  for (TensorId const id : {coord, weight, TensorId::kOutput}) {
    if (!is_packed(shape, id)) return "does not take these strides";
  }
  return "";
}

std::string direct_reason(std::string const& kernel_id, ProblemShape const& shape) {
  if (shape.value_dtype != dtype_of(kernel_id)) return "does not take this value_dtype";
  if (part_of(kernel_id, 3) == "dany") return "";
  return row_reason(kernel_id, part_of(kernel_id, 4), shape, 8, 0, 512);
}

std::string pipeline_reason(std::string const& kernel_id, ProblemShape const& shape) {
  if (shape.value_dtype != dtype_of(kernel_id)) return "does not take this value_dtype";
  return row_reason(kernel_id, "pany", shape, 8, 0, 512);
}

// Backward alone; rows of 16 bytes, strides and types of any kind.
std::string sorted_reason(std::string const& kernel_id, ProblemShape const& shape) {
  if (shape.value_dtype != dtype_of(kernel_id)) return "does not take this value_dtype";
  if (!shape.backward()) return "does not do this operation";
  if (levels_overlap(shape)) return kOverlapReason;
  if (shape.coord_dtype == MSDA_DTYPE_F64) return "does not take this coord_dtype";
  if (shape.weight_dtype == MSDA_DTYPE_F64) return "does not take this weight_dtype";
  std::int64_t const D = shape.head_dim;
  if (D % 8 != 0 || D < 8 || D > 256) return "does not take this head_dim";
  double cells = 0;
  for (LevelShape const& level : shape.levels) {
    if (level.height > 1 << 24 || level.width > 1 << 24) return "does not take these levels";
    cells += (level.width + 1.0) * (level.height + 1.0);
  }
  auto const tokens = layout_of(shape, TensorId::kValue).dims[1];
  double const points =
      static_cast<double>(shape.query_count) * static_cast<double>(shape.point_total());
  bool const fits = tokens <= INT32_MAX && shape.query_count <= INT32_MAX && points <= INT32_MAX &&
                    cells < 1 << 26 && shape.batch * shape.head_count < INT32_MAX &&
                    shape.batch * shape.query_count < INT32_MAX;
  return fits ? "" : "a tensor is too large for its index type";
}

// As sorted_reason(), but for limits of size.
std::string atomic_reason(std::string const& kernel_id, ProblemShape const& shape) {
  if (shape.value_dtype != dtype_of(kernel_id)) return "does not take this value_dtype";
  if (!shape.backward()) return "does not do this operation";
  if (shape.coord_dtype == MSDA_DTYPE_F64) return "does not take this coord_dtype";
  if (shape.weight_dtype == MSDA_DTYPE_F64) return "does not take this weight_dtype";
  std::int64_t const D = shape.head_dim;
  if (D % 8 != 0 || D < 8 || D > 256) return "does not take this head_dim";
  for (LevelShape const& level : shape.levels) {
    if (level.height > 1 << 24 || level.width > 1 << 24) return "does not take these levels";
  }
  double points = 1;
  for (std::int64_t const size :
       {shape.batch, shape.query_count, shape.head_count, std::int64_t{shape.point_total()}}) {
    points *= std::max(1.0, static_cast<double>(size));
  }
  bool const fits = points <= INT32_MAX && layout_of(shape, TensorId::kValue).dims[1] <= INT32_MAX;
  return fits ? "" : "a tensor is too large for its index type";
}

// Part 5 of "persistent.sm80.f16.d32.p4.h1@1", "tma.sm90.f16.d32.win.h.p1n4@1" and
// "cluster.sm90.f16.d32.p4.h1.c2@1".
bool sums_in_float16(std::string const& kernel_id) {
  std::string const family = family_of(kernel_id);
  return (family == "persistent" || family == "tma" || family == "cluster") &&
         part_of(kernel_id, 5).front() == 'h';
}

// What a tensor map of each level says: channels, x, y, head, batch item.
std::string tensor_map_reason(ProblemShape const& shape) {
  auto const layout = layout_of(shape, TensorId::kValue);
  std::int64_t const bytes = dtype_bytes(shape.value_dtype);
  std::int64_t const token = layout.strides[1] * bytes;
  for (LevelShape const& level : shape.levels) {
    bool const is_empty = level.width == 0 || level.height == 0;
    if (level.width > 65534 || level.height > 65534 || (is_empty && level.points > 0)) {
      return "its tensor maps and records take levels of 1 to 65534 columns and rows";
    }
  }
  std::string const strides =
      "its tensor maps take strides of value that are multiples of 16 bytes below 2^40, from token "
      "to token at least a head";
  auto const is_wrong = [](std::int64_t stride) {
    return stride % 16 != 0 || stride <= 0 || stride >= std::int64_t{1} << 40;
  };
  if (token < shape.head_dim * bytes || is_wrong(token)) return strides;
  if (shape.head_count > 1 && is_wrong(layout.strides[2] * bytes)) return strides;
  if (shape.batch > 1 && is_wrong(layout.strides[0] * bytes)) return strides;
  for (LevelShape const& level : shape.levels) {
    if (level.height > 1 && is_wrong((level.width + 2 * shape.value_border) * token)) {
      return strides;
    }
  }
  return "";
}

std::string tma_reason(std::string const& kernel_id, ProblemShape const& shape) {
  if (shape.value_dtype != dtype_of(kernel_id)) return "does not take this value_dtype";
  if (shape.backward()) return "does not do this operation";
  if (shape.coord_dtype == MSDA_DTYPE_F64) return "does not take this coord_dtype";
  if (shape.weight_dtype == MSDA_DTYPE_F64) return "does not take this weight_dtype";
  std::int64_t const most = std::stoll(part_of(kernel_id, 3).substr(1));
  std::int64_t const D = shape.head_dim;
  if (D % 8 != 0 || D <= most / 2 || D > most) return "does not take this head_dim";
  if (shape.levels.size() > 16) return "does not take these levels";
  for (LevelShape const& level : shape.levels) {
    if (level.height > 1 << 24 || level.width > 1 << 24) return "does not take these levels";
  }
  if (shape.point_total() < 1 || shape.point_total() > 512)
    return "does not take these point counts";
  if (part_of(kernel_id, 5) == "h" && shape.math_mode != MSDA_MATH_FAST) {
    return "does not do this math_mode";
  }
  return tensor_map_reason(shape);
}

// Of what keeps levels: some fit 172 KB, of the heads whose channels fill a line of 128 bytes.
std::string keeping_reason(ProblemShape const& shape) {
  if (shape.fused()) return "does not take this input_mode";
  if (shape.head_dim != 32) return "does not take this head_dim";
  if (shape.head_count != 1 && shape.head_count != 8) return "does not take this head_count";
  std::int64_t const row_bytes = shape.head_dim * dtype_bytes(shape.value_dtype);
  std::int64_t const pixel_bytes = shape.head_count == 1 ? row_bytes : 128;
  bool any_fits = false;
  for (LevelShape const& level : shape.levels) {
    std::int64_t const row_tokens = level.width + 2 * shape.value_border;
    if (level.width < 2 || level.height < 2) return "does not take these levels";
    if (row_tokens * (level.height + 2) >= 1 << 24) return "does not take these levels";
    std::int64_t const bytes = (row_tokens * (level.height - 1) + level.width) * pixel_bytes;
    any_fits = any_fits || (bytes + 127) / 128 * 128 <= (172 << 10) - 128;
  }
  auto const strides = layout_of(shape, TensorId::kValue).strides;
  if (strides[1] != shape.head_count * 32 || strides[2] != 32 ||
      strides[0] * dtype_bytes(shape.value_dtype) % 16 != 0) {
    return "does not take these strides";
  }
  return any_fits ? "" : "does not take these levels";
}

// Of a level. Fewer where rows of 64 bytes do not come in pairs.
std::int64_t max_pixels_in_halves(std::string const& kernel_id, ProblemShape const& shape) {
  std::int64_t const channels = std::stoll(part_of(kernel_id, 3).substr(1));
  std::int64_t const row_bytes = channels * dtype_bytes(shape.value_dtype);
  return row_bytes == 64 && shape.head_count % 2 != 0 ? 1 << 16 : 1 << 17;
}

// `reason`: why the same sums in float32 would not be formed.
std::string in_halves_reason(std::string const& kernel_id, ProblemShape const& shape,
                             std::string const& reason) {
  // Strides are asked for last.
  bool const only_strides = reason == "does not take these strides";
  if (!reason.empty() && !only_strides) return reason;
  if (shape.math_mode != MSDA_MATH_FAST) return "does not do this math_mode";
  for (LevelShape const& level : shape.levels) {
    std::int64_t const row_tokens = level.width + 2 * shape.value_border;
    if (row_tokens * level.height > max_pixels_in_halves(kernel_id, shape)) {
      return "does not take these levels";
    }
  }
  for (LevelShape const& level : shape.levels) {
    if (level.points % 4 != 0) return "does not take these point counts";
  }
  return reason;
}

std::string persistent_reason(std::string const& kernel_id, ProblemShape const& shape) {
  if (shape.value_dtype != dtype_of(kernel_id)) return "does not take this value_dtype";
  std::string reason = row_reason(kernel_id, part_of(kernel_id, 4), shape,
                                  shape.value_dtype == MSDA_DTYPE_F8_E4M3 ? 16 : 8, 1, 256);
  if (sums_in_float16(kernel_id)) reason = in_halves_reason(kernel_id, shape, reason);
  return reason.empty() && keeps_levels(kernel_id) ? keeping_reason(shape) : reason;
}

// Blocks of a cluster: part 6 of "cluster.sm90.f16.d32.p4.h1.c2@1".
std::int64_t cluster_size(std::string const& kernel_id) {
  return std::stoll(part_of(kernel_id, 6).substr(1));
}

// Whether some level, or of its rows as many as a block has, fits 195 KB beside what a block has
// besides: 512 bytes of records for each of 14 warps, tables, and a line that alignment may take.
bool some_level_is_kept(std::string const& kernel_id, ProblemShape const& shape,
                        std::int64_t pixel_bytes) {
  std::int64_t const tables = part_of(kernel_id, 4) == "pany" ? 640 : 384;
  std::int64_t const room = (195 << 10) - 14 * 512 - tables - 128;
  bool any_fits = false;
  for (LevelShape const& level : shape.levels) {
    std::int64_t const size = level.height < 2 ? 1 : cluster_size(kernel_id);
    std::int64_t const rows = (level.height + size - 1) / size;
    std::int64_t const pixels = rows * (level.width + level.width % 2);
    any_fits = any_fits || (pixels <= 4096 && (pixels * pixel_bytes + 127) / 128 * 128 <= room);
  }
  return any_fits;
}

std::string cluster_reason(std::string const& kernel_id, ProblemShape const& shape) {
  if (shape.value_dtype != dtype_of(kernel_id)) return "does not take this value_dtype";
  std::string const reason = row_reason(kernel_id, part_of(kernel_id, 4), shape, 8, 1, 256);
  bool const only_strides = reason == "does not take these strides";
  if (!reason.empty() && !only_strides) return reason;
  if (sums_in_float16(kernel_id)) {
    if (shape.math_mode != MSDA_MATH_FAST) return "does not do this math_mode";
    for (LevelShape const& level : shape.levels) {
      std::int64_t const row_tokens = level.width + 2 * shape.value_border;
      if (row_tokens * level.height > max_pixels_in_halves(kernel_id, shape)) {
        return "does not take these levels";
      }
    }
  }
  if (only_strides) return reason;
  if (shape.fused()) return "does not take this input_mode";
  for (LevelShape const& level : shape.levels) {
    std::int64_t const row_tokens = level.width + 2 * shape.value_border;
    if (level.width < 1 || level.height < 1 || row_tokens * (level.height + 2) >= 1 << 24) {
      return "does not take these levels";
    }
  }
  std::int64_t const element_bytes = dtype_bytes(shape.value_dtype);
  std::int64_t const most_bytes = std::stoll(part_of(kernel_id, 3).substr(1)) * element_bytes;
  std::int64_t const of_line = most_bytes < 128 ? 128 / most_bytes : 1;
  std::int64_t const heads = shape.head_count % of_line == 0 ? of_line : 1;
  auto const strides = layout_of(shape, TensorId::kValue).strides;
  if ((strides[0] | strides[1] | strides[2]) * element_bytes % 16 != 0 ||
      (heads > 1 && strides[2] != shape.head_dim)) {
    return "does not take these strides";
  }
  return some_level_is_kept(kernel_id, shape, heads * shape.head_dim * element_bytes)
             ? ""
             : "needs more shared memory than a block has on the device";
}

}  // namespace

bool keeps_levels(std::string const& kernel_id) {
  if (family_of(kernel_id) == "cluster") return true;
  return family_of(kernel_id) == "persistent" && part_of(kernel_id, 5).back() == 'c';
}

bool keeps_sm_limit(std::string const& kernel_id, std::int64_t limit) {
  std::string const family = family_of(kernel_id);
  if (family == "sorted" || family == "atomic" || family == "pipeline") return false;
  if (family == "cluster") return cluster_size(kernel_id) <= limit;
  return family != "direct" || part_of(kernel_id, 3) == "dany";
}

bool is_for_gpu(std::string const& kernel_id) { return part_of(kernel_id, 1) != "cpu"; }

bool does_forward(std::string const& kernel_id) {
  return family_of(kernel_id) != "sorted" && family_of(kernel_id) != "atomic";
}

bool is_deterministic(std::string const& kernel_id) { return family_of(kernel_id) != "atomic"; }

bool multiplies_corners(std::string const& kernel_id) { return is_for_gpu(kernel_id); }

bool does_backward(std::string const& kernel_id) {
  std::string const family = family_of(kernel_id);
  if (family == "persistent" || family == "cluster" || family == "pipeline" || family == "tma") {
    return false;
  }
  return family != "direct" || part_of(kernel_id, 3) == "dany";
}

std::string expected_reason(TestHandle const& handle, std::string const& kernel_id,
                            ProblemShape const& shape) {
  std::string const reason = expected_reason(handle.on_gpu(), kernel_id, shape);
  bool const is_cluster = handle.on_gpu() && family_of(kernel_id) == "cluster";
  if (!is_cluster || cluster_size(kernel_id) <= handle.sm_count()) return reason;
  // Asked before sizes are looked at.
  for (const char* const earlier : {"operation", "value_dtype", "coord_dtype", "weight_dtype"}) {
    if (reason.ends_with(earlier)) return reason;
  }
  return "needs clusters of more blocks than the device has multiprocessors";
}

std::string expected_reason(bool on_gpu, std::string const& kernel_id, ProblemShape const& shape) {
  std::string const family = family_of(kernel_id);
  if (is_for_gpu(kernel_id) != on_gpu) {
    return on_gpu ? "runs on the CPU, the handle's device is a GPU"
                  : "runs on a GPU, the handle's device is the CPU";
  }
  if (family == "simd") return simd_reason(kernel_id, shape);
  if (family == "direct") return direct_reason(kernel_id, shape);
  if (family == "persistent") return persistent_reason(kernel_id, shape);
  if (family == "sorted") return sorted_reason(kernel_id, shape);
  if (family == "tma") return tma_reason(kernel_id, shape);
  if (family == "cluster") return cluster_reason(kernel_id, shape);
  if (family == "atomic") return atomic_reason(kernel_id, shape);
  if (family == "pipeline") return pipeline_reason(kernel_id, shape);
  return "";  // of a family that is not named here: nothing
}

Arithmetic arithmetic_of(std::string const& kernel_id) {
  bool const is_float64 = family_of(kernel_id) == "ref" || dtype_of(kernel_id) == MSDA_DTYPE_F64;
  if (is_float64) return Arithmetic::kFloat64;
  return sums_in_float16(kernel_id) ? Arithmetic::kFloat16Sums : Arithmetic::kFloat32;
}

}  // namespace msda::test
