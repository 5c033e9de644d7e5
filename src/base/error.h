// What went wrong, in the words that reach the log, the condition, the Event and the metric.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace pitcrew::base {

// What a caller can do about an error; the finer cause is Error::reason.
enum class Code {
  kInvalid,      // the input is wrong; retrying without a change is useless
  kNotFound,     // there is positive evidence that the thing does not exist
  kExists,       // the thing exists already
  kConflict,     // somebody else changed it meanwhile; read again and retry
  kGone,         // the version asked for is no longer kept; list again
  kDenied,       // credentials or permissions; a person has to act
  kUnavailable,  // the other side is not there now; retry later
  kTooMany,      // the other side asks to slow down
  kTimeout,      // a deadline passed
  kCancelled,    // we were told to stop
  kUnsupported,  // this machine, library or server cannot do it
  kInternal,     // everything else
};

std::string_view ToString(Code code);

struct Error {
  Code code = Code::kInternal;
  // Stable CamelCase token, for example "DriverNotLoaded": the same in log, condition, Event,
  // metric.
  std::string reason;
  // One sentence for a person: what, where, and what to do about it.
  std::string message;

  // Returns the same error with "context: " in front of its message.
  [[nodiscard]] Error Within(std::string_view context) const&;
  // "Reason: message".
  [[nodiscard]] std::string ToString() const;

  bool operator==(const Error&) const = default;
};

// Short forms for the common codes; `reason` is CamelCase.
[[nodiscard]] Error Invalid(std::string reason, std::string message);
[[nodiscard]] Error NotFound(std::string reason, std::string message);
[[nodiscard]] Error Unavailable(std::string reason, std::string message);
[[nodiscard]] Error Internal(std::string reason, std::string message);
// From errno: ENOENT is kNotFound, EACCES and EPERM kDenied, and so on. `what` names the action and
// the object, for example "open /dev/kmsg".
[[nodiscard]] Error FromErrno(int error_number, std::string_view what);

}  // namespace pitcrew::base
