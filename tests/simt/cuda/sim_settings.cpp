#include "cuda/sim_settings.h"

#include "runtime/thread_schedule.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace simt::cuda {
namespace {

[[noreturn]] void refuse(const char* name, const char* text, const char* allowed) {
  std::fprintf(stderr, "%s is '%s'; allowed is %s\n", name, text, allowed);
  std::fflush(nullptr);
  std::_Exit(2);  // what runs at a normal exit may need the settings
}

struct NumberSetting {
  const char* name;
  std::uint64_t least, most;
  const char* allowed;
};

template <typename Number>
void read_number(Number& value, NumberSetting const& setting) {
  const char* const text = std::getenv(setting.name);
  if (text == nullptr || *text == '\0') return;
  char* end = nullptr;
  errno = 0;
  std::uint64_t const number = std::strtoull(text, &end, 0);
  bool const is_number = errno == 0 && *end == '\0' && *text != '-';
  if (!is_number || number < setting.least || number > setting.most) {
    refuse(setting.name, text, setting.allowed);
  }
  value = static_cast<Number>(number);
}

template <typename Choice>
struct NamedChoice {
  std::string_view name;
  Choice choice;
};

template <typename Choice, std::size_t kCount>
void read_choice(Choice& value, const char* name, const NamedChoice<Choice> (&choices)[kCount],
                 const char* allowed) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return;
  for (NamedChoice<Choice> const& choice : choices) {
    if (choice.name == text) {
      value = choice.choice;
      return;
    }
  }
  refuse(name, text, allowed);
}

}  // namespace

Settings settings_of_environment() {
  Settings s;
  read_number(s.device_count, {"MSDA_SIMT_DEVICES", 0, kMaxDevices, "0 to 8"});
  read_number(s.capability, {"MSDA_SIMT_CAPABILITY", 75, 121, "75 to 121"});
  read_number(s.sm_count, {"MSDA_SIMT_SM_COUNT", 1, 132, "1 to 132"});
  std::size_t megabytes = s.memory_bytes >> 20;
  read_number(megabytes, {"MSDA_SIMT_MEMORY_MB", 1, 1 << 20, "1 to 1048576"});
  s.memory_bytes = megabytes << 20;
  s.seed = chosen_schedule().seed;
  constexpr NamedChoice<WorkTime> kTimes[] = {
      {"late", WorkTime::kLate}, {"early", WorkTime::kEarly}, {"mixed", WorkTime::kMixed}};
  read_choice(s.work_time, "MSDA_SIMT_WORK", kTimes, "late, early or mixed");
  read_number(s.has_peer_access, {"MSDA_SIMT_PEER_ACCESS", 0, 1, "0 or 1"});
  constexpr NamedChoice<LeakPolicy> kLeaks[] = {{"ignore", LeakPolicy::kIgnore},
                                                {"report", LeakPolicy::kReport},
                                                {"fail", LeakPolicy::kFail}};
  read_choice(s.leaks, "MSDA_SIMT_LEAKS", kLeaks, "ignore, report or fail");
  return s;
}

}  // namespace simt::cuda
