#include "doctor/table.h"

#include <algorithm>
#include <string_view>

namespace pitcrew::doctor {
namespace {

constexpr std::size_t kGap = 2;

std::string_view CodeOf(Colour colour) {
  switch (colour) {
    case Colour::kGood:
      return "\x1b[32m";
    case Colour::kBad:
      return "\x1b[31m";
    case Colour::kWaiting:
      return "\x1b[33m";
    case Colour::kFaint:
      return "\x1b[2m";
    case Colour::kNone:
      break;
  }
  return "";
}

// The first characters that fit; the last ones become dots when something is cut off.
std::string Cut(const std::string& text, std::size_t width) {
  if (WidthOf(text) <= width || width < 4) return text;
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80U;
    if (begins && seen++ == width - 3) break;
  }
  return text.substr(0, end) + "...";
}

}  // namespace

std::string Paint(const std::string& text, Colour colour, bool colours) {
  if (!colours || colour == Colour::kNone || text.empty()) return text;
  return std::string(CodeOf(colour)) + text + "\x1b[0m";
}

std::size_t WidthOf(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

Table::Table(std::vector<std::string> titles) { rows_.push_back({std::move(titles)}); }

void Table::Add(std::vector<std::string> cells, Colour colour, std::size_t coloured) {
  rows_.push_back({std::move(cells), colour, coloured});
}

std::string Table::Text(bool colours, std::size_t width) const {
  std::vector<std::size_t> widths(rows_.front().cells.size(), 0);
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], WidthOf(row.cells[i]));
    }
  }
  std::string text;
  for (const Row& row : rows_) {
    std::string line;
    std::size_t used = 0;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const bool last = i + 1 == widths.size();
      const std::string cell =
          last && width > used ? Cut(row.cells[i], width - used) : row.cells[i];
      line += Paint(cell, i == row.coloured ? row.colour : Colour::kNone, colours);
      if (last) break;
      line.append(widths[i] - WidthOf(cell) + kGap, ' ');
      used += widths[i] + kGap;
    }
    while (line.ends_with(' ')) line.pop_back();
    text += line + "\n";
  }
  return text;
}

}  // namespace pitcrew::doctor
