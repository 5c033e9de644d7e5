#include "desired/operand.h"

#include <algorithm>

namespace pitcrew::desired {
namespace {

// Blocks that every operand depends on.
constexpr std::string_view kCommonBlocks[] = {"spec.operator", "spec.daemonsets", "spec.hostPaths",
                                              "spec.cdi"};

bool IsIn(std::string_view path, std::string_view block) {
  return path.starts_with(block) &&
         (path.size() == block.size() || path[block.size()] == '.' || path[block.size()] == '[');
}

}  // namespace

bool Operand::IsWanted(const api::ClusterPolicy& policy) const {
  switch (ModeOf(policy)) {
    case Mode::kEnabled:
      return true;
    case Mode::kDelegated:
      return !delegated_daemonsets.empty() && policy.driver_enabled();
    case Mode::kDisabled:
      return false;
  }
  return false;
}

bool Operand::Reads(std::string_view path) const {
  const auto inside = [&](std::string_view block) { return IsIn(path, block); };
  return path == "spec" || std::ranges::any_of(kCommonBlocks, inside) ||
         std::ranges::any_of(blocks, inside);
}

std::string_view Operand::field() const {
  constexpr std::string_view kSpec = "spec.";
  if (blocks.empty() || !blocks.front().starts_with(kSpec)) return "";
  return blocks.front().substr(kSpec.size());
}

}  // namespace pitcrew::desired
