#include "api/upgrade_schedule_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "api/labels.h"
#include "base/strings.h"
#include "base/time_zone.h"
#include "codec/yaml.h"

namespace pitcrew::api {
namespace {

using codec::Json;

constexpr std::string_view kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                      "Thursday", "Friday", "Saturday"};
constexpr int kMinutesOfDay = 1440;

// "22:30"; "24:00" is the end of a day. In minutes.
std::optional<int> ReadTimeOfDay(std::string_view text) {
  if (text.size() != 5 || text[2] != ':') return std::nullopt;
  const auto hours = base::ParseUnsigned(text.substr(0, 2));
  const auto minutes = base::ParseUnsigned(text.substr(3));
  if (!hours || !minutes || *minutes > 59) return std::nullopt;
  const int time = static_cast<int>(*hours * 60 + *minutes);
  return *hours > 24 || time > kMinutesOfDay ? std::nullopt : std::optional(time);
}

int TimeOfDay(const Block& block, std::string_view name, int fallback) {
  const std::string text = block.String(name);
  if (text.empty()) {
    block.Report(name, "is missing: a time of day like \"22:30\"");
    return fallback;
  }
  if (const auto time = ReadTimeOfDay(text)) return *time;
  block.Report(name, fmt::format("is \"{}\", must be a time of day like \"22:30\"", text));
  return fallback;
}

UpgradeWindow ReadWindow(const Block& block) {
  UpgradeWindow window;
  block.RefuseOthers({"days", "start", "end", "timeZone"});
  if (const auto days = block.Strings("days"); !days.empty()) {
    window.days.fill(false);
    for (const std::string& day : days) {
      const auto* const found = std::ranges::find(kDays, day);
      if (found == std::end(kDays)) {
        block.Report("days",
                     fmt::format("has \"{}\", must be names of days like \"Saturday\"", day));
      } else {
        window.days[static_cast<std::size_t>(found - std::begin(kDays))] = true;
      }
    }
  }
  window.start = TimeOfDay(block, "start", window.start);
  window.end = TimeOfDay(block, "end", window.end);
  if (window.start == kMinutesOfDay) {
    block.Report("start", "is the end of a day: \"00:00\" of the next one is meant");
  } else if (window.start == window.end) {
    block.Report("end",
                 "is the start of the window, in which there is no time then; a whole day is "
                 "\"00:00\" to \"24:00\"");
  }
  window.time_zone = block.String("timeZone", "UTC");
  if (const auto zone = base::TimeZone::Named(window.time_zone); !zone) {
    block.Report("timeZone", zone.error().message);
  }
  return window;
}

// The grammar of label keys (Kubernetes' qualified names).
bool IsLabelKey(std::string_view key) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const std::size_t slash = key.find('/');
  const std::string_view name = slash == std::string_view::npos ? key : key.substr(slash + 1);
  const std::string_view prefix = slash == std::string_view::npos ? "x" : key.substr(0, slash);
  const auto fits = [&](std::string_view text, std::size_t most, const std::string& between) {
    return !text.empty() && text.size() <= most &&
           kLetters.find(text.front()) != std::string_view::npos &&
           kLetters.find(text.back()) != std::string_view::npos &&
           text.find_first_not_of(std::string(kLetters) + between) == std::string_view::npos;
  };
  return fits(name, 63, "-_.") && fits(prefix, 253, "-.");
}

UpgradeOrder ReadOrder(const Block& block) {
  UpgradeOrder order;
  block.RefuseOthers({"label", "first"});
  order.label = block.String("label");
  order.first = block.Strings("first");
  if (order.label.empty()) {
    if (block.present()) {
      block.Report("label", "is missing: the key of a label, like \"topology.kubernetes.io/zone\"");
    }
  } else if (!IsLabelKey(order.label)) {
    block.Report("label", fmt::format("is \"{}\", which is no key of a label", order.label));
  }
  return order;
}

UpgradeCanary ReadCanary(const Block& block) {
  block.RefuseOthers({"nodes", "observeSeconds", "requireApproval", "metrics"});
  return {.nodes = block.Count("nodes", block.present() ? 1 : 0),
          .observe_seconds = block.Count("observeSeconds", 0),
          .require_approval = block.Flag("requireApproval"),
          .metrics = block.Flag("metrics", true),
          .approved = {}};
}

std::string PathOf(std::string_view annotation) {
  return fmt::format("metadata.annotations[{}]", annotation);
}

}  // namespace

UpgradeSchedule ReadUpgradeSchedule(const Block& block) {
  UpgradeSchedule schedule;
  block.RefuseOthers({"paused", "windows", "order", "canary"});
  schedule.paused = block.Flag("paused");
  for (const Block& window : block.Blocks("windows"))
    schedule.windows.push_back(ReadWindow(window));
  schedule.order = ReadOrder(block.Child("order"));
  schedule.canary = ReadCanary(block.Child("canary"));
  return schedule;
}

void ReadUpgradeAnnotations(const Json& object, UpgradePolicy& policy,
                            std::vector<FieldProblem>& problems) {
  UpgradeSchedule& schedule = policy.schedule;
  const auto annotation = [&](std::string_view key) {
    return codec::FindString(object, {"metadata", "annotations", key});
  };
  if (const std::string text = annotation(kUpgradeScheduleAnnotation); !text.empty()) {
    const std::string path = PathOf(kUpgradeScheduleAnnotation);
    if (const auto document = codec::ParseYaml(text); document) {
      schedule = ReadUpgradeSchedule(Block(&*document, path, problems));
    } else {
      problems.push_back({path, document.error().message});
    }
  }
  for (const auto& [key, into] : {std::pair(kUpgradePausedAnnotation, &schedule.paused),
                                  std::pair(kUpgradeImageCheckAnnotation, &policy.image_check)}) {
    const std::string text = annotation(key);
    if (text.empty()) continue;
    if (text != "true" && text != "false") {
      problems.push_back(
          {PathOf(key), fmt::format("is \"{}\", must be \"true\" or \"false\"", text)});
    }
    *into = text != "false";
  }
  for (const std::string& version : base::Split(annotation(kUpgradeApprovedAnnotation), ',')) {
    if (!version.empty()) schedule.canary.approved.push_back(version);
  }
}

}  // namespace pitcrew::api
