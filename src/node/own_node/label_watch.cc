#include "node/own_node/label_watch.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <map>
#include <utility>

#include "base/file_descriptor.h"
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
                 std::vector<std::string> labels)
      : name(std::move(node_name)),
        changed(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        informer(std::move(client), kube::kNodes, OnlyThese(std::move(labels)), OnlyNode(name)) {}

  std::string name;
  base::FileDescriptor changed;
  kube::Informer<Labels> informer;  // ends before what its handler rings
};

base::Result<std::unique_ptr<LabelWatch>> LabelWatch::Start(std::shared_ptr<kube::Client> client,
                                                            const std::string& node_name,
                                                            std::vector<std::string> labels) {
  auto implementation =
      std::make_unique<Implementation>(std::move(client), node_name, std::move(labels));
  if (!implementation->changed.valid()) {
    return base::Fail(base::FromErrno(errno, "make an eventfd"));
  }
  // The store tells only changes of what is projected: a kubelet's heartbeat rings nothing.
  implementation->informer.AddHandler(
      [event = implementation->changed.get()](const kube::Change<Labels>&) {
        ::eventfd_write(event, 1);
      });
  implementation->informer.Start();
  return std::unique_ptr<LabelWatch>(new LabelWatch(std::move(implementation)));
}

LabelWatch::LabelWatch(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}

LabelWatch::~LabelWatch() = default;

int LabelWatch::fd() const { return implementation_->changed.get(); }

void LabelWatch::Take() {
  eventfd_t count = 0;
  ::eventfd_read(implementation_->changed.get(), &count);
}

base::Observed<std::string> LabelWatch::Value(std::string_view label) const {
  using Value = base::Observed<std::string>;
  const auto labels = implementation_->informer.store().Find({"", implementation_->name});
  if (labels.is_unknown()) return Value::Unknown(*labels.error());
  if (labels.is_absent()) return Value::Missing();
  const auto found = (*labels.value())->find(label);
  return found == (*labels.value())->end() ? Value::Missing() : Value::Present(found->second);
}

base::Status LabelWatch::WaitUntilKnown(
    const io::StopToken& stop,
    std::optional<std::chrono::steady_clock::time_point> deadline) const {
  return implementation_->informer.WaitUntilSynced(stop, deadline);
}

}  // namespace pitcrew::node::own_node
