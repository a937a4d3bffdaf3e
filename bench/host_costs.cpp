// Measures the library's own work on the host, in microseconds: plans and calls on the CPU whose
// problems have nothing to compute or next to nothing.
//
//   msda_host_costs [ROUNDS]
//
// A line has the least and the median of ROUNDS (51) batches of 100, each batch's time divided by
// its calls.
#include "command/measure/plan_runner.h"
#include "command/problem/workloads.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

namespace {

using namespace msda::command;

constexpr int kCalls = 100;

template <typename Call>
void measure(std::string const& what, int rounds, Call call) {
  std::vector<double> us;
  for (int round = 0; round < rounds; ++round) {
    auto const begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
                     .count() /
                 kCalls);
  }
  std::sort(us.begin(), us.end());
  std::printf("%-52s %8.3f %8.3f\n", what.c_str(), us.front(), us[us.size() / 2]);
}

ProblemShape tiny_shape() {
  ProblemShape shape;
  shape.levels = {{2, 3, 1}};
  shape.head_dim = 16;
  return shape;
}

// One query of one head: a call that never wakes the handle's threads.
void measure_call(std::int32_t threads, int rounds) {
  Engine const engine(MSDA_DEVICE_CPU, threads);
  Workload workload;
  workload.shape = tiny_shape();
  Case const input = random_case(workload, workload.shape, 1);
  std::vector<NamedArray> results = make_results(input.spec, {});
  Runner runner(engine, input.spec, "");
  runner.bind(input, results);
  measure("msda_execute, 1 query, handle of " + std::to_string(threads) + " threads", rounds,
          [&] { runner.execute(); });
}

void measure_plan(std::string const& name, ProblemShape shape, int rounds) {
  Engine const engine(MSDA_DEVICE_CPU, 1);
  for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
    shape.operation = operation;
    msda::ProblemCopy const view = shape.copy();
    measure("msda_plan_create and _destroy, " + name +
                (operation == MSDA_FORWARD ? ", forward" : ", backward"),
            rounds, [&] { msda::Plan const plan(engine.handle, view.c); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int const rounds = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 51;
    std::printf("%-52s %8s %8s\n", "us", "least", "median");
    measure_plan("1 level", tiny_shape(), rounds);
    for (Workload const& workload : all_workloads()) {
      if (workload.name == "enc-local") measure_plan("4 levels", workload.shape, rounds);
    }
    for (std::int32_t const threads : {1, 2}) measure_call(threads, rounds);
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "msda_host_costs: %s\n", error.what());
    return 1;
  }
}
