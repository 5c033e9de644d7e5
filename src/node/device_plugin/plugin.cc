#include "node/device_plugin/plugin.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <array>
#include <utility>

#include "base/log.h"

namespace pitcrew::node::device_plugin {
namespace {

constexpr std::chrono::seconds kRegistrationTimeout{5};

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
    list.push_back({.id = device.id, .healthy = is_healthy(device), .numa_node = device.numa_node});
  }
  return list;
}

}  // namespace

std::string SocketName(std::string_view resource) {
  const auto name = resource.substr(resource.find('/') + 1);
  return fmt::format("nvidia-{}.sock", name);
}

ResourcePlugin::ResourcePlugin(std::string resource, const std::filesystem::path& folder)
    : resource_(std::move(resource)), socket_(folder / SocketName(resource_)) {}

void ResourcePlugin::Update(std::vector<OfferedDevice> devices,
                            std::shared_ptr<const Snapshot> snapshot, const IsHealthy& is_healthy) {
  {
    const std::lock_guard lock(mutex_);
    state_ = std::make_shared<const State>(std::move(devices), std::move(snapshot));
  }
  PublishHealth(is_healthy);
}

void ResourcePlugin::PublishHealth(const IsHealthy& is_healthy) {
  list_ = ToList(state()->devices, is_healthy);
  if (server_) server_->Publish(list_);
}

std::shared_ptr<const ResourcePlugin::State> ResourcePlugin::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

bool ResourcePlugin::SocketIsThere() const {
  struct stat status = {};
  return server_ != nullptr && ::lstat(socket_.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

base::Status ResourcePlugin::Serve() {
  if (SocketIsThere()) return {};
  server_.reset();
  registered_ = false;
  TRY_ASSIGN(server_, rpc::DevicePluginServer::Start(socket_, *this, list_));
  base::LogInfo("serving",
                {{"resource", resource_}, {"socket", socket_.string()}, {"devices", list_.size()}});
  return {};
}

base::Status ResourcePlugin::Register(const std::filesystem::path& kubelet_socket,
                                      const io::StopToken& stop) {
  TRY(Serve());
  if (registered_) return {};
  TRY(rpc::RegisterWithKubelet(
      kubelet_socket, {.endpoint = socket_.filename().string(), .resource_name = resource_},
      kRegistrationTimeout, stop));
  registered_ = true;
  base::LogInfo("registered with the kubelet", {{"resource", resource_}});
  return {};
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
