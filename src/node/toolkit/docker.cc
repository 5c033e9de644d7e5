#include "node/toolkit/docker.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "io/http1_parser.h"
#include "io/unix_socket.h"
#include "node/toolkit/engine_signal.h"

namespace pitcrew::node::toolkit {
namespace {

constexpr std::size_t kMostAnswer = 16U << 20;
// {"type":["daemon"],"event":["reload"]}
constexpr std::string_view kReloads =
    "%7B%22type%22%3A%5B%22daemon%22%5D%2C%22event%22%3A%5B%22reload%22%5D%7D";

// One request, and its answer as it comes.
class Exchange {
 public:
  static base::Result<Exchange> Begin(const std::filesystem::path& socket, std::string_view path) {
    TRY_ASSIGN(auto connection, io::ConnectUnix(socket));
    // Asked for before there is an answer: from then on the kernel says who wrote each part of it.
    const int on = 1;
    if (::setsockopt(connection.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0) {
      return base::Fail(base::FromErrno(errno, "ask who answers on " + socket.string()));
    }
    const auto request =
        fmt::format("GET {} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n", path);
    // As short as it is, it goes into an empty socket as a whole.
    if (::send(connection.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request.size())) {
      return base::Fail(base::FromErrno(ECONNREFUSED, "ask the engine at " + socket.string()));
    }
    return Exchange(std::move(connection));
  }

  // Waits until something more has come. An answer that is whole stays so.
  base::Status Read(const io::StopToken& stop, base::Deadline deadline) {
    TRY(io::WaitReadable({connection_.get()}, stop, deadline));
    std::array<char, 16384> bytes;
    iovec part{bytes.data(), bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t count = ::recvmsg(connection_.get(), &message, MSG_CMSG_CLOEXEC);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (count < 0) return base::Fail(base::FromErrno(ECONNREFUSED, "read the engine's answer"));
    if (count == 0) {
      has_ended_ = true;
      return parser_.End();
    }
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) continue;
      ucred writer{};
      std::memcpy(&writer, CMSG_DATA(header), sizeof(writer));
      answer_.pid = writer.pid;
    }
    TRY(parser_.Feed({bytes.data(), static_cast<std::size_t>(count)}));
    if (const auto head = parser_.TakeHead()) answer_.status = head->status;
    answer_.body += parser_.TakeBody();
    if (answer_.body.size() <= kMostAnswer) return {};
    return base::Fail(base::Unavailable("AnswerTooLong", "the engine's answer does not end"));
  }

  [[nodiscard]] bool has_head() const { return answer_.status != 0; }
  [[nodiscard]] bool is_whole() const { return has_ended_ || parser_.done(); }
  [[nodiscard]] DockerAnswer& answer() { return answer_; }

 private:
  explicit Exchange(base::FileDescriptor connection) : connection_(std::move(connection)) {}

  base::FileDescriptor connection_;
  io::Http1Parser parser_;
  DockerAnswer answer_;
  bool has_ended_ = false;
};

// The daemon's own events of the kind, from now on. What it tells between this moment and its
// listening is in `since`.
std::string ReloadEvents() {
  const auto now = base::WallClock::now().time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(now - seconds);
  return fmt::format("/events?since={}.{:09}&filters={}", seconds.count(), rest.count(), kReloads);
}

// Until the stream has its first event. One that ends before, or that is refused, tells nothing.
base::Status AwaitReload(Exchange& events, pid_t pid, const io::StopToken& stop,
                         base::Deadline deadline) {
  while (events.answer().body.empty() && !events.is_whole()) {
    const auto more = events.Read(stop, deadline);
    if (more) continue;
    if (more.error().code == base::Code::kCancelled) return more;
    if (more.error().code == base::Code::kTimeout) {
      return base::Fail(base::Error{
          base::Code::kTimeout, "EngineDidNotReload",
          fmt::format("docker (pid {}) got SIGHUP and does not say that it has read its "
                      "configuration again: its log tells why",
                      pid)});
    }
    break;
  }
  return {};
}

}  // namespace

base::Result<DockerAnswer> AskDocker(const std::filesystem::path& socket, std::string_view path,
                                     const io::StopToken& stop, base::Deadline deadline) {
  TRY_ASSIGN(auto exchange, Exchange::Begin(socket, path));
  while (!exchange.is_whole()) TRY(exchange.Read(stop, deadline));
  return std::move(exchange.answer());
}

base::Status ReloadDocker(const EngineOptions& options, const io::StopToken& stop,
                          base::Deadline deadline) {
  auto events = Exchange::Begin(options.socket, ReloadEvents());
  base::Status begun;
  while (events && begun && !events->has_head()) begun = events->Read(stop, deadline);
  if (!events || !begun) {
    const auto& why = events ? begun.error() : events.error();
    if (why.code == base::Code::kNotFound || why.code == base::Code::kUnavailable) return {};
    return base::Fail(why);
  }
  const pid_t pid = events->answer().pid;
  if (pid <= 0) {
    return base::Fail(base::Error{
        base::Code::kUnsupported, "EngineNotVisible",
        fmt::format("the process that answers on {} is not in this pid namespace: the pod needs "
                    "hostPID: true",
                    options.socket.string())});
  }
  TRY_ASSIGN(const auto handle, OpenProcess(pid));
  TRY(HangUp(EngineKind::kDocker, pid, handle));
  constexpr int kOk = 200;
  if (events->answer().status == kOk) return AwaitReload(*events, pid, stop, deadline);
  base::LogInfo("Docker does not tell when it has read its configuration",
                {{"status", std::to_string(events->answer().status)}});
  return {};
}

base::Status CheckDockerInfo(const EngineOptions& options, const std::vector<Runtime>& runtimes,
                             const codec::Json& info) {
  for (const auto& runtime : runtimes) {
    const auto program = codec::FindString(info, {"Runtimes", runtime.name, "path"});
    if (program != runtime.path) {
      return base::Fail(base::Invalid(
          "EngineConfigNotEffective",
          fmt::format("docker does not take runtime {} from {}: it says that its program is \"{}\" "
                      "and not \"{}\"; does it read that file?",
                      runtime.name, options.config.string(), program, runtime.path)));
    }
    const auto first = codec::FindString(info, {"DefaultRuntime"});
    if (!runtime.is_default || first == runtime.name) continue;
    return base::Fail(base::Invalid(
        "EngineConfigNotEffective",
        fmt::format("docker does not take its default runtime from {}: it says that it is \"{}\" "
                    "and not \"{}\"",
                    options.config.string(), first, runtime.name)));
  }
  return {};
}

}  // namespace pitcrew::node::toolkit
