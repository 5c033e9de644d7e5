#include "node/kubelet_plugin/resource.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace pitcrew::node::kubelet_plugin {

std::optional<FileIdentity> FileIdentity::Of(const std::filesystem::path& path) {
  struct stat status = {};
  if (path.empty() || ::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return FileIdentity{.device = status.st_dev,
                      .inode = status.st_ino,
                      .changed_seconds = status.st_ctim.tv_sec,
                      .changed_nanoseconds = status.st_ctim.tv_nsec};
}

Resource::Resource(std::string name, const std::string& socket_name,
                   rpc::DevicePluginHandler& handler, std::vector<rpc::PluginDevice> devices,
                   const HostOptions& options, std::function<void()> attempt_ended)
    : name_(std::move(name)),
      socket_(options.folder / socket_name),
      handler_(handler),
      devices_(std::move(devices)),
      options_(options),
      attempt_ended_(std::move(attempt_ended)) {}

Resource::~Resource() {
  ending_.Stop();
  if (attempt_.joinable()) attempt_.join();
}

void Resource::Publish(std::vector<rpc::PluginDevice> devices) {
  devices_ = std::move(devices);
  if (server_) server_->Publish(devices_);
}

void Resource::Advance(const std::optional<FileIdentity>& kubelet,
                       base::SteadyClock::time_point now) {
  TakeAnswer(now);
  if (attempt_.joinable()) return;
  // Another kubelet knows nothing of us, and what the last one refused does not concern it.
  if (kubelet != kubelet_) {
    kubelet_ = kubelet;
    registered_ = false;
    failures_ = 0;
    next_try_.reset();
  }
  if (next_try_ && now < *next_try_) return;
  next_try_.reset();
  if (const auto serving = Serve(); !serving) return Failed(serving.error(), now);
  if (kubelet && !registered_) Register();
}

void Resource::TakeAnswer(base::SteadyClock::time_point now) {
  if (!answered_) return;
  attempt_.join();
  answered_ = false;
  if (!answer_) return Failed(answer_.error(), now);
  registered_ = true;
  failures_ = 0;
  base::LogInfo("registered with the kubelet", {{"resource", name_}});
}

base::Status Resource::Serve() {
  const auto there = FileIdentity::Of(socket_);
  if (server_ && there && there == served_) return {};
  server_.reset();
  registered_ = false;
  TRY_ASSIGN(server_, rpc::DevicePluginServer::Start(socket_, handler_, devices_));
  served_ = FileIdentity::Of(socket_);
  base::LogInfo("serving",
                {{"resource", name_}, {"socket", socket_.string()}, {"devices", devices_.size()}});
  return {};
}

void Resource::Register() {
  attempt_ = std::thread([this, stop = ending_.token()] {
    answer_ = rpc::RegisterWithKubelet(
        options_.kubelet_socket, {.endpoint = socket_.filename().string(), .resource_name = name_},
        options_.registration_timeout, stop);
    answered_ = true;
    attempt_ended_();
  });
}

void Resource::Failed(const base::Error& error, base::SteadyClock::time_point now) {
  if (error.code == base::Code::kCancelled) return;
  base::LogWarning("not offered yet", error, {{"resource", name_}});
  constexpr int kMostDoublings = 20;
  const auto delay = options_.first_retry * (1 << std::min(failures_++, kMostDoublings));
  next_try_ = now + std::min<base::SteadyClock::duration>(delay, options_.longest_retry);
}

}  // namespace pitcrew::node::kubelet_plugin
