// An HTTP/2 server over TLS whose answers a test writes, for what a real API server does not do on
// demand: refused streams, goodbyes, silence.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "io/stop.h"
#include "loopback/certificate.h"

struct ssl_ctx_st;

namespace pitcrew::testing {

struct Http2Request {
  std::string method{};
  std::string path{};
  std::string body{};
  int connection = 0;  // the first is 1
};

// What the server does about one request.
struct Http2Answer {
  int status = 200;
  std::string body{};
  bool no_body = false;         // the head is all there is, as of 204
  bool early_hints = false;     // a head with status 103 comes before
  bool trailers = false;        // headers come behind the body
  bool stays_open = false;      // the body does not end
  std::uint32_t reset = 0;      // not 0: no answer, but RST_STREAM with this code
  bool goodbye = false;         // GOAWAY first, this request being the last that counts
  bool goodbye_before = false;  // GOAWAY instead of an answer: this request does not count
  bool silence = false;         // from now on nothing is read or written on this connection
};

// Its body is the path of the request.
inline Http2Answer EchoPath(const Http2Request& request) { return {.body = request.path}; }

struct Http2ServerOptions {
  std::uint32_t most_streams = 100;  // at once, on one connection
  bool http2 = true;                 // else only HTTP/1.1: every answer is 200 with "one"
  bool intermediate = false;  // the authority is not a root: another one, nowhere told, signed it
};

class Http2Server {
 public:
  // Called on the thread of the request's connection.
  using Handler = std::function<Http2Answer(const Http2Request&)>;

  static base::Result<std::unique_ptr<Http2Server>> Start(Handler handler,
                                                          Http2ServerOptions options = {});
  ~Http2Server();
  Http2Server(const Http2Server&) = delete;
  Http2Server& operator=(const Http2Server&) = delete;

  [[nodiscard]] std::string url() const;
  [[nodiscard]] int port() const { return port_; }
  // Who has signed the certificate of 127.0.0.1.
  [[nodiscard]] const std::string& authority_pem() const { return authority_.certificate_pem; }

  struct Counts {
    int connections = 0;  // accepted
    int closed = 0;       // of them, ended
    int pings = 0;        // received
    int cancelled = 0;    // streams that the client has reset with CANCEL
    std::size_t body_bytes = 0;
  };
  [[nodiscard]] Counts counts() const;
  // Waits until the counts fulfil `condition`; false after half a minute.
  bool WaitFor(const std::function<bool(const Counts&)>& condition) const;

 private:
  class Connection;
  Http2Server(base::FileDescriptor listener, int port, KeyPair authority, ssl_ctx_st* context,
              Handler handler, Http2ServerOptions options);
  void Accept();
  void Count(const std::function<void(Counts&)>& change);

  base::FileDescriptor listener_;
  int port_;
  KeyPair authority_;
  ssl_ctx_st* context_;
  Handler handler_;
  Http2ServerOptions options_;
  io::StopSource stop_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Counts counts_;
  std::list<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace pitcrew::testing
