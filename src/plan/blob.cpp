#include "plan/blob.h"

#include "core/status.h"

#include <limits>
#include <span>
#include <string_view>

namespace msda {
namespace {

// A blob is a list of texts and numbers in a fixed order, then a checksum of everything before it:
//     magic, version, device, kernel id        each a number, its length, and its bytes
//     sm_count_limit                           a number
//     level_hw, point_counts, query_hw         each a number, its length, and its numbers
//     the scalars of msda_problem              as visit_scalars() lists them
// Numbers are int64, least significant byte first.
constexpr std::string_view kMagic = "msda-plan";
constexpr std::size_t kNumberBytes = 8;

std::string version_text() {
  return fmt::format("{}.{}.{}", MSDA_VERSION_MAJOR, MSDA_VERSION_MINOR, MSDA_VERSION_PATCH);
}

// FNV-1a, 64 bits: against damage, not against malice.
std::uint64_t checksum(std::span<const std::uint8_t> bytes) {
  std::uint64_t hash = 14695981039346656037u;
  for (std::uint8_t const byte : bytes) hash = (hash ^ byte) * 1099511628211u;
  return hash;
}

// Every field of a problem but its size, its arrays and their lengths. Problem may be const.
template <typename P, typename Visit>
void visit_scalars(P& problem, Visit visit) {
  for (auto* const strides : {&problem.value_strides, &problem.coord_strides,
                              &problem.weight_strides, &problem.output_strides}) {
    for (auto& stride : *strides) visit(stride);
  }
  visit(problem.batch);
  visit(problem.query_count);
  visit(problem.head_count);
  visit(problem.head_dim);
  visit(problem.value_border);
  visit(problem.reference_dim);
  visit(problem.operation);
  visit(problem.input_mode);
  visit(problem.value_dtype);
  visit(problem.coord_dtype);
  visit(problem.weight_dtype);
  visit(problem.output_dtype);
  visit(problem.grad_value_dtype);
  visit(problem.math_mode);
  visit(problem.determinism);
}

class Writer {
 public:
  void number(std::uint64_t value) {
    for (std::size_t i = 0; i < kNumberBytes; ++i) {
      bytes_.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    }
  }
  void text(std::string_view text) {
    number(text.size());
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }
  void array(std::vector<std::int32_t> const& values) {
    number(values.size());
    for (std::int32_t const value : values) number(static_cast<std::uint64_t>(value));
  }
  std::vector<std::uint8_t> finish() && {
    number(checksum(bytes_));
    return std::move(bytes_);
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

[[noreturn]] void no_plan() {
  invalid("blob is no plan: its bytes are not what msda_plan_serialize() writes");
}

class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  std::uint64_t number() {
    std::span<const std::uint8_t> const bytes = take(kNumberBytes);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < kNumberBytes; ++i) value |= std::uint64_t{bytes[i]} << (8 * i);
    return value;
  }
  void scalar(std::int64_t& to) { to = static_cast<std::int64_t>(number()); }
  void scalar(std::int32_t& to) {
    auto const value = static_cast<std::int64_t>(number());
    to = static_cast<std::int32_t>(value);
    if (to != value) no_plan();
  }
  std::string text() {
    std::span<const std::uint8_t> const bytes = take(number());
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::int32_t> array() {
    std::uint64_t const count = number();
    // Before memory is asked for: a length is believed only as far as there are bytes.
    if (count > rest_.size() / kNumberBytes) no_plan();
    std::vector<std::int32_t> values(count);
    for (std::int32_t& value : values) scalar(value);
    return values;
  }
  void expect_end() const {
    if (!rest_.empty()) no_plan();
  }

 private:
  std::span<const std::uint8_t> take(std::uint64_t count) {
    if (count > rest_.size()) no_plan();
    std::span<const std::uint8_t> const taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::span<const std::uint8_t> rest_;
};

void copy_strides(Strides const& from, std::int64_t (&to)[3]) {
  to[0] = from.batch;
  to[1] = from.row;
  to[2] = from.head;
}

StoredProblem stored_form(Problem const& p) {
  StoredProblem stored;
  auto const add = [](std::vector<std::int32_t>& array, std::int64_t value) {
    array.push_back(static_cast<std::int32_t>(value));  // it came from an int32
  };
  for (Level const& level : p.levels) {
    add(stored.level_hw, level.height);
    add(stored.level_hw, level.width);
    add(stored.point_counts, level.point_count);
  }
  for (Grid const& grid : p.query_grids) {
    add(stored.query_hw, grid.height);
    add(stored.query_hw, grid.width);
  }
  msda_problem& c = stored.problem;
  copy_strides(p.value, c.value_strides);
  copy_strides(p.coord, c.coord_strides);
  copy_strides(p.weight, c.weight_strides);
  copy_strides(p.output, c.output_strides);
  c.batch = p.batch;
  c.query_count = p.query_count;
  c.head_count = p.head_count;
  c.head_dim = p.head_dim;
  c.value_border = p.value_border;
  c.reference_dim = p.reference_dim;
  c.operation = p.operation;
  c.input_mode = p.input_mode;
  c.value_dtype = p.value_dtype;
  c.coord_dtype = p.coord_dtype;
  c.weight_dtype = p.weight_dtype;
  c.output_dtype = p.output_dtype;
  c.grad_value_dtype = p.grad_value_dtype;
  c.math_mode = p.math_mode;
  c.determinism = p.determinism;
  return stored;
}

StoredProblem read_problem(Reader& reader) {
  StoredProblem stored;
  stored.level_hw = reader.array();
  stored.point_counts = reader.array();
  stored.query_hw = reader.array();
  visit_scalars(stored.problem, [&](auto& field) { reader.scalar(field); });
  reader.expect_end();
  if (stored.level_hw.size() != 2 * stored.point_counts.size() || stored.query_hw.size() % 2 != 0 ||
      stored.level_hw.size() > std::numeric_limits<std::int32_t>::max() ||
      stored.query_hw.size() > std::numeric_limits<std::int32_t>::max()) {
    no_plan();
  }
  stored.problem.struct_size = sizeof(stored.problem);
  stored.problem.level_count = static_cast<std::int32_t>(stored.point_counts.size());
  stored.problem.query_grid_count = static_cast<std::int32_t>(stored.query_hw.size() / 2);
  return stored;
}

// What the checksum at the end is of.
std::span<const std::uint8_t> checked_body(std::span<const std::uint8_t> blob) {
  if (blob.size() < kNumberBytes) {
    invalid("blob_size is {}: must be the size msda_plan_serialize() gave", blob.size());
  }
  std::span<const std::uint8_t> const body = blob.first(blob.size() - kNumberBytes);
  if (Reader(blob.last(kNumberBytes)).number() != checksum(body)) {
    invalid("blob is damaged or cut short: its checksum does not hold");
  }
  return body;
}

}  // namespace

msda_problem StoredProblem::view() const {
  msda_problem with_pointers = problem;
  with_pointers.level_hw = level_hw.empty() ? nullptr : level_hw.data();
  with_pointers.point_counts = point_counts.empty() ? nullptr : point_counts.data();
  with_pointers.query_hw = query_hw.empty() ? nullptr : query_hw.data();
  return with_pointers;
}

std::vector<std::uint8_t> encode_plan(Problem const& problem, std::string_view kernel_id,
                                      Device const& device) {
  StoredProblem const stored = stored_form(problem);
  Writer writer;
  writer.text(kMagic);
  writer.text(version_text());
  writer.text(device.name);
  writer.text(kernel_id);
  writer.number(static_cast<std::uint64_t>(device.sm_count_limit));
  writer.array(stored.level_hw);
  writer.array(stored.point_counts);
  writer.array(stored.query_hw);
  visit_scalars(stored.problem,
                [&](auto const& field) { writer.number(static_cast<std::uint64_t>(field)); });
  return std::move(writer).finish();
}

StoredPlan decode_plan(const void* bytes, std::size_t size, Device const& device) {
  Reader reader(checked_body({static_cast<const std::uint8_t*>(bytes), size}));
  if (reader.text() != kMagic) no_plan();
  // Before anything else is read: what follows may look different in another version.
  std::string const version = reader.text();
  if (version != version_text()) {
    fail(MSDA_ERROR_STALE_PLAN, "blob is of libmsda {}: this is {}", version, version_text());
  }
  std::string const device_name = reader.text();
  if (device_name != device.name) {
    fail(MSDA_ERROR_STALE_PLAN, "blob is for device '{}': this handle is '{}'", device_name,
         device.name);
  }
  StoredPlan stored;
  stored.kernel_id = reader.text();
  reader.scalar(stored.sm_count_limit);
  if (stored.sm_count_limit < 0) no_plan();
  stored.problem = read_problem(reader);
  return stored;
}

}  // namespace msda
