#include "command/problem/case_part.h"

#include "command/problem/random_numbers.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace msda::command {
namespace {

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

// The numbers that a part has of an axis; null: all.
std::vector<std::int64_t> const* numbers_of(Part const& part, char axis, std::int64_t size) {
  std::vector<std::int64_t> const* const numbers = part.of(axis);
  bool const is_whole = numbers == nullptr || static_cast<std::int64_t>(numbers->size()) == size;
  return is_whole ? nullptr : numbers;
}

// Calls visit(first, count) for runs of elements of a packed array that belong to the part, in
// order.
template <typename Visit>
class RunsOfPart {
 public:
  RunsOfPart(Shape const& shape, std::string_view axes, Part const& part, Visit const& visit)
      : shape_(shape), visit_(visit), sizes_(shape.size() + 1, 1) {
    for (std::size_t i = shape.size(); i-- > 0;) {
      numbers_.insert(numbers_.begin(), numbers_of(part, axes[i], shape[i]));
      sizes_[i] = sizes_[i + 1] * shape[i];
      if (numbers_.front() != nullptr && depth_ == 0) depth_ = i + 1;
    }
  }

  // The elements behind one of index `axis` - 1, which begin at `first`.
  void walk(std::size_t axis = 0, std::int64_t first = 0) const {
    if (axis == depth_) return visit_(first, sizes_[axis]);
    std::vector<std::int64_t> const* const numbers = numbers_[axis];
    std::int64_t const size = sizes_[axis + 1];
    std::int64_t const count =
        numbers == nullptr ? shape_[axis] : static_cast<std::int64_t>(numbers->size());
    if (numbers != nullptr && axis + 1 == depth_ && count > 0 &&
        numbers->back() - numbers->front() + 1 == count) {
      return visit_(first + numbers->front() * size, count * size);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      walk(axis + 1,
           first + size * (numbers == nullptr ? i : (*numbers)[static_cast<std::size_t>(i)]));
    }
  }

 private:
  Shape const& shape_;
  Visit const& visit_;
  std::vector<std::vector<std::int64_t> const*> numbers_;
  Shape sizes_;            // of the elements behind one index of each axis
  std::size_t depth_ = 0;  // axes from here on are whole
};

}  // namespace

std::vector<std::int64_t> number_range(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(last - first));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

Part whole_part(ProblemShape const& spec) {
  return {number_range(0, spec.batch), number_range(0, spec.query_count),
          number_range(0, spec.head_count), number_range(0, spec.head_dim)};
}

Part choose_part(ProblemShape const& spec, std::int64_t query_count, std::uint64_t seed) {
  Part part = whole_part(spec);
  if (query_count == 0) return part;
  part.batch_items = choose(spec.batch, 2, seed);
  part.queries = choose(spec.query_count, query_count, seed);
  return part;
}

ProblemShape take_part(ProblemShape const& spec, Part const& part) {
  ProblemShape result = spec;
  result.query_hw.clear();
  result.batch = static_cast<std::int64_t>(part.batch_items.size());
  result.query_count = static_cast<std::int64_t>(part.queries.size());
  result.head_count = static_cast<std::int64_t>(part.heads.size());
  result.head_dim = static_cast<std::int64_t>(part.channels.size());
  return result;
}

Array take_part(Array const& full, std::string_view axes, Part const& part) {
  Shape shape = full.shape;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    auto const* const numbers = numbers_of(part, axes[i], shape[i]);
    if (numbers != nullptr) shape[i] = static_cast<std::int64_t>(numbers->size());
  }
  Array result(full.type, shape);
  if (result.bytes.empty()) return result;
  auto const element_bytes = static_cast<std::int64_t>(type_bytes(full.type));
  auto out = result.bytes.begin();
  auto const copy = [&](std::int64_t first, std::int64_t count) {
    out = std::copy_n(full.bytes.begin() + first * element_bytes, count * element_bytes, out);
  };
  RunsOfPart(full.shape, axes, part, copy).walk();
  return result;
}

void put_part(Array& full, std::string_view axes, Part const& part, Array const& elements) {
  if (elements.bytes.empty()) return;
  auto const element_bytes = static_cast<std::int64_t>(type_bytes(full.type));
  auto in = elements.bytes.begin();
  auto const copy = [&](std::int64_t first, std::int64_t count) {
    std::copy_n(in, count * element_bytes, full.bytes.begin() + first * element_bytes);
    in += count * element_bytes;
  };
  RunsOfPart(full.shape, axes, part, copy).walk();
}

Case take_part(Case const& full, Part const& part) {
  Case result;
  result.spec = take_part(full.spec, part);
  for (TensorRow const& row : tensor_rows()) {
    Array const* const array = full.find(row.name);
    if (array != nullptr) result.arrays.emplace(row.name, take_part(*array, row.axes, part));
  }
  return result;
}

}  // namespace msda::command
