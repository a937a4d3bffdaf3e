// Bits of kernels on the simulated GPU, and of ref, beside those kept in tests/cases/bits.csv: they
// change only with the revision in the kernel's id. Left out are simd, whose bits depend on the
// width of the machine's vectors, fused input, whose exponentials are the C library's, and kernels
// whose bits differ from run to run.
//
// MSDA_TEST_WRITE_BITS=FILE adds what is new to the file and drops earlier revisions. It fails, and
// writes nothing, where a kernel has other bits under the revision that is kept.

#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/kernel_cases.h"
#include "support/runner.h"
#include "support/source_path.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>

using namespace msda::test;

namespace {

constexpr std::string_view kTitle =
    "# Hashes of results on the simulated GPU; what makes this file is said in "
    "tests/cases/README.md.";
constexpr std::string_view kColumns = "kernel_id,operation,hash";
using Hashes = std::map<std::string, std::string>;  // by "kernel_id,operation"

Hashes read_hashes(std::string const& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  Hashes hashes;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line == kColumns) continue;
    std::size_t const last = line.rfind(',');
    hashes[line.substr(0, last)] = line.substr(last + 1);
  }
  return hashes;
}

void write_hashes(std::string const& path, Hashes const& hashes) {
  std::ofstream file(path);
  file << kTitle << "\n" << kColumns << "\n";
  for (auto const& [key, hash] : hashes) file << key << "," << hash << "\n";
  file.close();
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

// Multiples of 1 / unit: no function of the C library makes them, and products of two are not
// exact.
void fill(std::vector<double>& numbers, std::int64_t count, double low, double high, double unit,
          Rng& rng) {
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<double>(rng.integer(static_cast<std::int64_t>(low * unit),
                                                      static_cast<std::int64_t>(high * unit))) /
                      unit);
  }
}

// Points in and around maps of several tiles, enough for sums whose order shows.
TestProblem make_problem(ProblemShape shape) {
  std::int32_t const points = shape.levels.front().points;
  shape.levels = {{23, 18, points}, {6, 7, points}};
  shape.query_count = 45;
  TestProblem problem{shape, {}};
  Rng rng(44);
  for (TensorRow const& row : tensor_rows()) {
    if (row.is_result() || row.is_optional() || !row.belongs_to(shape)) continue;
    std::int64_t const count = layout_of(shape, row.id).element_count();
    if (row.id == TensorId::kCoord) {
      fill(problem.inputs[row.id], count, -0.1, 1.1, 65521, rng);
    } else {
      fill(problem.inputs[row.id], count, -2, 2, 1021, rng);
    }
  }
  problem.settle();
  return problem;
}

std::string hash_of(RunResult const& result) {
  std::uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
  for (std::vector<std::uint64_t> const& tensor : result.bits) {
    for (std::uint64_t const bits : tensor) {
      for (int byte = 0; byte < 8; ++byte) {
        hash = (hash ^ (bits >> (8 * byte) & 0xFF)) * 0x100000001B3u;
      }
    }
  }
  return fmt::format("{:016x}", hash);
}

Hashes found_hashes(TestHandle const& handle) {
  Hashes found;
  for (std::string const& id : kernel_ids(handle)) {
    if (id.starts_with("simd.") || !is_deterministic(id)) continue;
    for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
      std::optional<ProblemShape> const shape = shape_for(handle, id, operation, 0);
      if (!shape) continue;
      CAPTURE(id);
      RunResult const result = run(handle, make_problem(*shape), id, 5);
      REQUIRE(result.failure == "");
      found[fmt::format("{},{}", id, operation == MSDA_FORWARD ? "forward" : "backward")] =
          hash_of(result);
    }
  }
  return found;
}

std::string without_revision(std::string const& key) {
  std::size_t const at = key.find('@');
  return key.substr(0, at) + key.substr(key.find(',', at));
}

void check_bits(TestHandle const& handle) {
  std::string const path = source_path("tests/cases/bits.csv");
  const char* const write_to = std::getenv("MSDA_TEST_WRITE_BITS");
  Hashes kept = read_hashes(path);
  Hashes const found = found_hashes(handle);
  bool all_agree = true;
  for (auto const& [key, hash] : found) {
    CAPTURE(key);
    auto const entry = kept.find(key);
    bool const is_new = entry == kept.end();
    if (is_new && write_to != nullptr) continue;
    CHECK_MESSAGE(!is_new, "has no entry in tests/cases/bits.csv: see tests/cases/README.md");
    if (is_new) continue;
    CHECK_MESSAGE(entry->second == hash, "other bits under the same revision: raise it");
    all_agree = all_agree && entry->second == hash;
  }
  fmt::print("[bits   ] {} results, {} kept\n", found.size(), kept.size());
  if (write_to == nullptr || !all_agree) return;
  for (auto const& [key, hash] : found) {
    std::erase_if(kept, [&](auto const& entry) {
      return without_revision(entry.first) == without_revision(key);
    });
    kept[key] = hash;
  }
  write_hashes(write_to, kept);
}

}  // namespace

TEST_CASE("bits change only with the revision") { check_bits(TestHandle()); }
#if MSDA_TEST_SIMULATED  // bits of a GPU are those of its compiler
TEST_CASE("bits on the simulated GPU change only with the revision" * needs_gpu()) {
  check_bits(TestHandle(gpu_options()));
}
#endif
