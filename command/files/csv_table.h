// A CSV with a line of names, as programs write their measurements.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace msda::command {

class CsvTable {
 public:
  // `name` stands for the text in messages. Lines before the one that begins with `first_column`,
  // quoted or not, are skipped, and so are empty ones and messages of Nsight Compute ("==PROF== ").
  CsvTable(std::string name, std::string_view text, std::string_view first_column);

  std::size_t row_count() const { return rows_.size(); }
  bool has_column(std::string_view column) const;
  // A column that is not there is the user's mistake.
  std::string const& cell(std::size_t row, std::string_view column) const;
  // The cell as a number, digits grouped by commas or not.
  double number(std::size_t row, std::string_view column) const;
  // "FILE, line 7"
  std::string place(std::size_t row) const;

 private:
  std::size_t index_of(std::string_view column) const;

  std::string name_;
  std::vector<std::string> columns_;
  struct Row {
    std::size_t line;
    std::vector<std::string> cells;
  };
  std::vector<Row> rows_;
};

}  // namespace msda::command
