// The conditions of a status (reference operator-behaviour.md section 12.1).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "codec/json.h"

namespace pitcrew::desired {

// Builds the list of conditions, keeping the times of those whose status stays.
class Conditions {
 public:
  // `previous` is the stored status (null when there is none); borrowed.
  Conditions(std::int64_t generation, const codec::Json& previous, base::WallClock::time_point now);

  void Add(std::string_view type, bool is_true, std::string_view reason, std::string_view message);
  // `status`: "True", "False" or "Unknown".
  void AddStatus(std::string_view type, const std::string& status, std::string_view reason,
                 std::string_view message);
  // Ready and its mirror Error, as upstream writes them.
  void AddError(std::string_view reason, std::string_view message);
  void AddReady(std::string_view reason, std::string_view message);

  // The condition of that type in a status; null when there is none.
  static const codec::Json* Find(const codec::Json& status, std::string_view type);

  codec::Json Take() { return std::move(list_); }

 private:
  std::int64_t generation_;
  const codec::Json& previous_;
  std::string now_;
  codec::Json list_ = codec::Json::array();
};

}  // namespace pitcrew::desired
