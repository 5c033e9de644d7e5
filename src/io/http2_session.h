// One HTTP/2 connection as a client: nghttp2 speaks the protocol, this ties its streams to
// exchanges and its bytes to TLS. Of the I/O thread of http2_client.cc.
#pragma once

#include <nghttp2/nghttp2.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "io/http_exchange.h"
#include "io/tls_connection.h"

namespace pitcrew::io {

class Http2Session {
 public:
  // How an exchange ended on this connection.
  enum class Outcome {
    kDone,          // with the error, or well without one
    kNotProcessed,  // the server has not looked at it: another connection may take it
    kNeedsHttp1,    // the server wants it over HTTP/1.1
  };
  using OnEnd = std::function<void(const ExchangePointer&, Outcome, std::optional<base::Error>)>;

  // `on_end` is called from Work and from Close, once for each exchange that was begun here and
  // not cancelled; it must not call back into the session.
  static base::Result<std::unique_ptr<Http2Session>> Create(TlsConnection connection,
                                                            HttpClientOptions options,
                                                            OnEnd on_end);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  // Whether new exchanges may begin here: not after the server has said goodbye.
  [[nodiscard]] bool accepts() const;
  [[nodiscard]] bool idle() const { return streams_.empty(); }
  [[nodiscard]] Clock::time_point last_read() const { return last_read_; }
  [[nodiscard]] Clock::time_point last_used() const { return last_used_; }

  void Begin(const ExchangePointer& exchange);
  [[nodiscard]] bool Has(const ExchangePointer& exchange) const;
  // Tells the server that nobody wants the answer any more. False when it is not of this session.
  bool Cancel(const ExchangePointer& exchange);
  // Somebody has waited in vain: the server has to give a sign of life, or the connection ends.
  void SuspectDead(Clock::time_point now);
  // Tells the server what readers of streams have taken.
  void GiveCredit();

  // What to poll for, and until when.
  [[nodiscard]] int fd() const { return connection_.fd(); }
  [[nodiscard]] short events() const;
  [[nodiscard]] Clock::time_point deadline() const;
  // Reads and writes what can be without waiting, and asks a silent server whether it is there. An
  // error, or false when both sides are done with it, is the connection's end: Close follows.
  base::Result<bool> Work(Clock::time_point now);
  // Ends all exchanges that are still here with `error`.
  void Close(const base::Error& error);

 private:
  struct Stream {
    ExchangePointer exchange;
    std::size_t body_sent = 0;
    int status = 0;
    std::vector<HttpHeader> headers{};
    bool ended = false;  // the server has sent all
  };

  Http2Session(TlsConnection connection, HttpClientOptions options, OnEnd on_end);
  base::Status Start();
  base::Status Read();
  base::Status Write();
  base::Status CheckAlive(Clock::time_point now);
  void SendPing(Clock::time_point now, std::chrono::milliseconds ping_timeout);
  [[nodiscard]] Clock::time_point next_check() const;
  Stream* Find(std::int32_t stream_id);
  void End(std::int32_t stream_id, std::uint32_t error_code);

  static nghttp2_session_callbacks* Callbacks();
  static ssize_t OnReadBody(nghttp2_session* session, std::int32_t stream_id, std::uint8_t* buffer,
                            std::size_t length, std::uint32_t* flags, nghttp2_data_source* source,
                            void* context);
  static int OnHeader(nghttp2_session* session, const nghttp2_frame* frame,
                      const std::uint8_t* name, std::size_t name_length, const std::uint8_t* value,
                      std::size_t value_length, std::uint8_t flags, void* context);
  static int OnFrame(nghttp2_session* session, const nghttp2_frame* frame, void* context);
  static int OnData(nghttp2_session* session, std::uint8_t flags, std::int32_t stream_id,
                    const std::uint8_t* data, std::size_t length, void* context);
  static int OnStreamClose(nghttp2_session* session, std::int32_t stream_id,
                           std::uint32_t error_code, void* context);
  static int OnNotSent(nghttp2_session* session, const nghttp2_frame* frame, int code,
                       void* context);

  TlsConnection connection_;
  const HttpClientOptions options_;
  OnEnd on_end_;
  struct Delete {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };
  std::unique_ptr<nghttp2_session, Delete> session_;
  std::unordered_map<std::int32_t, Stream> streams_;
  std::string outgoing_;           // bytes on their way into TLS
  std::size_t outgoing_sent_ = 0;  // of them, already there
  bool more_to_read_ = false;
  Clock::time_point last_read_ = Clock::now();
  Clock::time_point last_used_ = last_read_;
  // A PING is under way, and how long the server may be silent before the connection is given up.
  std::optional<Clock::time_point> ping_sent_;
  std::chrono::milliseconds ping_timeout_{};
};

}  // namespace pitcrew::io
