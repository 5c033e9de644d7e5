// Configuration of the master (node-feature-discovery.md 8.1, 8.2).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/nfd/config_texts.h"
#include "node/nfd/label_rules.h"

namespace pitcrew::node::nfd {

struct MasterConfig {
  std::string instance;        // prefix of the bookkeeping annotations; "" for the only instance
  std::string namespace_name;  // the master's own
  bool no_publish = false;
  bool auto_prefix = true;  // names without a prefix get feature.node.kubernetes.io/
  std::vector<std::string> deny_label_namespaces;  // exact, or "*suffix"
  std::vector<std::string>
      extra_label_namespaces;  // exact; these win over what is denied or reserved
  LabelWhiteList label_white_list;
  bool disable_labels = false;
  bool deny_node_feature_labels = false;  // of third parties
  bool allow_overwrite = true;            // of labels that somebody else put on the node
  std::chrono::nanoseconds resync_period = std::chrono::hours(1);  // <= 0: never
  int parallelism = 10;
  int page_size = 200;
  std::chrono::nanoseconds lease_duration = std::chrono::seconds(15);
  std::chrono::nanoseconds renew_deadline = std::chrono::seconds(10);
  std::chrono::nanoseconds retry_period = std::chrono::seconds(2);
};

// What the command line says instead of the file.
struct MasterOverrides {
  std::optional<std::string> instance;
  std::optional<std::vector<std::string>> deny_label_ns;
  std::optional<std::vector<std::string>> extra_label_ns;
  std::optional<std::string> label_white_list;
  std::optional<bool> no_publish;
  std::optional<std::string> resync_period;
  std::optional<std::int64_t> parallelism;
  std::optional<std::int64_t> page_size;
  std::vector<std::string> feature_gates;  // "Name=bool"
};

base::Result<MasterConfig> MakeMasterConfig(const ConfigTexts& texts,
                                            const MasterOverrides& overrides,
                                            std::string namespace_name);

}  // namespace pitcrew::node::nfd
