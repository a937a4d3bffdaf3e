// What the kernels of this family and their planning know when compiled; host and device read it.
#pragma once

#include <cstdint>

namespace msda::atomic {

inline constexpr std::int32_t kRoundThreads = 256;  // of a block that rounds sums
inline constexpr std::int32_t kRoundChannels = 4;   // of a quad of sums
inline constexpr std::int32_t kRoundQuads = 4;      // of a thread

// Threads of an SM that are wanted before a slot of lanes takes more of a row's points.
inline constexpr std::int64_t kThreadsOfSm = 2048;

}  // namespace msda::atomic
