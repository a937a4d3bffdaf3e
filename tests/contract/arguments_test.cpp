// Every field of every struct, and every parameter of every function, with wrong values: the exact
// status, a message that names it, nothing touched, and the next call right.

#include "contract/argument_rules.h"
#include "support/environment.h"
#include "support/gpu_memory.h"
#include "support/gpu_tests.h"
#include "support/random_problem.h"
#include "support/runner.h"
#include "support/source_path.h"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <set>

using namespace msda::test;
using nlohmann::json;

namespace {

json const& abi() {
  static json const description = json::parse(std::ifstream(source_path("tests/abi/abi.json")));
  return description;
}

// ---- values
// ----------------------------------------------------------------------------------------------

// What a field of some type is set to, besides what it is when the struct is right.
std::vector<std::int64_t> values_for(std::string const& type, std::size_t bytes,
                                     std::int64_t right) {
  if (type == "const char *") {
    std::vector<std::int64_t> texts(std::size(kTextValues));
    std::iota(texts.begin(), texts.end(), 0);
    return texts;
  }
  if (type.ends_with("*") || type.ends_with("_fn")) {
    alignas(256) static const char spare[1024] = {};
    std::int64_t const address = right != 0 ? right : reinterpret_cast<std::int64_t>(&spare[256]);
    bool const is_tensor =
        type.find("void") != std::string::npos || type.find("float") != std::string::npos;
    std::vector<std::int64_t> values = {0, right, address + 1, address + 2, address + 3};
    // An address that overflows can be told from a right one only where the library knows the size.
    if (is_tensor) values.push_back(-64);
    return values;
  }
  if (type == "double") return {0, 1, -1};
  if (bytes == 4) {
    return {right, 0, 1,   -1,    2,     3,         4,         5,
            6,     7, 100, 65536, 65537, INT32_MAX, INT32_MIN, INT32_MIN + 1};
  }
  return {right,
          0,
          1,
          -1,
          2,
          7,
          INT32_MAX,
          std::int64_t{1} << 31,
          std::int64_t{1} << 32,
          std::int64_t{1} << 40,
          std::int64_t{1} << 62,
          INT64_MAX,
          INT64_MIN,
          INT32_MIN,
          4096,
          4097};
}

// ---- a stage with everything right on it
// -----------------------------------------------------------------

template <typename T>
T* untouched() {
  return reinterpret_cast<T*>(0x5);
}

// What a handle of the CPU and one of a GPU are asked for: a kernel that takes everything, and
// gradients of a type that it needs a workspace for.
struct Place {
  msda_handle_options options;
  std::int64_t kernel_text;
  msda_dtype grad_value_dtype;

  bool on_gpu() const { return options.device >= 0; }
  const char* kernel_id() const { return kTextValues[kernel_text]; }
};
Place cpu_place() { return {cpu_options(1), kCpuText, MSDA_DTYPE_F32}; }
Place gpu_place() { return {gpu_options(), kGpuText, MSDA_DTYPE_F64}; }

struct PlannedCall {
  TestProblem problem;
  PlanPtr plan;
  RunResult expected;
  std::unique_ptr<CallBuffers> buffers;
  std::unique_ptr<PlacedCall> placed;

  PlannedCall(TestHandle const& handle, ProblemShape const& shape, std::string const& kernel_id) {
    Rng rng(1);
    problem = fill_problem(shape, DataKind{}, rng);
    plan = make_plan(handle, shape, kernel_id).plan;
    REQUIRE(plan != nullptr);
    expected = run_plan(plan.get(), problem, 0);
    REQUIRE(expected.failure == "");
    buffers = std::make_unique<CallBuffers>(problem, plan.get(), 0);
    if (shape.fused() && !shape.backward()) buffers->ask_for(TensorId::kAttention);
    placed = std::make_unique<PlacedCall>(handle, plan.get(), *buffers);
  }
  msda_tensors const& c() const { return placed->c(); }
  std::size_t workspace_bytes() const { return plan_info(plan.get()).workspace_bytes; }
  std::int64_t grad_value_bytes() const {
    return static_cast<std::int64_t>(element_bytes(problem.shape.grad_value_dtype));
  }

  // Executes with these tensors. A failure must leave every result as it was.
  msda_status execute(msda_tensors const* tensors, msda_stream stream = nullptr) {
    placed->poison();
    msda_status const status = msda_execute(plan.get(), tensors, stream);
    if (status != MSDA_SUCCESS) check_untouched();
    return status;
  }
  void check_untouched() {
    CHECK(placed->finish() == "");
    CHECK(buffers->check_untouched() == "");
  }
  void check_right_call() {
    REQUIRE(execute(&c()) == MSDA_SUCCESS);
    REQUIRE(placed->finish() == "");
    for (TensorRow const& row : tensor_rows()) {
      if (!row.is_result() || !row.belongs_to(problem.shape)) continue;
      CHECK(buffers->tensor(row.id).bits() == expected.bits[static_cast<std::size_t>(row.id)]);
    }
  }
};

ProblemShape stage_shape(Place const& place, msda_operation operation, std::int32_t reference_dim) {
  ProblemShape shape;
  shape.levels = {{4, 5, 2}, {2, 2, 2}};
  shape.batch = 2;
  shape.query_count = 3;
  shape.head_count = 2;
  shape.head_dim = 4;
  shape.operation = operation;
  shape.reference_dim = reference_dim;
  shape.grad_value_dtype = place.grad_value_dtype;
  return shape;
}

struct Stage {
  Place place;
  TestHandle handle{place.options};
  PlannedCall forward{handle, stage_shape(place, MSDA_FORWARD, 0), place.kernel_id()};
  PlannedCall backward{handle, stage_shape(place, MSDA_BACKWARD, 0), place.kernel_id()};
  PlannedCall chosen{handle, stage_shape(place, MSDA_BACKWARD, 0), ""};  // the library's choice
  PlannedCall fused_forward{handle, stage_shape(place, MSDA_FORWARD, 2), place.kernel_id()};
  PlannedCall fused{handle, stage_shape(place, MSDA_BACKWARD, 2), place.kernel_id()};
  // As many levels as any level_count that is legal would read.
  std::vector<std::int32_t> level_hw = std::vector<std::int32_t>(2 * 65536, 1);

  explicit Stage(Place const& at) : place(at) {
    std::int32_t const first[] = {4, 5, 2, 2};
    std::copy(std::begin(first), std::end(first), level_hw.begin());
  }

  msda_problem problem(msda_operation operation = MSDA_FORWARD) const {
    msda_problem problem{};
    problem.struct_size = sizeof(problem);
    problem.level_hw = level_hw.data();
    problem.level_count = 2;
    problem.point_count = 2;
    problem.batch = 2;
    problem.query_count = 3;
    problem.head_count = 2;
    problem.head_dim = 4;
    problem.value_dtype = MSDA_DTYPE_F32;
    problem.grad_value_dtype = place.grad_value_dtype;
    problem.operation = operation;
    return problem;
  }
  msda_plan_options options() const {
    msda_plan_options options{};
    options.struct_size = sizeof(options);
    options.mode = MSDA_PLAN_FORCED;
    options.kernel_id = place.kernel_id();
    return options;
  }

  msda_status create_plan(msda_problem const* problem, msda_plan_options const* options) const {
    msda_plan* plan = untouched<msda_plan>();
    msda_status const status = msda_plan_create(handle.get(), problem, options, &plan);
    if (status == MSDA_SUCCESS) msda_plan_destroy(plan);
    if (status != MSDA_SUCCESS) CHECK(plan == untouched<msda_plan>());
    return status;
  }
  msda_status tune_plan(msda_problem const* problem, msda_plan_options const* options,
                        msda_tensors const* sample, msda_stream stream = nullptr,
                        double budget_ms = 1) {
    return tune_plan(forward, problem, options, sample, stream, budget_ms);
  }
  msda_status tune_plan(PlannedCall& call, msda_problem const* problem,
                        msda_plan_options const* options, msda_tensors const* sample,
                        msda_stream stream = nullptr, double budget_ms = 1) {
    call.placed->poison();
    msda_plan* plan = untouched<msda_plan>();
    msda_status const status =
        msda_plan_tune(handle.get(), problem, options, sample, stream, budget_ms, &plan);
    if (status == MSDA_SUCCESS) {
      CHECK(call.placed->finish() == "");
      bool const has_all = std::memcmp(sample, &call.c(), sizeof(*sample)) == 0;
      if (has_all || !call.problem.shape.backward()) CHECK(call.buffers->check_written() == "");
      msda_plan_destroy(plan);
    } else {
      CHECK(plan == untouched<msda_plan>());
      call.check_untouched();
    }
    return status;
  }
  msda_status explain(msda_problem const* problem) const {
    std::size_t bytes = 77;
    msda_status const status = msda_explain(handle.get(), problem, nullptr, &bytes);
    CHECK((bytes == 77) == (status != MSDA_SUCCESS));
    return status;
  }
};

// ---- structs
// ---------------------------------------------------------------------------------------------

template <typename T>
std::vector<std::byte> bytes_of(T const& object) {
  auto const* const begin = reinterpret_cast<const std::byte*>(&object);
  return {begin, begin + sizeof(object)};
}

// One function with one of its structs; everything else about the call is right.
struct Scene {
  std::string function, structure, note;
  msda_status when_right;
  Rules rules;
  std::function<std::vector<std::byte>()> right;
  std::function<msda_status(void* structure)> call;
  // The struct may be right and yet not fit the rest of the call.
  bool may_not_fit = false;
};

template <typename T>
const T* as(void* structure) {
  return static_cast<const T*>(structure);
}

std::vector<Scene> handle_scenes(Stage& stage) {
  return {
      {"msda_handle_create", "msda_handle_options", "", MSDA_SUCCESS, handle_options_rules(),
       [&stage] { return bytes_of(stage.place.options); },
       [](void* structure) {
         msda_handle* handle = untouched<msda_handle>();
         msda_status const status = msda_handle_create(as<msda_handle_options>(structure), &handle);
         if (status == MSDA_SUCCESS) msda_handle_destroy(handle);
         if (status != MSDA_SUCCESS) CHECK(handle == untouched<msda_handle>());
         return status;
       }},
      {"msda_kernel_get", "msda_kernel_info", "", MSDA_SUCCESS, kernel_info_rules(),
       [] { return bytes_of(msda_kernel_info{sizeof(msda_kernel_info), nullptr, nullptr, 0, 0}); },
       [&stage](void* structure) {
         return msda_kernel_get(stage.handle.get(), 0, static_cast<msda_kernel_info*>(structure));
       }},
      {"msda_plan_get_info", "msda_plan_info", "", MSDA_SUCCESS, plan_info_rules(),
       [] { return bytes_of(msda_plan_info{sizeof(msda_plan_info), nullptr, 0, 0, 0, 0, 0}); },
       [&stage](void* structure) {
         return msda_plan_get_info(stage.forward.plan.get(),
                                   static_cast<msda_plan_info*>(structure));
       }},
  };
}

std::vector<Scene> problem_scenes(Stage& stage) {
  auto const right = [&stage] { return bytes_of(stage.problem()); };
  return {
      {"msda_explain", "msda_problem", "", MSDA_SUCCESS, problem_rules(), right,
       [&stage](void* structure) { return stage.explain(as<msda_problem>(structure)); }},
      {"msda_plan_create", "msda_problem", "", MSDA_SUCCESS, problem_rules(), right,
       [&stage](void* structure) {
         // On a GPU no kernel takes every value type.
         msda_plan_options const options = stage.options();
         return stage.create_plan(as<msda_problem>(structure),
                                  stage.place.on_gpu() ? nullptr : &options);
       }},
      // No budget: tensors of another problem's sizes must not be run on.
      {"msda_plan_tune", "msda_problem", "", MSDA_ERROR_INVALID_ARGUMENT, problem_rules(), right,
       [&stage](void* structure) {
         return stage.tune_plan(as<msda_problem>(structure), nullptr, &stage.forward.c(), nullptr,
                                0);
       }},
  };
}

std::vector<Scene> option_scenes(Stage& stage) {
  auto const right = [&stage] { return bytes_of(stage.options()); };
  std::int64_t const text = stage.place.kernel_text;
  return {
      {"msda_plan_create", "msda_plan_options", "forward", MSDA_SUCCESS,
       plan_options_rules(text, stage.forward.workspace_bytes()), right,
       [&stage](void* structure) {
         msda_problem const problem = stage.problem();
         return stage.create_plan(&problem, as<msda_plan_options>(structure));
       }},
      {"msda_plan_create", "msda_plan_options", "backward", MSDA_SUCCESS,
       plan_options_rules(text, stage.backward.workspace_bytes()), right,
       [&stage](void* structure) {
         msda_problem const problem = stage.problem(MSDA_BACKWARD);
         return stage.create_plan(&problem, as<msda_plan_options>(structure));
       }},
      {"msda_plan_tune", "msda_plan_options", "", MSDA_SUCCESS, tuning_options_rules(text),
       [] {
         msda_plan_options options{};
         options.struct_size = sizeof(options);
         return bytes_of(options);
       },
       [&stage](void* structure) {
         msda_problem const problem = stage.problem();
         return stage.tune_plan(&problem, as<msda_plan_options>(structure), &stage.forward.c());
       }},
  };
}

Scene execute_scene(const char* note, PlannedCall& planned, TensorsOf tensors) {
  return {"msda_execute",
          "msda_tensors",
          note,
          MSDA_SUCCESS,
          tensors_rules(tensors, planned.workspace_bytes(), planned.grad_value_bytes()),
          [&planned] { return bytes_of(planned.c()); },
          [&planned](void* structure) { return planned.execute(as<msda_tensors>(structure)); }};
}

std::vector<Scene> tensor_scenes(Stage& stage) {
  PlannedCall& chosen = stage.chosen;
  return {
      execute_scene("forward", stage.forward, TensorsOf::kForward),
      execute_scene("backward", stage.backward, TensorsOf::kBackward),
      execute_scene("fused forward", stage.fused_forward, TensorsOf::kFusedForward),
      execute_scene("fused backward", stage.fused, TensorsOf::kFusedBackward),
      {"msda_plan_tune", "msda_tensors", "forward", MSDA_SUCCESS,
       sample_rules(stage.forward.workspace_bytes() > 0),
       [&stage] { return bytes_of(stage.forward.c()); },
       [&stage](void* structure) {
         msda_problem const problem = stage.problem();
         return stage.tune_plan(&problem, nullptr, as<msda_tensors>(structure));
       }},
      {"msda_plan_tune", "msda_tensors", "backward", MSDA_SUCCESS,
       tensors_rules(TensorsOf::kBackward, chosen.workspace_bytes(), chosen.grad_value_bytes()),
       [&chosen] { return bytes_of(chosen.c()); },
       [&stage, &chosen](void* structure) {
         msda_problem const problem = stage.problem(MSDA_BACKWARD);
         // However many bytes are said to be there: no kernel that takes more than there are.
         msda_plan_options options{};
         options.struct_size = sizeof(options);
         options.workspace_limit_bytes = chosen.workspace_bytes();
         return stage.tune_plan(chosen, &problem, &options, as<msda_tensors>(structure));
       }},
  };
}

std::vector<Scene> all_scenes(Stage& stage) {
  std::vector<Scene> scenes;
  for (auto const& some :
       {handle_scenes(stage), problem_scenes(stage), option_scenes(stage), tensor_scenes(stage)}) {
    scenes.insert(scenes.end(), some.begin(), some.end());
  }
  return scenes;
}

// The struct in memory that is zero behind it, as far as any struct_size that is legal reaches.
class StructMemory {
 public:
  explicit StructMemory(std::vector<std::byte> const& content) : memory_(8192, 64) {
    std::fill_n(memory_.data(), memory_.size(), std::byte{0});
    std::copy(content.begin(), content.end(), memory_.data());
  }
  std::byte* data() const { return memory_.data(); }
  std::vector<std::byte> copy() const { return {memory_.data(), memory_.data() + memory_.size()}; }

 private:
  GuardedBuffer memory_;
};

void check_verdict(Scene const& scene, std::string const& field, Verdict const& verdict,
                   msda_status status) {
  if (verdict.status == MSDA_SUCCESS) {
    bool const fits =
        status == scene.when_right || (scene.may_not_fit && status == MSDA_ERROR_INVALID_ARGUMENT);
    CHECK(fits);
    return;
  }
  CHECK(status == verdict.status);
  std::string const message = msda_last_error();
  CAPTURE(message);
  CHECK(message.starts_with(scene.function + ": "));
  std::string const word = verdict.names.empty() ? field : verdict.names;
  CHECK(message.find(word) != std::string::npos);
}

void check_value(Scene const& scene, json const& field, std::size_t offset, std::size_t bytes,
                 std::int64_t value) {
  auto const name = field["name"].get<std::string>();
  CAPTURE(value);
  StructMemory const memory(scene.right());
  bool const is_text = field["type"] == "const char *";
  std::int64_t const stored = is_text ? reinterpret_cast<std::int64_t>(kTextValues[value]) : value;
  std::memcpy(memory.data() + offset, &stored, bytes);
  Verdict const verdict = scene.rules.at(name)(value);
  std::vector<std::byte> const before = memory.copy();
  msda_status const status = scene.call(memory.data());
  check_verdict(scene, name, verdict, status);
  if (status != MSDA_SUCCESS) CHECK(memory.copy() == before);
  StructMemory const right(scene.right());
  CHECK(scene.call(right.data()) == scene.when_right);
}

void check_field(Scene const& scene, json const& field, NextInShard& next_in_shard) {
  auto const type = field["type"].get<std::string>();
  auto const offset = field["offset"].get<std::size_t>(), size = field["size"].get<std::size_t>();
  std::size_t const bytes = type.ends_with("]") ? 8 : size;
  for (std::size_t at = offset; at < offset + size; at += bytes) {
    std::int64_t right = 0;
    std::memcpy(&right, scene.right().data() + at, bytes);
    if (bytes == 4) right = static_cast<std::int32_t>(right);
    for (std::int64_t const value : values_for(type, bytes, right)) {
      if (next_in_shard()) check_value(scene, field, at, bytes, value);
    }
  }
}

void check_every_field(Stage& stage) {
  NextInShard next_in_shard;
  for (Scene const& scene : all_scenes(stage)) {
    CAPTURE(scene.function);
    CAPTURE(scene.structure);
    CAPTURE(scene.note);
    std::set<std::string> unknown;
    for (auto const& [name, rule] : scene.rules) unknown.insert(name);
    for (json const& field : abi()["structs"][scene.structure]["fields"]) {
      auto const name = field["name"].get<std::string>();
      CAPTURE(name);
      // A field that is new in the header needs a rule in argument_rules.cpp.
      CHECK(scene.rules.contains(name));
      if (!scene.rules.contains(name)) continue;
      unknown.erase(name);
      check_field(scene, field, next_in_shard);
    }
    CHECK(unknown.empty());
  }
  stage.forward.check_right_call();
  stage.backward.check_right_call();
  stage.fused_forward.check_right_call();
  stage.fused.check_right_call();
}

}  // namespace

TEST_CASE("every field of every struct that a function takes") {
  Stage stage(cpu_place());
  check_every_field(stage);
}
TEST_CASE("every field of every struct that a function takes, on the GPU" * needs_gpu()) {
  Stage stage(gpu_place());
  check_every_field(stage);
}

TEST_CASE("every function that takes a struct is among the scenes") {
  Stage stage(cpu_place());
  std::set<std::pair<std::string, std::string>> played;
  for (Scene const& scene : all_scenes(stage)) played.emplace(scene.function, scene.structure);
  for (auto const& [function, description] : abi()["functions"].items()) {
    for (json const& parameter : description["parameters"]) {
      for (auto const& [structure, layout] : abi()["structs"].items()) {
        auto const type = parameter["type"].get<std::string>();
        if (type != structure + " *" && type != "const " + structure + " *") continue;
        CAPTURE(function);
        CAPTURE(structure);
        CHECK(played.contains({function, structure}));
      }
    }
  }
}

namespace {

void check_tails(Stage& stage) {
  for (Scene const& scene : all_scenes(stage)) {
    CAPTURE(scene.function);
    CAPTURE(scene.structure);
    std::size_t const known = scene.right().size();
    for (std::size_t const size : {known + 1, known + 8, std::size_t{4096}}) {
      StructMemory const memory(scene.right());
      std::memcpy(memory.data(), &size, sizeof(size));
      CHECK(scene.call(memory.data()) == scene.when_right);  // zeros: nothing is asked for
      memory.data()[size - 1] = std::byte{1};
      std::vector<std::byte> const before = memory.copy();
      CHECK(scene.call(memory.data()) == MSDA_ERROR_ABI_MISMATCH);
      CHECK(std::string(msda_last_error()).find(scene.structure) != std::string::npos);
      CHECK(memory.copy() == before);
      memory.data()[size - 1] = std::byte{0};
      memory.data()[size] = std::byte{1};  // behind the struct: none of the library's business
      CHECK(scene.call(memory.data()) == scene.when_right);
    }
  }
}

}  // namespace

TEST_CASE("the tail of a struct of a newer version") {
  Stage stage(cpu_place());
  check_tails(stage);
}
TEST_CASE("the tail of a struct of a newer version, on the GPU" * needs_gpu()) {
  Stage stage(gpu_place());
  check_tails(stage);
}

// ---- parameters
// ------------------------------------------------------------------------------------------

namespace {

struct ParameterCase {
  std::string function, parameter;
  msda_status expected;
  std::function<msda_status()> call;
};

// On the CPU there is no stream; on a GPU this one is every thread's own (cudaStreamPerThread).
msda_stream some_stream(Place const& place) {
  return reinterpret_cast<msda_stream>(place.on_gpu() ? std::uintptr_t{2} : std::uintptr_t{0x1000});
}
msda_status with_some_stream(Place const& place) {
  return place.on_gpu() ? MSDA_SUCCESS : MSDA_ERROR_INVALID_ARGUMENT;
}

std::vector<ParameterCase> plain_cases(Stage& stage) {
  msda_handle* const handle = stage.handle.get();
  auto const info = [] {
    return msda_kernel_info{sizeof(msda_kernel_info), nullptr, nullptr, 0, 0};
  };
  constexpr msda_status bad = MSDA_ERROR_INVALID_ARGUMENT;
  std::vector<ParameterCase> cases = {
      {"msda_status_name", "status", MSDA_SUCCESS,
       [] { return msda_status_name(INT32_MIN) == nullptr ? MSDA_ERROR_INTERNAL : MSDA_SUCCESS; }},
      {"msda_handle_create", "options", gpu_available() ? MSDA_SUCCESS : MSDA_ERROR_CUDA,
       [] {
         msda_handle* created = nullptr;  // NULL options: zeroed, CUDA device 0
         msda_status const status = msda_handle_create(nullptr, &created);
         msda_handle_destroy(created);
         return status;
       }},
      {"msda_handle_create", "out", bad,
       [] {
         msda_handle_options const options = cpu_options(1);
         return msda_handle_create(&options, nullptr);
       }},
      {"msda_handle_destroy", "handle", MSDA_SUCCESS,
       [] { return msda_handle_destroy(nullptr), MSDA_SUCCESS; }},
      {"msda_plan_destroy", "plan", MSDA_SUCCESS,
       [] { return msda_plan_destroy(nullptr), MSDA_SUCCESS; }},
      {"msda_kernel_count", "handle", bad,
       [] {
         std::size_t count = 77;
         msda_status const status = msda_kernel_count(nullptr, &count);
         CHECK(count == 77);
         return status;
       }},
      {"msda_kernel_count", "out", bad, [=] { return msda_kernel_count(handle, nullptr); }},
      {"msda_kernel_get", "handle", bad,
       [=] {
         msda_kernel_info out = info();
         return msda_kernel_get(nullptr, 0, &out);
       }},
      {"msda_kernel_get", "out", bad, [=] { return msda_kernel_get(handle, 0, nullptr); }},
  };
  for (std::size_t const index :
       {kernel_ids(stage.handle).size(), std::size_t{1} << 32, SIZE_MAX}) {
    cases.push_back({"msda_kernel_get", "index", bad, [=] {
                       msda_kernel_info out = info();
                       msda_status const status = msda_kernel_get(handle, index, &out);
                       CHECK(out.kernel_id == nullptr);
                       return status;
                     }});
  }
  return cases;
}

// The size must stay where there is none to say.
template <typename Ask>
msda_status with_size(Ask ask) {
  std::size_t bytes = 77;
  msda_status const status = ask(&bytes);
  CHECK(bytes == 77);
  return status;
}

std::vector<ParameterCase> plan_cases(Stage& stage) {
  constexpr msda_status bad = MSDA_ERROR_INVALID_ARGUMENT;
  msda_handle* const handle = stage.handle.get();
  msda_problem const problem = stage.problem();
  auto const with_out = [](auto create) {
    msda_plan* out = untouched<msda_plan>();
    msda_status const status = create(&out);
    if (status != MSDA_SUCCESS) CHECK(out == untouched<msda_plan>());
    if (status == MSDA_SUCCESS) msda_plan_destroy(out);
    return status;
  };
  return {
      {"msda_explain", "handle", bad,
       [=] {
         return with_size([&](auto* n) { return msda_explain(nullptr, &problem, nullptr, n); });
       }},
      {"msda_explain", "problem", bad,
       [=] {
         return with_size([&](auto* n) { return msda_explain(handle, nullptr, nullptr, n); });
       }},
      {"msda_explain", "text", MSDA_SUCCESS,
       [=] {
         std::size_t bytes = 0;
         return msda_explain(handle, &problem, nullptr, &bytes);
       }},
      {"msda_explain", "text_size", bad,
       [=] {
         char text[8] = "";
         return msda_explain(handle, &problem, text, nullptr);
       }},
      {"msda_plan_create", "handle", bad,
       [=] {
         return with_out(
             [&](auto** out) { return msda_plan_create(nullptr, &problem, nullptr, out); });
       }},
      {"msda_plan_create", "problem", bad,
       [=] {
         return with_out(
             [&](auto** out) { return msda_plan_create(handle, nullptr, nullptr, out); });
       }},
      {"msda_plan_create", "options", MSDA_SUCCESS,
       [=] {
         return with_out(
             [&](auto** out) { return msda_plan_create(handle, &problem, nullptr, out); });
       }},
      {"msda_plan_create", "out", bad,
       [=] { return msda_plan_create(handle, &problem, nullptr, nullptr); }},
  };
}

std::vector<ParameterCase> made_plan_cases(Stage& stage) {
  constexpr msda_status bad = MSDA_ERROR_INVALID_ARGUMENT;
  msda_plan* const plan = stage.forward.plan.get();
  return {
      {"msda_plan_get_info", "plan", bad,
       [] {
         msda_plan_info out{sizeof(msda_plan_info), nullptr, 0, 0, 0, 0, 0};
         return msda_plan_get_info(nullptr, &out);
       }},
      {"msda_plan_get_info", "out", bad, [=] { return msda_plan_get_info(plan, nullptr); }},
      {"msda_plan_serialize", "plan", bad,
       [=] {
         return with_size([&](auto* n) { return msda_plan_serialize(nullptr, nullptr, n); });
       }},
      {"msda_plan_serialize", "blob", MSDA_SUCCESS,
       [=] {
         std::size_t bytes = 0;
         return msda_plan_serialize(plan, nullptr, &bytes);
       }},
      {"msda_plan_serialize", "blob_size", bad,
       [=] {
         char blob[8] = "";
         return msda_plan_serialize(plan, blob, nullptr);
       }},
  };
}

std::vector<ParameterCase> blob_cases(Stage& stage) {
  constexpr msda_status bad = MSDA_ERROR_INVALID_ARGUMENT;
  msda_handle* const handle = stage.handle.get();
  std::vector<std::uint8_t> const content = serialize(stage.forward.plan.get());
  std::string const blob(content.begin(), content.end());
  std::size_t const bytes = blob.size();
  auto const restore = [](msda_handle* with, const void* content, std::size_t size) {
    msda_plan* plan = untouched<msda_plan>();
    msda_status const status = msda_plan_deserialize(with, content, size, &plan);
    if (status != MSDA_SUCCESS) CHECK(plan == untouched<msda_plan>());
    if (status == MSDA_SUCCESS) msda_plan_destroy(plan);
    return status;
  };
  std::vector<ParameterCase> cases = {
      {"msda_plan_deserialize", "handle", bad,
       [=] { return restore(nullptr, blob.data(), bytes); }},
      {"msda_plan_deserialize", "blob", bad, [=] { return restore(handle, nullptr, bytes); }},
      {"msda_plan_deserialize", "out", bad,
       [=] { return msda_plan_deserialize(handle, blob.data(), bytes, nullptr); }},
      {"msda_plan_deserialize", "blob", MSDA_SUCCESS,
       [=] {
         std::string const shifted = "x" + blob;  // need not be aligned
         return restore(handle, shifted.data() + 1, bytes);
       }},
  };
  for (std::size_t const size : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8},
                                 std::size_t{9}, bytes / 2, bytes - 1}) {
    cases.push_back({"msda_plan_deserialize", "blob_size", bad,
                     [=] { return restore(handle, blob.data(), size); }});
  }
  return cases;
}

std::vector<ParameterCase> tuning_cases(Stage& stage) {
  constexpr msda_status bad = MSDA_ERROR_INVALID_ARGUMENT;
  msda_handle* const handle = stage.handle.get();
  msda_problem const problem = stage.problem();
  msda_tensors const* const sample = &stage.forward.c();
  std::vector<ParameterCase> cases = {
      {"msda_plan_tune", "handle", bad,
       [=] {
         msda_plan* out = nullptr;
         return msda_plan_tune(nullptr, &problem, nullptr, sample, nullptr, 1, &out);
       }},
      {"msda_plan_tune", "problem", bad,
       [&stage, sample] { return stage.tune_plan(nullptr, nullptr, sample); }},
      {"msda_plan_tune", "options", MSDA_SUCCESS,
       [=, &stage] { return stage.tune_plan(&problem, nullptr, sample); }},
      {"msda_plan_tune", "sample", bad,
       [=, &stage] { return stage.tune_plan(&problem, nullptr, nullptr); }},
      {"msda_plan_tune", "stream", with_some_stream(stage.place),
       [=, &stage] {
         return stage.tune_plan(&problem, nullptr, sample, some_stream(stage.place));
       }},
      {"msda_plan_tune", "out", bad,
       [=] { return msda_plan_tune(handle, &problem, nullptr, sample, nullptr, 1, nullptr); }},
      {"msda_tuning_export", "handle", bad,
       [] {
         std::size_t bytes = 0;
         return msda_tuning_export(nullptr, nullptr, &bytes);
       }},
      {"msda_tuning_export", "text", MSDA_SUCCESS,
       [=] {
         std::size_t bytes = 0;
         return msda_tuning_export(handle, nullptr, &bytes);
       }},
      {"msda_tuning_export", "text_size", bad,
       [=] { return msda_tuning_export(handle, nullptr, nullptr); }},
      {"msda_tuning_import", "handle", bad, [] { return msda_tuning_import(nullptr, "", 0); }},
      {"msda_tuning_import", "text", bad, [=] { return msda_tuning_import(handle, nullptr, 0); }},
      {"msda_tuning_import", "text_size", bad, [=] { return msda_tuning_import(handle, "", 0); }},
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (double const budget_ms : {0.0, -0.0, -1.0, kInfinity, -kInfinity, std::nan(""), -1e308}) {
    cases.push_back({"msda_plan_tune", "budget_ms", bad, [=, &stage] {
                       return stage.tune_plan(&problem, nullptr, sample, nullptr, budget_ms);
                     }});
  }
  return cases;
}

std::vector<ParameterCase> execute_cases(Stage& stage) {
  constexpr msda_status bad = MSDA_ERROR_INVALID_ARGUMENT;
  return {
      {"msda_execute", "plan", bad,
       [&stage] { return msda_execute(nullptr, &stage.forward.c(), nullptr); }},
      {"msda_execute", "tensors", bad, [&stage] { return stage.forward.execute(nullptr); }},
      {"msda_execute", "stream", with_some_stream(stage.place),
       [&stage] { return stage.forward.execute(&stage.forward.c(), some_stream(stage.place)); }},
  };
}

std::vector<ParameterCase> all_parameter_cases(Stage& stage) {
  std::vector<ParameterCase> cases;
  for (auto const& some : {plain_cases(stage), plan_cases(stage), made_plan_cases(stage),
                           blob_cases(stage), tuning_cases(stage), execute_cases(stage)}) {
    cases.insert(cases.end(), some.begin(), some.end());
  }
  return cases;
}

void check_every_parameter(Stage& stage) {
  std::set<std::pair<std::string, std::string>> tried;
  for (ParameterCase const& item : all_parameter_cases(stage)) {
    CAPTURE(item.function);
    CAPTURE(item.parameter);
    tried.emplace(item.function, item.parameter);
    msda_status const status = item.call();
    CHECK(status == item.expected);
    if (status == MSDA_ERROR_INVALID_ARGUMENT) {
      std::string const message = msda_last_error();
      CAPTURE(message);
      CHECK(message.starts_with(item.function + ": "));
      bool const names_it = message.find(item.parameter) != std::string::npos;
      // Parts of a struct or a blob go by names of their own.
      bool const names_part = message.find("blob") != std::string::npos ||
                              message.find("msda_" + item.parameter) != std::string::npos ||
                              message.find("msda_tensors") != std::string::npos ||
                              message.find("msda_kernel_info") != std::string::npos ||
                              message.find("msda_plan_info") != std::string::npos;
      CHECK((names_it || names_part));
    }
    stage.forward.check_right_call();
  }
  for (auto const& [function, description] : abi()["functions"].items()) {
    for (json const& parameter : description["parameters"]) {
      auto const name = parameter["name"].get<std::string>();
      CAPTURE(function);
      CAPTURE(name);
      CHECK(tried.contains({function, name}));
    }
  }
}

}  // namespace

TEST_CASE("every parameter of every function") {
  Stage stage(cpu_place());
  check_every_parameter(stage);
}
TEST_CASE("every parameter of every function, on the GPU" * needs_gpu()) {
  Stage stage(gpu_place());
  check_every_parameter(stage);
}

// ---- buffers that meet
// -----------------------------------------------------------------------------------

namespace {

std::uintptr_t address_of(msda_tensors const& tensors, std::string const& name) {
  std::uintptr_t address = 0;
  for (json const& field : abi()["structs"]["msda_tensors"]["fields"]) {
    if (field["name"] != name) continue;
    std::memcpy(&address, reinterpret_cast<const char*>(&tensors) + field["offset"].get<int>(),
                sizeof(address));
  }
  REQUIRE(address != 0);
  return address;
}

void check_overlap(PlannedCall& planned, TensorRow const& written, std::uintptr_t address) {
  auto const alignment =
      element_bytes(layout_of(planned.problem.shape, written.id).dtype);  // a power of two
  msda_tensors overlapping = planned.c();
  set_pointer(overlapping, written.id, reinterpret_cast<void*>(address & ~(alignment - 1)));
  CHECK(planned.execute(&overlapping) == MSDA_ERROR_INVALID_ARGUMENT);
  std::string const message = msda_last_error();
  CAPTURE(message);
  CHECK(message.find("overlap") != std::string::npos);
  CHECK(message.find(written.name) != std::string::npos);
}

void check_overlaps(PlannedCall& planned) {
  for (TensorRow const& written : tensor_rows()) {
    bool const is_written = written.is_result() || written.is_extra();
    if (!is_written || !written.belongs_to(planned.problem.shape)) continue;
    CAPTURE(written.name);
    for (TensorRow const& other : tensor_rows()) {
      if (!other.belongs_to(planned.problem.shape) || other.id == written.id) continue;
      if (other.id == TensorId::kValueScale) continue;
      CAPTURE(other.name);
      std::uintptr_t const begin = address_of(planned.c(), std::string(other.name));
      std::size_t const bytes = planned.buffers->tensor(other.id).buffer().size();
      // At its begin, in its middle, at its last element.
      for (std::size_t const shift : {std::size_t{0}, bytes / 8 * 4, bytes - 4}) {
        check_overlap(planned, written, begin + shift);
      }
    }
    if (planned.workspace_bytes() == 0) continue;
    check_overlap(planned, written, address_of(planned.c(), "workspace") + 64);
  }
  planned.check_right_call();
}

void check_overlaps(Stage& stage) {
  for (PlannedCall* const planned :
       {&stage.forward, &stage.fused_forward, &stage.backward, &stage.fused}) {
    check_overlaps(*planned);
  }
  CHECK(stage.backward.workspace_bytes() > 0);
}

void check_shared_inputs(Stage& stage) {
  msda_tensors tensors = stage.forward.c();
  // coord has twice the elements of weight.
  tensors.weight = tensors.coord;
  CHECK(stage.forward.execute(&tensors) == MSDA_SUCCESS);
  CHECK(stage.forward.placed->finish() == "");
  CHECK(stage.forward.buffers->check_written() == "");
}

}  // namespace

TEST_CASE("a buffer that is written may overlap no other") {
  Stage stage(cpu_place());
  check_overlaps(stage);
}
TEST_CASE("a buffer that is written may overlap no other, on the GPU" * needs_gpu()) {
  Stage stage(gpu_place());
  check_overlaps(stage);
}

TEST_CASE("what lies behind the tensors that a client of the first version has is not read") {
  Stage stage(cpu_place());
  PlannedCall& call = stage.fused_forward;
  msda_tensors tensors = call.c();
  tensors.struct_size = offsetof(msda_tensors, attention);
  call.placed->poison();
  auto const untouched_bits = call.buffers->tensor(TensorId::kAttention).bits();
  CHECK(call.execute(&tensors) == MSDA_SUCCESS);
  CHECK(call.buffers->tensor(TensorId::kAttention).bits() == untouched_bits);
  CHECK(call.buffers->tensor(TensorId::kOutput).bits() ==
        call.expected.bits[static_cast<std::size_t>(TensorId::kOutput)]);
}

TEST_CASE("inputs may share memory") {
  Stage stage(cpu_place());
  check_shared_inputs(stage);
}
TEST_CASE("inputs may share memory, on the GPU" * needs_gpu()) {
  Stage stage(gpu_place());
  check_shared_inputs(stage);
}
