// The operator's controllers, wired together.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "desired/operand_table.h"
#include "io/stop.h"
#include "kube/client.h"
#include "operator/metrics/metrics.h"
#include "operator/permitted_devices/permitted_device_controller.h"

namespace pitcrew::gpu_operator {

struct RunnerOptions {
  std::string operator_namespace;
  desired::DefaultImages images = {};
  // Borrowed; another one than the product's only in tests.
  const desired::OperandTable* operands = &desired::Operands();
  // See NodeController.
  std::chrono::milliseconds removal_grace = std::chrono::seconds(15);
  // See DefinitionController.
  bool manage_definitions = true;
  PermittedDeviceOptions permitted_devices = {};
  // See PolicyController.
  std::chrono::milliseconds progress_interval = std::chrono::seconds(5);
  std::chrono::milliseconds refusal_retry = std::chrono::minutes(1);
  // Told false when the controllers begin to list the cluster, and true when they know it.
  std::function<void(bool)> synced = [](bool) {};
};

// Runs all controllers until the stop (success) or until one of them cannot go on (its error).
base::Status RunControllers(const std::shared_ptr<kube::Client>& client,
                            const RunnerOptions& options, Metrics& metrics,
                            const io::StopToken& stop);

}  // namespace pitcrew::gpu_operator
