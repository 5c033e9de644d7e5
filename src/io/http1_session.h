// One HTTP/1.1 connection as a client: one exchange after the other. Of the I/O thread of
// http_engine.cc.
#pragma once

#include <optional>
#include <string>

#include "io/connection.h"
#include "io/http1_parser.h"
#include "io/http_session.h"

namespace pitcrew::io {

// The head of a request as it goes out, its empty line included. `asks_proxy`: to a proxy that
// answers it itself, with the proxy's credentials if there are any.
std::string FormatHttp1Head(const HttpRequest& request, const Url& url, const Url* asks_proxy);

class Http1Session final : public HttpSession {
 public:
  // `proxy`: the one at the other end, if it is asked itself.
  Http1Session(Connection connection, std::optional<Url> proxy, HttpClientOptions options,
               OnEnd on_end);

  [[nodiscard]] bool http2() const override { return false; }
  [[nodiscard]] bool accepts() const override { return exchange_ == nullptr && !broken_; }
  void Begin(const ExchangePointer& exchange) override;
  [[nodiscard]] bool Has(const ExchangePointer& exchange) const override {
    return exchange_ == exchange;
  }
  bool Cancel(const ExchangePointer& exchange) override;
  // HTTP/1.1 has nothing to ask with; the exchange that waited in vain ends the connection.
  void SuspectDead(Clock::time_point /*now*/) override {}

  [[nodiscard]] int fd() const override { return connection_.fd(); }
  [[nodiscard]] short events() const override;
  [[nodiscard]] base::Deadline deadline() const override;
  base::Result<bool> Work(Clock::time_point now) override;
  void Close(const base::Error& error) override;

 private:
  base::Status Write();
  base::Status Read();
  // What the parser has found goes to the exchange.
  void Deliver();
  void End(Outcome outcome, std::optional<base::Error> error);
  // The reader of a stream has enough for now.
  [[nodiscard]] bool held_back() const;
  [[nodiscard]] std::string_view unsent() const;

  Connection connection_;
  const std::optional<Url> proxy_;
  const HttpClientOptions options_;
  OnEnd on_end_;

  ExchangePointer exchange_;  // null: the connection waits for one
  Http1Parser parser_;
  std::string head_;
  std::size_t sent_ = 0;  // of head and body together
  int served_ = 0;        // exchanges that were begun here
  bool broken_ = false;   // carries no other exchange
  bool more_to_read_ = false;
  bool write_waits_for_room_ = false;
  Clock::time_point last_used_ = Clock::now();
};

}  // namespace pitcrew::io
