// One HTTP/2 connection as a client: nghttp2 speaks the protocol, this ties its streams to
// exchanges and its bytes to the connection. Of the I/O thread of http_engine.cc.
#pragma once

#include <nghttp2/nghttp2.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "io/connection.h"
#include "io/http_session.h"

namespace pitcrew::io {

class Http2Session final : public HttpSession {
 public:
  static base::Result<std::unique_ptr<Http2Session>> Create(Connection connection,
                                                            HttpClientOptions options,
                                                            OnEnd on_end);
  ~Http2Session() override;
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  [[nodiscard]] bool http2() const override { return true; }
  // Not after the server has said goodbye.
  [[nodiscard]] bool accepts() const override;
  void Begin(const ExchangePointer& exchange) override;
  [[nodiscard]] bool Has(const ExchangePointer& exchange) const override;
  bool Cancel(const ExchangePointer& exchange) override;
  void SuspectDead(Clock::time_point now) override;

  [[nodiscard]] int fd() const override { return connection_.fd(); }
  [[nodiscard]] short events() const override;
  [[nodiscard]] base::Deadline deadline() const override;
  // Also asks a silent server whether it is there.
  base::Result<bool> Work(Clock::time_point now) override;
  void Close(const base::Error& error) override;

 private:
  struct Stream {
    ExchangePointer exchange;
    std::size_t body_sent = 0;
    int status = 0;
    std::vector<HttpHeader> headers{};
    bool ended = false;  // the server has sent all
  };

  Http2Session(Connection connection, HttpClientOptions options, OnEnd on_end);
  base::Status Start();
  base::Status Read();
  base::Status Write();
  // Tells the server what readers of streams have taken.
  void GiveCredit();
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

  Connection connection_;
  const HttpClientOptions options_;
  OnEnd on_end_;
  struct Delete {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };
  std::unique_ptr<nghttp2_session, Delete> session_;
  std::unordered_map<std::int32_t, Stream> streams_;
  std::string outgoing_;           // bytes on their way into the connection
  std::size_t outgoing_sent_ = 0;  // of them, already there
  bool more_to_read_ = false;
  Clock::time_point last_read_ = Clock::now();
  Clock::time_point last_used_ = last_read_;
  // A PING is under way, and how long the server may be silent before the connection is given up.
  std::optional<Clock::time_point> ping_sent_;
  std::chrono::milliseconds ping_timeout_{};
};

}  // namespace pitcrew::io
