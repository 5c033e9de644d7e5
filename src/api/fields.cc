#include "api/fields.h"

#include "api/upgrade_schedule_reader.h"

namespace pitcrew::api {
namespace {

using codec::Json;

PodRemoval ReadPodRemoval(const Block& block) {
  return {.force = block.Flag("force"),
          .delete_empty_dir = block.Flag("deleteEmptyDir"),
          .timeout_seconds = block.Count("timeoutSeconds", 300)};
}

}  // namespace

ImageSpec ReadImage(const Block& block) {
  return {.path = block.path(),
          .repository = block.String("repository"),
          .image = block.String("image"),
          .version = block.String("version"),
          .pull_policy = block.String("imagePullPolicy"),
          .pull_secrets = block.Strings("imagePullSecrets")};
}

void ReadComponent(const Block& block, Component& component) {
  component.path = block.path();
  component.enabled = block.Bool("enabled");
  component.image = ReadImage(block);
  component.args = block.Strings("args");
  component.env = block.Env("env");
  component.resources = block.Fragment("resources");
  component.host_network = block.Flag("hostNetwork");
}

DriverManager ReadDriverManager(const Block& block) {
  return {.image = ReadImage(block), .env = block.Env("env")};
}

Probe ReadProbe(const Block& block) {
  return {.initial_delay_seconds = block.Int32("initialDelaySeconds"),
          .timeout_seconds = block.Int32("timeoutSeconds"),
          .period_seconds = block.Int32("periodSeconds"),
          .success_threshold = block.Int32("successThreshold"),
          .failure_threshold = block.Int32("failureThreshold")};
}

UpgradePolicy ReadUpgradePolicy(const Block& block, bool auto_upgrade) {
  const Block wait = block.Child("waitForCompletion");
  const Block drain = block.Child("drain");
  return {.auto_upgrade = block.Flag("autoUpgrade", auto_upgrade),
          .max_parallel_upgrades = block.Count("maxParallelUpgrades", 1),
          .max_unavailable = block.CountOrShare("maxUnavailable", "25%"),
          .wait_pod_selector = wait.String("podSelector"),
          .wait_timeout_seconds = wait.Count("timeoutSeconds", 0),
          .pod_deletion = ReadPodRemoval(block.Child("podDeletion")),
          .drain_enabled = drain.Flag("enable"),
          .drain = ReadPodRemoval(drain),
          .drain_pod_selector = drain.String("podSelector"),
          .schedule = ReadUpgradeSchedule(block.Child("schedule")),
          .image_check = block.Flag("imageCheck", true)};
}

void ReadCommonDriver(const Block& block, Driver& driver) {
  ReadComponent(block, driver);
  driver.use_precompiled = block.Flag("usePrecompiled");
  driver.kernel_module_type =
      block.Enumerated("kernelModuleType", "auto", {"auto", "open", "proprietary"});
  driver.manager = ReadDriverManager(block.Child("manager"));
  driver.startup_probe = ReadProbe(block.Child("startupProbe"));
  driver.liveness_probe = ReadProbe(block.Child("livenessProbe"));
  driver.readiness_probe = ReadProbe(block.Child("readinessProbe"));
  const Block rdma = block.Child("rdma");
  driver.rdma_enabled = rdma.Flag("enabled");
  driver.rdma_use_host_mofed = rdma.Flag("useHostMofed");
  driver.kernel_module_config = block.Child("kernelModuleConfig").String("name");
  driver.cert_config = block.Child("certConfig").String("name");
  driver.secret_env = block.String("secretEnv");
}

ObjectHead ReadHead(const Json& object) {
  ObjectHead head{
      .name = codec::FindString(object, {"metadata", "name"}),
      .uid = codec::FindString(object, {"metadata", "uid"}),
      .creation_timestamp = codec::FindString(object, {"metadata", "creationTimestamp"})};
  const Json* generation = codec::Find(object, {"metadata", "generation"});
  if (generation != nullptr && generation->is_number_integer()) {
    head.generation = generation->get<std::int64_t>();
  }
  return head;
}

}  // namespace pitcrew::api
