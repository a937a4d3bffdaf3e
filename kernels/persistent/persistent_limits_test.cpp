// persistent is a forward of packed rows; "h" sums in float16, "c" caches levels in shared memory.
#include "core/dtype.h"
#include "support/kernel_limits.h"

namespace msda::test::persistent {
namespace {

// Part 5 of "persistent.sm90.f16.d32.p4.h1c@1"; an f says that input is fused.
bool sums_in_float16(KernelId const& id) { return id.part(5).front() == 'h'; }
bool caches_levels(KernelId const& id) { return id.part(5).find('c') != std::string::npos; }

// `reason`: why the same sums in float32 would not be formed.
std::string float16_reason(KernelId const& id, ProblemShape const& shape,
                           std::string const& reason) {
  if (!reason.empty() && reason != kWrongStrides) return reason;  // strides are looked at last
  if (std::string limit = float16_sums_reason(id, shape); !limit.empty()) return limit;
  for (command::LevelShape const& level : shape.levels) {
    if (level.points % 4 != 0) return kWrongPoints;
  }
  return reason;
}

// Some level must fit 172 KB, with the heads whose channels fill a line of 128 bytes.
std::string cache_reason(KernelId const& id, ProblemShape const& shape) {
  if (shape.fused() != id.part(5).ends_with('f')) return kWrongInputMode;
  if (shape.head_dim != 32) return kWrongHeadDim;
  if (shape.head_count != 1 && shape.head_count != 8) return "does not take this head_count";
  std::int64_t const element_bytes = dtype_bytes(shape.value_dtype);
  std::int64_t const pixel_bytes = shape.head_count == 1 ? shape.head_dim * element_bytes : 128;
  bool any_fits = false;
  for (command::LevelShape const& level : shape.levels) {
    std::int64_t const row = row_tokens(shape, level);
    if (level.width < 2 || level.height < 2 || row * (level.height + 2) >= 1 << 24)
      return kWrongLevels;
    std::int64_t const bytes = (row * (level.height - 1) + level.width) * pixel_bytes;
    any_fits = any_fits || (bytes + 127) / 128 * 128 <= (172 << 10) - 128;
  }
  auto const strides = strides_that_count(shape, command::TensorId::kValue);
  bool const is_dense = strides[1] == shape.head_count * 32 && strides[2] == 32 &&
                        strides[0] * element_bytes % 16 == 0;
  if (!is_dense) return kWrongStrides;
  return any_fits ? "" : kWrongLevels;
}

std::string reason(KernelId const& id, ProblemShape const& shape) {
  std::string reason = row_reason(id, shape,
                                  {.points = id.part(4),
                                   .multiple = shape.value_dtype == MSDA_DTYPE_F8_E4M3 ? 16 : 8,
                                   .min_points = 1,
                                   .max_points = 256});
  if (sums_in_float16(id)) reason = float16_reason(id, shape, reason);
  return reason.empty() && caches_levels(id) ? cache_reason(id, shape) : reason;
}

}  // namespace

extern const KernelLimits kLimits{.family = "persistent",
                                  .reason = reason,
                                  .does_backward = never,
                                  .sums_in_float16 = sums_in_float16,
                                  .caches_levels = caches_levels};

}  // namespace msda::test::persistent
