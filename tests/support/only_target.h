// Lets the SIMD family see a machine of fewer instruction sets.
#pragma once

#include "cpu/simd_targets.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>
#define HWY_DISABLED_TARGETS MSDA_SIMD_DISABLED_TARGETS
#include <hwy/highway.h>

namespace msda::test {

// While it lives, the SIMD family sees a machine with this instruction set alone.
struct OnlyTarget {
  explicit OnlyTarget(std::int64_t target) { see(target); }
  ~OnlyTarget() { see(0); }
  OnlyTarget(OnlyTarget const&) = delete;
  static void see(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

// Targets of this machine that have vectors.
inline std::vector<std::int64_t> vector_targets() {
  std::vector<std::int64_t> targets;
  for (std::int64_t const target : hwy::SupportedAndGeneratedTargets()) {
    if (target != HWY_SCALAR) targets.push_back(target);
  }
  return targets;
}

// Calls check(name of the target) with each of them alone.
template <typename Check>
void on_every_target(Check check) {
  for (std::int64_t const target : vector_targets()) {
    std::string const name = hwy::TargetName(target);
    CAPTURE(name);
    OnlyTarget const only(target);
    check(name);
  }
}

}  // namespace msda::test
