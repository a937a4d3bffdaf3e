#include "registry.h"

#include "core/build_config.h"

namespace msda {

// Each family defines its own kFamily; the list is kernels/families.inc and nothing else. Those of
// GPUs are there where CUDA is.
#if MSDA_HAS_CUDA
#define MSDA_FAMILY(name) MSDA_CPU_FAMILY(name)
#else
#define MSDA_FAMILY(name)
#endif

#define MSDA_CPU_FAMILY(name)  \
  namespace name {             \
  extern const Family kFamily; \
  }
#include "../kernels/families.inc"
#undef MSDA_CPU_FAMILY

namespace {

const Family* const kFamilies[] = {
#define MSDA_CPU_FAMILY(name) &name::kFamily,
#include "../kernels/families.inc"
#undef MSDA_CPU_FAMILY
};

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

KernelRef find_kernel(std::string_view id) {
  for (const Family* const family : families()) {
    for (Variant const& variant : family->variants) {
      if (variant.id == id) return {family, &variant};
    }
  }
  return {};
}

std::size_t kernel_count() {
  std::size_t count = 0;
  for (const Family* const family : families()) count += family->variants.size();
  return count;
}

KernelRef kernel_at(std::size_t index) {
  for (const Family* const family : families()) {
    if (index < family->variants.size()) return {family, &family->variants[index]};
    index -= family->variants.size();
  }
  return {};
}

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
    case Reason::kWeightDtype:
      return "does not take this weight_dtype";
    case Reason::kOutputDtype:
      return "does not write this output_dtype";
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
    case Reason::kBorder:
      return "does not take this value_border";
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
  }
  return "unknown reason";
}

}  // namespace msda
