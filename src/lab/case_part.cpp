#include "lab/case_part.h"

#include "lab/random_numbers.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace msda::lab {
namespace {

std::vector<std::int64_t> range(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(last - first));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

// `count` of 0 .. limit - 1 in ascending order, the first and last of them always.
std::vector<std::int64_t> choose(std::int64_t limit, std::int64_t count, std::uint64_t seed) {
  std::set<std::int64_t> chosen;
  if (limit > 0) chosen = {0, limit - 1};
  Rng random(seed);
  while (static_cast<std::int64_t>(chosen.size()) < std::min(limit, count)) {
    chosen.insert(static_cast<std::int64_t>(random.unit() * static_cast<double>(limit)));
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace

Part choose_part(ProblemShape const& spec, std::int64_t query_count, std::uint64_t seed) {
  if (query_count == 0) return batch_range(spec, 0, spec.batch);
  return {choose(spec.batch, 2, seed), choose(spec.query_count, query_count, seed)};
}

Part batch_range(ProblemShape const& spec, std::int64_t first, std::int64_t last) {
  return {range(first, last), range(0, spec.query_count)};
}

Array take_part(Array const& full, Part const& part, bool has_queries) {
  Shape shape = full.shape;
  shape[0] = static_cast<std::int64_t>(part.batch_items.size());
  if (has_queries) shape[1] = static_cast<std::int64_t>(part.queries.size());
  Array result(full.type, shape);
  if (full.bytes.empty()) return result;
  std::size_t const item_bytes = full.bytes.size() / static_cast<std::size_t>(full.shape[0]);
  std::size_t const row_bytes =
      has_queries ? item_bytes / static_cast<std::size_t>(full.shape[1]) : item_bytes;
  std::vector<std::int64_t> const whole = {0};
  auto out = result.bytes.begin();
  for (std::int64_t const item : part.batch_items) {
    for (std::int64_t const row : has_queries ? part.queries : whole) {
      auto const begin = full.bytes.begin() +
                         static_cast<std::ptrdiff_t>(static_cast<std::size_t>(item) * item_bytes +
                                                     static_cast<std::size_t>(row) * row_bytes);
      out = std::copy(begin, begin + static_cast<std::ptrdiff_t>(row_bytes), out);
    }
  }
  return result;
}

Case take_part(Case const& full, Part const& part) {
  Case result;
  result.spec = full.spec;
  result.spec.query_hw.clear();
  result.spec.batch = static_cast<std::int64_t>(part.batch_items.size());
  result.spec.query_count = static_cast<std::int64_t>(part.queries.size());
  for (TensorRow const& row : tensor_rows()) {
    Array const* const array = full.find(row.name);
    if (array == nullptr) continue;
    result.arrays.emplace(row.name, row.axes.starts_with("B")
                                        ? take_part(*array, part, row.axes.starts_with("BQ"))
                                        : *array);
  }
  return result;
}

}  // namespace msda::lab
