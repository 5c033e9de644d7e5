#include "node/device_plugin/plugin.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <utility>

#include "base/log.h"

namespace pitcrew::node::device_plugin {
namespace {

// A random UUID (RFC 9562, version 4).
std::string NewUuid() {
  std::array<unsigned char, 16> bytes = {};
  // Up to 256 bytes come in one piece and cannot fail once the system has booted.
  if (getrandom(bytes.data(), bytes.size(), 0) < 0) bytes.fill(0);
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0fU) | 0x40U);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3fU) | 0x80U);
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

std::vector<rpc::PluginDevice> ToList(const std::vector<OfferedDevice>& devices,
                                      const ResourcePlugin::IsHealthy& is_healthy) {
  std::vector<rpc::PluginDevice> list;
  list.reserve(devices.size());
  for (const auto& device : devices) {
    list.push_back({.id = device.id,
                    .healthy = device.unfit.empty() && is_healthy(device),
                    .numa_node = device.numa_node});
  }
  return list;
}

}  // namespace

std::string SocketName(std::string_view resource) {
  const auto name = resource.substr(resource.find('/') + 1);
  return fmt::format("nvidia-{}.sock", name);
}

void ResourcePlugin::Update(std::vector<OfferedDevice> devices,
                            std::shared_ptr<const Snapshot> snapshot, const IsHealthy& is_healthy) {
  {
    const std::lock_guard lock(mutex_);
    state_ = std::make_shared<const State>(std::move(devices), std::move(snapshot));
  }
  PublishHealth(is_healthy);
}

ResourcePlugin::Count ResourcePlugin::PublishHealth(const IsHealthy& is_healthy) {
  list_ = ToList(state()->devices, is_healthy);
  if (offered_) host_.Publish(resource_, list_);
  Count count;
  for (const auto& device : list_) ++(device.healthy ? count.healthy : count.unhealthy);
  return count;
}

std::shared_ptr<const ResourcePlugin::State> ResourcePlugin::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void ResourcePlugin::Offer() {
  if (offered_) return;
  host_.Offer(resource_, SocketName(resource_), *this, list_);
  offered_ = true;
}

base::Result<std::vector<std::string>> ResourcePlugin::PreferredAllocation(
    const rpc::PreferredRequest& request) {
  const auto now = state();
  return Prefer(now->devices, request, now->snapshot->scores,
                now->snapshot->settings.shared_allocation);
}

base::Result<rpc::ContainerAllocation> ResourcePlugin::Allocate(
    const std::vector<std::string>& ids) {
  const auto now = state();
  auto answer = device_plugin::Allocate(resource_, now->devices, ids, now->snapshot->settings,
                                        now->snapshot->facts, NewUuid());
  if (!answer) base::LogWarning("refused an allocation", answer.error());
  return answer;
}

}  // namespace pitcrew::node::device_plugin
