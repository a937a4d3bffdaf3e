#include "core/family.h"

#include <array>
#include <cstddef>

namespace msda {
namespace {

struct ReasonText {
  Reason reason;
  std::string_view text;
};
constexpr auto kTexts = std::to_array<ReasonText>({
    {Reason::kNone, "accepted"},
    {Reason::kDeviceIsCuda, "runs on the CPU, the handle's device is a GPU"},
    {Reason::kDeviceIsCpu, "runs on a GPU, the handle's device is the CPU"},
    {Reason::kComputeCapability, "not for the device's compute capability"},
    {Reason::kSharedMemory, "needs more shared memory than a block has on the device"},
    {Reason::kVectorUnit,
     "needs vector instructions that this processor has not; msda info names them"},
    {Reason::kOperation, "does not do this operation"},
    {Reason::kInputMode, "does not take this input_mode"},
    {Reason::kValueDtype, "does not take this value_dtype"},
    {Reason::kCoordDtype, "does not take this coord_dtype"},
    {Reason::kReferenceDtype, "does not take this reference_dtype"},
    {Reason::kWeightDtype, "does not take this weight_dtype"},
    {Reason::kHeadDim, "does not take this head_dim"},
    {Reason::kHeadCount, "does not take this head_count"},
    {Reason::kLevels, "does not take these levels"},
    {Reason::kPoints, "does not take these point counts"},
    {Reason::kStrides, "does not take these strides"},
    {Reason::kMathMode, "does not do this math_mode"},
    {Reason::kDeterminism, "does not give this determinism"},
    {Reason::kTooLarge, "a tensor is too large for its index type"},
    {Reason::kWorkspaceLimit, "needs more workspace than workspace_limit_bytes"},
    {Reason::kSmLimit, "does not keep to sm_count_limit"},
    {Reason::kMapLevels, "its tensor maps and records take levels of 1 to 65534 columns and rows"},
    {Reason::kMapStrides,
     "its tensor maps take strides of value that are multiples of 16 bytes below 2^40, "
     "from token to token at least a head"},
    {Reason::kClusters, "needs clusters of more blocks than the device has multiprocessors"},
    {Reason::kOverlap, "does not compute gradients of levels that overlap"},
    {Reason::kSamplingMode, "does not do this sampling_mode"},
});

constexpr bool has_all_in_order() {
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    if (kTexts[i].reason != static_cast<Reason>(i)) return false;
  }
  return kTexts.back().reason == Reason::kSamplingMode;  // the last
}
static_assert(has_all_in_order(), "the texts stand in the order of the enumerators");

}  // namespace

std::string_view reason_text(Reason reason) {
  auto const index = static_cast<std::size_t>(reason);
  return index < kTexts.size() ? kTexts[index].text : "unknown reason";
}

}  // namespace msda
