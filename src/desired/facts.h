// What the cluster is like, as a value that rendering reads. Source: reference
// operator-behaviour.md section 4.1 and operand-manifests.md section 1 ("Cluster facts").
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/cluster_policy.h"
#include "base/observed.h"
#include "base/result.h"
#include "desired/runtime.h"

namespace pitcrew::desired {

struct OsRelease {
  std::string id;          // "ubuntu"
  std::string version_id;  // "22.04"

  // What driver image tags end with: "ubuntu22.04"; only the major version for ol, rocky and rhel.
  [[nodiscard]] std::string tag() const;
  // "rhel9.4": with the whole version, for the names of precompiled DaemonSets.
  [[nodiscard]] std::string full() const { return id + version_id; }
  auto operator<=>(const OsRelease&) const = default;
};

// The OpenShift driver toolkit (reference operand-manifests.md sections 1 and 6.3).
struct DriverToolkit {
  bool image_stream_exists = false;
  bool broken = false;  // the ImageStream has a tag without a name
  // RHCOS version to image, from the ImageStream's tags.
  std::map<std::string, std::string> images;

  bool operator==(const DriverToolkit&) const = default;
};

// The cluster-wide proxy of OpenShift.
struct Proxy {
  std::string http;
  std::string https;
  std::string none;
  std::string trusted_ca;

  bool operator==(const Proxy&) const = default;
};

// Keys of a ConfigMap's data, sorted.
using ConfigMapKeys = std::vector<std::string>;

struct ConfigMapData {
  ConfigMapKeys keys;
  std::string digest = {};  // of keys and values; "": not known
};

// By name. The annotation kDriverContent of the DaemonSets that have it.
using DriverContents = std::map<std::string, std::string>;

struct Facts {
  // The server's gitVersion, "v1.35.4".
  std::string kubernetes_version;
  // "4.18"; empty when the cluster is not OpenShift.
  std::string openshift_version;
  bool nfd_labels = false;    // any node carries a label of node feature discovery
  std::size_t gpu_nodes = 0;  // nodes with nvidia.com/gpu.present=true
  // Nodes with a GPU by their PCI labels that the node controller has not labelled yet.
  std::size_t joining_gpu_nodes = 0;
  // Of the nodes with a GPU, whether they are labelled already or not.
  RuntimeCounts runtimes;
  StandingToolkits toolkits;
  // Operating system of the GPU node whose name comes first, of those whose labels tell it; an
  // error when there are GPU nodes and none does.
  std::optional<base::Result<OsRelease>> os;
  // Kernel version to operating system over the GPU nodes; an error when a node lacks the label or
  // one kernel occurs with two operating systems.
  base::Result<std::map<std::string, OsRelease>> kernels;
  // RHCOS versions of GPU nodes (label OSTREE_VERSION), sorted.
  std::vector<std::string> rhcos_versions;
  DriverToolkit driver_toolkit;
  std::optional<Proxy> proxy;
  // Kinds of the Prometheus operator that the cluster serves.
  bool service_monitors = false;
  bool prometheus_rules = false;
  // NVIDIADriver objects, and so somebody who looks after the drivers that they describe.
  bool driver_objects = true;
  // ConfigMaps of the operator's namespace that the policy names. One that is not here was not
  // read.
  std::map<std::string, base::Observed<ConfigMapData>> config_maps;
  // Secrets that the policy names: a digest of their data, which tells nothing of it without the
  // Secret's UID; "": not known.
  std::map<std::string, base::Observed<std::string>> secrets;
  DriverContents driver_contents;

  [[nodiscard]] bool openshift() const { return !openshift_version.empty(); }
  // The main one (MainRuntime); CRI-O on OpenShift.
  [[nodiscard]] Runtime runtime() const;
  // All that the toolkit is deployed for, the main one first.
  [[nodiscard]] std::vector<Runtime> toolkit_runtimes() const;
};

// "4.18" from a ClusterVersion object: the first completed entry of its history.
base::Result<std::string> OpenShiftVersionOf(const codec::Json& cluster_version);
// From the Proxy object "cluster".
Proxy ProxyOf(const codec::Json& object);
// From the ImageStream openshift/driver-toolkit: RHCOS version to image; "latest" and tags without
// name or source are skipped.
DriverToolkit DriverToolkitOf(const codec::Json& image_stream);

// What `make` makes of a present value; absent and unknown stay what they are.
template <class T, class Function>
auto Transform(const base::Observed<T>& observed, Function&& make)
    -> base::Observed<std::remove_cvref_t<std::invoke_result_t<Function, const T&>>> {
  using Made = base::Observed<std::remove_cvref_t<std::invoke_result_t<Function, const T&>>>;
  if (observed.is_present()) return Made::Present(std::forward<Function>(make)(*observed.value()));
  return observed.is_absent() ? Made::Missing() : Made::Unknown(*observed.error());
}

// Where the facts come from that nodes do not tell: what the operator watches and reads, or a
// snapshot of a cluster. Names are those of objects of the operator's namespace.
struct FactSource {
  std::function<base::Observed<DriverToolkit>()> driver_toolkit;
  std::function<base::Observed<Proxy>()> proxy;
  std::function<base::Observed<ConfigMapData>(const std::string& name)> config_map;
  std::function<base::Observed<std::string>(const std::string& name)> secret;  // Facts::secrets
};

// Names of ConfigMaps and Secrets of the operator's namespace that rendering needs to know.
struct References {
  std::vector<std::string> config_maps = {};
  std::vector<std::string> secrets = {};
};

// `facts` (of nodes and cluster) with all else that rendering looks at. OpenShift's
// objects are asked for on OpenShift only; one of them that is unknown is an error, because
// rendering without it would change what runs. An unknown ConfigMap or Secret concerns its operand
// alone.
base::Result<Facts> CompleteFacts(Facts facts, const References& references,
                                  const FactSource& source);

}  // namespace pitcrew::desired
