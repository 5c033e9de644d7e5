// Virtual machines with GPUs and what KubeVirt permits them, followed for as long as the policy has
// nodes for virtual machines: elsewhere nobody needs rights to read them. KubeVirt and
// HyperConverged may be installed, and go, meanwhile.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/watch.h"
#include "kubevirt/kinds.h"

namespace pitcrew::doctor {

// For one thread.
class MachineWatches {
 public:
  // `bell` rings when there is something new to put.
  MachineWatches(std::shared_ptr<kube::Client> client, std::shared_ptr<base::Bell> bell);

  // `cluster` has its policies. Nothing is put before all is known: a machine without what permits
  // its GPUs would look refused.
  void Put(fleet::Cluster& cluster);

 private:
  struct Definition {
    std::string name;
    bool established = false;
    std::optional<kubevirt::Form> form;  // of HyperConverged's

    bool operator==(const Definition&) const = default;
  };
  static Definition ReadDefinition(const codec::Json& object);

  void WatchDefinitions();
  [[nodiscard]] Definition Read(std::string_view definition) const;
  // Each watch is there exactly as long as its kind is served.
  void WatchServed();
  template <class View>
  void WatchWhere(bool served, const kube::ResourceKind& kind, View (*read)(const codec::Json&),
                  void (*put)(const View&, fleet::Cluster&));

  std::shared_ptr<kube::Client> client_;
  std::shared_ptr<base::Bell> bell_;
  std::vector<std::unique_ptr<kube::Informer<Definition>>> definitions_;
  std::map<std::string, std::unique_ptr<Watch>> watches_;  // by version and plural
};

}  // namespace pitcrew::doctor
