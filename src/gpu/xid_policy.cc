#include "gpu/xid_policy.h"

#include <algorithm>

#include "base/strings.h"

namespace pitcrew::gpu {
namespace {

// Upstream's default list.
constexpr std::uint64_t kIgnored[] = {13, 31, 43, 45, 68, 109};

// XIDs that a GPU survives. Every XID that is in no table needs a reset: losing capacity until a
// person looks is better than jobs that fail on a broken GPU.
struct Rule {
  std::uint64_t xid;
  XidEffect effect;
};
constexpr Rule kRules[] = {
    {8, XidEffect::kUntilQuiet},     // GPU stopped processing; the channel was torn down
    {32, XidEffect::kUntilQuiet},    // invalid or corrupted push buffer stream
    {37, XidEffect::kUntilQuiet},    // driver firmware error of one channel
    {63, XidEffect::kUntilQuiet},    // row remapping recorded; takes effect at the next reset
    {69, XidEffect::kUntilQuiet},    // graphics engine class error
    {79, XidEffect::kUntilAnswers},  // fallen off the bus
    {92, XidEffect::kUntilQuiet},    // high rate of corrected ECC errors
    {94, XidEffect::kUntilQuiet},    // contained ECC error: only its application was hit
};

}  // namespace

XidList ParseXidList(std::string_view text) {
  XidList list;
  for (const auto& item : base::SplitTrimmed(base::ToLower(text), ',')) {
    if (item == "all" || item == "xids") return {.all = true, .xids = {}};
    if (const auto xid = base::ParseUnsigned(item)) list.xids.insert(*xid);
  }
  return list;
}

XidPolicy XidPolicy::FromLists(std::string_view disable, std::string_view enable) {
  auto disabled = ParseXidList(disable);
  auto enabled = ParseXidList(enable);
  XidPolicy policy;
  policy.disable_all_ = disabled.all;
  policy.enable_all_ = enabled.all;
  policy.disabled_ = std::move(disabled.xids);
  policy.enabled_ = std::move(enabled.xids);
  return policy;
}

bool XidPolicy::IsDisabled(std::uint64_t xid) const {
  if (enable_all_ || enabled_.contains(xid)) return false;
  return disable_all_ || disabled_.contains(xid) ||
         std::ranges::find(kIgnored, xid) != std::end(kIgnored);
}

XidEffect XidPolicy::EffectOf(std::uint64_t xid) const {
  if (IsDisabled(xid)) return XidEffect::kIgnore;
  const auto* rule = std::ranges::find(kRules, xid, &Rule::xid);
  return rule == std::end(kRules) ? XidEffect::kUntilReset : rule->effect;
}

}  // namespace pitcrew::gpu
