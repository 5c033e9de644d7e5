// The feature sources: each reads one part of the node and tells its features and labels
// (node-feature-discovery.md 6). A source that cannot read returns an error; what it told before
// stays true until it can read again. Labels of built-in sources are without the prefix
// "<source>-".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "node/nfd/features.h"
#include "node/nfd/host_paths.h"

namespace pitcrew::node::nfd {

struct PciConfig {
  std::vector<std::string> device_class_whitelist = {"03", "0b40", "12"};  // prefixes of the class
  std::vector<std::string> device_label_fields = {"class", "vendor"};
};

base::Result<Discovery> DiscoverCpu(const HostPaths& paths);
base::Result<Discovery> DiscoverKernel(const HostPaths& paths);
base::Result<Discovery> DiscoverMemory(const HostPaths& paths);
base::Result<Discovery> DiscoverPci(const HostPaths& paths, const PciConfig& config);
base::Result<Discovery> DiscoverSystem(const HostPaths& paths, std::string_view node_name);

// Files of other producers in features.d; `now` decides which lines have expired.
struct LocalDiscovery {
  Discovery discovery;
  std::optional<base::WallClock::time_point> next_expiry;  // when to look again
};
base::Result<LocalDiscovery> DiscoverLocal(const HostPaths& paths, base::WallClock::time_point now);

// One file of features.d.
struct FeatureFile {
  Attributes features;
  Attributes labels;
  std::vector<base::Error> left_out;                       // lines that say nothing
  std::optional<base::WallClock::time_point> next_expiry;  // of the lines that count now
};
FeatureFile ParseFeatureFile(std::string_view text, std::string_view name,
                             base::WallClock::time_point now);

// The two built-in rules over the features of the others (6.9).
Discovery DiscoverCustom(const Features& features);

// kernel.version from `uname -r`: full, and major, minor, revision when it has the usual form
// (6.2).
Attributes ParseKernelVersion(std::string_view release);

}  // namespace pitcrew::node::nfd
