#include <fmt/format.h>

#include "base/log.h"
#include "kube/await.h"
#include "kube/projection.h"
#include "node/validator/components.h"
#include "node/validator/workload.h"

namespace pitcrew::node::validator {
namespace {

// The device plugin has a minute to be elected, to register and to list; upstream waits as long.
constexpr std::chrono::seconds kResourceTimeout{150};

struct NodeResources {
  Resources capacity;
  bool operator==(const NodeResources&) const = default;
};

// Waits until the kubelet tells of a GPU resource of this node (validator.md 5.1).
base::Status AwaitResource(const Options& options, const std::shared_ptr<kube::Client>& client,
                           const io::StopToken& stop) {
  kube::InformerOptions selection;
  selection.field_selector = "metadata.name=" + options.node_name;
  const kube::ObjectKey key{"", options.node_name};
  const auto offered = [&](const kube::Store<NodeResources>& store) -> base::Result<bool> {
    const auto node = store.Find(key);
    if (node.is_absent()) {
      return base::Fail(
          base::NotFound("NodeNotFound", fmt::format("there is no node {}", options.node_name)));
    }
    if (node.is_unknown()) return false;
    const auto resource = ChooseGpuResource((*node.value())->capacity);
    if (!resource.empty()) base::LogInfo("The node offers GPUs", {{"resource", resource}});
    return !resource.empty();
  };
  const base::Status done = kube::Await<NodeResources>(
      client, kube::kNodes,
      kube::ProjectJson<NodeResources>([](const codec::Json& node) -> base::Result<NodeResources> {
        return NodeResources{ResourcesOf(node, "capacity")};
      }),
      selection, offered, stop, std::chrono::steady_clock::now() + kResourceTimeout);
  if (done || done.error().code != base::Code::kTimeout) return done;
  return base::Fail(base::Error{
      base::Code::kTimeout, "GpuResourceMissing",
      fmt::format("GPU resources are not discovered by the node {}: its status.capacity has no "
                  "nvidia.com/gpu and no nvidia.com/mig-*; look at the device plugin's log",
                  options.node_name)});
}

base::Status Prove(Workload workload, const Options& options, Cluster& cluster,
                   const io::StopToken& stop) {
  TRY_ASSIGN(const auto client, cluster.client());
  if (workload == Workload::kPlugin) TRY(AwaitResource(options, client, stop));
  if (!options.with_workload) {
    if (workload == Workload::kCuda) {
      base::LogWarning("WITH_WORKLOAD=false: CUDA is declared valid without a test");
    }
    return {};
  }
  return RunWorkload(workload, options, client, stop);
}

base::Status Validate(Workload workload, const char* file, const Options& options, Cluster& cluster,
                      const io::StopToken& stop) {
  const StatusFolder status(options.output_folder);
  TRY(status.Remove(file));
  TRY(Repeat(options, {}, stop, [&] { return Prove(workload, options, cluster, stop); }));
  return status.Write(file);
}

}  // namespace

base::Status ValidateCuda(const Options& options, Cluster& cluster, const io::StopToken& stop) {
  return Validate(Workload::kCuda, kCudaReady, options, cluster, stop);
}

base::Status ValidatePlugin(const Options& options, Cluster& cluster, const io::StopToken& stop) {
  return Validate(Workload::kPlugin, kPluginReady, options, cluster, stop);
}

}  // namespace pitcrew::node::validator
