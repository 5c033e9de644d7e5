// The operator's watches of virtual machines: KubeVirt, HyperConverged, who uses devices, and who
// offers them. KubeVirt may be installed later than the operator, be taken away, or change the
// versions that it serves: each watch begins and ends with the definition of its kind.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/observed.h"
#include "base/result.h"
#include "codec/json.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "kubevirt/kinds.h"
#include "kubevirt/offers.h"

namespace pitcrew::gpu_operator {

// Used by one thread, but for the watches' own, which only call `changed`.
class MachineWatches {
 public:
  // `changed` must not block; it is called until this object has gone.
  MachineWatches(std::shared_ptr<kube::Client> client, std::function<void()> changed);

  void Start();
  // Begins and ends watches as the definitions say now. kUnavailable while those have not been
  // read, kUnsupported when HyperConverged is served in versions that are not known.
  base::Status Follow();

  // An object that says which devices are permitted: without its status, and of its metadata only
  // what tells which one it is and what of it is ours.
  struct Target {
    codec::Json object;
    kubevirt::Form form = kubevirt::Form::kKubeVirt;
  };
  // Where permitted devices are to be written: to HyperConverged where there is one, as it writes
  // over what stands in KubeVirt. Empty when there is neither. kUnavailable while that is not
  // known.
  [[nodiscard]] base::Result<std::vector<Target>> Targets() const;
  [[nodiscard]] base::Result<std::vector<kubevirt::MachineNode>> Nodes() const;
  // Resources that virtual machines name, running or not; absent where there are none.
  [[nodiscard]] base::Observed<std::set<std::string>> Named() const;

 private:
  struct Definition {
    bool established = false;
    std::optional<kubevirt::Form> form;  // of HyperConverged

    bool operator==(const Definition&) const = default;
  };
  struct DefinitionWatch {
    std::string name;
    std::unique_ptr<kube::Informer<Definition>> informer;
  };
  using Names = std::set<std::string>;

  // Nothing while it has not been read.
  [[nodiscard]] const DefinitionWatch& Of(std::string_view definition) const;
  [[nodiscard]] Definition Read(std::string_view definition) const;
  void WatchMachines(std::string_view definition, const kube::ResourceKind& kind);
  std::unique_ptr<kube::Informer<codec::Json>> WatchTargets(const kube::ResourceKind& kind);
  // One of a kind that is served; `what` for the error.
  static base::Status RequireSynced(const kube::Source& source, std::string_view what);
  template <class View>
  std::unique_ptr<kube::Informer<View>> Watch(const kube::ResourceKind& kind,
                                              kube::Projection<View> projection,
                                              kube::InformerOptions options = {});

  std::shared_ptr<kube::Client> client_;
  std::function<void()> changed_;
  std::vector<DefinitionWatch> definitions_;
  std::unique_ptr<kube::Informer<kubevirt::MachineNode>> nodes_;
  std::unique_ptr<kube::Informer<codec::Json>> kubevirts_;
  std::unique_ptr<kube::Informer<codec::Json>> hyperconvergeds_;
  std::optional<kubevirt::Form> form_;  // in which hyperconvergeds_ are
  std::map<std::string, std::unique_ptr<kube::Informer<Names>>, std::less<>> machines_;
};

}  // namespace pitcrew::gpu_operator
