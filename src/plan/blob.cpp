#include "plan/blob.h"

#include "core/status.h"

#include <span>
#include <string_view>

namespace msda {
namespace {

// A blob is a list of texts and numbers in a fixed order, then a checksum of everything before it:
//     magic, version, device, kernel id        each a number, its length, and its bytes
//     sm_count_limit                           a number
//     the arrays of msda_problem               each a number, its length, and its numbers
//     the numbers of msda_problem              as visit_fields() lists them
// Numbers are int64, least significant byte first.
constexpr std::string_view kMagic = "msda-plan";
constexpr std::size_t kNumberBytes = 8;

// FNV-1a, 64 bits: against damage, not against malice.
std::uint64_t checksum(std::span<const std::uint8_t> bytes) {
  std::uint64_t hash = 14695981039346656037u;
  for (std::uint8_t const byte : bytes) hash = (hash ^ byte) * 1099511628211u;
  return hash;
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
  template <typename T>
  void array(std::vector<T> const& values) {
    number(values.size());
    for (T const value : values) number(static_cast<std::uint64_t>(value));
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
  template <typename T>
  void array(std::vector<T>& values) {
    std::uint64_t const count = number();
    // Before memory is asked for: a length is believed only as far as there are bytes.
    if (count > rest_.size() / kNumberBytes) no_plan();
    values.resize(count);
    for (T& value : values) scalar(value);
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

ProblemCopy read_problem(Reader& reader) {
  ProblemCopy copy;
  visit_arrays(copy, [&](std::string_view, auto& numbers) { reader.array(numbers); });
  visit_fields(copy.c, [&](std::string_view, auto numbers) {
    for (auto& number : numbers) reader.scalar(number);
  });
  reader.expect_end();
  if (!copy.settle()) no_plan();
  return copy;
}

// The bytes that the checksum at the end is of.
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

std::vector<std::uint8_t> encode_plan(Problem const& problem, std::string_view kernel_id,
                                      Device const& device) {
  ProblemCopy const copy = copy_of(problem);
  Writer writer;
  writer.text(kMagic);
  writer.text(version_text());
  writer.text(device.name);
  writer.text(kernel_id);
  writer.number(static_cast<std::uint64_t>(device.sm_count_limit));
  visit_arrays(copy, [&](std::string_view, auto const& numbers) { writer.array(numbers); });
  visit_fields(copy.c, [&](std::string_view, auto numbers) {
    for (auto const number : numbers) writer.number(static_cast<std::uint64_t>(number));
  });
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
