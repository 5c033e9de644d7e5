#include "base/strings.h"
#include "io/http_client.h"

namespace pitcrew::io {

bool LineSplitter::Append(std::string_view bytes) {
  if (begin_ > 0 && begin_ * 2 >= buffer_.size()) {
    buffer_.erase(0, begin_);
    scanned_ -= begin_;
    begin_ = 0;
  }
  if (pending() + bytes.size() > longest_line_ && bytes.find('\n') == std::string_view::npos) {
    buffer_ = {};
    begin_ = scanned_ = 0;
    return false;
  }
  buffer_.append(bytes);
  return true;
}

std::optional<std::string> LineSplitter::Next() {
  for (;;) {
    const auto end = buffer_.find('\n', scanned_);
    if (end == std::string::npos) {
      scanned_ = buffer_.size();
      return std::nullopt;
    }
    const std::string_view line(buffer_.data() + begin_, end - begin_);
    begin_ = scanned_ = end + 1;
    if (const auto trimmed = base::Trim(line); !trimmed.empty()) return std::string(trimmed);
  }
}

}  // namespace pitcrew::io
