// One connection that carries exchanges, whichever protocol it speaks. Of http_engine.cc, whose I/O
// thread alone uses it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "base/deadline.h"
#include "base/result.h"
#include "io/http_exchange.h"

namespace pitcrew::io {

// Bytes that are read at once, and after how many others get their turn.
constexpr std::size_t kReadSize = 16U << 10U;
constexpr std::size_t kReadAtOnce = 1U << 20U;

class HttpSession {
 public:
  // How an exchange ended on this connection.
  enum class Outcome {
    kDone,        // with the error, or well without one
    kTryAgain,    // the server has not looked at it, or looking at it twice is harmless: another
                  // connection may take it
    kNeedsHttp1,  // the server wants it over HTTP/1.1
  };
  // Called from Begin, Work and Close, once for each exchange that was begun here and not
  // cancelled; it must not call back into the session.
  using OnEnd = std::function<void(const ExchangePointer&, Outcome, std::optional<base::Error>)>;

  virtual ~HttpSession() = default;

  [[nodiscard]] virtual bool http2() const = 0;
  // Whether another exchange may begin here now.
  [[nodiscard]] virtual bool accepts() const = 0;
  virtual void Begin(const ExchangePointer& exchange) = 0;
  [[nodiscard]] virtual bool Has(const ExchangePointer& exchange) const = 0;
  // Nobody wants the answer any more. False when it is not of this session.
  virtual bool Cancel(const ExchangePointer& exchange) = 0;
  // Somebody has waited in vain: the server has to give a sign of life, or the connection ends.
  virtual void SuspectDead(Clock::time_point now) = 0;

  // What to poll for (0: nothing, not even for the connection's end), and until when.
  [[nodiscard]] virtual int fd() const = 0;
  [[nodiscard]] virtual short events() const = 0;
  [[nodiscard]] virtual base::Deadline deadline() const = 0;
  // Reads and writes what can be without waiting. An error, or false when both sides are done with
  // it, is the connection's end: Close follows.
  virtual base::Result<bool> Work(Clock::time_point now) = 0;
  // Ends all exchanges that are still here with `error`.
  virtual void Close(const base::Error& error) = 0;
};

}  // namespace pitcrew::io
