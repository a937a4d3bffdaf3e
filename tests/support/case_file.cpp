#include "support/case_file.h"

#include "support/source_path.h"

#include "command/files/text_values.h"

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

std::int64_t number(std::string const& text) { return command::parse_integer(text); }

Strides3 strides(std::string const& text) {
  std::vector<std::string> const list = command::parse_names(text);
  if (list.size() != 3) bad("'" + text + "' is not three strides");
  return {number(list[0]), number(list[1]), number(list[2])};
}

void set_data(DataKind& data, std::string const& words) {
  static std::map<std::string, bool DataKind::*> const flags = {
      {"lines", &DataKind::on_pixel_lines},
      {"odd_coords", &DataKind::odd_coords},
      {"odd_weights", &DataKind::odd_weights},
      {"odd_values", &DataKind::odd_values},
      {"steep_logits", &DataKind::steep_logits},
      {"huge_values", &DataKind::huge_values},
      {"infinite_weights", &DataKind::infinite_weights},
      {"odd_grads", &DataKind::odd_grads}};
  for (std::string const& word : command::parse_names(words)) {
    auto const flag = flags.find(word);
    if (flag != flags.end())
      data.*flag->second = true;
    else if (word == "inside")
      data.low = 0, data.high = 1;
    else if (word == "wide")
      data.low = -2, data.high = 3;
    else
      bad("data='" + word + "' is unknown");
  }
}

void set_only(CorpusCase& item, std::string const& words) {
  static std::map<std::string, bool CorpusCase::*> const flags = {
      {"gpu", &CorpusCase::only_gpu},
      {"forward", &CorpusCase::only_forward},
      {"plans", &CorpusCase::only_plans}};
  for (std::string const& word : command::parse_names(words)) {
    auto const flag = flags.find(word);
    if (flag == flags.end()) bad("only='" + word + "' is unknown");
    item.*flag->second = true;
  }
}

struct Draft {
  CorpusCase result;
  std::vector<std::int32_t> levels, points;
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
      {"levels",
       [](Draft& d, std::string const& text) {
         if (!text.empty()) d.levels = command::parse_levels(text);
       }},
      {"level_start", to(&ProblemShape::level_start, command::parse_starts)},
      {"tokens", to(&ProblemShape::tokens, number)},
      {"points", [](Draft& d, std::string const& text) { d.points = command::parse_points(text); }},
      {"value_dtype",
       [](Draft& d, std::string const& text) {
         d.result.shape.set_dtypes(command::parse_type(text));
         d.result.gives_dtype = true;
       }},
      {"coord_dtype",
       [](Draft& d, std::string const& text) {
         ProblemShape& shape = d.result.shape;
         shape.coord_dtype = shape.reference_dtype = command::parse_type(text);
       }},
// value_dtype and coord_dtype are there already.
#define MSDA_DTYPE(name, otherwise) {#name, to(&ProblemShape::name, command::parse_type)},
#define MSDA_STRIDES(name, tensors) {#name, to(&ProblemShape::name, strides)},
#include "core/problem_fields.inc"
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
      {"determinism",
       [](Draft& d, std::string const& text) {
         d.result.shape.determinism = text == "none" ? MSDA_NONDETERMINISTIC : MSDA_DETERMINISTIC;
       }},
      {"query_hw", to(&ProblemShape::query_hw, command::parse_levels)},
      {"sampling", to(&ProblemShape::sampling_mode, command::parse_sampling)},
      {"point_locality", to(&ProblemShape::point_locality, command::parse_locality)},
      {"data", [](Draft& d, std::string const& text) { set_data(d.result.data, text); }},
      {"only", [](Draft& d, std::string const& text) { set_only(d.result, text); }},
      {"sm_count_limit",
       [](Draft& d, std::string const& text) {
         d.result.sm_count_limits = command::parse_points(text);
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
  if (draft.points.size() != 1 && 2 * draft.points.size() != draft.levels.size()) {
    bad("levels and points do not fit each other");
  }
  draft.result.shape.levels = command::make_levels(draft.levels, draft.points);
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
