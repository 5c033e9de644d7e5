#include "desired/operands/driver_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "desired/host_path.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

struct Subscription {
  std::string_view mount;
  std::string_view host;
  std::string_view type;
};

// In the order of the mount paths, which gives the volumes their numbers.
constexpr Subscription kRedHatSubscriptions[] = {
    {"/run/secrets/etc-pki-entitlement", "/etc/pki/entitlement", "Directory"},
    {"/run/secrets/redhat.repo", "/etc/yum.repos.d/redhat.repo", "File"},
    {"/run/secrets/rhsm", "/etc/rhsm", "Directory"},
};
constexpr Subscription kSuseSubscriptions[] = {
    {"/etc/SUSEConnect", "/etc/SUSEConnect", "FileOrCreate"},
    {"/etc/zypp/credentials.d", "/etc/zypp/credentials.d", "Directory"},
};

bool IsSuse(std::string_view os_id) { return os_id == "sles" || os_id == "sl-micro"; }

base::Error UnknownSystem(std::string_view what, std::string_view os_id) {
  return base::Invalid(
      "UnsupportedOperatingSystem",
      fmt::format("no folder for {} is known for the operating system \"{}\"", what, os_id));
}

// A period or a number of failures that somebody chose was chosen beside upstream's value of the
// other one: alone with ours, which asks five times as often, it would end a slow driver after a
// fifth of the time.
api::Probe WithPartner(api::Probe probe) {
  constexpr std::int32_t kPeriodSeconds = 10;
  constexpr std::int32_t kFailures = 120;
  if (probe.failure_threshold != 0 && probe.period_seconds == 0)
    probe.period_seconds = kPeriodSeconds;
  if (probe.period_seconds != 0 && probe.failure_threshold == 0)
    probe.failure_threshold = kFailures;
  return probe;
}

enum class Family { kRedHat, kDebian, kSuse, kOther };

Family FamilyOf(std::string_view os_id) {
  constexpr std::string_view kRedHatIds[] = {"centos", "rhcos", "rhel", "rocky", "ol"};
  if (std::ranges::find(kRedHatIds, os_id) != std::end(kRedHatIds)) return Family::kRedHat;
  if (os_id == "debian" || os_id == "ubuntu") return Family::kDebian;
  return IsSuse(os_id) ? Family::kSuse : Family::kOther;
}

}  // namespace

base::Status MountConfigMapKeys(Object& daemonset, Object& container, const Context& context,
                                std::string_view field, const std::string& config_map,
                                const std::string& folder) {
  const auto found = context.facts.config_maps.find(config_map);
  if (found == context.facts.config_maps.end() || found->second.is_unknown()) {
    const std::string why = found == context.facts.config_maps.end()
                                ? std::string("it was not looked for")
                                : found->second.error()->ToString();
    return base::Fail(base::Unavailable(
        "ConfigMapUnknown",
        fmt::format("{}: ConfigMap {} could not be read: {}", field, config_map, why)));
  }
  if (found->second.is_absent()) {
    return base::Fail(base::Invalid(
        "ConfigMapMissing", fmt::format("{}: there is no ConfigMap {} in namespace {}", field,
                                        config_map, context.operator_namespace)));
  }
  const ConfigMapKeys& keys = found->second.value()->keys;
  for (const std::string& key : keys) {
    AddMount(
        container,
        {.volume = config_map, .path = JoinPath(folder, key), .read_only = true, .sub_path = key});
  }
  SetVolume(daemonset, ConfigMapVolume(config_map, config_map, keys));
  return {};
}

base::Result<std::string> RepositoryFolder(std::string_view os_id) {
  switch (FamilyOf(os_id)) {
    case Family::kRedHat:
      return "/etc/yum.repos.d";
    case Family::kDebian:
      return "/etc/apt/sources.list.d";
    case Family::kSuse:
      return "/etc/zypp/repos.d";
    case Family::kOther:
      break;
  }
  return base::Fail(UnknownSystem("package repositories", os_id));
}

base::Result<std::string> CertificateFolder(std::string_view os_id) {
  switch (FamilyOf(os_id)) {
    case Family::kRedHat:
      return "/etc/pki/ca-trust/extracted/pem";
    case Family::kDebian:
      return "/usr/local/share/ca-certificates";
    case Family::kSuse:
      return "/etc/pki/trust/anchors";
    case Family::kOther:
      break;
  }
  return base::Fail(UnknownSystem("certificates", os_id));
}

base::Status CheckSecretEnv(const api::Driver& driver, const Facts& facts,
                            std::string_view operator_namespace) {
  const std::string& name = driver.secret_env;
  if (name.empty()) return {};
  const std::string field = driver.path + ".secretEnv";
  const auto found = facts.secrets.find(name);
  if (found == facts.secrets.end() || found->second.is_unknown()) {
    return base::Fail(base::Unavailable(
        "SecretUnknown", fmt::format("{}: Secret {} could not be read", field, name)));
  }
  if (found->second.is_absent()) {
    return base::Fail(base::Invalid(
        "SecretMissing",
        fmt::format("{}: there is no Secret {} in namespace {}", field, name, operator_namespace)));
  }
  return {};
}

base::Status ApplySecretEnv(Object& container, const Context& context) {
  const std::string& name = context.driver().secret_env;
  if (name.empty()) return {};
  TRY(CheckSecretEnv(context.driver(), context.facts, context.operator_namespace));
  container["envFrom"].push_back({{"secretRef", {{"name", name}}}});
  return {};
}

void OverrideStartupProbe(Object& container, const api::Probe& probe) {
  OverrideProbe(container, "startupProbe", WithPartner(probe));
}

void MountLicence(Object& daemonset, Object& container, const api::LicensingConfig& licensing) {
  if (!licensing.active()) return;
  constexpr const char* kVolume = "licensing-config";
  std::vector<std::string> keys = {"gridd.conf"};
  AddMount(container, {.volume = kVolume,
                       .path = "/drivers/gridd.conf",
                       .read_only = true,
                       .sub_path = "gridd.conf"});
  if (licensing.nls_enabled) {
    constexpr const char* kToken = "client_configuration_token.tok";
    keys.emplace_back(kToken);
    AddMount(container, {.volume = kVolume,
                         .path = fmt::format("/drivers/ClientConfigToken/{}", kToken),
                         .read_only = true,
                         .sub_path = kToken});
  }
  Object volume = ConfigMapVolume(kVolume, licensing.config_map_name, keys);
  if (!licensing.secret_name.empty()) {
    volume = {{"name", kVolume},
              {"secret",
               {{"secretName", licensing.secret_name}, {"items", volume["configMap"]["items"]}}}};
  }
  SetVolume(daemonset, std::move(volume));
}

void MountVirtualTopology(Object& daemonset, Object& container, const std::string& config_map) {
  if (config_map.empty()) return;
  constexpr const char* kKey = "nvidia-topologyd.conf";
  AddMount(container, {.volume = "topology-config",
                       .path = "/etc/nvidia/nvidia-topologyd.conf",
                       .read_only = true,
                       .sub_path = kKey});
  SetVolume(daemonset, ConfigMapVolume("topology-config", config_map, {kKey}));
}

void MountSubscriptions(Object& daemonset, Object& container, const Context& context,
                        std::string_view os_id) {
  const auto mount = [&](const auto& subscriptions) {
    int number = 0;
    for (const Subscription& subscription : subscriptions) {
      const std::string volume = fmt::format("subscription-config-{}", number++);
      AddMount(container,
               {.volume = volume, .path = std::string(subscription.mount), .read_only = true});
      SetVolume(daemonset, HostPathVolume(volume, subscription.host, subscription.type));
    }
  };
  // CRI-O passes a host's entitlement on by itself; with repositories of their own, people bring
  // what is needed.
  const bool red_hat = os_id == "rhel" && !context.facts.openshift() &&
                       context.facts.runtime() != Runtime::kCrio &&
                       context.driver().repo_config.empty();
  if (red_hat) mount(kRedHatSubscriptions);
  if (IsSuse(os_id)) mount(kSuseSubscriptions);
}

void ApplyProxy(Object& daemonset, std::vector<Object>& objects, const Context& context) {
  if (!context.facts.proxy) return;
  const Proxy& proxy = *context.facts.proxy;
  constexpr const char* kTrustedCa = "gpu-operator-trusted-ca";
  for (Object* container : AllContainers(daemonset)) {
    if (!NameOf(*container).contains("nvidia-driver")) continue;
    const std::pair<const char*, const std::string&> variables[] = {
        {"HTTPS_PROXY", proxy.https}, {"https_proxy", proxy.https}, {"HTTP_PROXY", proxy.http},
        {"http_proxy", proxy.http},   {"NO_PROXY", proxy.none},     {"no_proxy", proxy.none}};
    for (const auto& [name, value] : variables) {
      if (!value.empty()) SetEnv(*container, name, value);
    }
    if (!proxy.trusted_ca.empty()) {
      AddMount(
          *container,
          {.volume = kTrustedCa, .path = "/etc/pki/ca-trust/extracted/pem", .read_only = true});
    }
  }
  if (proxy.trusted_ca.empty()) return;
  Object volume = ConfigMapVolume(kTrustedCa, kTrustedCa, {});
  volume["configMap"]["items"] =
      Object::array({{{"key", "ca-bundle.crt"}, {"path", "tls-ca-bundle.pem"}}});
  SetVolume(daemonset, std::move(volume));
  // Its content comes from OpenShift, which fills in the key ca-bundle.crt.
  if (FindObject(objects, "ConfigMap", kTrustedCa) == nullptr) {
    objects.push_back({{"apiVersion", "v1"},
                       {"kind", "ConfigMap"},
                       {"metadata",
                        {{"name", kTrustedCa},
                         {"labels", {{"config.openshift.io/inject-trusted-cabundle", "true"}}}}}});
  }
}

}  // namespace pitcrew::desired
