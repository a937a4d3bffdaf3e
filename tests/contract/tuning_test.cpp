// Tuning from end to end on the CPU, and its records as text: there and back, stale, damaged.

#include "api/objects.h"
#include "support/allocation_watch.h"
#include "support/case_file.h"
#include "support/counting_allocator.h"
#include "support/tuning_calls.h"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

using namespace msda::test;

namespace {

constexpr const char* kTitle = "libmsda tuning records 3\n";

TestProblem sample(std::string const& name, msda_operation operation = MSDA_FORWARD) {
  ProblemShape shape = corpus_case(name).shape;
  shape.operation = operation;
  return corpus_case(name).make(shape);
}

// Buffers with room for any kernel's workspace.
std::unique_ptr<CallBuffers> roomy_buffers(TestHandle const& handle, TestProblem const& problem) {
  PlanPtr roomiest = make_plan(handle, problem.shape, "ref.cpu@1").plan;
  REQUIRE(roomiest != nullptr);  // without queries it needs no workspace
  for (std::string const& id : accepting_kernels(handle, problem.shape)) {
    PlanPtr plan = make_plan(handle, problem.shape, id).plan;
    if (plan_info(plan.get()).workspace_bytes > plan_info(roomiest.get()).workspace_bytes) {
      roomiest = std::move(plan);
    }
  }
  return std::make_unique<CallBuffers>(problem, roomiest.get(), 1);
}

// Tunes with the library's own workspace. The plan, and the one record in the handle.
PlanResult tune(TestHandle const& handle, TestProblem const& problem,
                TuneRequest const& request = {}) {
  auto const buffers = roomy_buffers(handle, problem);
  buffers->c().workspace = nullptr;
  buffers->c().workspace_bytes = 0;
  return tune_plan(handle, problem.shape, buffers->c(), request);
}

std::string kernel_of(PlanResult const& plan) {
  REQUIRE(plan.message == "");
  return plan_info(plan.plan.get()).kernel_id;
}

std::string tuned_kernel(TestHandle const& handle, ProblemShape const& shape,
                         msda_plan_options options = plan_options()) {
  options.mode = MSDA_PLAN_TUNED;
  return kernel_of(make_plan(handle, shape, options));
}

std::string replaced(std::string text, std::string const& from, std::string const& to) {
  std::size_t const at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// Replaces a word of a record: everything up to the next space.
std::string with_word(std::string const& text, std::string const& name, std::string const& value) {
  std::size_t const at = text.find(" " + name + "=");
  REQUIRE(at != std::string::npos);
  std::size_t const end = text.find_first_of(" \n", at + 1);
  return text.substr(0, at) + " " + name + "=" + value + text.substr(end);
}

// The text of one record that prefers the reference, which no heuristic does.
struct RefRecord {
  TestHandle handle{2};
  TestProblem problem = sample("encoder_grid");
  std::string text;

  RefRecord() {
    REQUIRE(tune(handle, problem).message == "");
    text = with_word(export_records(handle), "kernel", "ref.cpu@1");
  }
};

// A clock by which every run takes as long as any other, so that the heuristic's choice stays.
double ticking_us() {
  static double now_us = 0;
  return now_us += 200;
}

std::ptrdiff_t line_count(std::string const& text) {
  return std::count(text.begin(), text.end(), '\n');
}

}  // namespace

TEST_CASE("a tuned plan keeps its promises and leaves its result in the sample") {
  TestHandle const handle(2);
  handle.get()->device.clock = ticking_us;
  TuneRequest request;
  request.budget_ms = 10;  // 50 ticks
  for (const char* const name : {"encoder_grid", "decoder", "bordered", "odd_channels",
                                 "unused_level", "one_of_each", "no_queries", "no_levels"}) {
    for (ProblemShape shape : corpus_case(name).shapes()) {
      for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
        shape.operation = operation;
        CAPTURE(shape.describe());
        TestProblem const problem = corpus_case(name).make(shape);
        auto const buffers = roomy_buffers(handle, problem);
        buffers->poison();
        PlanResult const plan = tune_plan(handle, shape, buffers->c(), request);
        REQUIRE(plan.message == "");
        CHECK(buffers->check_written() == "");
        RunResult const expected = run_plan(plan.plan.get(), problem, 7);
        REQUIRE(expected.failure == "");
        for (TensorRow const& row : tensor_rows()) {
          if (!row.is_result() || !row.belongs_to(shape)) continue;
          CHECK(buffers->tensor(row.id).bits() == expected.bits[static_cast<std::size_t>(row.id)]);
        }
        CHECK(kernel_of(plan) == kernel_of(make_plan(handle, shape, "")));
        CHECK(tuned_kernel(handle, shape) == kernel_of(plan));
      }
    }
  }
}

TEST_CASE("gradients that are not asked for are not touched") {
  TestHandle const handle(2);
  TestProblem const problem = sample("encoder_grid", MSDA_BACKWARD);
  auto const buffers = roomy_buffers(handle, problem);
  msda_tensors some = buffers->c();
  some.grad_coord = nullptr;
  REQUIRE(tune_plan(handle, problem.shape, some).message == "");
  CHECK(buffers->tensor(TensorId::kGradValue).check_written() == "");
  CHECK(buffers->tensor(TensorId::kGradCoord).check_untouched() == "");
}

TEST_CASE("the workspace of the sample is a limit") {
  TestHandle const handle(2);
  ProblemShape shape = corpus_case("encoder_grid").shape;
  shape.set_dtypes(MSDA_DTYPE_F64);  // only the reference takes it, and needs a workspace
  TestProblem const problem = corpus_case("encoder_grid").make(shape);
  auto const buffers = roomy_buffers(handle, problem);
  std::size_t const needed = buffers->c().workspace_bytes;
  msda_tensors tensors = buffers->c();
  CHECK(kernel_of(tune_plan(handle, shape, tensors)) == "ref.cpu@1");
  buffers->poison();
  tensors.workspace_bytes = needed - 1;
  PlanResult const small = tune_plan(handle, shape, tensors);
  CHECK(small.status == MSDA_ERROR_BUFFER_TOO_SMALL);
  CHECK(small.message == fmt::format("msda_plan_tune: tensors.workspace_bytes is {}: must be at "
                                     "least {}, which ref.cpu@1 needs, the kernel that all others "
                                     "are compared with",
                                     needed - 1, needed));
  tensors.workspace = nullptr;
  PlanResult const half = tune_plan(handle, shape, tensors);
  CHECK(half.status == MSDA_ERROR_INVALID_ARGUMENT);
  CHECK(half.message.find("tensors.workspace is NULL") != std::string::npos);
  CHECK(buffers->check_untouched() == "");
  tensors.workspace_bytes = 0;
  CHECK(kernel_of(tune_plan(handle, shape, tensors)) == "ref.cpu@1");
  CHECK(buffers->check_written() == "");
  TuneRequest limited;
  limited.options.workspace_limit_bytes = needed - 1;
  PlanResult const none = tune_plan(handle, shape, tensors, limited);
  CHECK(none.status == MSDA_ERROR_UNSUPPORTED);
  CHECK(none.message.find("needs more workspace than workspace_limit_bytes") != std::string::npos);
}

TEST_CASE("kernels that need more than the workspace of the sample are not tried") {
  std::string last_line;
  msda_handle_options options = cpu_options(1);
  options.log_level = MSDA_LOG_INFO;
  options.log_user = &last_line;
  options.log_fn = [](void* user, msda_log_level, const char* message, std::size_t) {
    *static_cast<std::string*>(user) = message;
  };
  TestHandle const handle(options);
  ProblemShape shape;  // so small that the reference is a front runner
  shape.levels = {{4, 4, 1}};
  shape.query_count = 24;
  shape.head_dim = 8;
  Rng rng(1);
  TestProblem const problem = fill_problem(shape, DataKind{}, rng);
  REQUIRE(kernel_of(make_plan(handle, shape, "")) == "simd.cpu.f32@2");
  auto const buffers = roomy_buffers(handle, problem);
  std::size_t const needed = buffers->c().workspace_bytes;
  auto const tried_with = [&](void* workspace, std::size_t bytes) {
    msda_tensors tensors = buffers->c();
    tensors.workspace = workspace;
    tensors.workspace_bytes = bytes;
    REQUIRE(tune_plan(handle, shape, tensors).message == "");
    return last_line.substr(last_line.find("; ") + 2);
  };
  void* const workspace = buffers->c().workspace;
  CHECK(tried_with(workspace, needed) == "2 of 2 kernels tried");
  CHECK(tried_with(workspace, needed - 1) == "1 of 1 kernels tried");
  CHECK(tried_with(workspace, 0) == "1 of 1 kernels tried");
  CHECK(tried_with(nullptr, 0) == "2 of 2 kernels tried");
  CHECK(buffers->check_written() == "");
  // A workspace that is used must be right: checked before anything runs.
  buffers->poison();
  msda_tensors tensors = buffers->c();
  tensors.workspace = static_cast<std::byte*>(workspace) + 8;
  PlanResult const misaligned = tune_plan(handle, shape, tensors);
  CHECK(misaligned.message.find("tensors.workspace is") != std::string::npos);
  tensors.workspace = tensors.output;
  PlanResult const overlapping = tune_plan(handle, shape, tensors);
  CHECK(overlapping.status == MSDA_ERROR_INVALID_ARGUMENT);
  CHECK(buffers->check_untouched() == "");
}

TEST_CASE("the own workspace comes from the handle's allocator and goes back") {
  CountingAllocator allocator;
  msda_handle_options options = cpu_options(1);
  allocator.install(options);
  {
    TestHandle const handle(options);
    ProblemShape shape = corpus_case("encoder_grid").shape;
    shape.set_dtypes(MSDA_DTYPE_F64);
    TestProblem const problem = corpus_case("encoder_grid").make(shape);
    std::size_t const before = allocator.live_blocks();
    PlanResult plan = tune(handle, problem);
    REQUIRE(plan.message == "");
    plan.plan.reset();
    std::size_t const after = allocator.live_blocks();
    CHECK(after > before);  // the record
    REQUIRE(tune(handle, problem).message == "");
    CHECK(allocator.live_blocks() == after);  // in its place
  }
  CHECK(allocator.live_blocks() == 0);
  CHECK(allocator.complaint() == "");
}

TEST_CASE("a budget too short for a comparison leaves no record") {
  TestHandle const handle(2);
  TestProblem const problem = sample("decoder");
  auto const buffers = roomy_buffers(handle, problem);
  buffers->poison();
  TuneRequest request;
  request.budget_ms = 1e-9;
  PlanResult const plan = tune_plan(handle, problem.shape, buffers->c(), request);
  CHECK(kernel_of(plan) == kernel_of(make_plan(handle, problem.shape, "")));
  CHECK(buffers->check_written() == "");
  CHECK(export_records(handle) == kTitle);
}

TEST_CASE("a forced kernel leaves nothing to tune") {
  TestHandle const handle(1);
  TestProblem const problem = sample("decoder");
  TuneRequest request;
  request.options = plan_options(MSDA_PLAN_FORCED);
  request.options.kernel_id = "ref.cpu@1";
  PlanResult const plan = tune(handle, problem, request);
  CHECK(plan.status == MSDA_ERROR_INVALID_ARGUMENT);
  CHECK(plan.message ==
        "msda_plan_tune: plan_options.mode is 2 (MSDA_PLAN_FORCED): must be 0 "
        "(MSDA_PLAN_HEURISTIC) or 1 (MSDA_PLAN_TUNED), tuning chooses the kernel itself");
}

TEST_CASE("a record is of its problem device threads and limits") {
  RefRecord const ref;
  TestHandle const handle(2);
  ProblemShape const& shape = ref.problem.shape;
  std::string const heuristic = tuned_kernel(handle, shape);
  REQUIRE(heuristic == "simd.cpu.f32@2");
  REQUIRE(import_records(handle, ref.text).message == "");
  CHECK(tuned_kernel(handle, shape) == "ref.cpu@1");
  CHECK(kernel_of(make_plan(handle, shape, "")) == heuristic);  // only where it is asked for

  msda_plan_options limited = plan_options();
  limited.workspace_limit_bytes = 1 << 30;
  CHECK(tuned_kernel(handle, shape, limited) == heuristic);
  TestHandle const more_threads(3);
  REQUIRE(import_records(more_threads, ref.text).message == "");
  CHECK(tuned_kernel(more_threads, shape) == heuristic);

  auto const changed = [&](auto change) {
    ProblemShape other = shape;
    change(other);
    return tuned_kernel(handle, other);
  };
  CHECK(changed([](ProblemShape& s) { s.batch += 1; }) == heuristic);
  CHECK(changed([](ProblemShape& s) { s.head_dim += 1; }) == heuristic);
  CHECK(changed([](ProblemShape& s) { s.head_count += 1; }) == heuristic);
  CHECK(changed([](ProblemShape& s) { s.levels[0].points += 1; }) == heuristic);
  CHECK(changed([](ProblemShape& s) { s.query_hw.clear(); }) == heuristic);
  CHECK(changed([](ProblemShape& s) { s.level_start = {42, 0}; }) == heuristic);
  CHECK(changed([](ProblemShape& s) { s.tokens = s.token_count() + 1; }) == heuristic);
  CHECK(changed([](ProblemShape& s) { s.point_locality = MSDA_POINTS_LOCAL; }) == heuristic);
  CHECK(changed([](ProblemShape& s) { s.math_mode = MSDA_MATH_FAST; }) == heuristic);
  CHECK(changed([](ProblemShape& s) { s.sampling_mode = MSDA_SAMPLING_NEAREST; }) == heuristic);
  CHECK(changed([](ProblemShape& s) { s.coord_dtype = MSDA_DTYPE_F16; }) == heuristic);
  CHECK(changed([](ProblemShape& s) { s.reference_dtype = MSDA_DTYPE_F16; }) == heuristic);
  CHECK(changed([](ProblemShape& s) { s.determinism = MSDA_NONDETERMINISTIC; }) == heuristic);
  CHECK(changed([](ProblemShape& s) {
          s.value_strides = {1 << 20, s.head_count * s.head_dim * 2, s.head_dim * 2};
        }) == heuristic);
}

TEST_CASE("records come back from their text and are sorted") {
  TestHandle const handle(2);
  for (const char* const name : {"rtdetr", "decoder", "no_levels", "bordered", "encoder_grid"}) {
    REQUIRE(tune(handle, sample(name)).message == "");
  }
  std::string const text = export_records(handle);
  REQUIRE(line_count(text) == 6);
  std::vector<std::string> lines;
  for (std::size_t at = text.find('\n') + 1; at < text.size(); at = text.find('\n', at) + 1) {
    lines.push_back(text.substr(at, text.find('\n', at) + 1 - at));
  }
  CHECK(std::is_sorted(lines.begin(), lines.end()));
  std::reverse(lines.begin(), lines.end());
  std::string backwards = kTitle;
  for (std::string const& line : lines) backwards += line;
  for (std::string const& variant : {text, backwards, text + '\0'}) {
    TestHandle const other(2);
    CHECK(import_records(other, variant).message == "");
    CHECK(export_records(other) == text);
    CHECK(import_records(other, variant).message == "");  // the same again: nothing new
    CHECK(export_records(other) == text);
  }
  // An imported record replaces that of its problem and leaves the others.
  TestHandle const other(2);
  REQUIRE(import_records(other, text).message == "");
  std::string const changed = with_word(kTitle + lines[0], "kernel", "gone.cpu@1");
  REQUIRE(import_records(other, changed).message == "");
  CHECK(export_records(other) == replaced(text, lines[0], changed.substr(std::strlen(kTitle))));
}

TEST_CASE("records of other machines versions and kernels are kept and not used") {
  RefRecord const ref;
  std::size_t const device = ref.text.find("device=");
  std::string const device_word =
      ref.text.substr(device, ref.text.find('"', device + 8) + 1 - device);
  for (std::string const& text :
       {replaced(ref.text, device_word, "device=\"NVIDIA H200, sm_90, 132 SMs\""),
        replaced(ref.text, "version=0.", "version=9."), with_word(ref.text, "threads", "77"),
        with_word(ref.text, "kernel", "ref.cpu@999"), with_word(ref.text, "kernel", "gone.cpu@1"),
        // There, and does not take float32.
        with_word(ref.text, "kernel", "simd.cpu.f16@2"),
        with_word(ref.text, "sm_count_limit", "8")}) {
    CAPTURE(text);
    TestHandle const handle(2);
    CHECK(import_records(handle, text).message == "");
    CHECK(export_records(handle) == text);
    CHECK(tuned_kernel(handle, ref.problem.shape) == "simd.cpu.f32@2");
  }
}

TEST_CASE("a text with line ends of another system is the same text") {
  RefRecord const ref;
  std::string text = ref.text;
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\r\n");
  }
  TestHandle const handle(2);
  CHECK(import_records(handle, text).message == "");
  CHECK(export_records(handle) == ref.text);
}

namespace {

struct WrongText {
  std::string text;
  std::string words;  // of the message
};

std::vector<WrongText> wrong_texts(std::string const& good) {
  std::string const line = good.substr(good.find('\n') + 1);
  std::string const longest(300, 'k');
  return {
      {"", "text_size is 0"},
      {"\n", "line 1: is '': must be 'libmsda tuning records 3'"},
      {"something else\n", "line 1: is 'something else'"},
      {"libmsda tuning records 3", "line 1: is cut off after 'sda tuning records 3'"},
      {good + "\n", "line 3: has '' where 'version=' must be"},
      {good + "#\n", "line 3: has '#' where 'version='"},
      {good + line, "line 3: is about the same problem as line 2"},
      {good.substr(0, good.size() - 1), "line 2: is cut off after"},
      {good + "version=0.1.0\n", "line 3: ends early: 'device=' is missing"},
      {replaced(good, "version=", "versions="), "line 2: has 'versions="},
      {replaced(good, " batch=", "  batch="), "line 2: has ' batch=1 "},
      {replaced(good, " batch=", " bitch="), "where 'batch=' must be"},
      {replaced(good, "batch=1 ", ""), "where 'batch=' must be"},
      {replaced(good, "\" threads", "\"threads"), "line 2: has 'threads="},
      {replaced(good, "device=\"", "device="), "device is 'cpu"},
      {replaced(good, "\" threads", " threads"), "must be a text in double quotes"},
      {replaced(good, "batch=1", std::string("batch=\0", 7)), "is 0x00: must be printable"},
      {replaced(good, "batch=1", "batch=\xC3\xA9"), "is 0xc3: must be printable"},
      {replaced(good, "batch=1", "batch=\r1"), "has a carriage return"},
      {good + std::string("\0\0", 2), "line 3: byte 1 is 0x00"},
      {with_word(good, "batch", "99999999999999999999"),
       "batch has '99999999999999999999': must be a whole number from -9223372036854775808 to"},
      {with_word(good, "batch", "-1"), "line 2: problem.batch is -1: must be 0 or more"},
      {with_word(good, "batch", ""), "batch has ''"},
      {with_word(good, "batch", "+1"), "batch has '+1'"},
      {with_word(good, "batch", "1.0"), "batch has '1.0'"},
      {with_word(good, "batch", "0x1"), "batch has '0x1'"},
      {with_word(good, "batch", "1,2"), "batch has 2 numbers: must have 1"},
      {with_word(good, "batch", "none"), "batch has 0 numbers: must have 1"},
      {with_word(good, "value_strides", "1,2"), "value_strides has 2 numbers: must have 3"},
      {with_word(good, "value_strides", "1,2,3,"), "value_strides has ''"},
      {with_word(good, "level_hw", "12,14,6"), "level_hw has 3 numbers, point_counts 2"},
      {with_word(good, "level_hw", "12,14,6,2147483648"), "level_hw has '2147483648'"},
      {with_word(good, "level_hw", "12,14,6,-7"), "problem.level_hw[1][1] is -7"},
      {with_word(good, "query_hw", "12,14"), "problem.query_hw has 168 pixels in all"},
      {with_word(good, "query_hw", "1"), "query_hw 1: must be"},
      {with_word(good, "level_start", "0"), "level_start 1, query_hw 4: must be"},
      {with_word(good, "level_start", "0,-1"), "problem.level_start[1] is -1"},
      {with_word(good, "token_count", "209"),
       "problem.token_count is 209: must be 0 or at least 210"},
      {with_word(good, "value_dtype", "77"), "problem.value_dtype is 77"},
      {with_word(good, "point_locality", "3"),
       "problem.point_locality is 3: must be one of 0, 1, 2"},
      {with_word(good, "operation", "4294967296"), "operation has '4294967296'"},
      {with_word(good, "query_count", "4611686018427387904"), "line 2: problem"},
      {with_word(good, "threads", "0"), "threads has '0': must be a whole number from 1 to"},
      {with_word(good, "sm_count_limit", "-1"), "sm_count_limit has '-1'"},
      {with_word(good, "workspace_limit_bytes", "-1"), "workspace_limit_bytes has '-1'"},
      {with_word(good, "kernel", ""), "kernel is '': must have 1 to 255 characters, has 0"},
      {with_word(good, "kernel", longest), "must have 1 to 255 characters, has 300"},
      {with_word(good, "median_us", "nan"), "median_us is 'nan': must be a number"},
      {with_word(good, "median_us", "-1"), "median_us is '-1'"},
      {with_word(good, "median_us", "1e5"), "median_us is '1e5'"},
      {with_word(good, "median_us", "inf"), "median_us is 'inf'"},
      {with_word(good, "median_us", std::string(400, '9')), "median_us is '999"},
      {with_word(good, "heuristic_us", "1us"), "heuristic_us is '1us'"},
      {replaced(good, "\n", "\n\n"), "line 2: has '' where 'version=' must be"},
      {good.substr(0, good.size() - 1) + " more=1\n", "line 2: ends in ' more=1'"},
  };
}

}  // namespace

TEST_CASE("a wrong line is named with what is wrong and nothing is added") {
  RefRecord const ref;
  std::string const& good = ref.text;
  std::string const line = good.substr(good.find('\n') + 1);
  TestHandle const handle(2);
  REQUIRE(import_records(handle, good).message == "");
  for (WrongText const& wrong : wrong_texts(good)) {
    CAPTURE(wrong.words);
    // Behind a good record of another problem, which must not be added either.
    Answer const answer = import_records(handle, wrong.text);
    CAPTURE(answer.message);
    CHECK(answer.status == MSDA_ERROR_INVALID_ARGUMENT);
    CHECK(answer.message.starts_with("msda_tuning_import: text"));
    CHECK(answer.message.find(wrong.words) != std::string::npos);
    CHECK(answer.message.size() < 400);
    CHECK(export_records(handle) == good);
  }
  std::string const another = with_word(line, "batch", "5");
  Answer const half = import_records(handle, kTitle + another + with_word(line, "batch", "x"));
  CHECK(half.message.find("line 3: batch has 'x'") != std::string::npos);
  CHECK(export_records(handle) == good);
  Answer const newer = import_records(handle, "libmsda tuning records 4\nwhatever it has\n");
  CHECK(newer.status == MSDA_ERROR_STALE_PLAN);
  CHECK(newer.message.find("this library reads format 3") != std::string::npos);
}

TEST_CASE("no damage to a text does harm") {
  RefRecord const ref;
  TestHandle const handle(2);
  std::string const& good = ref.text;
  std::size_t const first_line = good.find('\n') + 1;
  for (std::size_t length = 0; length < good.size(); ++length) {
    CAPTURE(length);
    Answer const answer = import_records(handle, good.substr(0, length));
    CHECK((answer.status == MSDA_SUCCESS) == (length == first_line));
  }
  int refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int const flip : {0x01, 0x10, 0x40, 0x80, 0xFF}) {
      std::string changed = good;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      CAPTURE(i);
      CAPTURE(changed);
      TestHandle const fresh(1);
      Answer const answer = import_records(fresh, changed);
      bool const is_known = answer.status == MSDA_SUCCESS ||
                            answer.status == MSDA_ERROR_INVALID_ARGUMENT ||
                            answer.status == MSDA_ERROR_STALE_PLAN;
      CHECK(is_known);
      refused += answer.status == MSDA_SUCCESS ? 0 : 1;
      // What is taken is a record like any other.
      std::string const taken = export_records(fresh);
      CHECK(line_count(taken) == (answer.status == MSDA_SUCCESS ? 2 : 1));
      CHECK(import_records(TestHandle(1), taken).message == "");
    }
  }
  CHECK(refused > static_cast<int>(good.size()) * 3);
}

TEST_CASE("a buffer too small for the records is left alone") {
  RefRecord const ref;
  std::string buffer(ref.text.size(), 'x');  // one too few: the NUL
  std::size_t bytes = buffer.size();
  CHECK(msda_tuning_export(ref.handle.get(), buffer.data(), &bytes) == MSDA_ERROR_BUFFER_TOO_SMALL);
  CHECK(bytes == export_records(ref.handle).size() + 1);
  CHECK(buffer == std::string(buffer.size(), 'x'));
}

TEST_CASE("many threads tune plan export and import at once") {
  RefRecord const ref;
  TestHandle const handle(2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      TestProblem problem = ref.problem;
      for (int i = 0; i < 20; ++i) {
        bool is_right = true;
        if (t % 4 == 0) is_right = import_records(handle, ref.text).message.empty();
        if (t % 4 == 1) is_right = export_records(handle).starts_with(kTitle);
        if (t % 4 == 2) {
          is_right =
              make_plan(handle, problem.shape, plan_options(MSDA_PLAN_TUNED)).plan != nullptr;
        }
        if (t % 4 == 3) {
          PlanPtr const room = make_plan(handle, problem.shape, "ref.cpu@1").plan;
          CallBuffers buffers(problem, room.get(), 2);
          TuneRequest request;
          request.budget_ms = 0.5;
          is_right = tune_plan(handle, problem.shape, buffers.c(), request).message.empty() &&
                     buffers.check_written().empty();
        }
        if (!is_right) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(line_count(export_records(handle)) == 2);
}

TEST_CASE("tuning in a forked process is refused") {
  TestHandle const handle(2);
  TestProblem const problem = sample("decoder");
  auto const buffers = roomy_buffers(handle, problem);
  pid_t const pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    PlanResult const plan = tune_plan(handle, problem.shape, buffers->c());
    bool const is_refused = plan.status == MSDA_ERROR_INVALID_ARGUMENT &&
                            plan.message.find("fork") != std::string::npos;
    _exit(is_refused ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("every allocation of tuning and of an import fails in turn") {
  RefRecord const ref;
  CountingAllocator allocator;
  msda_handle_options options = cpu_options(1);
  allocator.install(options);
  {
    TestHandle const handle(options);
    auto const buffers = roomy_buffers(handle, ref.problem);
    buffers->c().workspace = nullptr;
    buffers->c().workspace_bytes = 0;
    REQUIRE(tune_plan(handle, ref.problem.shape, buffers->c()).message == "");
    REQUIRE(import_records(handle, ref.text).message == "");
    std::size_t const live_before = allocator.live_blocks();
    int out_of_memory = 0;
    auto const fail_each = [&](auto call) {
      for (std::int64_t k = 1; k < 100; ++k) {
        CAPTURE(k);
        std::string const records = export_records(handle);
        std::int64_t const calls_before = allocator.calls();
        allocator.fail_at(k);
        msda_status const status = call();
        allocator.fail_at(0);
        CHECK(allocator.live_blocks() == live_before);
        // A kernel other than the heuristic's may go without, and is left out.
        CHECK((status == MSDA_SUCCESS || status == MSDA_ERROR_OUT_OF_MEMORY));
        if (status != MSDA_SUCCESS) CHECK(export_records(handle) == records);
        out_of_memory += status == MSDA_ERROR_OUT_OF_MEMORY ? 1 : 0;
        if (allocator.calls() - calls_before < k) return;
      }
      FAIL("it never succeeds");
    };
    fail_each([&] { return tune_plan(handle, ref.problem.shape, buffers->c()).status; });
    CHECK(out_of_memory >= 3);  // the problem, the plan, the record
    out_of_memory = 0;
    fail_each([&] { return import_records(handle, ref.text).status; });
    CHECK(out_of_memory >= 3);  // the record's node and its texts
  }
  CHECK(allocator.live_blocks() == 0);
  CHECK(allocator.complaint() == "");
}

// Skipped in a sanitized build, where allocations can be counted but not made to fail.
TEST_CASE("every allocation of the library's own in an import fails in turn" *
          doctest::skip(!can_fail_allocations())) {
  RefRecord const ref;
  TestHandle const handle(1);
  int out_of_memory = 0;
  for (std::int64_t k = 1;; ++k) {
    REQUIRE(k < 10'000);
    msda_status status = MSDA_SUCCESS;
    bool happened = false;
    {
      AllocationFault const fault(k);
      status = msda_tuning_import(handle.get(), ref.text.data(), ref.text.size());
      happened = fault.happened();
    }
    CAPTURE(k);
    if (!happened) {
      CHECK(status == MSDA_SUCCESS);
      break;
    }
    CHECK((status == MSDA_ERROR_OUT_OF_MEMORY || status == MSDA_SUCCESS));
    out_of_memory += status == MSDA_ERROR_OUT_OF_MEMORY ? 1 : 0;
    if (status != MSDA_SUCCESS) CHECK(export_records(handle) == kTitle);
  }
  CHECK(out_of_memory > 0);
}
