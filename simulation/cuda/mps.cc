#include "simulation/cuda/mps.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace pitcrew::simulation::cuda {
namespace {

constexpr std::uint32_t kExclusiveProcess = 3;

// The daemon's answer to the hello: one line, then the end.
std::optional<MpsLimits> ReadLimits(int fd) {
  std::string text;
  const std::string end = "\n" + std::string(kMpsEndOfAnswer) + "\n";
  while (!text.ends_with(end)) {
    char buffer[1024];
    const auto length = ::recv(fd, buffer, sizeof(buffer), 0);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return std::nullopt;
    text.append(buffer, static_cast<std::size_t>(length));
  }
  return MpsLimits::Parse(std::string_view(text).substr(0, text.size() - end.size()));
}

// "0=1G,1=512M": the limit of one device.
std::optional<std::uint64_t> LimitOf(std::string_view text, int ordinal) {
  const std::string key = std::to_string(ordinal) + "=";
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    if (item.starts_with(key)) return ParseMemoryLimit(item.substr(key.size()));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return std::nullopt;
}

const char* Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

std::unique_ptr<MpsClient> MpsClient::Connect() {
  const auto path = MpsSocket();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof(address.sun_path)) return nullptr;
  std::memcpy(address.sun_path, path.c_str(), path.native().size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return nullptr;
  const std::string hello = std::string(kMpsClientHello) + std::to_string(::getpid()) + "\n";
  const bool sent =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      ::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(hello.size());
  auto limits = sent ? ReadLimits(fd) : std::nullopt;
  if (!limits) {
    ::close(fd);
    return nullptr;
  }
  return std::unique_ptr<MpsClient>(new MpsClient(fd, *std::move(limits)));
}

MpsClient::~MpsClient() { ::close(fd_); }

bool MpsClient::IsAlive() const {
  char byte = 0;
  const auto length = ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR));
}

std::uint32_t AllowedMultiprocessors(const Driver& driver, std::uint32_t all) {
  if (!driver.mps) return all;
  const double own =
      ParseThreadPercentage(Variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")).value_or(100);
  const double percentage = std::min(own, driver.mps->limits().active_thread_percentage);
  return static_cast<std::uint32_t>(std::ceil(all * percentage / 100));
}

std::uint64_t AllowedMemory(const Driver& driver, int ordinal, const View& view) {
  std::uint64_t allowed = TotalMemory(view);
  if (!driver.mps) return allowed;
  const auto& limits = driver.mps->limits().pinned_memory;
  if (const auto found = limits.find(view.gpu->uuid); found != limits.end()) {
    allowed = std::min(allowed, found->second);
  }
  return std::min(allowed,
                  LimitOf(Variable("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), ordinal).value_or(allowed));
}

Result MayUse(const Driver& driver, const View& view) {
  if (driver.mps) return driver.mps->IsAlive() ? kSuccess : kMpsConnectionFailed;
  if (view.gpu->compute_mode != kExclusiveProcess) return kSuccess;
  const auto own = static_cast<std::uint32_t>(::getpid());
  const bool taken = std::ranges::any_of(view.gpu->processes, [&](const ProcessState& process) {
    return process.pid != 0 && process.pid != own;
  });
  return taken ? kDeviceUnavailable : kSuccess;
}

}  // namespace pitcrew::simulation::cuda
