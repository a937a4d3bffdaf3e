// Makes what kernels are handed from the canonical problem and call.
#pragma once

#include "core/call.h"
#include "core/device.h"
#include "core/problem.h"
#include "kernels/common/device_array.h"
#include "kernels/common/params.h"

#include <cstdint>

namespace msda {

// The levels in device memory, for problems with more of them than Params holds; else nothing. Kept
// by a plan.
class FarLevels {
 public:
  // The device has to be the current one.
  FarLevels(Problem const& problem, Device const& device);

  const LevelParams* data() const { return levels_.data(); }

 private:
  DeviceArray<LevelParams> levels_;
};

// Everything but the buffers. far_levels: FarLevels::data().
Params make_params(Problem const& problem, const LevelParams* far_levels);
void set_buffers(Params& params, Call const& call);

inline bool is_aligned(const void* pointer, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) == 0;
}

}  // namespace msda
