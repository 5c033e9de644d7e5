#include "vm/virtual_machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/labels.h"
#include "base/strings.h"
#include "kubevirt/kinds.h"
#include "kubevirt/offers.h"
#include "kubevirt/permitted.h"

namespace pitcrew::vm {
namespace {

using codec::Json;

constexpr std::size_t kLongestName = 63;

base::Status Refuse(std::string message) {
  return base::Fail(base::Invalid("BadUsage", std::move(message)));
}

bool IsLabel(std::string_view text) {
  const auto is_inner = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !text.empty() && text.size() <= kLongestName && text.front() != '-' &&
         text.back() != '-' && std::ranges::all_of(text, is_inner);
}

bool IsMemory(std::string_view text) {
  for (const std::string_view unit : {"Ki", "Mi", "Gi", "Ti", "k", "M", "G", "T"}) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    break;
  }
  const auto number = base::ParseUnsigned(text);
  return number && *number > 0;
}

std::string ListOf(const std::map<std::string, std::int64_t>& offered) {
  std::vector<std::string> texts;
  for (const auto& [resource, amount] : offered) {
    texts.push_back(fmt::format("{} (up to {} on a node)", resource, amount));
  }
  return base::Join(texts, ", ");
}

// What stands in the way of the resource in one KubeVirt object; "" when nothing does.
std::string CautionOf(const std::string& resource, const kube::ObjectKey& key,
                      const Json& kubevirt) {
  const auto permitted = kubevirt::ReadPermitted(kubevirt, kubevirt::Form::kKubeVirt);
  if (!permitted) return permitted.error().message;
  if (!permitted->Permits(resource)) {
    return fmt::format(
        "KubeVirt {} does not permit {}: add it to {}, with externalResourceProvider: true, or let "
        "the operator do so (docs/virtual-machines.md)",
        key.ToString(), resource, kubevirt::FieldPath(kubevirt::Form::kKubeVirt));
  }
  const auto naming = permitted->Naming(resource);
  const auto by_kubevirt = [](const kubevirt::Entry* entry) { return !entry->external; };
  if (std::ranges::none_of(naming, by_kubevirt)) return "";
  return fmt::format(
      "KubeVirt {} offers {} itself, and so does the GPU device plugin: set "
      "externalResourceProvider: true in its entry of permittedHostDevices",
      key.ToString(), resource);
}

}  // namespace

base::Status Check(const MachineRequest& request) {
  if (!IsLabel(request.name)) {
    return Refuse(
        fmt::format("\"{}\" is no name for a virtual machine: small letters, digits and "
                    "-, with a letter or digit at both ends, at most {} characters",
                    request.name, kLongestName));
  }
  if (!request.name_space.empty() && !IsLabel(request.name_space)) {
    return Refuse(fmt::format("\"{}\" is no name of a namespace", request.name_space));
  }
  if (request.count < 1)
    return Refuse(fmt::format("--count is {}; it must be 1 or more", request.count));
  if (request.cores < 1)
    return Refuse(fmt::format("--cores is {}; it must be 1 or more", request.cores));
  if (!IsMemory(request.memory)) {
    return Refuse(
        fmt::format("--memory is \"{}\"; it must be an amount such as 16Gi", request.memory));
  }
  if (request.disk.empty())
    return Refuse("--disk is empty; it must be the image of a container disk");
  return {};
}

base::Result<std::map<std::string, std::int64_t>> Offered(const snapshot::Snapshot& snapshot) {
  if (const auto coverage = snapshot.coverage(kube::kNodes);
      coverage == snapshot::Coverage::kUnknown) {
    return base::Fail(base::Unavailable(
        "NodesUnread", "the cluster's nodes cannot be read, so it is not known what they offer: " +
                           snapshot.error(kube::kNodes)->message));
  }
  std::map<std::string, std::int64_t> offered;
  for (const auto& [key, object] : snapshot.All(kube::kNodes)) {
    if (!kubevirt::HasPluginLabel(object)) continue;
    const auto node = kubevirt::ReadMachineNode(object);
    if (node.paused) continue;
    for (const auto& [resource, amount] : node.allocatable) {
      if (amount > 0) offered[resource] = std::max(offered[resource], amount);
    }
  }
  return offered;
}

base::Result<MachineRequest> Choose(MachineRequest request,
                                    const std::map<std::string, std::int64_t>& offered) {
  if (!request.resource.empty() && request.resource.find('/') == std::string::npos) {
    request.resource.insert(0, api::kResourcePrefix);
  }
  if (offered.empty()) {
    return base::Fail(base::NotFound(
        "NothingOffered",
        fmt::format("no node offers a GPU to virtual machines: is there one with the label "
                    "{}=vm-passthrough or vm-vgpu, and is it ready (pitcrew status)?",
                    api::kWorkloadConfig)));
  }
  if (request.resource.empty() && offered.size() == 1) request.resource = offered.begin()->first;
  if (request.resource.empty()) {
    return base::Fail(base::Invalid("SeveralResources",
                                    fmt::format("say which GPU, with --gpu: {}", ListOf(offered))));
  }
  const auto found = offered.find(request.resource);
  if (found == offered.end()) {
    return base::Fail(base::NotFound(
        "ResourceNotOffered", fmt::format("no node offers {} to virtual machines; there are: {}",
                                          request.resource, ListOf(offered))));
  }
  if (found->second < request.count) {
    return base::Fail(
        base::Invalid("TooMany", fmt::format("no node has {} {}: a virtual machine gets up to {}",
                                             request.count, request.resource, found->second)));
  }
  return request;
}

codec::Json VirtualMachine(const MachineRequest& request) {
  Json gpus = Json::array();
  for (std::int64_t index = 1; index <= request.count; ++index) {
    gpus.push_back({{"name", fmt::format("gpu{}", index)}, {"deviceName", request.resource}});
  }
  Json devices = {{"gpus", std::move(gpus)},
                  {"disks", {{{"name", "root"}, {"disk", {{"bus", "virtio"}}}}}},
                  {"interfaces", {{{"name", "default"}, {"masquerade", Json::object()}}}}};
  Json machine = {{"evictionStrategy", "None"},
                  {"domain",
                   {{"cpu", {{"cores", request.cores}}},
                    {"memory", {{"guest", request.memory}}},
                    {"devices", std::move(devices)}}},
                  {"networks", {{{"name", "default"}, {"pod", Json::object()}}}},
                  {"volumes", {{{"name", "root"}, {"containerDisk", {{"image", request.disk}}}}}}};
  Json metadata = {{"name", request.name}};
  if (!request.name_space.empty()) metadata["namespace"] = request.name_space;
  return {{"apiVersion", "kubevirt.io/v1"},
          {"kind", "VirtualMachine"},
          {"metadata", std::move(metadata)},
          {"spec",
           {{"runStrategy", "Always"},
            {"template",
             {{"metadata", {{"labels", {{"kubevirt.io/domain", request.name}}}}},
              {"spec", std::move(machine)}}}}}};
}

std::vector<std::string> Cautions(const MachineRequest& request,
                                  const snapshot::Snapshot& snapshot) {
  if (snapshot.coverage(kubevirt::kKubeVirts) == snapshot::Coverage::kUnknown) {
    return {fmt::format("whether KubeVirt permits {} is not known: {}", request.resource,
                        snapshot.error(kubevirt::kKubeVirts)->message)};
  }
  const auto& kubevirts = snapshot.All(kubevirt::kKubeVirts);
  if (kubevirts.empty()) {
    return {"the cluster has no KubeVirt object: without KubeVirt nothing runs this machine"};
  }
  std::vector<std::string> cautions;
  for (const auto& [key, object] : kubevirts) {
    auto caution = CautionOf(request.resource, key, object);
    if (!caution.empty()) cautions.push_back(std::move(caution));
  }
  return cautions;
}

}  // namespace pitcrew::vm
