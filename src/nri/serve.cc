#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <span>

#include "base/file_descriptor.h"
#include "io/unix_socket.h"
#include "nri/plugin.h"

namespace pitcrew::nri {
namespace {

base::Error Lost(std::string_view why) {
  return base::Unavailable("NriConnectionLost",
                           fmt::format("the connection to the container runtime ended: {}", why));
}

// Sends what there is room for.
base::Status Send(int socket, std::string& out) {
  while (!out.empty()) {
    const auto sent = ::send(socket, out.data(), out.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return {};
    if (sent < 0) return base::Fail(Lost(base::FromErrno(errno, "send").message));
    out.erase(0, static_cast<std::size_t>(sent));
  }
  return {};
}

// What has come; empty when nothing has.
base::Result<std::string_view> Take(int socket, std::span<char> buffer) {
  const auto count = ::recv(socket, buffer.data(), buffer.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::string_view();
  if (count < 0) return base::Fail(Lost(base::FromErrno(errno, "receive").message));
  if (count == 0) return base::Fail(Lost("it was closed"));
  return std::string_view(buffer.data(), static_cast<std::size_t>(count));
}

base::Status Talk(int socket, Conversation& conversation, const io::StopToken& stop) {
  std::string out = conversation.Greeting();
  std::array<char, 16384> buffer{};
  while (true) {
    TRY(Send(socket, out));
    if (out.empty()) TRY(conversation.configured());
    const short wanted = static_cast<short>(out.empty() ? POLLIN : POLLIN | POLLOUT);
    pollfd fds[2] = {{socket, wanted, 0}, {stop.fd(), POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) {
      return base::Fail(base::FromErrno(errno, "wait for the container runtime"));
    }
    if (stop.stopped()) return base::Fail(stop.error());
    if ((fds[0].revents & ~POLLOUT) == 0) continue;
    TRY_ASSIGN(const auto bytes, Take(socket, buffer));
    TRY_ASSIGN(const auto answer, conversation.Receive(bytes));
    out += answer;
  }
}

}  // namespace

base::Error Serve(const std::filesystem::path& socket, const Identity& identity, Handler& handler,
                  const io::StopToken& stop) {
  const auto connection = io::ConnectUnix(socket);
  if (!connection) return base::Unavailable("NriSocketMissing", connection.error().message);
  Conversation conversation(identity, handler);
  return Talk(connection->get(), conversation, stop).error();
}

}  // namespace pitcrew::nri
