// The components that nvidia-validator proves. Each returns when its status file stands, or an
// error that says what is wrong; with wait, only wrong configuration and the stop end it early.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/validations/status_folder.h"
#include "node/validator/options.h"

namespace pitcrew::node::validator {

using validations::DriverReadyContent;
using validations::kCudaReady;
using validations::kDriverContainerReady;
using validations::kDriverReady;
using validations::kPluginReady;
using validations::kToolkitReady;
using validations::ParseDriverContainerReady;
using validations::StatusFolder;

// Connects to the API server when first asked: a node with a host driver is proven without it.
class Cluster {
 public:
  explicit Cluster(std::string kubeconfig) : kubeconfig_(std::move(kubeconfig)) {}
  base::Result<std::shared_ptr<kube::Client>> client();
  base::Result<codec::Json> ReadNode(const Options& options, const io::StopToken& stop);

 private:
  std::string kubeconfig_;
  std::shared_ptr<kube::Client> client_;
};

// Where the API server does not tell whether the operator brings the driver, the driver's status
// file stays as it is ("OwnerUnknown").
base::Status ValidateDriver(const Options& options, Cluster& cluster, const io::StopToken& stop);
base::Status ValidateToolkit(const Options& options, const io::StopToken& stop);
base::Status ValidateCuda(const Options& options, Cluster& cluster, const io::StopToken& stop);
base::Status ValidatePlugin(const Options& options, Cluster& cluster, const io::StopToken& stop);
// kUnavailable "ModuleNotLoaded".
base::Status RequireModule(const Options& options, std::string_view module);
// nvidia-fs, gdrcopy, nvidia-peermem: is the kernel module loaded (validator.md 4)?
base::Status ValidateModule(const Options& options, const std::string& component,
                            const io::StopToken& stop);

// The driver of NVIDIA's network adapters (MOFED), where RDMA is on and the node has one. Its
// status file tells that there is such a driver; without RDMA or adapter there is none.
base::Status ValidateMofed(const Options& options, Cluster& cluster, const io::StopToken& stop);

// Whether a driver works now: the driver's validation without its links and status files.
base::Status CheckDriver(const Options& options, Cluster& cluster, const io::StopToken& stop);
inline constexpr std::string_view kOwnerUnknown = "OwnerUnknown";
// Whether an error of the two says that there is no driver that works. One that says that it could
// not be found out leaves what was known before.
bool SaysNoDriver(const base::Error& error);
// The node status exporter; returns on stop.
base::Status ExportNodeStatus(const Options& options, Cluster& cluster, const io::StopToken& stop);

// Components of virtual machines (validator.md 6); they apply to nodes of one workload.
base::Status ValidateVfioPci(const Options& options, Cluster& cluster, const io::StopToken& stop);
base::Status ValidateVgpuManager(const Options& options, Cluster& cluster,
                                 const io::StopToken& stop);
base::Status ValidateVgpuDevices(const Options& options, Cluster& cluster,
                                 const io::StopToken& stop);
// The mode of confidential computing is set, where the node's GPUs can do it (validator.md 4).
base::Status ValidateCcManager(const Options& options, Cluster& cluster, const io::StopToken& stop);

// What a further try may make succeed.
struct Wakeups {
  std::vector<std::filesystem::path> folders = {};
  bool devices = false;  // the kernel's announcements of PCI and mediated devices
};

// Tries again after every change of what is given, and at the latest after options.retry_interval,
// until `attempt` succeeds; without wait, once. kInvalid and kCancelled end it, and its last error
// ends it at the deadline.
base::Status Repeat(const Options& options, const Wakeups& wakeups, const io::StopToken& stop,
                    const std::function<base::Status()>& attempt, base::Deadline deadline = {});

}  // namespace pitcrew::node::validator
