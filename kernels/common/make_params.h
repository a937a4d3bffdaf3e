// From the canonical problem and call to what kernels are handed.
#pragma once

#include "core/device.h"
#include "core/problem.h"
#include "kernels/common/params.h"

#include <cstddef>

namespace msda {

// The levels in device memory, for problems with more of them than Params holds; else nothing. Kept
// by a plan.
class FarLevels {
 public:
  // The device has to be the current one.
  FarLevels(Problem const& problem, Device const& device);
  ~FarLevels();
  FarLevels(FarLevels const&) = delete;
  FarLevels& operator=(FarLevels const&) = delete;

  const LevelParams* data() const { return data_; }

 private:
  Device const& device_;
  LevelParams* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Everything but the buffers.
Params make_params(Problem const& problem, FarLevels const& far_levels);
void set_buffers(Params& params, Call const& call);

}  // namespace msda
