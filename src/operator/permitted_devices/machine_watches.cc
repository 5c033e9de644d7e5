#include "operator/permitted_devices/machine_watches.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/labels.h"
#include "desired/cluster_kinds.h"
#include "kube/projection.h"
#include "kubevirt/decision.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;
using kubevirt::Form;

// What decides about permitted devices, so that nothing else of the object is a change.
Json TargetView(const Json& object) {
  Json view = {{"apiVersion", codec::FindString(object, {"apiVersion"})},
               {"kind", codec::FindString(object, {"kind"})},
               {"metadata", Json::object()}};
  for (const char* field : {"name", "namespace", "uid"}) {
    view["metadata"][field] = codec::FindString(object, {"metadata", field});
  }
  if (const Json* record =
          codec::Find(object, {"metadata", "annotations", kubevirt::kRecordAnnotation})) {
    view["metadata"]["annotations"][std::string(kubevirt::kRecordAnnotation)] = *record;
  }
  if (const Json* spec = codec::Find(object, {"spec"})) view["spec"] = *spec;
  return view;
}

base::Error NotYet(std::string_view what, const std::optional<base::Error>& trouble) {
  auto error = base::Unavailable("NotReadYet",
                                 fmt::format("{} have not been read yet{}", what,
                                             trouble ? ": " + trouble->message : std::string()));
  return error;
}

}  // namespace

template <class View>
std::unique_ptr<kube::Informer<View>> MachineWatches::Watch(const kube::ResourceKind& kind,
                                                            kube::Projection<View> projection,
                                                            kube::InformerOptions options) {
  // Also when the list was empty, of which no change tells.
  options.opened = changed_;
  auto informer = std::make_unique<kube::Informer<View>>(client_, kind, std::move(projection),
                                                         std::move(options));
  informer->AddHandler([changed = changed_](const kube::Change<View>&) { changed(); });
  return informer;
}

MachineWatches::MachineWatches(std::shared_ptr<kube::Client> client, std::function<void()> changed)
    : client_(std::move(client)), changed_(std::move(changed)) {
  for (const std::string_view name :
       {kubevirt::kKubeVirtDefinition, kubevirt::kHyperConvergedDefinition,
        kubevirt::kVirtualMachineDefinition, kubevirt::kInstanceDefinition}) {
    definitions_.push_back(
        {.name = std::string(name),
         .informer = Watch<Definition>(
             kube::kCustomResourceDefinitions,
             kube::ProjectJson<Definition>([](const Json& object) -> base::Result<Definition> {
               return Definition{.established = desired::IsEstablished(object),
                                 .form = kubevirt::FormOfDefinition(object)};
             }),
             {.field_selector = fmt::format("metadata.name={}", name)})});
  }
  nodes_ = Watch<kubevirt::MachineNode>(
      kube::kNodes,
      kube::ProjectJson<kubevirt::MachineNode>(
          [](const Json& object) -> base::Result<kubevirt::MachineNode> {
            return kubevirt::ReadMachineNode(object);
          }),
      {.label_selector = std::string(api::kDeploySandboxDevicePlugin)});
}

void MachineWatches::Start() {
  for (const DefinitionWatch& watch : definitions_) watch.informer->Start();
  nodes_->Start();
}

const MachineWatches::DefinitionWatch& MachineWatches::Of(std::string_view definition) const {
  return *std::ranges::find(definitions_, definition, &DefinitionWatch::name);
}

MachineWatches::Definition MachineWatches::Read(std::string_view definition) const {
  const auto found = Of(definition)
                         .informer->store()
                         .Find({.namespace_name = "", .name = std::string(definition)});
  return found.is_present() ? **found.value() : Definition{};
}

base::Status MachineWatches::RequireSynced(const kube::Source& source, std::string_view what) {
  const auto status = source.status();
  return status.synced ? base::Status{} : base::Fail(NotYet(what, status.trouble));
}

std::unique_ptr<kube::Informer<Json>> MachineWatches::WatchTargets(const kube::ResourceKind& kind) {
  auto informer = Watch<Json>(kind, kube::ProjectJson<Json>([](const Json& object) {
                                return base::Result<Json>(TargetView(object));
                              }));
  informer->Start();
  return informer;
}

void MachineWatches::WatchMachines(std::string_view definition, const kube::ResourceKind& kind) {
  const bool served = Read(definition).established;
  auto& informer = machines_[std::string(definition)];
  if (served == (informer != nullptr)) return;
  informer.reset();
  if (!served) return;
  informer = Watch<Names>(kind, kube::ProjectJson<Names>([](const Json& object) {
                            return base::Result<Names>(kubevirt::ReadNamedResources(object));
                          }));
  informer->Start();
}

base::Status MachineWatches::Follow() {
  for (const DefinitionWatch& watch : definitions_) {
    TRY(RequireSynced(*watch.informer, "CustomResourceDefinitions"));
  }
  const Definition hco = Read(kubevirt::kHyperConvergedDefinition);
  if (hco.form != form_) {
    hyperconvergeds_.reset();
    form_ = hco.form;
    if (form_) hyperconvergeds_ = WatchTargets(kubevirt::KindOf(*form_));
  }
  const bool kubevirt = Read(kubevirt::kKubeVirtDefinition).established;
  if (kubevirt != (kubevirts_ != nullptr)) {
    kubevirts_ = kubevirt ? WatchTargets(kubevirt::kKubeVirts) : nullptr;
  }
  WatchMachines(kubevirt::kVirtualMachineDefinition, kubevirt::kVirtualMachines);
  WatchMachines(kubevirt::kInstanceDefinition, kubevirt::kInstances);
  if (!hco.established || hco.form) return {};
  return base::Fail(base::Error{
      .code = base::Code::kUnsupported,
      .reason = "HyperConvergedVersionUnknown",
      .message = "HyperConverged is served in neither v1beta1 nor v1, the versions whose "
                 "permittedHostDevices are known: permitted devices are left as they are"});
}

base::Result<std::vector<MachineWatches::Target>> MachineWatches::Targets() const {
  std::vector<Target> targets;
  const auto take = [&](const kube::Informer<Json>& informer, Form form) {
    for (const auto& [key, object] : informer.store().Snapshot()) {
      if (object == nullptr) continue;
      // Objects of a list lack them.
      Json whole = *object;
      whole["apiVersion"] = kubevirt::KindOf(form).api_version();
      whole["kind"] = kubevirt::KindOf(form).kind;
      targets.push_back({.object = std::move(whole), .form = form});
    }
  };
  if (hyperconvergeds_ != nullptr) {
    TRY(RequireSynced(*hyperconvergeds_, "HyperConverged objects"));
    take(*hyperconvergeds_, *form_);
    if (hyperconvergeds_->store().size() > 0) return targets;
  }
  if (kubevirts_ != nullptr) {
    TRY(RequireSynced(*kubevirts_, "KubeVirt objects"));
    take(*kubevirts_, Form::kKubeVirt);
  }
  return targets;
}

base::Result<std::vector<kubevirt::MachineNode>> MachineWatches::Nodes() const {
  TRY(RequireSynced(*nodes_, "nodes"));
  std::vector<kubevirt::MachineNode> nodes;
  for (const auto& [key, node] : nodes_->store().Snapshot()) {
    if (node != nullptr) nodes.push_back(*node);
  }
  return nodes;
}

base::Observed<std::set<std::string>> MachineWatches::Named() const {
  Names all;
  bool served = false;
  for (const auto& [definition, informer] : machines_) {
    if (informer == nullptr) continue;
    served = true;
    if (const auto status = RequireSynced(*informer, "virtual machines"); !status) {
      return base::Observed<Names>::Unknown(status.error());
    }
    for (const auto& [key, names] : informer->store().Snapshot()) {
      if (names != nullptr) all.insert(names->begin(), names->end());
    }
    if (const auto unreadable = informer->store().Unreadable(); !unreadable.empty()) {
      return base::Observed<Names>::Unknown(unreadable.front().second.Within(
          "virtual machine " + unreadable.front().first.ToString()));
    }
  }
  // A node that cannot be read may be the one that offers it.
  if (const auto unreadable = nodes_->store().Unreadable(); !unreadable.empty()) {
    return base::Observed<Names>::Unknown(
        unreadable.front().second.Within("node " + unreadable.front().first.ToString()));
  }
  return served ? base::Observed<Names>::Present(std::move(all)) : base::Observed<Names>::Missing();
}

}  // namespace pitcrew::gpu_operator
