// How long tests wait for what should end at once: so long that a busy machine is no reason.
#pragma once

#include <chrono>

namespace msda::test {

inline constexpr std::chrono::minutes kHangLimit{10};

}  // namespace msda::test
