// The tensors, and one call's buffers for them.
#pragma once

#include <msda.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace msda {

enum class Tensor : std::int32_t {
  kValue,          // [B][S][M][D]
  kCoord,          // [B][Q][M][K][2]   sampled
  kWeight,         // [B][Q][M][K]      sampled
  kReference,      // [B][Q][L][2|4]    fused, packed
  kOffset,         // [B][Q][M][K][2]   fused
  kLogit,          // [B][Q][M][K]      fused
  kValueScale,     // [M] or null
  kOutput,         // [B][Q][M][D]
  kGradOutput,     // [B][Q][M][D]
  kGradValue,      // [B][S][M][D]      packed, as are all gradients below
  kGradCoord,      // [B][Q][M][K][2]
  kGradWeight,     // [B][Q][M][K]
  kGradReference,  // [B][Q][L][2|4]
  kGradOffset,     // [B][Q][M][K][2]
  kGradLogit,      // [B][Q][M][K]
};
inline constexpr int kTensorCount = 15;

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
};

}  // namespace msda
