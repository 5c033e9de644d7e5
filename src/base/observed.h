// What was seen: present, absent, or unknown with a reason. Only absence that was seen deletes
// anything; a failed read is unknown (design principle "Unknown is a value").
#pragma once

#include <utility>
#include <variant>

#include "base/error.h"
#include "base/result.h"

namespace pitcrew::base {

// Positive evidence that something does not exist.
struct Absent {
  bool operator==(const Absent&) const = default;
};

template <class T>
class Observed {
 public:
  static Observed Present(T value) {
    return Observed(State(std::in_place_index<0>, std::move(value)));
  }
  static Observed Missing() { return Observed(State(std::in_place_index<1>)); }
  static Observed Unknown(Error error) {
    return Observed(State(std::in_place_index<2>, std::move(error)));
  }
  // kNotFound is positive evidence of absence; every other error is unknown.
  static Observed From(Result<T> result) {
    if (result) return Present(*std::move(result));
    if (result.error().code == Code::kNotFound) return Missing();
    return Unknown(std::move(result).error());
  }

  [[nodiscard]] bool is_present() const { return state_.index() == 0; }
  [[nodiscard]] bool is_absent() const { return state_.index() == 1; }
  [[nodiscard]] bool is_unknown() const { return state_.index() == 2; }
  // Null unless present / unknown; borrowed from this object.
  [[nodiscard]] const T* value() const { return std::get_if<0>(&state_); }
  [[nodiscard]] const Error* error() const { return std::get_if<2>(&state_); }

 private:
  using State = std::variant<T, Absent, Error>;
  explicit Observed(State state) : state_(std::move(state)) {}
  State state_;
};

}  // namespace pitcrew::base
