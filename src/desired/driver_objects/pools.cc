#include "desired/driver_objects/pools.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "api/labels.h"
#include "base/strings.h"

namespace pitcrew::desired {
namespace {

constexpr std::size_t kLongestName = 253;  // of objects
constexpr std::size_t kLongestLabel = 63;  // of labels' values

bool IsOf(const Node& node, const api::NvidiaDriver& driver) {
  if (!node.gpu_present() || !node.labels.Is(api::kDriverOwner, driver.name)) return false;
  if (!driver.node_selector) return true;
  return std::ranges::all_of(*driver.node_selector, [&](const auto& label) {
    // What the operator says of the node comes before what the driver selects.
    if (label.first == api::kGpuPresent || label.first == api::kDriverOwner) return true;
    return node.labels.Has(label.first) && node.labels.Get(label.first) == label.second;
  });
}

// The pool that a node belongs to, or the label that would tell.
std::pair<DriverPool, std::string_view> PoolOf(const Node& node, const api::NvidiaDriver& driver,
                                               bool openshift) {
  DriverPool pool;
  std::string_view missing;
  const auto read = [&](std::string_view key) {
    if (!node.labels.Has(key) && missing.empty()) missing = key;
    return std::string(node.labels.Get(key));
  };
  const auto select = [&](std::string_view key) {
    std::string value = read(key);
    pool.node_selector[std::string(key)] = value;
    return value;
  };
  if (driver.node_selector) {
    pool.node_selector = {driver.node_selector->begin(), driver.node_selector->end()};
  }
  pool.node_selector[std::string(api::kGpuPresent)] = "true";
  pool.node_selector[std::string(api::kDriverOwner)] = driver.name;
  pool.os = {.id = select(api::kOsReleaseId), .version_id = read(api::kOsReleaseVersionId)};
  pool.name = pool.os.tag();
  // Where the minor version is no part of the image's name, the nodes of all of them are together.
  select(pool.name.ends_with(pool.os.version_id) ? api::kOsReleaseVersionId
                                                 : api::kOsReleaseVersionMajor);
  if (driver.driver.use_precompiled) {
    pool.kernel = select(api::kKernelVersionFull);
    pool.name += "-" + pool.kernel;
  } else if (openshift) {
    pool.rhcos_version = select(api::kOsTreeVersion);
    pool.name = pool.rhcos_version;
  }
  return {std::move(pool), missing};
}

}  // namespace

std::size_t DriverPools::nodes() const {
  std::size_t count = unknown.size();
  for (const DriverPool& pool : pools) count += pool.nodes;
  return count;
}

DriverPools PoolsOf(std::span<const std::shared_ptr<const Node>> nodes,
                    const api::NvidiaDriver& driver, bool openshift) {
  std::map<std::string, const Node*> own;  // by name: the first node of a pool defines it
  for (const auto& node : nodes) {
    if (node != nullptr && IsOf(*node, driver)) own.emplace(node->name, node.get());
  }
  DriverPools result;
  std::map<std::string, DriverPool> pools;
  for (const auto& [name, node] : own) {
    auto [pool, missing] = PoolOf(*node, driver, openshift);
    if (!missing.empty()) {
      result.unknown.emplace(name, missing);
      continue;
    }
    ++pools.try_emplace(pool.name, pool).first->second.nodes;
  }
  for (auto& [name, pool] : pools) result.pools.push_back(std::move(pool));
  return result;
}

std::string SafeHash(std::string_view text) {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string hash = std::to_string(base::HashFnv1a32(text));
  for (char& digit : hash) {
    digit = kLetters[static_cast<unsigned char>(digit) % kLetters.size()];
  }
  return hash;
}

std::string DriverObjectName(const api::NvidiaDriver& driver, const DriverPool& pool) {
  const std::string name =
      driver.type == api::kDriverTypeVgpuHost
          ? fmt::format("nvidia-vgpu-manager-{}-{}", driver.name, pool.os.tag())
          : fmt::format("nvidia-{}-driver-{}-{}", driver.type, driver.name, pool.os.tag());
  return name.substr(0, kLongestName);
}

std::string DriverAppName(const api::NvidiaDriver& driver, const DriverPool& pool) {
  const std::string& part = pool.kernel.empty() ? pool.rhcos_version : pool.kernel;
  const std::string hash = SafeHash(part.empty() ? driver.uid : driver.uid + "-" + part);
  const std::string prefix = fmt::format("nvidia-{}-driver-{}", driver.type, pool.os.tag());
  return fmt::format("{}-{}", prefix.substr(0, kLongestLabel - hash.size() - 1), hash);
}

}  // namespace pitcrew::desired
