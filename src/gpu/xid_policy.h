// What an XID error says about the GPU that reported it (device-plugin.md section 14; NVIDIA's XID
// catalogue). Data first: the table in the source decides.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>

namespace pitcrew::gpu {

enum class XidEffect {
  kIgnore,        // the application's own fault: the GPU is fine
  kUntilQuiet,    // the GPU goes on, but nothing should be placed on it while errors still come
  kUntilAnswers,  // the GPU is unreachable: it is back as soon as it answers
  kUntilReset,    // only a reset of the GPU makes it right
};

// Which XIDs count, from the two variables that upstream knows, DP_DISABLE_HEALTHCHECKS and
// DP_ENABLE_HEALTHCHECKS.
class XidPolicy {
 public:
  // The built-in table; ignored by default: 13, 31, 43, 45, 68, 109.
  XidPolicy() = default;
  // Lists of XIDs, or "all" / "xids". What is enabled wins over what is disabled. Items that are no
  // numbers are dropped.
  static XidPolicy FromLists(std::string_view disable, std::string_view enable);

  // No XID counts at all.
  [[nodiscard]] bool IsOff() const { return disable_all_ && !enable_all_ && enabled_.empty(); }
  [[nodiscard]] XidEffect EffectOf(std::uint64_t xid) const;

 private:
  [[nodiscard]] bool IsDisabled(std::uint64_t xid) const;

  bool disable_all_ = false;
  bool enable_all_ = false;
  std::set<std::uint64_t> disabled_;
  std::set<std::uint64_t> enabled_;
};

// For a person: "double-bit ECC error".
std::string_view MeaningOfXid(std::uint64_t xid);

// The XIDs of one list: sorted, each once; empty when the list holds "all" or "xids".
struct XidList {
  bool all = false;
  std::set<std::uint64_t> xids;
  bool operator==(const XidList&) const = default;
};
XidList ParseXidList(std::string_view text);

}  // namespace pitcrew::gpu
