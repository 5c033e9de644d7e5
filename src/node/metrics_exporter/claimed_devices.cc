#include "node/metrics_exporter/claimed_devices.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/log.h"
#include "kube/projection.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using codec::Json;

constexpr kube::ResourceKind Slices(std::string_view version) {
  return {"resource.k8s.io", version, "resourceslices", "ResourceSlice", false};
}
// Kubernetes 1.34 has v1; servers before it only the older ones.
constexpr std::array kSliceVersions = {Slices("v1"), Slices("v1beta2"), Slices("v1beta1")};

// The newest that the server has. Where it does not tell, the newest of all: the watch goes on
// trying, and says why it has nothing.
kube::ResourceKind ServedSlices(kube::Client& client, const io::StopToken& stop) {
  for (const auto& kind : kSliceVersions) {
    const auto served = client.Serves(kind, stop);
    if (!served) {
      base::LogWarning("the API server does not tell which ResourceSlices it has", served.error());
      return kSliceVersions.front();
    }
    if (*served) return kind;
  }
  base::LogWarning("the API server has no ResourceSlices: devices of claims are not known");
  return kSliceVersions.front();
}

std::string TextOf(const Json& attributes, std::string_view name) {
  return codec::FindString(attributes, {name, "string"});
}

std::optional<PublishedDevice> ReadDevice(const Json& device) {
  // v1beta1 has them one level below.
  const Json* attributes = codec::Find(device, {"attributes"});
  if (attributes == nullptr) attributes = codec::Find(device, {"basic", "attributes"});
  if (attributes == nullptr) return std::nullopt;
  const auto type = TextOf(*attributes, "type");
  if (type != "gpu" && type != "mig") return std::nullopt;
  return PublishedDevice{.uuid = TextOf(*attributes, "uuid"),
                         .parent_uuid = TextOf(*attributes, "parentUUID"),
                         .profile = TextOf(*attributes, "profile")};
}

}  // namespace

PublishedSlice ReadSlice(const Json& object) {
  PublishedSlice slice;
  if (codec::FindString(object, {"spec", "driver"}) != kClaimDriver) return slice;
  slice.pool = codec::FindString(object, {"spec", "pool", "name"});
  const Json* generation = codec::Find(object, {"spec", "pool", "generation"});
  if (generation != nullptr && generation->is_number_integer()) {
    slice.generation = generation->get<std::int64_t>();
  }
  const Json* devices = codec::Find(object, {"spec", "devices"});
  if (devices == nullptr || !devices->is_array()) return slice;
  for (const Json& device : *devices) {
    if (auto read = ReadDevice(device)) {
      slice.devices.emplace(codec::FindString(device, {"name"}), *std::move(read));
    }
  }
  return slice;
}

PublishedDevices DevicesOf(const std::vector<PublishedSlice>& slices) {
  std::map<std::string, std::int64_t> newest;
  for (const auto& slice : slices) {
    auto& generation = newest.emplace(slice.pool, slice.generation).first->second;
    generation = std::max(generation, slice.generation);
  }
  PublishedDevices devices;
  for (const auto& slice : slices) {
    if (slice.generation != newest[slice.pool]) continue;
    for (const auto& [name, device] : slice.devices) {
      devices.emplace(std::pair(slice.pool, name), device);
    }
  }
  return devices;
}

std::unique_ptr<SliceWatch> SliceWatch::Start(std::shared_ptr<kube::Client> client,
                                              const std::string& node_name,
                                              const io::StopToken& stop) {
  std::unique_ptr<SliceWatch> watch(new SliceWatch());
  const auto kind = ServedSlices(*client, stop);
  kube::InformerOptions informer;
  informer.field_selector = "spec.driver=" + std::string(kClaimDriver);
  if (!node_name.empty()) informer.field_selector += ",spec.nodeName=" + node_name;
  watch->informer_ = std::make_unique<kube::Informer<PublishedSlice>>(
      std::move(client), kind,
      kube::ProjectJson<PublishedSlice>(
          [](const Json& slice) -> base::Result<PublishedSlice> { return ReadSlice(slice); }),
      std::move(informer));
  watch->informer_->Start();
  return watch;
}

PublishedDevices SliceWatch::Devices() const {
  std::vector<PublishedSlice> slices;
  for (const auto& [key, slice] : informer_->store().Snapshot()) slices.push_back(*slice);
  return DevicesOf(slices);
}

}  // namespace pitcrew::node::metrics_exporter
