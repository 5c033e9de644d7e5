// Columns of text, as wide as their widest cell.
#pragma once

#include <string>
#include <vector>

namespace pitcrew::doctor {

enum class Colour { kNone, kGood, kBad, kWaiting, kFaint };
// `text` in a colour of the terminal, or as it is.
std::string Paint(const std::string& text, Colour colour, bool colours);
// Characters on the screen that a UTF-8 text takes.
std::size_t WidthOf(const std::string& text);

class Table {
 public:
  explicit Table(std::vector<std::string> titles);

  // As many cells as titles; `colour` is that of the row's `coloured`-th cell.
  void Add(std::vector<std::string> cells, Colour colour = Colour::kNone, std::size_t coloured = 0);
  [[nodiscard]] bool empty() const { return rows_.size() == 1; }
  // Lines that end with a newline; the last column is not padded, and is cut at `width` (0: never).
  [[nodiscard]] std::string Text(bool colours, std::size_t width) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    Colour colour = Colour::kNone;
    std::size_t coloured = 0;
  };
  std::vector<Row> rows_;
};

}  // namespace pitcrew::doctor
