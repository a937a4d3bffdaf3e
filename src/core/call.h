// One call's buffers.
#pragma once

#include "core/tensors.h"

#include <msda.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace msda {

// Already checked against the problem.
struct Call {
  std::array<void*, kTensorCount> buffers{};  // by Tensor, or null; inputs are only read
  std::byte* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  msda_stream stream = nullptr;

  void* operator[](Tensor tensor) const { return buffers[static_cast<std::size_t>(tensor)]; }
  float scale_of(std::int64_t m) const {
    auto const* const scale = static_cast<const float*>((*this)[Tensor::kValueScale]);
    return scale == nullptr ? 1.0f : scale[m];
  }
  // Whether the gradients of any point are asked for.
  bool wants_points() const {
    for (Tensor const tensor : {Tensor::kGradCoord, Tensor::kGradWeight, Tensor::kGradReference,
                                Tensor::kGradOffset, Tensor::kGradLogit}) {
      if ((*this)[tensor] != nullptr) return true;
    }
    return false;
  }
};

}  // namespace msda
