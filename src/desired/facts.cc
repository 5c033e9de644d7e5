#include "desired/facts.h"

#include "base/strings.h"

namespace pitcrew::desired {
std::string OsRelease::tag() const {
  if (id == "ol" || id == "rocky" || id == "rhel") {
    return id + version_id.substr(0, version_id.find('.'));
  }
  return full();
}

Runtime Facts::runtime() const {
  return openshift() ? Runtime::kCrio : MainRuntime(runtimes, toolkits);
}

std::vector<Runtime> Facts::toolkit_runtimes() const {
  std::vector<Runtime> all = {runtime()};
  if (openshift()) return all;
  for (const auto& [runtime, count] : runtimes) {
    if (runtime != all.front()) all.push_back(runtime);
  }
  return all;
}

base::Result<std::string> OpenShiftVersionOf(const codec::Json& cluster_version) {
  const codec::Json* history = codec::Find(cluster_version, {"status", "history"});
  if (history != nullptr && history->is_array()) {
    for (const codec::Json& entry : *history) {
      if (codec::FindString(entry, {"state"}) != "Completed") continue;
      const auto pieces = base::Split(codec::FindString(entry, {"version"}), '.');
      if (pieces.size() >= 2) return pieces[0] + "." + pieces[1];
    }
  }
  return base::Fail(
      base::Unavailable("OpenShiftVersionUnknown",
                        "ClusterVersion \"version\" has no completed entry in its history yet"));
}

Proxy ProxyOf(const codec::Json& object) {
  return {.http = codec::FindString(object, {"spec", "httpProxy"}),
          .https = codec::FindString(object, {"spec", "httpsProxy"}),
          .none = codec::FindString(object, {"spec", "noProxy"}),
          .trusted_ca = codec::FindString(object, {"spec", "trustedCA", "name"})};
}

DriverToolkit DriverToolkitOf(const codec::Json& image_stream) {
  DriverToolkit toolkit;
  toolkit.image_stream_exists = true;
  const codec::Json* tags = codec::Find(image_stream, {"spec", "tags"});
  if (tags == nullptr || !tags->is_array()) return toolkit;
  for (const codec::Json& tag : *tags) {
    const std::string name = codec::FindString(tag, {"name"});
    toolkit.broken = toolkit.broken || name.empty();
    if (name.empty() || name == "latest" || codec::Find(tag, {"from"}) == nullptr) continue;
    toolkit.images[name] = codec::FindString(tag, {"from", "name"});
  }
  return toolkit;
}

base::Result<Facts> CompleteFacts(Facts facts, const References& references,
                                  const FactSource& source) {
  if (facts.openshift()) {
    const auto toolkit = source.driver_toolkit();
    if (toolkit.is_unknown()) return base::Fail(*toolkit.error());
    if (toolkit.is_present()) facts.driver_toolkit = *toolkit.value();
    const auto proxy = source.proxy();
    if (proxy.is_unknown()) return base::Fail(*proxy.error());
    if (proxy.is_present()) facts.proxy = *proxy.value();
  }
  for (const std::string& name : references.config_maps) {
    facts.config_maps.insert_or_assign(name, source.config_map(name));
  }
  for (const std::string& name : references.secrets) {
    facts.secrets.insert_or_assign(name, source.secret(name));
  }
  return facts;
}

}  // namespace pitcrew::desired
