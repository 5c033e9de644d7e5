#include "base/error.h"

#include <cerrno>
#include <system_error>

namespace pitcrew::base {

std::string_view ToString(Code code) {
  switch (code) {
    case Code::kInvalid:
      return "Invalid";
    case Code::kNotFound:
      return "NotFound";
    case Code::kExists:
      return "Exists";
    case Code::kConflict:
      return "Conflict";
    case Code::kGone:
      return "Gone";
    case Code::kDenied:
      return "Denied";
    case Code::kUnavailable:
      return "Unavailable";
    case Code::kTooMany:
      return "TooMany";
    case Code::kTimeout:
      return "Timeout";
    case Code::kCancelled:
      return "Cancelled";
    case Code::kUnsupported:
      return "Unsupported";
    case Code::kInternal:
      return "Internal";
  }
  return "Internal";
}

Error Error::Within(std::string_view context) const& {
  Error outer = *this;
  outer.message = std::string(context) + ": " + message;
  return outer;
}

std::string Error::ToString() const { return reason.empty() ? message : reason + ": " + message; }

Error Invalid(std::string reason, std::string message) {
  return {Code::kInvalid, std::move(reason), std::move(message)};
}
Error NotFound(std::string reason, std::string message) {
  return {Code::kNotFound, std::move(reason), std::move(message)};
}
Error Unavailable(std::string reason, std::string message) {
  return {Code::kUnavailable, std::move(reason), std::move(message)};
}
Error Internal(std::string reason, std::string message) {
  return {Code::kInternal, std::move(reason), std::move(message)};
}

Error FromErrno(int error_number, std::string_view what) {
  Error error;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case ENODEV:
    case ENXIO:
    case ESRCH:
      error = {Code::kNotFound, "NotFound", {}};
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      error = {Code::kDenied, "PermissionDenied", {}};
      break;
    case EEXIST:
      error = {Code::kExists, "AlreadyExists", {}};
      break;
    case EINVAL:
      error = {Code::kInvalid, "InvalidArgument", {}};
      break;
    case ENOSYS:
    case EOPNOTSUPP:
      error = {Code::kUnsupported, "NotSupported", {}};
      break;
    case EMFILE:
    case ENFILE:
      error = {Code::kUnavailable, "TooManyOpenFiles", {}};
      break;
    case ETIMEDOUT:
      error = {Code::kTimeout, "TimedOut", {}};
      break;
    case EAGAIN:
    case EBUSY:
    case ECONNREFUSED:
      error = {Code::kUnavailable, "Unavailable", {}};
      break;
    default:
      error = {Code::kInternal, "SystemError", {}};
      break;
  }
  error.message = std::string(what) + ": " + std::generic_category().message(error_number);
  return error;
}

}  // namespace pitcrew::base
