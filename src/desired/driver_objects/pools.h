// The nodes of a NVIDIADriver in pools that each get a DaemonSet, and what its objects are called
// (reference operator-behaviour.md sections 8.2 and 8.3).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/nvidia_driver.h"
#include "desired/node.h"
#include "desired/owner.h"

namespace pitcrew::desired {

struct DriverPools {
  std::vector<DriverPool> pools;  // by name
  // Nodes of the driver that are in no pool, because node feature discovery has not said what they
  // are: name to the label that is missing. While there are any, nobody knows which DaemonSets are
  // no longer needed.
  std::map<std::string, std::string> unknown;

  [[nodiscard]] std::size_t nodes() const;
};
// Of the nodes that carry the driver's name as their owner.
DriverPools PoolsOf(std::span<const std::shared_ptr<const Node>> nodes,
                    const api::NvidiaDriver& driver, bool openshift);

// FNV-1a of 32 bits in decimal, each digit as a letter or digit that cannot spell a word.
std::string SafeHash(std::string_view text);
// Of service account, roles and bindings: the same for all kernels of one operating system.
std::string DriverObjectName(const api::NvidiaDriver& driver, const DriverPool& pool);
// Of the DaemonSet, and the value of its label "app".
std::string DriverAppName(const api::NvidiaDriver& driver, const DriverPool& pool);

}  // namespace pitcrew::desired
