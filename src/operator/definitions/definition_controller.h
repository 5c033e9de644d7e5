// Keeps the CustomResourceDefinitions of this program in the cluster while the operator runs:
// installs missing ones, upgrades older ones, and says so when the one that is served lacks fields
// that a policy may have.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"
#include "kube/controller.h"
#include "kube/informer.h"
#include "operator/definitions/definitions.h"

namespace pitcrew::gpu_operator {

class DefinitionController {
 public:
  // `manages`: installs and upgrades; otherwise it only watches and tells. `changed` is called when
  // outdated() has become another.
  DefinitionController(std::shared_ptr<kube::Client> client, bool manages,
                       std::function<void()> changed);

  base::Status Run(const io::StopToken& stop);
  [[nodiscard]] kube::ControllerStatistics statistics() const { return controller_.statistics(); }
  // DescribeOutdated of every definition that is; "" when all are up to date.
  [[nodiscard]] std::string outdated() const;

 private:
  struct View {
    bool deleting = false;
    bool removed = false;  // kRemovedAnnotation
    SchemaComparison comparison;

    bool operator==(const View&) const = default;
  };
  struct Own {
    codec::Json definition;
    std::unique_ptr<kube::Informer<View>> informer;
    bool removed = false;  // deleted on purpose (kRemovedAnnotation); under mutex_
  };

  void Watch(Own& own, const std::string& name);
  base::Result<kube::Action> Reconcile(const kube::ObjectKey& key, const io::StopToken& stop);
  base::Result<DefinitionChange> Ensure(const Own& own, const std::string& name,
                                        const io::StopToken& stop);
  void Report(const std::string& name, const std::string& outdated);

  std::shared_ptr<kube::Client> client_;
  bool manages_;
  std::function<void()> changed_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> outdated_;  // by name of the definition
  kube::Controller controller_;
  std::map<std::string, Own> own_;  // filled by the constructor; after the controller's queue
};

}  // namespace pitcrew::gpu_operator
