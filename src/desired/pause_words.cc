#include "desired/pause_words.h"

namespace pitcrew::desired {

std::string WithoutPauses(std::string_view value, std::span<const std::string_view> words) {
  std::string text(value);
  for (const std::string_view word : words) {
    if (!text.ends_with(word)) continue;
    text.resize(text.size() - word.size());
    while (text.ends_with('_')) text.pop_back();
  }
  return text;
}

}  // namespace pitcrew::desired
