#include "cpu/simd_targets.h"

#define HWY_DISABLED_TARGETS MSDA_SIMD_DISABLED_TARGETS
#include <hwy/highway.h>

namespace msda {

std::string simd_targets() {
  std::int64_t const usable = HWY_TARGETS & hwy::SupportedTargets();
  std::string text;
  // Highway numbers its targets from the best to the plainest.
  bool used = false;
  for (std::int64_t bit = 1; bit > 0; bit <<= 1) {
    if ((HWY_TARGETS & bit) == 0) continue;
    text += text.empty() ? "" : ", ";
    text += hwy::TargetName(bit);
    if (!used && (usable & bit) != 0) {
      text += " (used here)";
      used = true;
    }
    if (bit == HWY_STATIC_TARGET) break;
  }
  return text;
}

const char* simd_target() {
  std::int64_t const usable = HWY_TARGETS & hwy::SupportedTargets();
  return hwy::TargetName(usable & -usable);  // the lowest bit is the best target
}

}  // namespace msda
