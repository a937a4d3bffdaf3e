// cluster is a forward of packed rows that caches levels, or their rows, in the blocks of a
// cluster.
#include "core/dtype.h"
#include "support/kernel_limits.h"

namespace msda::test::cluster {
namespace {

// Parts 5 and 6 of "cluster.sm90.f16.d32.p4.h1.c2@2".
bool sums_in_float16(KernelId const& id) { return id.part(5).front() == 'h'; }
std::int64_t cluster_blocks(KernelId const& id) { return id.number(6); }

// A level's rows, dealt to the blocks, must fit 195 KB beside 512 bytes of records for each of 14
// warps, tables, and a line that alignment may take.
bool some_level_is_cached(KernelId const& id, ProblemShape const& shape, std::int64_t pixel_bytes) {
  std::int64_t const room = (195 << 10) - 14 * 512 - 384 - 128;
  bool any_fits = false;
  for (command::LevelShape const& level : shape.levels) {
    std::int64_t const blocks = level.height < 2 ? 1 : cluster_blocks(id);
    std::int64_t const rows = (level.height + blocks - 1) / blocks;
    std::int64_t const pixels = rows * (level.width + level.width % 2);
    any_fits = any_fits || (pixels <= 4096 && (pixels * pixel_bytes + 127) / 128 * 128 <= room);
  }
  return any_fits;
}

std::string reason(KernelId const& id, ProblemShape const& shape) {
  std::string const reason =
      row_reason(id, shape, {.points = id.part(4), .min_points = 1, .max_points = 256});
  if (!reason.empty() && reason != kWrongStrides) return reason;  // strides are looked at last
  if (sums_in_float16(id)) {
    if (std::string limit = float16_sums_reason(id, shape); !limit.empty()) return limit;
  }
  if (!reason.empty()) return reason;
  if (shape.fused()) return kWrongInputMode;
  for (command::LevelShape const& level : shape.levels) {
    bool const is_empty = level.width < 1 || level.height < 1;
    if (is_empty || row_tokens(shape, level) * (level.height + 2) >= 1 << 24) return kWrongLevels;
  }
  std::int64_t const element_bytes = dtype_bytes(shape.value_dtype);
  std::int64_t const row_bytes = id.channels() * element_bytes;
  std::int64_t const heads_of_line = row_bytes < 128 ? 128 / row_bytes : 1;
  std::int64_t const heads = shape.head_count % heads_of_line == 0 ? heads_of_line : 1;
  auto const strides = strides_that_count(shape, command::TensorId::kValue);
  if ((strides[0] | strides[1] | strides[2]) * element_bytes % 16 != 0 ||
      (heads > 1 && strides[2] != shape.head_dim)) {
    return kWrongStrides;
  }
  return some_level_is_cached(id, shape, heads * shape.head_dim * element_bytes)
             ? ""
             : "needs more shared memory than a block has on the device";
}

}  // namespace

extern const KernelLimits kLimits{
    .family = "cluster",
    .reason = reason,
    .does_backward = never,
    .keeps_sm_limit = [](KernelId const& id,
                         std::int64_t limit) { return cluster_blocks(id) <= limit; },
    .sums_in_float16 = sums_in_float16,
    .caches_levels = [](KernelId const&) { return true; },
    .cluster_blocks = cluster_blocks,
};

}  // namespace msda::test::cluster
