// Calls of random problems, forward and backward, for as long as is asked: memory does not grow,
// and a problem's results have the same bits every time.
//
//   msda_soak [--calls N] [--device N|cpu] [--seed S] [--threads N] [--problems N] [--work N]
//
// 1,000,000 calls on device 0, of 300 problems in which B Q M K D is at most 4,000,000, by 2
// threads, each with its own stream, of one handle. A thread makes a new plan in about every 8th
// call; in every 32nd, and at the end of every problem, it poisons the results before and compares
// their hash after. The last lines
// have the number of comparisons, and memory in use after the first 1,000 calls, at the end and at
// most. Exit status 1, and what was off, where a hash differs or memory grows. --plant leak,
// --plant device-leak and --plant bit make a fault that has to be found.
#include "soak_device.h"

#include "command/measure/plan_runner.h"
#include "command/problem/problem_shape.h"
#include "command/problem/random_numbers.h"
#include "command/problem/workloads.h"
#include "command/report/progress_bar.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace msda::bench;
using namespace msda::command;

constexpr std::int64_t kRound = 1000;  // calls between two looks at memory
constexpr double kNewPlans = 1.0 / 8, kComparisons = 1.0 / 32;
// A leak of 17 bytes a call or 134 a plan is found in 1,000,000 calls and their 125,000 plans. The
// heap of two threads grows by 4 MiB in the first 60,000 calls and no more.
constexpr std::int64_t kAllowedGrowth = 16 << 20;
constexpr std::int64_t kMaxValues = 1 << 18;  // elements of value: bounds the memory
constexpr std::size_t kPlantedLeak = 256 << 10;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kFreedMemoryIsKept = true;
#else
constexpr bool kFreedMemoryIsKept = false;
#endif

struct Options {
  std::int64_t calls = 1'000'000, device = 0, seed = 1, threads = 2, problems = 300,
               work = 4'000'000;
  std::string plant;
};

std::int64_t log_uniform(Rng& rng, double low, double high) {
  return std::llround(std::exp(rng.uniform(std::log(low), std::log(high))));
}

ProblemShape draw_shape(Rng& rng, std::int64_t max_work) {
  for (;;) {
    ProblemShape shape;
    shape.batch = rng.pick({1, 1, 2, 3});
    shape.query_count = log_uniform(rng, 1, 2048);
    shape.head_count = rng.pick({1, 2, 4, 8, 8});
    shape.head_dim = rng.chance(0.2) ? rng.integer(1, 80) : rng.pick({8, 16, 32, 32, 64});
    bool const is_ragged = rng.chance(0.2);
    auto const points = static_cast<std::int32_t>(rng.pick({1, 2, 4, 4, 8}));
    shape.levels.resize(static_cast<std::size_t>(rng.integer(1, 5)));
    for (LevelShape& level : shape.levels) {
      level.height = static_cast<std::int32_t>(log_uniform(rng, 2, 48));
      level.width = static_cast<std::int32_t>(log_uniform(rng, 2, 48));
      level.points = is_ragged ? static_cast<std::int32_t>(rng.integer(1, 8)) : points;
    }
    shape.set_dtypes(rng.pick({MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16}));
    shape.reference_dim = rng.pick({0, 0, 2, 4});
    shape.operation = rng.pick({MSDA_FORWARD, MSDA_BACKWARD});
    shape.math_mode = rng.pick({MSDA_MATH_ACCURATE, MSDA_MATH_FAST});
    std::int64_t const heads = shape.batch * shape.head_count * shape.head_dim;
    if (heads * shape.query_count * shape.point_total() <= max_work &&
        heads * shape.token_count() <= kMaxValues) {
      return shape;
    }
  }
}

std::int64_t resident_bytes() {
  std::ifstream stream("/proc/self/statm");
  std::int64_t total_pages = 0, resident_pages = 0;
  stream >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  return std::rotl((hash ^ word) * 0x9E3779B97F4A7C15u, 29);
}

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t hash) {
  hash = mix(hash, bytes.size());
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(hash)) {
    std::uint64_t word = 0;
    std::memcpy(&word, &bytes[i], std::min(sizeof(word), bytes.size() - i));
    hash = mix(hash, word);
  }
  return hash;
}

// A problem with its inputs, which all threads read.
struct Problem {
  Problem(SoakDevice const& device, std::uint64_t seed, std::int64_t max_work) {
    Rng rng(seed);
    Workload workload;
    workload.shape = shape = draw_shape(rng, max_work);
    workload.local = rng.chance(0.5);
    Case const input = random_case(workload, shape, seed);
    for (TensorRow const& row : tensor_rows()) {
      Array const* const array = input.find(row.name);
      if (array == nullptr) continue;
      SoakMemory& memory = inputs.emplace_back(device, array->bytes.size());
      memory.copy_from(array->bytes.data());
      set_pointer(tensors, row.id, memory.data());
    }
  }

  ProblemShape shape;
  std::vector<SoakMemory> inputs;
  msda_tensors tensors = msda::make<msda_tensors>();
  std::uint64_t hash = 0;  // of its results
};

// A thread's part of the soak: a stream, and results and a plan of each problem.
class Caller {
 public:
  Caller(SoakDevice const& device, msda::Handle const& handle, std::vector<Problem> const& problems,
         Options const& options)
      : device_(device), handle_(handle), options_(options), stream_(device) {
    std::size_t max_bytes = 0;
    for (Problem const& problem : problems) {
      OneCall const& call = calls_.emplace_back(device, handle, problem);
      for (SoakMemory const& result : call.results) max_bytes = std::max(max_bytes, result.size());
    }
    host_.resize(max_bytes);
  }

  // Makes a call of every problem and returns the results' hashes.
  std::vector<std::uint64_t> hashes() {
    std::vector<std::uint64_t> hashes;
    for (OneCall& call : calls_) hashes.push_back(run_and_hash(call));
    return hashes;
  }
  // Makes a call of every problem and compares the results.
  void compare_all() {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      describing_failure(i, "the last call", [&] { compare(calls_[i]); });
    }
  }
  std::set<std::string> kernels() const {
    std::set<std::string> ids;
    for (OneCall const& call : calls_) ids.insert(call.plan->info().kernel_id);
    return ids;
  }

  // The seed and a call's number say what happens in it.
  void make_call(std::int64_t number) {
    Rng rng((static_cast<std::uint64_t>(options_.seed) << 40) + static_cast<std::uint64_t>(number));
    auto const last = static_cast<std::int64_t>(calls_.size()) - 1;
    auto const index = static_cast<std::size_t>(rng.integer(0, last));
    OneCall& call = calls_[index];
    describing_failure(index, fmt::format("call {}", number), [&] {
      plant_leaks();
      if (rng.chance(kNewPlans)) {
        call.plan.reset();
        call.plan.emplace(handle_, call.problem.shape.copy().c);
        ++plans_;
      }
      if (rng.chance(kComparisons)) {
        compare(call);
      } else {
        call.plan->execute(call.tensors, stream_.get());
      }
    });
  }

  void wait() const { stream_.wait(); }
  std::int64_t plans() const { return plans_; }
  std::int64_t comparisons() const { return comparisons_; }

 private:
  struct OneCall {
    OneCall(SoakDevice const& device, msda::Handle const& handle, Problem const& its_problem)
        : problem(its_problem),
          tensors(problem.tensors),
          plan(std::in_place, handle, problem.shape.copy().c),
          workspace(device, plan->info().workspace_bytes) {
      for (auto const& [name, array] : make_results(problem.shape, {})) {
        SoakMemory& memory = results.emplace_back(device, array.bytes.size());
        for (TensorRow const& row : tensor_rows()) {
          if (row.name == name) set_pointer(tensors, row.id, memory.data());
        }
      }
      tensors.workspace = workspace.data();
      tensors.workspace_bytes = workspace.size();
    }
    Problem const& problem;
    msda_tensors tensors;
    std::optional<msda::Plan> plan;
    SoakMemory workspace;
    std::vector<SoakMemory> results;
  };

  template <typename Call>
  void describing_failure(std::size_t index, std::string const& what, Call const& call) const {
    try {
      call();
    } catch (std::exception const& error) {
      OneCall const& failed = calls_[index];
      throw std::runtime_error(
          fmt::format("{}, problem {} ({}; {}): {}", what, index, failed.problem.shape.describe(),
                      failed.plan ? failed.plan->info().kernel_id : "no plan", error.what()));
    }
  }

  void compare(OneCall& call) {
    std::uint64_t const hash = run_and_hash(call, options_.plant == "bit");
    ++comparisons_;
    if (hash == call.problem.hash) return;
    throw std::runtime_error(
        fmt::format("its results have the hash {:016x}: must be {:016x}", hash, call.problem.hash));
  }

  std::uint64_t run_and_hash(OneCall& call, bool change_bit = false) {
    for (SoakMemory const& result : call.results) stream_.poison(result);
    call.plan->execute(call.tensors, stream_.get());
    std::uint64_t hash = 0;
    for (SoakMemory const& result : call.results) {
      stream_.read(result, host_.data());
      stream_.wait();
      if (change_bit) host_[0] ^= std::byte{1};
      hash = hash_bytes({host_.data(), result.size()}, hash);
    }
    return hash;
  }

  void plant_leaks() const {
    if (options_.plant == "device-leak") SoakMemory(device_, kPlantedLeak).leak();
    if (options_.plant == "leak") SoakMemory(SoakDevice(MSDA_DEVICE_CPU), kPlantedLeak).leak();
  }

  SoakDevice const& device_;
  msda::Handle const& handle_;
  Options const& options_;
  SoakStream stream_;
  std::vector<OneCall> calls_;
  std::vector<std::byte> host_;  // for the largest result
  std::int64_t plans_ = 0, comparisons_ = 0;
};

// Memory of one kind in use, after each round.
class MemoryRecord {
 public:
  explicit MemoryRecord(std::string what) : what_(std::move(what)) {}

  void add(std::int64_t bytes, std::int64_t calls) {
    if (first_calls_ == 0) {
      first_calls_ = calls;
      first_ = max_ = bytes;
    }
    last_ = bytes;
    max_ = std::max(max_, bytes);
  }
  std::string text() const {
    return fmt::format("{}: {} bytes after {} calls, {} at the end, {} at most", what_, first_,
                       first_calls_, last_, max_);
  }
  void check() const {
    if (max_ - first_ <= kAllowedGrowth) return;
    throw std::runtime_error(
        fmt::format("{} grew from {} bytes after {} calls to {}: at most {} "
                    "more are allowed",
                    what_, first_, first_calls_, max_, kAllowedGrowth));
  }

 private:
  std::string what_;
  std::int64_t first_calls_ = 0, first_ = 0, last_ = 0, max_ = 0;
};

// The callers' threads take turns at the calls first .. last - 1, and end. Throws what one threw.
void run_round(SoakDevice const& device, std::vector<std::unique_ptr<Caller>> const& callers,
               std::int64_t first, std::int64_t last) {
  std::mutex mutex;
  std::exception_ptr failure;
  auto const run = [&](std::size_t which) {
    try {
      device.make_current();
      auto const step = static_cast<std::int64_t>(callers.size());
      for (std::int64_t call = first + static_cast<std::int64_t>(which); call < last; call += step)
        callers[which]->make_call(call);
      callers[which]->wait();
    } catch (...) {
      std::lock_guard const lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < callers.size(); ++i) threads.emplace_back(run, i);
  }
  if (failure) std::rethrow_exception(failure);
}

void soak(Options const& options) {
  SoakDevice const device(static_cast<std::int32_t>(options.device));
  Engine const engine(device.number(), 2);
  std::vector<Problem> problems;
  for (std::int64_t i = 0; i < options.problems; ++i) {
    problems.emplace_back(device, static_cast<std::uint64_t>(options.seed * 1'000'000 + i),
                          options.work);
  }
  std::vector<std::unique_ptr<Caller>> callers;
  for (std::int64_t i = 0; i < options.threads; ++i)
    callers.push_back(std::make_unique<Caller>(device, engine.handle, problems, options));
  std::vector<std::uint64_t> const hashes = callers[0]->hashes();
  std::uint64_t all_hashes = 0;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    problems[i].hash = hashes[i];
    all_hashes = mix(all_hashes, hashes[i]);
  }
  fmt::print("{} problems of seed {}, {} kernels\n", problems.size(), options.seed,
             callers[0]->kernels().size());

  std::int64_t const round = std::min(kRound, std::max<std::int64_t>(options.calls / 4, 1));
  MemoryRecord device_memory("device memory"), resident_memory("resident memory");
  auto const begin = std::chrono::steady_clock::now();
  {
    ProgressBar bar(static_cast<std::size_t>((options.calls + round - 1) / round));
    for (std::int64_t done = 0; done < options.calls;) {
      bar.step(fmt::format("{} of {} calls", done, options.calls));
      std::int64_t const next = std::min(done + round, options.calls);
      run_round(device, callers, done, next);
      done = next;
      device_memory.add(device.used_bytes(), done);
      resident_memory.add(resident_bytes(), done);
    }
  }
  for (auto const& caller : callers) caller->compare_all();
  std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
  std::int64_t plans = 0, comparisons = 0;
  for (auto const& caller : callers) {
    plans += caller->plans();
    comparisons += caller->comparisons();
  }
  fmt::print("{} calls of {} threads in {:.1f} s; {} plans made\n", options.calls, options.threads,
             seconds.count(), plans);
  fmt::print("{} comparisons of results, all equal; hash of all problems' results {:016x}\n",
             comparisons, all_hashes);
  if (device.is_gpu()) fmt::print("{}\n", device_memory.text());
  fmt::print("{}\n", resident_memory.text());
  std::fflush(stdout);
  device_memory.check();
  if (!kFreedMemoryIsKept) resident_memory.check();
}

std::int64_t number_of(std::string_view option, std::string_view text, std::int64_t least,
                       std::int64_t max) {
  std::int64_t number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > max) {
    throw std::runtime_error(fmt::format("{} is '{}': must be {} to {}", option, text, least, max));
  }
  return number;
}

Options read_options(int argc, char** argv) {
  constexpr std::int64_t kMax = 1'000'000'000'000;
  Options options;
  for (int i = 1; i < argc; i += 2) {
    std::string_view const option = argv[i];
    std::string_view const value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--calls") {
      options.calls = number_of(option, value, 1, kMax);
    } else if (option == "--device") {
      options.device = value == "cpu" ? MSDA_DEVICE_CPU : number_of(option, value, 0, 1 << 20);
    } else if (option == "--seed") {
      options.seed = number_of(option, value, 0, 1'000'000);
    } else if (option == "--threads") {
      options.threads = number_of(option, value, 1, 64);
    } else if (option == "--problems") {
      options.problems = number_of(option, value, 1, 1'000'000);
    } else if (option == "--work") {
      options.work = number_of(option, value, 1'000, kMax);
    } else if (option == "--plant" &&
               (value == "leak" || value == "device-leak" || value == "bit")) {
      options.plant = value;
    } else {
      throw std::runtime_error(
          fmt::format("unknown option '{} {}': must be --calls, --device, --seed, --threads, "
                      "--problems or --work and a number, or --plant leak, device-leak or bit",
                      option, value));
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    soak(read_options(argc, argv));
    return 0;
  } catch (std::exception const& error) {
    std::fflush(stdout);
    fmt::print(stderr, "msda_soak: {}\n", error.what());
    return 1;
  }
}
