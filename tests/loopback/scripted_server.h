// A plain HTTP/1.1 server whose answers a test writes, for what a real API server does not do on
// demand: refusals, slow pages, answers that break off.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::testing {

struct ScriptedRequest {
  std::string method{};
  std::string path{};
  std::string query{};                                         // as sent
  std::vector<std::pair<std::string, std::string>> headers{};  // names in lower case
  std::string body{};
  int connection = 0;  // the first is 1
};

// The answer to one request. Sends to a client that has gone away are ignored.
class ScriptedReply {
 public:
  explicit ScriptedReply(int socket) : socket_(socket) {}
  using Headers = std::vector<std::pair<std::string, std::string>>;

  void Send(int status, const std::string& body, const Headers& headers = {});
  // A chunked answer: Begin, any number of Chunk, then End, or Abort to break off.
  void Begin(int status, const Headers& headers = {});
  void Chunk(const std::string& bytes);
  void End();
  void Abort();
  [[nodiscard]] bool aborted() const { return aborted_; }
  // To wait for the client's end of the connection. Borrowed.
  [[nodiscard]] int socket() const { return socket_; }

 private:
  void Write(const std::string& bytes) const;
  int socket_;
  bool aborted_ = false;
};

class ScriptedServer {
 public:
  // Called on a thread of its connection. Handlers that wait must also end with the token.
  using Handler = std::function<void(const ScriptedRequest&, ScriptedReply&, const io::StopToken&)>;

  static base::Result<std::unique_ptr<ScriptedServer>> Start(Handler handler);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  [[nodiscard]] std::string url() const;
  [[nodiscard]] int port() const { return port_; }
  // All requests so far, in order of arrival.
  [[nodiscard]] std::vector<ScriptedRequest> requests() const;

 private:
  ScriptedServer(base::FileDescriptor listener, int port, Handler handler);
  void Accept();
  void Serve(int socket, int number);

  base::FileDescriptor listener_;
  int port_;
  Handler handler_;
  io::StopSource stop_;
  mutable std::mutex mutex_;
  std::vector<ScriptedRequest> requests_;
  std::list<std::thread> connections_;
  std::thread thread_;
};

}  // namespace pitcrew::testing
