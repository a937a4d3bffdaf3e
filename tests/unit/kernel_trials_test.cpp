// The runs that the tuner asks for, on made-up kernels that write down what they are given.

#include "plan/tune.h"

#include "core/status.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <new>
#include <string>
#include <vector>

using namespace msda;

namespace {

constexpr std::size_t kSmall = 512, kLarge = 4096;

// What the kernels did, in order. They are plain functions, so it has to be global.
std::vector<std::string> diary;
std::vector<std::byte*> workspaces;
double clock_us = 0;  // moves while a kernel runs: 1 us, or 2000 where it is slow

struct Note final : Prepared {
  ~Note() override { diary.emplace_back("gone"); }
};

PreparedPtr prepare(const Variant& variant, const Problem&, const Device&,
                    std::pmr::memory_resource* memory) {
  diary.push_back(std::string("prepare ") + variant.id);
  if (std::string_view(variant.id) == "unprepared") fail(MSDA_ERROR_CUDA, "no table");
  if (std::string_view(variant.id) == "bare") return nullptr;
  return make_prepared<Note>(memory);
}

void launch(const Variant& variant, const Launch& launch) {
  diary.push_back(std::string("run ") + variant.id);
  workspaces.push_back(launch.call.workspace);
  if (launch.call.workspace != nullptr) {
    std::fill_n(launch.call.workspace, launch.call.workspace_bytes, std::byte{1});
  }
  if (std::string_view(variant.id) == "broken") fail(MSDA_ERROR_CUDA, "launch refused");
  clock_us += std::string_view(variant.id) == "slow" ? 2000 : 1;
}

constexpr Variant kVariants[] = {{"first", MSDA_DTYPE_F32},
                                 {"slow", MSDA_DTYPE_F32},
                                 {"broken", MSDA_DTYPE_F32},
                                 {"unprepared", MSDA_DTYPE_F32},
                                 {"bare", MSDA_DTYPE_F32}};
constexpr FamilyModel kModel{"fake", kVariants, nullptr, nullptr};
constexpr FamilyCode kCode{prepare, launch};
constexpr Family kFamily{kModel, &kCode};

class CountingMemory final : public std::pmr::memory_resource {
 public:
  std::map<void*, std::size_t> live;
  std::size_t limit = SIZE_MAX;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (bytes > limit) throw std::bad_alloc();
    void* const pointer = ::operator new(bytes, std::align_val_t{alignment});
    live[pointer] = bytes;
    return pointer;
  }
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override {
    CHECK(live[pointer] == bytes);
    live.erase(pointer);
    ::operator delete(pointer, bytes, std::align_val_t{alignment});
  }
  bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
    return this == &other;
  }
};

Ranked ranked(std::size_t variant, std::size_t workspace_bytes = 0) {
  return {{&kFamily, &kVariants[variant]}, Reason::kNone, {}, 1, workspace_bytes};
}

struct LogBook {
  std::vector<std::string> lines;
  Log log{[](void* user, msda_log_level, const char* message, std::size_t) {
            static_cast<LogBook*>(user)->lines.emplace_back(message);
          },
          this, MSDA_LOG_WARN};
};

struct Stage {
  Problem problem{std::pmr::new_delete_resource()};
  Device device;
  Call call;
  CountingMemory memory, scratch;
  LogBook book;
  TrialSetting setting{problem, device, call, memory, scratch, book.log};

  Stage() {
    diary.clear();
    workspaces.clear();
    clock_us = 1e9;
    device.clock = [] { return clock_us; };
  }
  ~Stage() {
    CHECK(memory.live.empty());
    CHECK(scratch.live.empty());
  }
};

}  // namespace

TEST_CASE("a kernel is prepared once and runs as often as asked") {
  Stage stage;
  {
    std::vector<Ranked> const kernels = {ranked(0), ranked(4)};
    KernelTrials trials(kernels, stage.setting);
    CHECK(trials.run_us(0, 2).has_value());
    CHECK(trials.run_us(1, 1).has_value());  // prepare() may return nothing
    CHECK(trials.run_us(1, 1).has_value());
    CHECK(trials.run_us(0, 1).has_value());
    CHECK(diary == std::vector<std::string>{"prepare first", "run first", "run first",
                                            "prepare bare", "run bare", "run bare", "run first"});
    PreparedPtr const kept = trials.take_prepared(0);
    CHECK(kept != nullptr);
    CHECK(trials.take_prepared(1) == nullptr);
  }
  CHECK(diary.back() == "gone");
  CHECK(std::count(diary.begin(), diary.end(), "gone") == 1);
}

TEST_CASE("the time is that of one run") {
  Stage stage;
  std::vector<Ranked> const kernels = {ranked(1)};
  KernelTrials trials(kernels, stage.setting);
  CHECK(*trials.run_us(0, 3) == 2000);
  CHECK(trials.elapsed_ms() == 6);
}

TEST_CASE("kernels that fail are left out with a line in the log and the first one throws") {
  Stage stage;
  std::vector<Ranked> const kernels = {ranked(0), ranked(2), ranked(3)};
  KernelTrials trials(kernels, stage.setting);
  CHECK(trials.run_us(0, 1).has_value());
  CHECK_FALSE(trials.run_us(1, 1).has_value());
  CHECK_FALSE(trials.run_us(2, 1).has_value());
  CHECK(trials.run_us(0, 1).has_value());
  CHECK(stage.book.lines == std::vector<std::string>{"tune: broken is left out: launch refused",
                                                     "tune: unprepared is left out: no table"});
  std::vector<Ranked> const broken = {ranked(2)};
  KernelTrials none(broken, stage.setting);
  CHECK_THROWS_WITH(none.run_us(0, 1), "launch refused");
}

TEST_CASE("the own workspace grows to what a kernel needs") {
  Stage stage;
  std::vector<Ranked> const kernels = {ranked(0), ranked(1, kSmall), ranked(4, kLarge)};
  KernelTrials trials(kernels, stage.setting);
  trials.run_us(0, 1);
  CHECK(workspaces.back() == nullptr);
  CHECK(stage.scratch.live.empty());
  trials.run_us(1, 1);
  REQUIRE(workspaces.back() != nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(workspaces.back()) % Arena::kAlignment == 0);
  CHECK(stage.scratch.live.begin()->second == kSmall);
  trials.run_us(2, 1);
  CHECK(stage.scratch.live.size() == 1);
  CHECK(stage.scratch.live.begin()->second == kLarge);
  trials.run_us(1, 1);  // enough is there
  CHECK(stage.scratch.live.begin()->second == kLarge);
}

TEST_CASE("a workspace that cannot be had leaves its kernel out alone") {
  Stage stage;
  stage.scratch.limit = kSmall;
  std::vector<Ranked> const kernels = {ranked(0, kSmall), ranked(4, kLarge)};
  KernelTrials trials(kernels, stage.setting);
  CHECK(trials.run_us(0, 1).has_value());
  CHECK_FALSE(trials.run_us(1, 1).has_value());
  CHECK(trials.run_us(0, 1).has_value());
  REQUIRE(workspaces.back() != nullptr);
  CHECK(stage.scratch.live.contains(workspaces.back()));
}

TEST_CASE("the caller's workspace is used and none is taken") {
  Stage stage;
  alignas(Arena::kAlignment) std::byte given[kLarge];
  stage.call.workspace = given;
  stage.call.workspace_bytes = kLarge;
  std::vector<Ranked> const kernels = {ranked(0, kSmall), ranked(4, kLarge)};
  KernelTrials trials(kernels, stage.setting);
  trials.run_us(0, 1);
  trials.run_us(1, 1);
  CHECK(workspaces == std::vector<std::byte*>{given, given});
  CHECK(stage.scratch.live.empty());
}

TEST_CASE("tuned by real runs the faster kernel wins and a broken one does not") {
  Stage stage;
  std::vector<Ranked> const kernels = {ranked(1), ranked(2), ranked(0, kLarge)};
  std::vector<double> const predicted_us = {1, 1, 1};
  KernelTrials trials(kernels, stage.setting);
  Choice const choice = choose_by_time(predicted_us, 10'000, trials);
  CHECK(choice.kernel == 2);
  CHECK(choice.is_measured);
  CHECK(choice.median_us == 1);
  CHECK(choice.heuristic_us == 2000);
  CHECK(diary.back() == "run first");
  CHECK(std::count(diary.begin(), diary.end(), "run broken") == 1);
}
