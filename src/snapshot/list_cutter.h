// Cuts the text of a large list (what `kubectl get -o json` or `-o yaml` prints) into the texts of
// its items, so that they can be read one by one: the values of a whole fleet at once take ten
// times the memory of what any command keeps of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pitcrew::snapshot {

struct CutList {
  // The list without its items, as a text of its own.
  std::string rest;
  // Borrowed from the text, in its order.
  std::vector<std::string_view> items;
};

// Nothing when the text does not look like an object with the member `items` as those programs
// print it; it may be a list all the same, and may be no valid text at all. The pieces are only as
// valid as the text is: whoever reads them finds out.
std::optional<CutList> CutJsonList(std::string_view text);
std::optional<CutList> CutYamlList(std::string_view text);

}  // namespace pitcrew::snapshot
