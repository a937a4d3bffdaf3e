#include "plan/tuning_records.h"

#include "core/cpu_model.h"
#include "core/join.h"
#include "core/numbers.h"
#include "core/status.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>

namespace msda {
namespace {

constexpr std::string_view kTitle = "libmsda tuning records ";
constexpr std::string_view kFormat = "3";
constexpr std::string_view kEmptyList = "none";
constexpr std::size_t kLongestName = 255;  // of a device, a version or a kernel

// A part of the caller's text that is short enough for a message.
std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  return text.size() <= kLongest ? std::string(text)
                                 : fmt::format("{}...", text.substr(0, kLongest));
}

// ---- writing

template <typename T, std::size_t N>
std::string list_text(std::span<T, N> numbers) {
  return numbers.empty() ? std::string(kEmptyList) : join(numbers, ",");
}

std::string key_text(TuningKey const& key) {
  std::string text = fmt::format(
      "version={} device=\"{}\" threads={} sm_count_limit={} workspace_limit_bytes={}", key.version,
      key.device, key.thread_count, key.sm_count_limit, key.workspace_limit_bytes);
  auto const add = [&text](std::string_view name, auto numbers) {
    fmt::format_to(std::back_inserter(text), " {}={}", name, list_text(numbers));
  };
  visit_arrays(key.problem,
               [&](std::string_view name, auto const& list) { add(name, std::span(list)); });
  visit_fields(key.problem.c, add);
  return text;
}

std::string record_text(TuningRecord const& record) {
  return fmt::format("kernel={} median_us={:.3f} heuristic={} heuristic_us={:.3f}",
                     record.kernel_id, record.median_us, record.heuristic_id, record.heuristic_us);
}

// ---- reading

// Takes a line apart, word by word, from its beginning. Every message has the line's number.
class LineReader {
 public:
  LineReader(std::string_view line, std::size_t number) : rest_(line), number_(number) {}

  template <typename... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> format,
                           Arguments&&... arguments) const {
    invalid("text, line {}: {}", number_,
            fmt::format(format, std::forward<Arguments>(arguments)...));
  }

  // The value of the next word, which must have this name.
  std::string_view word(std::string_view name) {
    expect_name(name);
    std::string_view const value = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(value.size());
    return value;
  }

  // A word of some length; of kernels and versions.
  std::string name(std::string_view name) {
    std::string_view const value = word(name);
    check_length(name, value);
    return std::string(value);
  }

  std::string quoted(std::string_view name) {
    expect_name(name);
    std::size_t const end = rest_.find('"', 1);
    if (!rest_.starts_with('"') || end == std::string_view::npos) {
      refuse("{} is '{}': must be a text in double quotes", name, shown(rest_));
    }
    std::string_view const value = rest_.substr(1, end - 1);
    check_length(name, value);
    rest_.remove_prefix(end + 1);
    return std::string(value);
  }

  template <typename T>
  T number(std::string_view name, T least) {
    return parse(name, word(name), least);
  }

  // Microseconds of something that was measured: finite, not negative, without an exponent.
  double time_us(std::string_view name) {
    std::string_view const text = word(name);
    std::optional<double> const value = parse_decimal(text);
    bool const has_exponent = text.find_first_of("eE") != std::string_view::npos;
    if (!value || has_exponent || !std::isfinite(*value) || std::signbit(*value)) {
      refuse("{} is '{}': must be a number of microseconds, 0 or more", name, shown(text));
    }
    return *value;
  }

  // Numbers between commas. A span must be filled, a vector takes as many as there are.
  template <typename T, std::size_t N>
  void list(std::string_view name, std::span<T, N> numbers) {
    std::vector<T> const values = list<T>(name);
    if (values.size() != numbers.size()) {
      refuse("{} has {} numbers: must have {}", name, values.size(), numbers.size());
    }
    std::copy(values.begin(), values.end(), numbers.begin());
  }
  template <typename T>
  std::vector<T> list(std::string_view name) {
    std::string_view const text = word(name);
    std::vector<T> values;
    if (text == kEmptyList) return values;
    for (std::string_view const number : split(text, ',')) {
      values.push_back(parse(name, number, std::numeric_limits<T>::min()));
    }
    return values;
  }

  void expect_end() const {
    if (!rest_.empty()) refuse("ends in '{}': must end after heuristic_us", shown(rest_));
  }

 private:
  void expect_name(std::string_view name) {
    if (!is_first_) {
      if (rest_.empty()) refuse("ends early: '{}=' is missing", name);
      if (!rest_.starts_with(' ')) {
        refuse("has '{}' where a space must be, before '{}='", shown(rest_), name);
      }
      rest_.remove_prefix(1);
    }
    is_first_ = false;
    bool const has_name = rest_.starts_with(name) && rest_.substr(name.size()).starts_with('=');
    if (!has_name) refuse("has '{}' where '{}=' must be", shown(rest_), name);
    rest_.remove_prefix(name.size() + 1);
  }

  void check_length(std::string_view name, std::string_view value) const {
    if (!value.empty() && value.size() <= kLongestName) return;
    refuse("{} is '{}': must have 1 to {} characters, has {}", name, shown(value), kLongestName,
           value.size());
  }

  template <typename T>
  T parse(std::string_view name, std::string_view text, T least) const {
    T value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    bool const is_whole = error == std::errc() && end == text.data() + text.size();
    if (is_whole && value >= least) return value;
    refuse("{} has '{}': must be a whole number from {} to {}", name, shown(text), least,
           std::numeric_limits<T>::max());
  }

  std::string_view rest_;
  std::size_t number_;
  bool is_first_ = true;
};

TuningLine parse_line(std::string_view text, std::size_t number) {
  LineReader reader(text, number);
  TuningLine line;
  line.number = number;
  line.key.version = reader.name("version");
  line.key.device = reader.quoted("device");
  line.key.thread_count = reader.number<std::int32_t>("threads", 1);
  line.key.sm_count_limit = reader.number<std::int32_t>("sm_count_limit", 0);
  line.key.workspace_limit_bytes = reader.number<std::uint64_t>("workspace_limit_bytes", 0);
  ProblemCopy& problem = line.key.problem;
  visit_arrays(problem, [&reader]<typename T>(std::string_view name, std::vector<T>& list) {
    list = reader.list<T>(name);
  });
  if (!problem.settle()) {
    reader.refuse(
        "level_hw has {} numbers, point_counts {}, level_start {}, query_hw {}: must be two, one "
        "and one (or none) for each level, and two for each grid",
        problem.level_hw.size(), problem.point_counts.size(), problem.level_start.size(),
        problem.query_hw.size());
  }
  visit_fields(problem.c,
               [&reader](std::string_view name, auto numbers) { reader.list(name, numbers); });
  line.record.kernel_id = reader.name("kernel");
  line.record.median_us = reader.time_us("median_us");
  line.record.heuristic_id = reader.name("heuristic");
  line.record.heuristic_us = reader.time_us("heuristic_us");
  reader.expect_end();
  return line;
}

// The next line without its end. A line that has none was cut off.
std::string_view take_line(std::string_view& text, std::size_t number) {
  std::size_t const end = text.find('\n');
  std::string_view line = text.substr(0, end);
  auto const odd = std::find_if(line.begin(), line.end(), [](unsigned char c) {
    return c != '\r' && (c < 0x20 || c > 0x7e);
  });
  if (odd != line.end()) {
    invalid("text, line {}: byte {} is 0x{:02x}: must be printable ASCII", number,
            odd - line.begin() + 1, static_cast<unsigned char>(*odd));
  }
  if (end == std::string_view::npos) {
    invalid("text, line {}: is cut off after '{}': must end in a line feed", number,
            shown(line.substr(line.size() - std::min<std::size_t>(line.size(), 20))));
  }
  text.remove_prefix(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.find('\r') != std::string_view::npos) {
    invalid("text, line {}: has a carriage return: must have none but before its line feed",
            number);
  }
  return line;
}

void check_title(std::string_view line) {
  if (!line.starts_with(kTitle)) {
    invalid("text, line 1: is '{}': must be '{}{}'", shown(line), kTitle, kFormat);
  }
  if (line.substr(kTitle.size()) == kFormat) return;
  fail(MSDA_ERROR_STALE_PLAN,
       "text, line 1: is '{}': this library reads format {}, the text is another version's",
       shown(line), kFormat);
}

// The name that a device's records go by: of a GPU name, compute capability and multiprocessors, of
// a CPU its model and the instruction set that the SIMD kernels use.
std::string tuning_device(Device const& device) {
  std::string name = device.is_cpu() ? fmt::format("cpu, {}, {}", cpu_model(), device.vector_unit)
                                     : std::string(device.name);
  for (char& c : name) {
    auto const code = static_cast<unsigned char>(c);
    if (code < 0x20 || code > 0x7e || c == '"') c = '?';
  }
  if (name.size() > kLongestName) name.resize(kLongestName);
  return name;
}

}  // namespace

TuningKey tuning_key(Problem const& problem, Device const& device,
                     std::size_t workspace_limit_bytes) {
  return {version_text(),        tuning_device(device), device.thread_count,
          device.sm_count_limit, workspace_limit_bytes, copy_of(problem)};
}

std::vector<TuningLine> parse_tuning_text(std::string_view text) {
  if (text.ends_with('\0')) text.remove_suffix(1);
  if (text.empty()) {
    invalid("text_size is 0: must be that of a text whose first line is '{}{}'", kTitle, kFormat);
  }
  std::vector<TuningLine> lines;
  check_title(take_line(text, 1));
  for (std::size_t number = 2; !text.empty(); ++number) {
    lines.push_back(parse_line(take_line(text, number), number));
  }
  return lines;
}

void TuningRecords::add(std::vector<TuningLine> const& lines) {
  // Made before the lock and joined without memory: nothing can fail half-way.
  Map added(records_.get_allocator());
  std::map<std::string, std::size_t> numbers;
  for (TuningLine const& line : lines) {
    std::string const key = key_text(line.key);
    auto const [earlier, is_new] = numbers.emplace(key, line.number);
    if (!is_new) {
      invalid("text, line {}: is about the same problem as line {}: must be one record of each",
              line.number, earlier->second);
    }
    auto const memory = records_.get_allocator();
    added.emplace(
        key, Found{Text(line.record.kernel_id, memory), Text(record_text(line.record), memory)});
  }
  std::lock_guard const lock(mutex_);
  added.merge(records_);
  records_.swap(added);
}

std::optional<std::string> TuningRecords::find_kernel_id(TuningKey const& key) const {
  std::string const words = key_text(key);
  std::lock_guard const lock(mutex_);
  auto const found = records_.find(std::string_view(words));
  if (found == records_.end()) return std::nullopt;
  return std::string(found->second.kernel_id);
}

std::string TuningRecords::text() const {
  std::string text = fmt::format("{}{}\n", kTitle, kFormat);
  std::lock_guard const lock(mutex_);
  for (auto const& [key, found] : records_) {
    fmt::format_to(std::back_inserter(text), "{} {}\n", std::string_view(key),
                   std::string_view(found.words));
  }
  return text;
}

}  // namespace msda
