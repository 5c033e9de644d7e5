#include "loopback/scripted_server.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <optional>

#include "base/strings.h"
#include "loopback/loopback.h"

namespace pitcrew::testing {
namespace {

// More bytes of the connection into `buffer`; false at its end or at the stop.
bool Receive(int socket, std::string& buffer, const io::StopToken& stop) {
  if (!io::WaitReadable({socket}, stop)) return false;
  std::array<char, 16384> bytes;
  const ssize_t count = ::recv(socket, bytes.data(), bytes.size(), 0);
  if (count <= 0) return false;
  buffer.append(bytes.data(), static_cast<std::size_t>(count));
  return true;
}

std::optional<ScriptedRequest> ReadRequest(int socket, std::string& buffer,
                                           const io::StopToken& stop) {
  std::size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!Receive(socket, buffer, stop)) return std::nullopt;
  }
  ScriptedRequest request;
  const auto lines = base::Split(std::string_view(buffer).substr(0, end), '\n');
  const auto first = base::SplitTrimmed(lines.front(), ' ');
  if (first.size() < 2) return std::nullopt;
  request.method = first[0];
  const auto question = first[1].find('?');
  request.path = first[1].substr(0, question);
  if (question != std::string::npos) request.query = first[1].substr(question + 1);
  std::size_t length = 0;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto colon = lines[i].find(':');
    if (colon == std::string::npos) continue;
    request.headers.emplace_back(base::ToLower(lines[i].substr(0, colon)),
                                 std::string(base::Trim(lines[i].substr(colon + 1))));
    if (request.headers.back().first == "content-length") {
      length = base::ParseUnsigned(request.headers.back().second).value_or(0);
    }
  }
  buffer.erase(0, end + 4);
  while (buffer.size() < length) {
    if (!Receive(socket, buffer, stop)) return std::nullopt;
  }
  request.body = buffer.substr(0, length);
  buffer.erase(0, length);
  return request;
}

}  // namespace

void ScriptedReply::Write(const std::string& bytes) const {
  std::string_view left = bytes;
  while (!left.empty()) {
    const ssize_t sent = ::send(socket_, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    left.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void ScriptedReply::Send(int status, const std::string& body, const Headers& headers) {
  std::string head = fmt::format(
      "HTTP/1.1 {} Scripted\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n",
      status, body.size());
  for (const auto& [name, value] : headers) head += fmt::format("{}: {}\r\n", name, value);
  Write(head + "\r\n" + body);
}

void ScriptedReply::Begin(int status, const Headers& headers) {
  std::string head = fmt::format(
      "HTTP/1.1 {} Scripted\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n",
      status);
  for (const auto& [name, value] : headers) head += fmt::format("{}: {}\r\n", name, value);
  Write(head + "\r\n");
}

void ScriptedReply::Chunk(const std::string& bytes) {
  Write(fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes));
}

void ScriptedReply::End() { Write("0\r\n\r\n"); }

void ScriptedReply::Abort() {
  aborted_ = true;
  ::shutdown(socket_, SHUT_RDWR);
}

base::Result<std::unique_ptr<ScriptedServer>> ScriptedServer::Start(Handler handler) {
  TRY_ASSIGN(LoopbackSocket listener, ListenOnLoopback());
  return std::unique_ptr<ScriptedServer>(
      new ScriptedServer(std::move(listener.socket), listener.port, std::move(handler)));
}

ScriptedServer::ScriptedServer(base::FileDescriptor listener, int port, Handler handler)
    : listener_(std::move(listener)), port_(port), handler_(std::move(handler)) {
  thread_ = std::thread([this] { Accept(); });
}

ScriptedServer::~ScriptedServer() {
  stop_.Stop();
  thread_.join();
  for (std::thread& connection : connections_) connection.join();
}

std::string ScriptedServer::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

std::vector<ScriptedRequest> ScriptedServer::requests() const {
  const std::scoped_lock lock(mutex_);
  return requests_;
}

void ScriptedServer::Accept() {
  while (io::WaitReadable({listener_.get()}, stop_.token())) {
    const int socket = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    const int number = static_cast<int>(connections_.size()) + 1;
    connections_.emplace_back([this, socket, number] { Serve(socket, number); });
  }
}

void ScriptedServer::Serve(int socket, int number) {
  const base::FileDescriptor owner(socket);
  std::string buffer;
  while (auto request = ReadRequest(socket, buffer, stop_.token())) {
    request->connection = number;
    {
      const std::scoped_lock lock(mutex_);
      requests_.push_back(*request);
    }
    ScriptedReply reply(socket);
    handler_(*request, reply, stop_.token());
    if (reply.aborted()) return;
  }
}

}  // namespace pitcrew::testing
