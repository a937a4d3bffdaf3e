#include "core/family.h"

namespace msda {

std::string_view reason_text(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "accepted";
    case Reason::kDeviceIsCuda:
      return "runs on the CPU, the handle's device is a GPU";
    case Reason::kDeviceIsCpu:
      return "runs on a GPU, the handle's device is the CPU";
    case Reason::kComputeCapability:
      return "not for the device's compute capability";
    case Reason::kSharedMemory:
      return "needs more shared memory than a block has on the device";
    case Reason::kVectorUnit:
      return "needs vector instructions that this processor has not; msda info names them";
    case Reason::kOperation:
      return "does not do this operation";
    case Reason::kInputMode:
      return "does not take this input_mode";
    case Reason::kValueDtype:
      return "does not take this value_dtype";
    case Reason::kCoordDtype:
      return "does not take this coord_dtype";
    case Reason::kReferenceDtype:
      return "does not take this reference_dtype";
    case Reason::kWeightDtype:
      return "does not take this weight_dtype";
    case Reason::kHeadDim:
      return "does not take this head_dim";
    case Reason::kHeadCount:
      return "does not take this head_count";
    case Reason::kLevels:
      return "does not take these levels";
    case Reason::kPoints:
      return "does not take these point counts";
    case Reason::kStrides:
      return "does not take these strides";
    case Reason::kMathMode:
      return "does not do this math_mode";
    case Reason::kDeterminism:
      return "does not give this determinism";
    case Reason::kTooLarge:
      return "a tensor is too large for its index type";
    case Reason::kWorkspaceLimit:
      return "needs more workspace than workspace_limit_bytes";
    case Reason::kSmLimit:
      return "does not keep to sm_count_limit";
    case Reason::kMapLevels:
      return "its tensor maps and records take levels of 1 to 65534 columns and rows";
    case Reason::kMapStrides:
      return "its tensor maps take strides of value that are multiples of 16 bytes below 2^40, "
             "from token to token at least a head";
    case Reason::kClusters:
      return "needs clusters of more blocks than the device has multiprocessors";
    case Reason::kOverlap:
      return "does not compute gradients of levels that overlap";
    case Reason::kSamplingMode:
      return "does not do this sampling_mode";
  }
  return "unknown reason";
}

}  // namespace msda
