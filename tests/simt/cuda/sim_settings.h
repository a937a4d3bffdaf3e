// What the simulated devices are like. Environment variables set it when the library is first used;
// tests change it through sim_control.h.
//
// clang-format off
// | variable              | default | meaning                                                      |
// |-----------------------|---------|--------------------------------------------------------------|
// | MSDA_SIMT_DEVICES     | 2       | devices, 0 to 8; with 0 there is no device to be found       |
// | MSDA_SIMT_CAPABILITY  | 90      | compute capability of all, 10 major + minor: 75 to 121       |
// | MSDA_SIMT_SM_COUNT    | 3       | multiprocessors of each, 1 to 132                            |
// | MSDA_SIMT_MEMORY_MB   | 4096    | memory of each: what does not fit is refused                 |
// | MSDA_SIMT_WORK        | late    | late: work runs when it is waited for, or queried; early:    |
// |                       |         | within the call that gives it; mixed: by the seed            |
// | MSDA_SIMT_PEER_ACCESS | 1       | whether devices can be given access to each other's memory   |
// | MSDA_SIMT_LEAKS       | report  | what the process leaves behind: ignore, report on stderr, or |
// |                       |         | fail: also exit with status 86                               |
// clang-format on
//
// What else may be one way or another, such as what fresh memory holds and the order of independent
// work, follows the seed of the runtime's MSDA_SIMT_SCHEDULE (runtime/thread_schedule.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace simt::cuda {

enum class WorkTime { kLate, kEarly, kMixed };
enum class LeakPolicy { kIgnore, kReport, kFail };

inline constexpr int kMaxDevices = 8;

struct Settings {
  int device_count = 2;
  int capability = 90;
  int sm_count = 3;
  std::size_t memory_bytes = std::size_t{4096} << 20;
  std::uint64_t seed = 0;  // the schedule's
  WorkTime work_time = WorkTime::kLate;
  bool has_peer_access = true;
  LeakPolicy leaks = LeakPolicy::kReport;
};

// As the environment has them. A value that is not allowed ends the process with a message that
// names the variable and what is allowed.
Settings settings_of_environment();

}  // namespace simt::cuda
