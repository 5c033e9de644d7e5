#include "node/sandbox_device_plugin/plugin.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "node/sandbox_device_plugin/allocation.h"

namespace pitcrew::node::sandbox_device_plugin {
namespace {

std::vector<rpc::PluginDevice> ToList(const std::vector<OfferedDevice>& devices) {
  std::vector<rpc::PluginDevice> list;
  list.reserve(devices.size());
  for (const auto& device : devices) {
    list.push_back(
        {.id = device.id, .healthy = device.unfit.empty(), .numa_node = device.numa_node});
  }
  return list;
}

}  // namespace

std::string SocketName(Client client, std::string_view resource) {
  return fmt::format("{}-{}.sock", client == Client::kKata ? "sandbox" : "kubevirt",
                     resource.substr(resource.find('/') + 1));
}

ResourcePlugin::ResourcePlugin(std::string resource, std::string socket_name, Allocator allocator,
                               kubelet_plugin::PluginHost& host)
    : resource_(std::move(resource)),
      socket_name_(std::move(socket_name)),
      allocator_(std::move(allocator)),
      host_(host) {}

ResourcePlugin::~ResourcePlugin() { host_.Withdraw(resource_); }

void ResourcePlugin::Update(std::vector<OfferedDevice> devices) {
  auto list = ToList(devices);
  {
    const std::lock_guard lock(mutex_);
    devices_ = std::move(devices);
  }
  host_.Offer(resource_, socket_name_, *this, std::move(list));
}

std::vector<OfferedDevice> ResourcePlugin::devices() const {
  const std::lock_guard lock(mutex_);
  return devices_;
}

base::Result<std::vector<std::string>> ResourcePlugin::PreferredAllocation(
    const rpc::PreferredRequest& request) {
  return Prefer(devices(), request);
}

base::Result<rpc::ContainerAllocation> ResourcePlugin::Allocate(
    const std::vector<std::string>& ids) {
  auto answer = allocator_(resource_, devices(), ids);
  if (!answer) {
    base::LogWarning("refused an allocation", answer.error(), {{"resource", resource_}});
  } else {
    base::LogInfo("allocated", {{"resource", resource_}, {"devices", base::Join(ids, ",")}});
  }
  return answer;
}

}  // namespace pitcrew::node::sandbox_device_plugin
