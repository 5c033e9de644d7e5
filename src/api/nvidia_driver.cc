#include "api/nvidia_driver.h"

#include <fmt/format.h>

#include "api/fields.h"
#include "api/labels.h"
#include "api/upgrade_schedule_reader.h"

namespace pitcrew::api {
namespace {

constexpr std::string_view kDefaultImage = "nvcr.io/nvidia/driver";

void ReadPods(const Block& spec, DaemonSetSettings& pods) {
  for (auto& [key, value] : spec.StringMap("labels")) {
    // What selects the pods is not for others to change.
    if (key == kAppLabel || key.starts_with("app.kubernetes.io/")) continue;
    pods.labels.emplace_back(key, value);
  }
  pods.annotations = spec.StringMap("annotations");
  pods.tolerations = spec.Objects("tolerations");
  pods.priority_class_name = spec.String("priorityClassName");
  pods.pod_security_context = spec.Fragment("podSecurityContext");
}

void ReadSpec(const Block& spec, NvidiaDriver& result) {
  result.is_default = spec.Flag("default");
  result.type = spec.Enumerated("driverType", std::string(kDriverTypeGpu),
                                {kDriverTypeGpu, kDriverTypeVgpu, kDriverTypeVgpuHost});
  if (spec.Child("nodeSelector").present()) {
    auto& selector = result.node_selector.emplace();
    for (auto& [key, value] : spec.StringMap("nodeSelector")) selector[key] = value;
  }
  Driver& driver = result.driver;
  ReadCommonDriver(spec, driver);
  if (driver.image.image.empty()) driver.image.image = kDefaultImage;
  driver.upgrade_policy = ReadUpgradePolicy(spec.Child("upgradePolicy"), true);
  const Block licensing = spec.Child("licensingConfig");
  driver.licensing = {.config_map_name = licensing.String("name"),
                      .secret_name = licensing.String("secretName"),
                      .nls_enabled = licensing.Flag("nlsEnabled", true)};
  driver.virtual_topology_config = spec.Child("virtualTopologyConfig").String("name");
  driver.repo_config = spec.Child("repoConfig").String("name");
  ReadComponent(spec.Child("gds"), result.gds);
  ReadComponent(spec.Child("gdrcopy"), result.gdrcopy);
  ReadPods(spec, result.pods);
}

}  // namespace

base::Result<NvidiaDriver> ReadNvidiaDriver(const codec::Json& object) {
  if (!object.is_object() || codec::FindString(object, {"kind"}) != kNvidiaDriverKind ||
      codec::FindString(object, {"apiVersion"}) != kNvidiaV1Alpha1) {
    return base::Fail(base::Invalid(
        "NotANvidiaDriver",
        fmt::format("expected apiVersion {} and kind {}, found \"{}\" and \"{}\"", kNvidiaV1Alpha1,
                    kNvidiaDriverKind, codec::FindString(object, {"apiVersion"}),
                    codec::FindString(object, {"kind"}))));
  }
  NvidiaDriver driver;
  const ObjectHead head = ReadHead(object);
  driver.name = head.name;
  driver.uid = head.uid;
  driver.generation = head.generation;
  ReadSpec(Block(codec::Find(object, {"spec"}), "spec", driver.problems), driver);
  ReadUpgradeAnnotations(object, driver.driver.upgrade_policy, driver.problems);
  return driver;
}

}  // namespace pitcrew::api
