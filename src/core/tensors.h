// The table of tensors (core/tensors.inc) as an enumeration and as data.
#pragma once

#include <msda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace msda {

enum class Tensor : std::int32_t {
#define MSDA_TENSOR(name, id, ...) id,
#include "core/tensors.inc"
#undef MSDA_TENSOR
};

// The modes of a problem that a tensor belongs to, as bits; a problem must have all of them.
enum TensorMode : unsigned { kAnyMode = 0, kForward = 1, kBackward = 2, kSampled = 4, kFused = 8 };
enum class TensorRole { kInput, kOptionalInput, kResult, kOptionalResult, kExtraResult };

struct TensorInfo {
  Tensor id;
  std::string_view name;
  std::string_view axes;
  unsigned modes;
  TensorRole role;
  std::size_t field;  // offset of its pointer in msda_tensors

  bool belongs_to(bool is_backward, bool is_fused) const {
    unsigned const mode = (is_backward ? kBackward : kForward) | (is_fused ? kFused : kSampled);
    return (modes & ~mode) == 0;
  }
  bool is_result() const {
    return role == TensorRole::kResult || role == TensorRole::kOptionalResult || is_extra();
  }
  bool is_extra() const { return role == TensorRole::kExtraResult; }
  bool may_be_null() const {
    return role == TensorRole::kOptionalInput || role == TensorRole::kOptionalResult || is_extra();
  }
};

inline constexpr auto kTensors = std::to_array<TensorInfo>({
#define MSDA_TENSOR(name, id, axes, dtype, strides, modes, role) \
  {Tensor::id, #name, #axes, modes, TensorRole::role, offsetof(msda_tensors, name)},
#include "core/tensors.inc"
#undef MSDA_TENSOR
});
inline constexpr std::size_t kTensorCount = kTensors.size();

constexpr TensorInfo const& tensor_info(Tensor tensor) {
  return kTensors[static_cast<std::size_t>(tensor)];
}

// A base to name the columns `dtype` and `strides` of the table from: &TensorColumns<P>::field is a
// pointer to the member of P, or null where the column says that P has none.
template <typename P>
struct TensorColumns : P {
  static constexpr std::nullptr_t float32 = nullptr;
  static constexpr std::nullptr_t packed = nullptr, packed_strides = nullptr;
};
template <typename Member, typename P>
constexpr Member P::* member_or_null(Member P::* member) {
  return member;
}
constexpr std::nullptr_t member_or_null(const std::nullptr_t*) { return nullptr; }

}  // namespace msda
