#include "node/metrics_exporter/csv.h"

#include <fmt/format.h>

#include <utility>

namespace pitcrew::node::metrics_exporter {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  base::Result<std::vector<Record>> Run() {
    std::vector<Record> records;
    while (at_ < text_.size()) {
      if (SkipsLine()) continue;
      TRY_ASSIGN(auto record, ReadRecord());
      records.push_back(std::move(record));
    }
    return records;
  }

 private:
  // The end of the line in which `from` is, without its line break.
  [[nodiscard]] std::size_t LineEnd(std::size_t from) const {
    const auto end = text_.find('\n', from);
    if (end == std::string_view::npos) return text_.size();
    return end > from && text_[end - 1] == '\r' ? end - 1 : end;
  }
  void NextLine() {
    const auto end = text_.find('\n', at_);
    at_ = end == std::string_view::npos ? text_.size() : end + 1;
    line_start_ = at_;
    ++line_;
  }
  bool SkipsLine() {
    const bool skips = text_[at_] == '#' || LineEnd(at_) == at_;
    if (skips) NextLine();
    return skips;
  }
  [[nodiscard]] std::unexpected<base::Error> Wrong(std::size_t place, std::string_view what) const {
    return base::Fail(
        base::Invalid("BadCsv", fmt::format("{}:{}: {}", line_, place - line_start_ + 1, what)));
  }

  base::Result<Record> ReadRecord() {
    Record record;
    while (true) {
      Cell cell{.text = {}, .line = line_, .column = at_ - line_start_ + 1};
      if (at_ < text_.size() && text_[at_] == '"') {
        TRY(ReadQuoted(cell.text));
      } else {
        TRY(ReadPlain(cell.text));
      }
      record.push_back(std::move(cell));
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        continue;
      }
      NextLine();
      return record;
    }
  }

  base::Status ReadPlain(std::string& cell) {
    const auto end = LineEnd(at_);
    const auto comma = std::min(text_.find(',', at_), end);
    cell = text_.substr(at_, comma - at_);
    if (const auto quote = cell.find('"'); quote != std::string::npos) {
      return Wrong(at_ + quote, "a quotation mark in a cell that does not begin with one");
    }
    at_ = comma;
    return {};
  }

  base::Status ReadQuoted(std::string& cell) {
    const std::size_t opening = at_++;
    const std::string begun = fmt::format("{}:{}", line_, opening - line_start_ + 1);
    while (true) {
      const auto quote = text_.find('"', at_);
      if (quote == std::string_view::npos) {
        return Wrong(opening, fmt::format("the quotation mark of {} is never closed", begun));
      }
      for (; at_ < quote; ++at_) {
        const bool of_break = text_[at_] == '\r' && at_ + 1 < quote && text_[at_ + 1] == '\n';
        if (!of_break) cell += text_[at_];
        if (text_[at_] != '\n') continue;
        ++line_;
        line_start_ = at_ + 1;
      }
      ++at_;
      if (at_ < text_.size() && text_[at_] == '"') {
        cell += text_[at_++];
        continue;
      }
      if (at_ == LineEnd(at_) || text_[at_] == ',') return {};
      return Wrong(at_, "text behind the quotation mark that closes a cell");
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t line_start_ = 0;
};

}  // namespace

base::Result<std::vector<Record>> ParseCsv(std::string_view text) { return Parser(text).Run(); }

}  // namespace pitcrew::node::metrics_exporter
