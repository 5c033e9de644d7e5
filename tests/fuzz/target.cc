#include "fuzz/target.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace pitcrew::fuzz {
namespace {

std::span<const Target> (*const kAll[])() = {CodecTargets, KubeTargets, ContainerTargets,
                                             ImageTargets, NodeTargets, ClusterTargets,
                                             IoTargets};

}  // namespace

const Target* FindTarget(std::string_view name) {
  for (const auto& room : kAll) {
    for (const Target& target : room()) {
      if (target.name == name) return &target;
    }
  }
  return nullptr;
}

void PrintTargets() {
  for (const auto& room : kAll) {
    for (const Target& target : room()) std::puts(std::string(target.name).c_str());
  }
}

void Check(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: does not hold: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace pitcrew::fuzz
