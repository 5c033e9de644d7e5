// HTTP/1.1 answers out of bytes (RFC 9112). No I/O: whoever reads a connection feeds it, and a
// fuzzer can. The grammar is Boost.Beast's; here are the bounds and what a client makes of it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/http_client.h"

namespace pitcrew::io {

// One answer. Nothing may be asked of it after an error.
class Http1Parser {
 public:
  // What kind of request it answers: answers to HEAD and good ones to CONNECT have no body,
  // whatever their headers say.
  enum class Body { kExpected, kNone };

  explicit Http1Parser(Body body = Body::kExpected);
  ~Http1Parser();
  Http1Parser(Http1Parser&&) noexcept;
  Http1Parser& operator=(Http1Parser&&) noexcept;

  // Takes what has arrived. An error (kUnavailable "ConnectionLost"): this is no HTTP/1.1, or
  // longer than the bounds allow (64 KiB for a head, for trailers, and for the line before a
  // chunk).
  base::Status Feed(std::string_view bytes);
  // The other side has ended the connection: an error when the answer is not whole.
  base::Status End();

  // Status and headers (names in lower case, no body) once they are there; then nothing.
  // Informational heads (1xx) and trailers are passed over.
  std::optional<HttpResponse> TakeHead();
  // The bytes of the body since the last call.
  std::string TakeBody();
  // The answer is whole.
  [[nodiscard]] bool done() const;
  // Whether the connection may carry another exchange, once done: neither side has said that it
  // ends, and nothing has come behind the answer.
  [[nodiscard]] bool keep_alive() const;
  // Whether any byte has come.
  [[nodiscard]] bool started() const { return started_; }

 private:
  class Message;
  base::Status Parse();
  void Begin();

  Body body_;
  std::unique_ptr<Message> message_;
  std::string pending_;  // not yet parsed
  bool started_ = false;
  int informational_ = 0;
};

}  // namespace pitcrew::io
