// What should exist for a NVIDIADriver object, as a pure function of it, its pools of nodes and
// facts about the cluster (reference operand-manifests.md section 23).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/nvidia_driver.h"
#include "base/result.h"
#include "desired/driver_objects/pools.h"
#include "desired/facts.h"
#include "desired/image.h"
#include "desired/operand_table.h"
#include "desired/owned_object.h"

namespace pitcrew::desired {

// Where it is rendered.
struct DriverScene {
  const Facts& facts;  // of the whole cluster; ConfigMaps and Secrets of this driver
  const DefaultImages& images;
  std::string operator_namespace;
  // spec.hostPaths.rootFS of the ClusterPolicy; "/" without one.
  std::string host_root;
  // spec.validator.qualification.required of the ClusterPolicy.
  bool qualification_required = false;
  // The DaemonSet of that name as it stands; null when there is none.
  std::function<const OwnedObject*(const std::string& name)> standing =
      [](const std::string&) -> const OwnedObject* { return nullptr; };
  const OperandTable& operands = Operands();
};

// Rules between the fields of a driver (operator-behaviour.md section 8.1, steps 5 and 6), and
// values that could not be read.
std::vector<api::FieldProblem> CheckDriver(const api::NvidiaDriver& driver);

// The objects of all pools, each once; none without pools. An error begins with the field's path;
// then nothing of this driver is to be touched.
//
// While the driver manager's image is the operator's default one, a DaemonSet that would change in
// nothing but that image keeps the one that it has (section 8.5): a new operator restarts no
// driver.
base::Result<std::vector<Object>> RenderDriver(const api::NvidiaDriver& driver,
                                               const DriverPools& pools, const DriverScene& scene);

// What rendering needs to know.
References ReferencesOf(const api::NvidiaDriver& driver);

}  // namespace pitcrew::desired
