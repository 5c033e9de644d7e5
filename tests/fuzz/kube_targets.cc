#include <string>

#include "codec/json.h"
#include "fuzz/target.h"
#include "kube/config.h"
#include "kube/exec_plugin.h"
#include "kube/projection.h"
#include "kube/selector.h"
#include "kube/watcher.h"

namespace pitcrew::fuzz {
namespace {

// The readers look a little behind the text.
std::string Padded(std::string_view input) {
  std::string text;
  text.reserve(input.size() + kube::kReadablePadding);
  text.assign(input);
  return text;
}

void ReadObject(std::string_view input) {
  const std::string text = Padded(input);
  const auto meta = kube::ReadMeta(text);
  (void)kube::ReadResourceVersion(text);
  const auto value = codec::ParseJson(text);
  if (!meta || !value) return;
  // Two readers of one text: what both accept, both understand alike.
  Check(codec::FindString(*value, {"metadata", "uid"}) == meta->uid, "both readers see one uid");
  Check(codec::FindString(*value, {"metadata", "name"}) == meta->key.name,
        "both readers see one name");
}

void ReadListPage(std::string_view input) {
  const std::string text = Padded(input);
  const auto page = kube::ReadPage(text);
  if (!page) return;
  for (const auto& [meta, object] : page->objects) {
    Check(
        object.data() >= text.data() && object.data() + object.size() <= text.data() + text.size(),
        "an object lies within its page");
  }
}

void ReadWatchEvent(std::string_view input) {
  const std::string text = Padded(input);
  const auto event = kube::DecodeEvent(text);
  if (!event || event->object.empty()) return;
  Check(event->object.data() >= text.data() &&
            event->object.data() + event->object.size() <= text.data() + text.size(),
        "the object lies within its line");
}

void ReadKubeconfig(std::string_view input) {
  (void)kube::ParseKubeconfig(input, "input", "/nonexistent");
}

void ReadExecCredential(std::string_view input) {
  (void)kube::ParseExecCredential(
      input, {.api_version = "client.authentication.k8s.io/v1", .command = "plugin"});
}

void ReadSelector(std::string_view input) {
  const auto selector = kube::LabelSelector::Parse(input);
  const auto spaced = kube::LabelSelector::Parse(" " + std::string(input) + " ");
  Check(selector.has_value() == spaced.has_value(), "spaces around it say nothing");
  if (!selector) return;
  const codec::Json labelled = {{"metadata", {{"labels", {{"a", "b"}, {"n", "7"}}}}}};
  Check(selector->Selects(labelled) == spaced->Selects(labelled), "both select the same");
  (void)selector->Selects(codec::Json::object());
}

constexpr Target kTargets[] = {{"object", ReadObject},
                               {"list_page", ReadListPage},
                               {"watch_event", ReadWatchEvent},
                               {"kubeconfig", ReadKubeconfig},
                               {"exec_credential", ReadExecCredential},
                               {"selector", ReadSelector}};

}  // namespace

std::span<const Target> KubeTargets() { return kTargets; }

}  // namespace pitcrew::fuzz
