// How much longer a call on the CPU takes on memory that malloc and numpy give (16 bytes behind a
// multiple of 64) than on memory at multiples of 64.
//
//   msda_cpu_memory [--threads N] [--rounds N] [--only TENSOR] [--count KIND] [WORKLOAD ...]
//
// One image of each workload, forward and backward, of f32, f16 and bf16. Both kinds of memory hold
// the same numbers and are used in turns; results are compared bit by bit before any time is taken.
// A line has the least and the median time of either kind in milliseconds, and the ratios. With
// --only a single tensor, or the word "inputs" or "results", lies off the lines. --count is for a
// program that counts: one call with f32 values for each workload, forward (KIND lines or malloc)
// or backward (lines-backward or malloc-backward), on one kind of memory.
#include "command/measure/plan_runner.h"
#include "command/problem/problem_shape.h"
#include "command/problem/workloads.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace msda::command;

constexpr std::size_t kLine = 64;
constexpr std::size_t kOffLine = 16;

// Bytes that begin so far behind a multiple of a line.
class Memory {
 public:
  Memory(std::size_t bytes, std::size_t behind)
      : bytes_(bytes),
        block_(static_cast<std::byte*>(::operator new(bytes + behind, std::align_val_t{4096}))),
        data_(block_ + behind) {}
  Memory(Memory&& other) noexcept
      : bytes_(other.bytes_), block_(std::exchange(other.block_, nullptr)), data_(other.data_) {}
  Memory(Memory const&) = delete;
  ~Memory() {
    if (block_ != nullptr) ::operator delete(block_, std::align_val_t{4096});
  }
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::byte* block_;
  std::byte* data_;
};

struct Options {
  std::int32_t threads = 1;
  int rounds = 15;
  std::string only;
  std::string count;
  std::vector<std::string> workloads;
};

bool lies_off_line(Options const& options, TensorRow const& row) {
  return options.only.empty() || options.only == row.name ||
         options.only == (row.is_result() ? "results" : "inputs");
}

// The tensors of one call, at the beginning of lines or not.
class Buffers {
 public:
  Buffers(Case const& input, Options const& options, bool off_line, msda::Workspace& workspace) {
    tensors = msda::make<msda_tensors>();
    for (TensorRow const& row : tensor_rows()) {
      Array const* const array = input.find(row.name);
      bool const is_result = row.is_result() && row.belongs_to(input.spec);
      if (array == nullptr && !is_result) continue;
      std::size_t const bytes = is_result
                                    ? byte_count(tensor_shape(input.spec, row),
                                                 type_bytes(tensor_type(input.spec, row)), row.name)
                                    : array->bytes.size();
      Memory& memory =
          memories_.emplace_back(bytes, off_line && lies_off_line(options, row) ? kOffLine : 0);
      if (is_result) {
        std::memset(memory.data(), 0xFF, bytes);
        results_.push_back(memories_.size() - 1);
      } else {
        std::memcpy(memory.data(), array->bytes.data(), bytes);
      }
      set_pointer(tensors, row.id, memory.data());
    }
    workspace.attach(tensors);
  }

  bool same_results(Buffers const& other) const {
    return std::ranges::all_of(results_, [&](std::size_t i) {
      return std::memcmp(memories_[i].data(), other.memories_[i].data(), memories_[i].size()) == 0;
    });
  }

  msda_tensors tensors;

 private:
  std::vector<Memory> memories_;
  std::vector<std::size_t> results_;
};

double call_ms(msda::Plan const& plan, msda_tensors const& tensors) {
  auto const begin = std::chrono::steady_clock::now();
  plan.execute(tensors);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(Engine const& engine, Options const& options, Workload const& workload,
             msda_operation operation, msda_dtype dtype) {
  ProblemShape spec = workload.shape;
  spec.batch = 1;
  spec.set_dtypes(dtype);
  spec.operation = operation;
  Case const input = random_case(workload, spec, 1);
  msda::Plan const plan(engine.handle, spec.copy().c);
  msda::Workspace workspace(plan);
  Buffers const buffers[2] = {{input, options, false, workspace},
                              {input, options, true, workspace}};
  for (Buffers const& side : buffers) plan.execute(side.tensors);
  if (!buffers[0].same_results(buffers[1])) {
    throw std::runtime_error(workload.name + ": results depend on where the tensors lie");
  }
  std::vector<double> ms[2], ratios;
  for (int round = 0; round < options.rounds; ++round) {
    for (int side = 0; side < 2; ++side) {
      int const calls = ms[0].empty() || ms[0].front() > 5 ? 1 : 5;
      double least = call_ms(plan, buffers[side].tensors);
      for (int i = 1; i < calls; ++i) {
        least = std::min(least, call_ms(plan, buffers[side].tensors));
      }
      ms[side].push_back(least);
    }
    ratios.push_back(ms[1].back() / ms[0].back());
  }
  double const least[2] = {*std::ranges::min_element(ms[0]), *std::ranges::min_element(ms[1])};
  std::printf("%-12s %-8s %-5s %8.3f %8.3f %6.2f   %8.3f %8.3f %6.2f\n", workload.name.c_str(),
              operation == MSDA_FORWARD ? "forward" : "backward", type_name(dtype).data(), least[0],
              least[1], least[1] / least[0], median(ms[0]), median(ms[1]), median(ratios));
  std::fflush(stdout);
}

void call_once(Engine const& engine, Options const& options, Workload const& workload) {
  ProblemShape spec = workload.shape;
  spec.batch = 1;
  spec.set_dtypes(MSDA_DTYPE_F32);
  if (options.count.ends_with("-backward")) spec.operation = MSDA_BACKWARD;
  msda::Plan const plan(engine.handle, spec.copy().c);
  msda::Workspace workspace(plan);
  bool const off_line = options.count.starts_with("malloc");
  plan.execute(Buffers(random_case(workload, spec, 1), options, off_line, workspace).tensors);
}

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view const word = argv[i];
    auto const value = [&] {
      if (i + 1 == argc) throw std::runtime_error(std::string(word) + " needs a value");
      return argv[++i];
    };
    if (word == "--threads") {
      options.threads = std::atoi(value());
    } else if (word == "--rounds") {
      options.rounds = std::max(std::atoi(value()), 1);
    } else if (word == "--only") {
      options.only = value();
    } else if (word == "--count") {
      options.count = value();
    } else {
      options.workloads.emplace_back(word);
    }
  }
  if (options.workloads.empty()) options.workloads = {"enc-uniform", "enc-local", "dec", "rtdetr"};
  return options;
}

bool is_chosen(Options const& options, Workload const& workload) {
  return std::ranges::find(options.workloads, workload.name) != options.workloads.end();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options const options = read_options(argc, argv);
    Engine const engine(MSDA_DEVICE_CPU, options.threads);
    for (Workload const& workload : all_workloads()) {
      if (options.count.empty() || !is_chosen(options, workload)) continue;
      call_once(engine, options, workload);
    }
    if (!options.count.empty()) return 0;
    std::printf("%-12s %-8s %-5s %8s %8s %6s   %8s %8s %6s\n", "workload", "", "value", "least ms",
                "off line", "ratio", "median", "off line", "ratio");
    for (Workload const& workload : all_workloads()) {
      if (!is_chosen(options, workload)) continue;
      for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
        for (msda_dtype const dtype : {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16}) {
          measure(engine, options, workload, operation, dtype);
        }
      }
    }
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "msda_cpu_memory: %s\n", error.what());
    return 1;
  }
}
