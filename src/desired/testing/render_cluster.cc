#include "desired/testing/render_cluster.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "desired/node_totals.h"
#include "desired/pod.h"

namespace pitcrew::desired::testing {

using codec::Json;

codec::Json PlainCluster() {
  return *codec::ParseYaml(R"(
kubernetesVersion: v1.35.4
nodes:
- metadata:
    name: gpu-1
    labels:
      nvidia.com/gpu.present: "true"
      feature.node.kubernetes.io/pci-10de.present: "true"
      feature.node.kubernetes.io/system-os_release.ID: ubuntu
      feature.node.kubernetes.io/system-os_release.VERSION_ID: "22.04"
      feature.node.kubernetes.io/kernel-version.full: 5.15.0-70-generic
  status: {nodeInfo: {containerRuntimeVersion: "containerd://2.2.0"}}
)");
}

Facts ReadCluster(const codec::Json& cluster) {
  Facts facts;
  facts.kubernetes_version = codec::FindString(cluster, {"kubernetesVersion"}, "v1.35.4");
  facts.openshift_version = codec::FindString(cluster, {"openshiftVersion"});
  facts.service_monitors = cluster.value("serviceMonitors", false);
  facts.prometheus_rules = cluster.value("prometheusRules", false);
  if (cluster.contains("driverToolkit")) {
    facts.driver_toolkit.image_stream_exists = true;
    facts.driver_toolkit.images =
        cluster["driverToolkit"].get<std::map<std::string, std::string>>();
  }
  if (const Json* proxy = codec::Find(cluster, {"proxy"})) {
    facts.proxy = Proxy{.http = codec::FindString(*proxy, {"http"}),
                        .https = codec::FindString(*proxy, {"https"}),
                        .none = codec::FindString(*proxy, {"none"}),
                        .trusted_ca = codec::FindString(*proxy, {"trustedCA"})};
  }
  if (const Json* maps = codec::Find(cluster, {"configMaps"})) {
    for (const auto& [name, keys] : maps->items()) {
      facts.config_maps.insert_or_assign(
          name, keys.is_null() ? base::Observed<ConfigMapData>::Missing()
                               : base::Observed<ConfigMapData>::Present(
                                     {.keys = keys.get<ConfigMapKeys>(),
                                      .digest = codec::FindString(cluster, {"digests", name})}));
    }
  }
  if (const Json* secrets = codec::Find(cluster, {"secrets"})) {
    for (const Json& name : *secrets) {
      const auto secret = name.get<std::string>();
      facts.secrets.insert_or_assign(secret, base::Observed<std::string>::Present(
                                                 codec::FindString(cluster, {"digests", secret})));
    }
  }
  if (const Json* contents = codec::Find(cluster, {"driverContents"})) {
    facts.driver_contents = contents->get<DriverContents>();
  }
  if (const Json* toolkits = codec::Find(cluster, {"toolkits"})) {
    for (const auto& [name, runtime] : toolkits->items()) {
      AddStandingToolkit(facts.toolkits, name, *RuntimeNamed(runtime.get<std::string>()));
    }
  }
  NodeTotals totals;
  if (const Json* list = codec::Find(cluster, {"nodes"})) {
    for (const Json& object : *list) {
      const auto node = ReadNode(object);
      EXPECT_TRUE(node) << node.error().ToString();
      totals.Add(*node);
    }
  }
  totals.Fill(facts);
  return facts;
}

DefaultImages TestImages() {
  DefaultImages images;
  for (const std::string_view variable : Operands().image_variables()) {
    const std::string name(variable);
    images[name] = "registry.test/" + name + ":v1";
  }
  return images;
}

codec::Json MinimalPolicy(const codec::Json& spec) {
  Json policy = {{"apiVersion", "nvidia.com/v1"},
                 {"kind", "ClusterPolicy"},
                 {"metadata", {{"name", "cluster-policy"}, {"uid", "policy-uid"}}},
                 {"spec", Json::object()}};
  for (const char* block : {"daemonsets", "dcgm", "dcgmExporter", "devicePlugin", "driver", "gfd",
                            "nodeStatusExporter", "operator", "toolkit"}) {
    policy["spec"][block] = Json::object();
  }
  codec::ApplyMergePatch(policy["spec"], spec);
  return policy;
}

codec::Json RenderState(const codec::Json& policy, const codec::Json& cluster,
                        std::string_view state) {
  const auto parsed = api::ReadClusterPolicy(policy);
  if (!parsed) return {{"error", parsed.error().ToString()}};
  const Facts facts = ReadCluster(cluster);
  const DefaultImages images = TestImages();
  const Context context{
      .policy = *parsed, .facts = facts, .images = images, .operator_namespace = "gpu-operator"};
  for (const RenderedOperand& rendered : Render(context)) {
    if (rendered.operand->state != state) continue;
    if (!rendered.objects) return {{"error", rendered.objects.error().ToString()}};
    return *rendered.objects;
  }
  return {{"error", fmt::format("there is no operand {}", state)}};
}

codec::Json RenderDaemonSet(std::string_view state, const std::string& spec_yaml,
                            const std::string& cluster_yaml) {
  const auto spec = codec::ParseYaml(spec_yaml);
  const auto changes = codec::ParseYaml(cluster_yaml);
  EXPECT_TRUE(spec && changes);
  Json cluster = PlainCluster();
  codec::ApplyMergePatch(cluster, *changes);
  const Json objects = RenderState(MinimalPolicy(*spec), cluster, state);
  if (objects.is_object()) {
    ADD_FAILURE() << objects.dump();
    return {};
  }
  for (const Json& object : objects) {
    if (codec::FindString(object, {"kind"}) == "DaemonSet") return object;
  }
  return {};
}

std::string RenderError(std::string_view state, const std::string& spec_yaml,
                        const std::string& cluster_yaml) {
  Json cluster = PlainCluster();
  codec::ApplyMergePatch(cluster, *codec::ParseYaml(cluster_yaml));
  const Json objects = RenderState(MinimalPolicy(*codec::ParseYaml(spec_yaml)), cluster, state);
  return codec::FindString(objects, {"error"});
}

const codec::Json& ContainerOf(const codec::Json& daemonset, std::string_view name) {
  static const Json kNone = Json::object();
  for (const char* list : {"initContainers", "containers"}) {
    const Json* containers = codec::Find(daemonset, {"spec", "template", "spec", list});
    if (containers == nullptr) continue;
    for (const Json& container : *containers) {
      if (NameOf(container) == name) return container;
    }
  }
  return kNone;
}

bool HasContainer(const codec::Json& daemonset, std::string_view name) {
  return !ContainerOf(daemonset, name).empty();
}

std::vector<std::string> EnvOf(const codec::Json& container) {
  std::vector<std::string> env;
  if (!container.contains("env")) return env;
  for (const Json& variable : container["env"]) {
    const std::string field = codec::FindString(variable, {"valueFrom", "fieldRef", "fieldPath"});
    env.push_back(field.empty() ? NameOf(variable) + "=" + codec::FindString(variable, {"value"})
                                : NameOf(variable) + "<-" + field);
  }
  return env;
}

std::vector<std::string> MountsOf(const codec::Json& container) {
  std::vector<std::string> mounts;
  if (!container.contains("volumeMounts")) return mounts;
  for (const Json& mount : container["volumeMounts"]) {
    std::string text = NameOf(mount) + ":" + codec::FindString(mount, {"mountPath"});
    if (mount.value("readOnly", false)) text += ":ro";
    if (const auto sub = codec::FindString(mount, {"subPath"}); !sub.empty()) text += ":sub=" + sub;
    mounts.push_back(text);
  }
  return mounts;
}

codec::Json VolumeOf(const codec::Json& daemonset, std::string_view name) {
  if (const Json* volumes = codec::Find(daemonset, {"spec", "template", "spec", "volumes"})) {
    for (const Json& volume : *volumes) {
      if (NameOf(volume) == name) return volume;
    }
  }
  return nullptr;
}

}  // namespace pitcrew::desired::testing
