#include "command/files/csv_table.h"

#include "command/files/input_error.h"
#include "core/join.h"
#include "core/numbers.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace msda::command {
namespace {

// The cells of a line; none where a quote is not closed.
std::optional<std::vector<std::string>> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    char const letter = line[i];
    if (letter == '"' && is_quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (letter == '"') {
      is_quoted = !is_quoted;
    } else if (letter == ',' && !is_quoted) {
      cells.emplace_back();
    } else {
      cells.back() += letter;
    }
  }
  if (is_quoted) return std::nullopt;
  return cells;
}

}  // namespace

CsvTable::CsvTable(std::string name, std::string_view text, std::string_view first_column)
    : name_(std::move(name)) {
  std::size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    std::optional<std::vector<std::string>> cells = cells_of(line);
    if (columns_.empty()) {
      if (cells && cells->front() == first_column) columns_ = std::move(*cells);
      continue;
    }
    if (line.empty() || line.starts_with("==")) continue;
    if (!cells) bad_input("{}, line {}: a quote is not closed", name_, number);
    if (cells->size() != columns_.size()) {
      bad_input("{}, line {}: has {} cells, but the line of names has {}", name_, number,
                cells->size(), columns_.size());
    }
    rows_.push_back({number, std::move(*cells)});
  }
  if (columns_.empty()) {
    bad_input("{}: no line begins with {}, the first of the names of columns", name_, first_column);
  }
}

bool CsvTable::has_column(std::string_view column) const {
  return std::ranges::find(columns_, column) != columns_.end();
}

std::size_t CsvTable::index_of(std::string_view column) const {
  auto const found = std::ranges::find(columns_, column);
  if (found == columns_.end()) bad_input("{}: has no column {}", name_, column);
  return static_cast<std::size_t>(found - columns_.begin());
}

std::string const& CsvTable::cell(std::size_t row, std::string_view column) const {
  return rows_[row].cells[index_of(column)];
}

double CsvTable::number(std::size_t row, std::string_view column) const {
  std::string digits = cell(row, column);
  std::erase(digits, ',');
  std::optional<double> const value = parse_decimal(digits);
  if (!value) {
    bad_input("{}: {} is '{}': must be a number", place(row), column, cell(row, column));
  }
  return *value;
}

std::string CsvTable::place(std::size_t row) const {
  return fmt::format("{}, line {}", name_, rows_[row].line);
}

}  // namespace msda::command
