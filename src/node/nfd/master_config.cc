#include "node/nfd/master_config.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "codec/config_reader.h"

namespace pitcrew::node::nfd {
namespace {

using codec::ConfigReader;

base::Error Refuse(std::string message) {
  return base::Invalid("InvalidConfiguration", std::move(message));
}

// The lists of the file and of -options add up; a flag replaces both (8.2).
base::Status ReadAdded(const ConfigTexts& texts, std::string_view key,
                       const std::optional<std::vector<std::string>>& flag,
                       std::vector<std::string>& target) {
  if (flag) {
    target = *flag;
  } else {
    TRY_ASSIGN(const auto file, ConfigReader::Create(texts.file, ""));
    TRY(file.Read(key, target));
    std::vector<std::string> more;
    TRY_ASSIGN(const auto options, ConfigReader::Create(texts.options, "-options"));
    TRY(options.Read(key, more));
    target.insert(target.end(), more.begin(), more.end());
  }
  std::erase_if(target, [](const std::string& name) { return base::Trim(name).empty(); });
  return {};
}

base::Status ReadRestrictions(const ConfigReader& restrictions, MasterConfig& config) {
  if (restrictions.Find("nodeFeatureNamespaceSelector") != nullptr) {
    // Going on without it would let namespaces label nodes that were meant to be kept out.
    return base::Fail(
        Refuse("restrictions.nodeFeatureNamespaceSelector is set, and this program does "
               "not select namespaces: remove it or run another master"));
  }
  TRY(restrictions.Read("disableLabels", config.disable_labels));
  TRY(restrictions.Read("denyNodeFeatureLabels", config.deny_node_feature_labels));
  TRY(restrictions.Read("allowOverwrite", config.allow_overwrite));
  return {};
}

base::Status ReadGates(const std::vector<std::string>& gates, MasterConfig& config) {
  for (const auto& gate : gates) {
    const auto equals = gate.find('=');
    const auto name = gate.substr(0, equals);
    const auto value = equals == std::string::npos ? base::Result<bool>(true)
                                                   : base::ParseGoBool(gate.substr(equals + 1));
    if (!value) return base::Fail(Refuse(fmt::format("-feature-gates: \"{}\": no boolean", gate)));
    if (name == "DisableAutoPrefix") {
      config.auto_prefix = !*value;
    } else if (name == "NodeFeatureAPI" && !*value) {
      return base::Fail(Refuse("-feature-gates: NodeFeatureAPI cannot be turned off"));
    } else if (name != "NodeFeatureAPI" && *value) {
      base::LogWarning("A feature gate is not known and has no effect", {{"gate", name}});
    }
  }
  return {};
}

// The name part of a label: letters, digits, "-", "_", ".", alphanumeric at both ends.
base::Status CheckInstance(const std::string& instance) {
  if (instance.empty()) return {};
  if (instance.find('/') == std::string::npos && CheckLabelValue(instance)) return {};
  return base::Fail(
      Refuse(fmt::format("-instance \"{}\" must begin and end with a letter or digit and contain "
                         "only letters, digits, "
                         "'-', '_' and '.'",
                         instance)));
}

}  // namespace

base::Result<MasterConfig> MakeMasterConfig(const ConfigTexts& texts,
                                            const MasterOverrides& overrides,
                                            std::string namespace_name) {
  const auto merged = MergedConfig(texts);
  TRY_ASSIGN(const auto root, ConfigReader::Create(merged, ""));
  MasterConfig config;
  config.namespace_name = std::move(namespace_name);
  config.instance = overrides.instance.value_or("");
  TRY(CheckInstance(config.instance));
  TRY(root.Read("noPublish", config.no_publish));
  TRY(ReadAdded(texts, "denyLabelNs", overrides.deny_label_ns, config.deny_label_namespaces));
  TRY(ReadAdded(texts, "extraLabelNs", overrides.extra_label_ns, config.extra_label_namespaces));
  std::string white_list;
  TRY(root.Read("labelWhiteList", white_list));
  TRY_ASSIGN(config.label_white_list,
             LabelWhiteList::Compile(overrides.label_white_list.value_or(white_list)));
  TRY(root.Read("resyncPeriod", config.resync_period));
  TRY(root.Read("nfdApiParallelism", config.parallelism));
  TRY(root.Read("informerPageSize", config.page_size));
  TRY_ASSIGN(const auto election, root.Object("leaderElection"));
  TRY(election.Read("leaseDuration", config.lease_duration));
  TRY(election.Read("renewDeadline", config.renew_deadline));
  TRY(election.Read("retryPeriod", config.retry_period));
  TRY_ASSIGN(const auto restrictions, root.Object("restrictions"));
  TRY(ReadRestrictions(restrictions, config));
  TRY(ReadGates(overrides.feature_gates, config));
  if (overrides.no_publish) config.no_publish = *overrides.no_publish;
  if (overrides.resync_period) {
    TRY_ASSIGN(config.resync_period, base::ParseGoDuration(*overrides.resync_period));
  }
  if (overrides.parallelism) config.parallelism = static_cast<int>(*overrides.parallelism);
  if (overrides.page_size) config.page_size = static_cast<int>(*overrides.page_size);
  if (config.parallelism <= 0) {
    return base::Fail(
        Refuse(fmt::format("nfdApiParallelism must be 1 or more, and is {}", config.parallelism)));
  }
  return config;
}

}  // namespace pitcrew::node::nfd
