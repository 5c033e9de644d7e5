#include "node/own_node/label_watch.h"

#include <map>
#include <utility>

#include "base/bell.h"
#include "codec/json.h"
#include "kube/informer.h"
#include "kube/projection.h"

namespace pitcrew::node::own_node {
namespace {

using Labels = std::map<std::string, std::string, std::less<>>;

kube::Projection<Labels> OnlyThese(std::vector<std::string> names) {
  return kube::ProjectJson<Labels>(
      [names = std::move(names)](const codec::Json& node) -> base::Result<Labels> {
        Labels labels;
        for (const auto& name : names) {
          const auto* value = codec::Find(node, {"metadata", "labels", name});
          if (value != nullptr && value->is_string()) labels[name] = value->get<std::string>();
        }
        return labels;
      });
}

kube::InformerOptions OnlyNode(const std::string& node_name) {
  kube::InformerOptions options;
  options.field_selector = "metadata.name=" + node_name;
  return options;
}

}  // namespace

struct LabelWatch::Implementation {
  Implementation(std::shared_ptr<kube::Client> client, std::string node_name,
                 std::vector<std::string> labels, base::Bell bell)
      : name(std::move(node_name)),
        changed(std::move(bell)),
        informer(std::move(client), kube::kNodes, OnlyThese(std::move(labels)), OnlyNode(name)) {}

  std::string name;
  const base::Bell changed;
  kube::Informer<Labels> informer;  // ends before what its handler rings
};

base::Result<std::unique_ptr<LabelWatch>> LabelWatch::Start(std::shared_ptr<kube::Client> client,
                                                            const std::string& node_name,
                                                            std::vector<std::string> labels) {
  TRY_ASSIGN(auto changed, base::Bell::Create());
  auto implementation = std::make_unique<Implementation>(std::move(client), node_name,
                                                         std::move(labels), std::move(changed));
  // The store tells only changes of what is projected: a kubelet's heartbeat rings nothing.
  implementation->informer.AddHandler(
      [&bell = implementation->changed](const kube::Change<Labels>&) { bell.Ring(); });
  implementation->informer.Start();
  return std::unique_ptr<LabelWatch>(new LabelWatch(std::move(implementation)));
}

LabelWatch::LabelWatch(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}

LabelWatch::~LabelWatch() = default;

int LabelWatch::fd() const { return implementation_->changed.fd(); }

void LabelWatch::Take() { implementation_->changed.Silence(); }

base::Observed<std::string> LabelWatch::Value(std::string_view label) const {
  using Value = base::Observed<std::string>;
  const auto labels = implementation_->informer.store().Find({"", implementation_->name});
  if (labels.is_unknown()) return Value::Unknown(*labels.error());
  if (labels.is_absent()) return Value::Missing();
  const auto found = (*labels.value())->find(label);
  return found == (*labels.value())->end() ? Value::Missing() : Value::Present(found->second);
}

base::Status LabelWatch::WaitUntilKnown(const io::StopToken& stop, base::Deadline deadline) const {
  return implementation_->informer.WaitUntilSynced(stop, deadline);
}

}  // namespace pitcrew::node::own_node
