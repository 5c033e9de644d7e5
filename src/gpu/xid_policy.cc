#include "gpu/xid_policy.h"

#include <algorithm>

#include "base/strings.h"

namespace pitcrew::gpu {
namespace {

// What is known about single XIDs. Those that upstream ignores by default are ignored; every XID
// that is not here needs a reset: losing capacity until a person looks is better than jobs that
// fail on a broken GPU.
struct Rule {
  std::uint64_t xid;
  XidEffect effect;
  std::string_view meaning;
};
constexpr auto kIgnore = XidEffect::kIgnore;
constexpr auto kUntilQuiet = XidEffect::kUntilQuiet;
constexpr auto kUntilAnswers = XidEffect::kUntilAnswers;
constexpr auto kUntilReset = XidEffect::kUntilReset;
constexpr Rule kRules[] = {
    {8, kUntilQuiet, "the GPU stopped processing; the channel was torn down"},
    {13, kIgnore, "graphics engine exception, mostly of the application"},
    {31, kIgnore, "memory page fault, mostly of the application"},
    {32, kUntilQuiet, "invalid or corrupted push buffer stream"},
    {37, kUntilQuiet, "driver firmware error of one channel"},
    {38, kUntilReset, "driver firmware error"},
    {43, kIgnore, "the application's work on the GPU was stopped"},
    {45, kIgnore, "the application's work was cleaned up after an earlier error"},
    {48, kUntilReset, "double-bit ECC error"},
    {61, kUntilReset, "internal microcontroller breakpoint or warning"},
    {62, kUntilReset, "internal microcontroller halt"},
    {63, kUntilQuiet, "a memory row is to be remapped at the next reset"},
    {64, kUntilReset, "a memory row could not be remapped"},
    {68, kIgnore, "video decoder exception"},
    {69, kUntilQuiet, "graphics engine class error"},
    {74, kUntilReset, "NVLink error"},
    {79, kUntilAnswers, "the GPU has fallen off the bus"},
    {92, kUntilQuiet, "high rate of corrected ECC errors"},
    {94, kUntilQuiet, "contained ECC error: only its application was hit"},
    {95, kUntilReset, "uncontained ECC error"},
    {109, kIgnore, "context switch timeout"},
    {110, kUntilReset, "security fault"},
    {119, kUntilReset, "the GPU's system processor does not answer"},
    {120, kUntilReset, "error of the GPU's system processor"},
    {121, kUntilQuiet, "corrected error of the link between CPU and GPU"},
    {136, kUntilReset, "NVLink training failed"},
    {140, kUntilReset, "uncorrected ECC error"},
    {143, kUntilReset, "the GPU could not be initialised"},
    // Whatever the action now is: it is read from NVML.
    {154, kUntilQuiet, "the recovery action of the GPU has changed"},
};

const Rule* FindRule(std::uint64_t xid) {
  const auto* rule = std::ranges::find(kRules, xid, &Rule::xid);
  return rule == std::end(kRules) ? nullptr : rule;
}

bool IsIgnoredByDefault(std::uint64_t xid) {
  const auto* rule = FindRule(xid);
  return rule != nullptr && rule->effect == kIgnore;
}

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
  return disable_all_ || disabled_.contains(xid) || IsIgnoredByDefault(xid);
}

XidEffect XidPolicy::EffectOf(std::uint64_t xid) const {
  if (IsDisabled(xid)) return kIgnore;
  const auto* rule = FindRule(xid);
  // One that is ignored by default and was asked for all the same.
  return rule == nullptr || rule->effect == kIgnore ? kUntilReset : rule->effect;
}

std::string_view MeaningOfXid(std::uint64_t xid) {
  const auto* rule = FindRule(xid);
  return rule == nullptr ? "see NVIDIA's XID catalogue" : rule->meaning;
}

}  // namespace pitcrew::gpu
