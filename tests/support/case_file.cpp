#include "support/case_file.h"

#include "support/source_path.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>

namespace msda::test {
namespace {

[[noreturn]] void bad(std::string const& what) { throw std::runtime_error(what); }

// "12x14,6x7" with separators "x," gives 12 14 6 7.
std::vector<std::int64_t> numbers(std::string const& text) {
  std::vector<std::int64_t> result;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t used = 0;
    result.push_back(std::stoll(text.substr(at), &used));
    at += used;
    if (at < text.size() && text[at] != 'x' && text[at] != ',')
      bad("'" + text + "' is no list of numbers");
    ++at;
  }
  return result;
}

std::int64_t number(std::string const& text) {
  std::vector<std::int64_t> const list = numbers(text);
  if (list.size() != 1) bad("'" + text + "' is no number");
  return list.front();
}

msda_dtype dtype(std::string const& text) {
  if (auto const found = type_named(text)) return *found;
  bad("'" + text + "' is no dtype");
}

Strides3 strides(std::string const& text) {
  std::vector<std::int64_t> const list = numbers(text);
  if (list.size() != 3) bad("'" + text + "' is not three strides");
  return {list[0], list[1], list[2]};
}

void set_data(DataKind& data, std::string const& words) {
  std::stringstream stream(words);
  for (std::string word; std::getline(stream, word, ',');) {
    if (word == "lines")
      data.on_pixel_lines = true;
    else if (word == "odd_coords")
      data.odd_coords = true;
    else if (word == "odd_weights")
      data.odd_weights = true;
    else if (word == "odd_values")
      data.odd_values = true;
    else if (word == "steep_logits")
      data.steep_logits = true;
    else if (word == "huge_values")
      data.huge_values = true;
    else if (word == "inside")
      data.low = 0, data.high = 1;
    else if (word == "wide")
      data.low = -2, data.high = 3;
    else
      bad("data='" + word + "' is unknown");
  }
}

void set_only(CorpusCase& item, std::string const& words) {
  std::stringstream stream(words);
  for (std::string word; std::getline(stream, word, ',');) {
    if (word == "gpu")
      item.only_gpu = true;
    else if (word == "forward")
      item.only_forward = true;
    else if (word == "plans")
      item.only_plans = true;
    else
      bad("only='" + word + "' is unknown");
  }
}

struct Draft {
  CorpusCase result;
  std::vector<std::int64_t> levels, points;
};

using Setter = std::function<void(Draft&, std::string const&)>;

std::map<std::string, Setter> const& setters() {
  auto const to = [](auto ProblemShape::* member, auto parse) -> Setter {
    return [member, parse](Draft& draft, std::string const& text) {
      auto& field = draft.result.shape.*member;
      field = static_cast<std::remove_reference_t<decltype(field)>>(parse(text));
    };
  };
  static std::map<std::string, Setter> const table = {
      {"levels", [](Draft& d, std::string const& text) { d.levels = numbers(text); }},
      {"points", [](Draft& d, std::string const& text) { d.points = numbers(text); }},
      {"value_dtype",
       [](Draft& d, std::string const& text) {
         d.result.shape.set_dtypes(dtype(text));
         d.result.gives_dtype = true;
       }},
      {"coord_dtype", to(&ProblemShape::coord_dtype, dtype)},
      {"weight_dtype", to(&ProblemShape::weight_dtype, dtype)},
      {"output_dtype", to(&ProblemShape::output_dtype, dtype)},
      {"grad_value_dtype", to(&ProblemShape::grad_value_dtype, dtype)},
      {"batch", to(&ProblemShape::batch, number)},
      {"queries", to(&ProblemShape::query_count, number)},
      {"heads", to(&ProblemShape::head_count, number)},
      {"channels", to(&ProblemShape::head_dim, number)},
      {"value_border", to(&ProblemShape::value_border, number)},
      {"fused", to(&ProblemShape::reference_dim, number)},
      {"backward", to(&ProblemShape::operation, number)},
      {"math",
       [](Draft& d, std::string const& text) {
         d.result.shape.math_mode = text == "fast" ? MSDA_MATH_FAST : MSDA_MATH_ACCURATE;
       }},
      {"value_strides", to(&ProblemShape::value_strides, strides)},
      {"coord_strides", to(&ProblemShape::coord_strides, strides)},
      {"weight_strides", to(&ProblemShape::weight_strides, strides)},
      {"output_strides", to(&ProblemShape::output_strides, strides)},
      {"query_hw",
       [](Draft& d, std::string const& text) {
         for (std::int64_t const n : numbers(text)) {
           d.result.shape.query_hw.push_back(static_cast<std::int32_t>(n));
         }
       }},
      {"data", [](Draft& d, std::string const& text) { set_data(d.result.data, text); }},
      {"only", [](Draft& d, std::string const& text) { set_only(d.result, text); }},
      {"sm_count_limit",
       [](Draft& d, std::string const& text) {
         for (std::int64_t const n : numbers(text)) {
           d.result.sm_count_limits.push_back(static_cast<std::int32_t>(n));
         }
       }},
  };
  return table;
}

CorpusCase parse_line(std::string const& line) {
  std::stringstream words(line);
  Draft draft;
  words >> draft.result.name;
  for (std::string word; words >> word;) {
    std::size_t const equals = word.find('=');
    auto const setter = setters().find(word.substr(0, equals));
    if (equals == std::string::npos || setter == setters().end()) bad("'" + word + "' is unknown");
    setter->second(draft, word.substr(equals + 1));
  }
  std::size_t const count = draft.levels.size() / 2;
  bool const one_number = draft.points.size() == 1;
  if (draft.levels.size() % 2 != 0 || (!one_number && draft.points.size() != count)) {
    bad("levels and points do not fit each other");
  }
  for (std::size_t l = 0; l < count; ++l) {
    auto const narrow = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    draft.result.shape.levels.push_back({narrow(draft.levels[2 * l]),
                                         narrow(draft.levels[2 * l + 1]),
                                         narrow(draft.points[one_number ? 0 : l])});
  }
  return draft.result;
}

void read_file(std::filesystem::path const& path, std::vector<CorpusCase>& cases) {
  std::ifstream stream(path);
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    try {
      cases.push_back(parse_line(line));
    } catch (std::exception const& error) {
      bad(fmt::format("{}:{}: {}", path.string(), number, error.what()));
    }
  }
}

std::vector<CorpusCase> read_all() {
  std::vector<std::filesystem::path> paths;
  for (auto const& entry : std::filesystem::directory_iterator(source_path("tests/cases"))) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<CorpusCase> cases;
  for (std::filesystem::path const& path : paths) read_file(path, cases);
  return cases;
}

}  // namespace

std::vector<ProblemShape> CorpusCase::shapes() const {
  if (gives_dtype) return {shape};
  std::vector<ProblemShape> result;
  for (msda_dtype const value_dtype : kAllDtypes) {
    result.push_back(shape);
    result.back().set_dtypes(value_dtype);
  }
  return result;
}

TestProblem CorpusCase::make(ProblemShape const& with_dtypes) const {
  std::uint64_t seed = 0;
  for (char const letter : name) seed = seed * 31 + static_cast<unsigned char>(letter);
  Rng rng(seed);
  return fill_problem(with_dtypes, data, rng);
}

std::vector<CorpusCase> const& corpus() {
  static std::vector<CorpusCase> const cases = read_all();
  return cases;
}

CorpusCase const& corpus_case(std::string const& name) {
  for (CorpusCase const& item : corpus()) {
    if (item.name == name) return item;
  }
  bad("tests/cases has no case '" + name + "'");
}

}  // namespace msda::test
