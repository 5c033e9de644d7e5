// Flags and environment of the operator (reference operator-behaviour.md sections 1.1 and 1.2).
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/command_line.h"
#include "base/log.h"
#include "base/result.h"
#include "desired/image.h"

namespace pitcrew::gpu_operator {

struct Settings {
  std::string metrics_address = ":8080";
  std::string health_address = ":8081";
  bool leader_elect = false;
  std::string leader_namespace;  // "": the service account's own
  // 0: the defaults of the election.
  std::chrono::milliseconds renew_deadline{0};
  std::string kubeconfig;
  // Installs and upgrades the CustomResourceDefinitions.
  bool manage_definitions = true;
  // Keeps KubeVirt's permitted devices equal to what nodes offer.
  bool manage_kubevirt = false;
  std::filesystem::path pci_ids;  // after which the resources of GPUs are named
  base::LogSettings log;
  // Namespace of every namespaced operand; from OPERATOR_NAMESPACE. "" when it is not set.
  std::string operator_namespace;
  desired::DefaultImages images;
};

// Nothing when --help or --version was printed. kInvalid names the flag.
base::Result<std::optional<Settings>> ReadSettings(
    int argc, const char* const* argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

}  // namespace pitcrew::gpu_operator
