// Plans as bytes: there and back, stale ones, damaged ones.

#include "support/case_file.h"
#include "support/kernel_cases.h"
#include "support/runner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

using namespace msda::test;

namespace {

using Blob = std::vector<std::uint8_t>;

struct Restored {
  msda_status status;
  std::string message;
  PlanPtr plan;
};

// From memory that ends where the blob ends.
Restored deserialize(TestHandle const& handle, Blob const& blob) {
  GuardedBuffer const memory(blob.size(), 1);
  std::transform(blob.begin(), blob.end(), memory.data(),
                 [](std::uint8_t b) { return std::byte{b}; });
  auto* const untouched = reinterpret_cast<msda_plan*>(0x5);
  msda_plan* plan = untouched;
  msda_status const status = msda_plan_deserialize(handle.get(), memory.data(), blob.size(), &plan);
  if (status == MSDA_SUCCESS) return {status, "", PlanPtr(plan)};
  CHECK(plan == untouched);
  return {status, msda_last_error(), nullptr};
}

// The blob's form, written down a second time: four texts, then numbers, then the sum of all bytes.
struct Parts {
  std::string magic, version, device, kernel_id;
  std::vector<std::uint64_t> numbers;
};

std::uint64_t number_at(Blob const& blob, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, blob.data() + at, sizeof(value));
  return value;
}

void append(Blob& blob, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) blob.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

Blob with_checksum(Blob body) {
  std::uint64_t sum = 14695981039346656037u;
  for (std::uint8_t const byte : body) sum = (sum ^ byte) * 1099511628211u;
  append(body, sum);
  return body;
}

Parts parts_of(Blob const& blob) {
  Parts parts;
  std::size_t at = 0;
  for (std::string* const text : {&parts.magic, &parts.version, &parts.device, &parts.kernel_id}) {
    std::size_t const length = number_at(blob, at);
    text->assign(blob.begin() + static_cast<std::ptrdiff_t>(at) + 8,
                 blob.begin() + static_cast<std::ptrdiff_t>(at + 8 + length));
    at += 8 + length;
  }
  for (; at + 8 < blob.size(); at += 8) parts.numbers.push_back(number_at(blob, at));
  return parts;
}

Blob blob_of(Parts const& parts) {
  Blob body;
  for (std::string const* const text :
       {&parts.magic, &parts.version, &parts.device, &parts.kernel_id}) {
    append(body, text->size());
    body.insert(body.end(), text->begin(), text->end());
  }
  for (std::uint64_t const number : parts.numbers) append(body, number);
  return with_checksum(body);
}

Blob sample_blob(TestHandle const& handle) {
  ProblemShape shape = corpus_case("encoder_grid").shape;
  shape.batch = 2;  // a stride along a dimension of one may be anything
  return serialize(make_plan(handle, shape, "ref.cpu@1").plan.get());
}

}  // namespace

TEST_CASE("a plan comes back from its bytes as it was") {
  TestHandle const handle;
  for_kernels_and_cases(handle,
                        {"encoder_grid", "decoder", "bordered", "heads_outside", "mixed_fused_f8",
                         "no_queries", "no_levels", "unused_level", "levels_anywhere"},
                        [&](TestProblem const& problem, std::string const& id) {
                          PlanResult const plan = make_plan(handle, problem.shape, id);
                          Blob const blob = serialize(plan.plan.get());
                          Restored const restored = deserialize(handle, blob);
                          REQUIRE(restored.message == "");
                          CHECK(plan_info(restored.plan.get()).kernel_id == id);
                          CHECK(plan_info(restored.plan.get()).workspace_bytes ==
                                plan_info(plan.plan.get()).workspace_bytes);
                          CHECK(serialize(restored.plan.get()) == blob);
                          RunResult const expected = run_plan(plan.plan.get(), problem, 0);
                          RunResult const actual = run_plan(restored.plan.get(), problem, 0);
                          REQUIRE(expected.failure == "");
                          CHECK(actual.failure == "");
                          CHECK(actual.same_bits(expected));
                        });
}

TEST_CASE("a plan of another version device or kernel is stale") {
  TestHandle const handle;
  Parts const parts = parts_of(sample_blob(handle));
  REQUIRE(blob_of(parts) == sample_blob(handle));
  struct Change {
    std::string Parts::* member;
    std::string value;
  };
  for (Change const& change :
       {Change{&Parts::version, "0.0.1"}, Change{&Parts::version, "1.0.0"},
        Change{&Parts::device, "gpu sm_90"}, Change{&Parts::kernel_id, "ref.cpu@2"},
        Change{&Parts::kernel_id, "gone.cpu@1"}, Change{&Parts::kernel_id, ""}}) {
    Parts stale = parts;
    stale.*change.member = change.value;
    Restored const result = deserialize(handle, blob_of(stale));
    CAPTURE(change.value);
    CHECK(result.status == MSDA_ERROR_STALE_PLAN);
    CHECK(result.message.find(change.value) != std::string::npos);
  }
  Parts revised = parts;
  revised.kernel_id = "ref.cpu@2";
  CHECK(deserialize(handle, blob_of(revised))
            .message.ends_with("blob is for kernel 'ref.cpu@2': this library has ref.cpu@1"));
  // Another version may have written anything behind its number.
  Parts newer = parts;
  newer.version = "9.9.9";
  newer.numbers = {1, 2, 3};
  CHECK(deserialize(handle, blob_of(newer)).status == MSDA_ERROR_STALE_PLAN);
  // A kernel that is there and does not take the problem.
  ProblemShape backward = corpus_case("encoder_grid").shape;
  backward.operation = MSDA_BACKWARD;
  Parts refused = parts_of(serialize(make_plan(handle, backward, "ref.cpu@1").plan.get()));
  refused.kernel_id = "simd.cpu.f16@2";
  CHECK(deserialize(handle, blob_of(refused)).status == MSDA_ERROR_STALE_PLAN);
}

TEST_CASE("a damaged plan is refused at every byte") {
  TestHandle const handle;
  Blob const blob = sample_blob(handle);
  for (std::size_t i = 0; i < blob.size(); ++i) {
    CAPTURE(i);
    Blob damaged = blob;
    damaged[i] ^= static_cast<std::uint8_t>(1u << (i % 8));
    CHECK(deserialize(handle, damaged).status == MSDA_ERROR_INVALID_ARGUMENT);
    CHECK(deserialize(handle, Blob(blob.begin(), blob.begin() + static_cast<std::ptrdiff_t>(i)))
              .status == MSDA_ERROR_INVALID_ARGUMENT);
  }
  Blob longer = blob;
  longer.push_back(0);
  CHECK(deserialize(handle, longer).status == MSDA_ERROR_INVALID_ARGUMENT);
  CHECK(deserialize(handle, blob).status == MSDA_SUCCESS);
}

TEST_CASE("no document with a right checksum does harm") {
  TestHandle const handle;
  Blob const blob = sample_blob(handle);
  Blob const body(blob.begin(), blob.end() - 8);
  // Every byte changed and every length cut, checksum made right again: the parser and the checks
  // of the problem are all that is left. A change may happen to be another legal plan.
  int refused = 0;
  for (std::size_t i = 0; i < body.size(); ++i) {
    for (int const flip : {0x01, 0x20, 0x80, 0xFF}) {
      Blob changed = body;
      changed[i] ^= static_cast<std::uint8_t>(flip);
      Restored const result = deserialize(handle, with_checksum(changed));
      CAPTURE(i);
      CAPTURE(result.message);
      CHECK((result.status == MSDA_SUCCESS || result.status == MSDA_ERROR_INVALID_ARGUMENT ||
             result.status == MSDA_ERROR_STALE_PLAN || result.status == MSDA_ERROR_OUT_OF_MEMORY));
      refused += result.status == MSDA_SUCCESS ? 0 : 1;
    }
    Blob const cut(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK(deserialize(handle, with_checksum(cut)).status == MSDA_ERROR_INVALID_ARGUMENT);
  }
  CHECK(refused > static_cast<int>(body.size()));
}

TEST_CASE("crafted blobs are refused") {
  TestHandle const handle;
  Parts const parts = parts_of(sample_blob(handle));
  auto const check_refused = [&](std::string const& what, Blob const& blob) {
    CAPTURE(what);
    Restored const result = deserialize(handle, blob);
    CHECK(result.status == MSDA_ERROR_INVALID_ARGUMENT);
    CHECK(result.message != "");
  };
  Parts other_magic = parts;
  other_magic.magic = "msda-flan";
  check_refused("another magic", blob_of(other_magic));
  Parts longer = parts;
  longer.numbers.push_back(0);
  check_refused("a number too many", blob_of(longer));
  Parts shorter = parts;
  shorter.numbers.pop_back();
  check_refused("a number too few", blob_of(shorter));
  // Each number as something that no plan has there. The first is the length of level_hw.
  for (std::size_t i = 0; i < parts.numbers.size(); ++i) {
    for (std::uint64_t const value : {std::uint64_t{1} << 62, UINT64_MAX, std::uint64_t{1} << 63}) {
      Parts crafted = parts;
      crafted.numbers[i] = value;
      check_refused("number " + std::to_string(i), blob_of(crafted));
    }
  }
  for (std::uint64_t const length : {std::uint64_t{1} << 62, UINT64_MAX, std::uint64_t{1} << 32}) {
    Blob text_too_long;
    append(text_too_long, length);
    check_refused("a text longer than the blob", with_checksum(text_too_long));
  }
  check_refused("nothing", {});
  check_refused("a checksum of nothing", with_checksum({}));
}

TEST_CASE("problems inside a blob pass through the caller's checks") {
  TestHandle const handle;
  Parts const parts = parts_of(sample_blob(handle));
  // The scalars are the last 37 numbers; these are some of them.
  struct Change {
    std::size_t from_end;
    const char* field;
    std::int64_t value;
  };
  for (Change const& change :
       {Change{37, "value_strides", -1}, Change{19, "batch", -1}, Change{15, "token_count", 209},
        Change{14, "value_border", 2}, Change{12, "operation", 2}, Change{10, "value_dtype", 77},
        Change{3, "determinism", -7}, Change{2, "point_locality", 3},
        Change{1, "sampling_mode", 2}}) {
    Parts bad = parts;
    bad.numbers[bad.numbers.size() - change.from_end] = static_cast<std::uint64_t>(change.value);
    Restored const result = deserialize(handle, blob_of(bad));
    CAPTURE(change.field);
    CHECK(result.status == MSDA_ERROR_INVALID_ARGUMENT);
    CHECK(result.message.find(change.field) != std::string::npos);
    CHECK(result.message.find(std::to_string(change.value)) != std::string::npos);
  }
}
