// The table of findings about operands. Order: no pod, the node cannot start it, its image, what
// its containers say (the particular before the general).
#include "fleet/operand_looks.h"

namespace pitcrew::fleet {
namespace {

constexpr std::string_view kNouveau[] = {"nouveau kernel driver", "module nouveau",
                                         "such as nouveau", "unload nouveau", "nouveau is"};
constexpr std::string_view kUnsigned[] = {
    "required key not available", "key was rejected by service", "unsigned module is rejected",
    "module verification failed", "lockdown:"};
constexpr std::string_view kInUse[] = {"driver is in use",
                                       "is in use by",
                                       "in use: nvidia",
                                       "module nvidia is in use",
                                       "driverstillinuse",
                                       "the driver cannot be unloaded",
                                       "could not unload nvidia driver kernel modules",
                                       "gpupodsnotevictable",
                                       "operandsstillrunning"};
constexpr std::string_view kGpuPods[] = {"gpupodsremain"};
constexpr std::string_view kHostModule[] = {"appears to already be loaded",
                                            "appears to be already loaded",
                                            "already loaded in your kernel",
                                            "an nvidia driver appears to be installed",
                                            "api mismatch",
                                            "version mismatch"};
constexpr std::string_view kHeaders[] = {"could not resolve linux kernel version",
                                         "unable to locate package linux-headers",
                                         "no match for argument: kernel-headers",
                                         "no match for argument: kernel-devel",
                                         "unable to find a match: kernel-",
                                         "unable to find the kernel source tree",
                                         "kernel headers are missing",
                                         "kernel source path",
                                         "nothing provides kernel-"};
constexpr std::string_view kRepository[] = {
    "temporary failure resolving",   "could not resolve host", "failed to fetch",
    "unable to fetch some archives", "cannot download",        "failed to download metadata",
    "could not connect to"};
constexpr std::string_view kCompile[] = {"compiler version check failed", "error building",
                                         "failed to build", "build of the nvidia kernel module",
                                         "unable to build the nvidia kernel module"};
constexpr std::string_view kUnsupported[] = {"requires use of the nvidia open kernel modules",
                                             "not supported by open nvidia kernel modules",
                                             "is not supported by the nvidia",
                                             "no supported gpu",
                                             "could not insert 'nvidia': no such device",
                                             "no devices were found"};

constexpr OperandRule kOperandRules[] = {
    // --- There is no pod ---------------------------------------------------------------------
    {"operand-missing", "", look::NoDaemonSet,
     "See why the operator does not make it:\n"
     "$ kubectl describe clusterpolicy {policy}\n"
     "$ kubectl logs -n {namespace} deployment/gpu-operator"},
    {"taint-not-tolerated", "", look::Untolerated,
     "Add to spec.daemonsets.tolerations of ClusterPolicy {policy}: {key: \"{key}\", operator: "
     "Exists, effect: {effect}}. Or take the taint away:\n"
     "$ kubectl taint node {node} {key}:{effect}-"},
    {"daemonset-skips-node", "", look::NotSelected,
     "If the kernel or the operating system of the node is new to the cluster, the operator makes "
     "a DaemonSet for it as soon as feature discovery has labelled it. Otherwise set the label "
     "{label}."},
    {"runtime-class-missing", "", look::RuntimeClassMissing,
     "The operator makes it while spec.cdi.nriPluginEnabled is false; the condition of "
     "pre-requisites says what keeps it from that:\n"
     "$ kubectl describe clusterpolicy {policy}"},
    {"quota-exceeded", "", look::RefusedByQuota,
     "The operands have the priority class system-node-critical: allow that many pods of it in the "
     "namespace.\n"
     "$ kubectl get resourcequota -n {namespace} -o yaml"},
    {"pod-security-refused", "", look::RefusedBySecurity,
     "Node components are privileged. Set spec.psa.enabled: true in ClusterPolicy {policy}, or:\n"
     "$ kubectl label namespace {namespace} pod-security.kubernetes.io/enforce=privileged "
     "--overwrite"},
    {"pod-refused", "", look::RefusedByServer,
     "The message is that of the API server or of a webhook, which has to let the pod in.\n"
     "$ kubectl describe daemonset -n {namespace} {daemonset}"},
    {"pod-not-created", "", look::NotCreated,
     "If this lasts, kube-controller-manager does not do its work.\n"
     "$ kubectl describe daemonset -n {namespace} {daemonset}"},
    {"pod-ending", "", look::BeingDeleted,
     "If this lasts, the kubelet of {node} or a finalizer holds the pod.\n"
     "$ kubectl describe pod -n {namespace} {pod}"},

    // --- The node cannot start it ------------------------------------------------------------
    {"pod-unschedulable", "", look::Unschedulable,
     "Make room on the node; the message says for what.\n"
     "$ kubectl describe node {node}"},
    {"runtime-handler-missing", "", look::HandlerMissing,
     "The container toolkit writes the handler and restarts the runtime when it starts; start it "
     "again, and see what it says: also which container engine it found (k3s, RKE2, MicroK8s and "
     "k0s have one of their own), unless CONTAINERD_CONFIG or RUNTIME_CONFIG in spec.toolkit.env "
     "names another one's files. What containerd knows, on {node}: crictl info\n"
     "$ kubectl delete pod -n {namespace} {toolkit-pod}\n"
     "$ kubectl logs -n {namespace} -l app=nvidia-container-toolkit-daemonset --prefix"},
    {"sandbox-failed", "", look::SandboxFailed,
     "The network or the container runtime of the node fails, not the GPU stack.\n"
     "$ kubectl describe pod -n {namespace} {pod}"},
    {"volume-mount-failed", "", look::MountFailed,
     "Make what the message names, or correct its name in spec.{field} of ClusterPolicy {policy}."},

    // --- Image -------------------------------------------------------------------------------
    {"driver-image-not-found", "driver", look::DriverImageNotFound,
     "Set spec.{field}.version of ClusterPolicy {policy} to one that is published for {os} (with "
     "usePrecompiled: a branch with an image for kernel {kernel}); repository and image beside it "
     "say where. An operating system for which nothing is published needs a driver on the host, "
     "and spec.driver.enabled: false."},
    {"image-not-found", "", look::ImageNotFound,
     "Correct repository, image and version of spec.{image-field} in ClusterPolicy {policy}; a "
     "mirror may lack the image."},
    {"image-denied", "", look::PullDenied,
     "Name a pull secret of namespace {namespace} in spec.{image-field}.imagePullSecrets of "
     "ClusterPolicy {policy}:\n"
     "$ kubectl create secret docker-registry NAME -n {namespace} --docker-server=SERVER "
     "--docker-username=USER"},
    {"image-pull-failed", "", look::PullFailed,
     "Name server, proxy and disk space of the node are the usual causes. Try it on {node}: crictl "
     "pull {image}"},

    // --- Containers --------------------------------------------------------------------------
    {"plugin-config-missing", "device plugin", look::PluginConfigMissing,
     "Add the key {key} to the ConfigMap, or choose another one for the node:\n"
     "$ kubectl edit configmap -n {namespace} {map}\n"
     "$ kubectl label node {node} nvidia.com/device-plugin.config=KEY --overwrite"},
    {"operand-config-missing", "", look::ConfigMissing,
     "Make what the message names in namespace {namespace}, or correct its name in spec.{field} of "
     "ClusterPolicy {policy}."},
    {"cdi-unresolvable", "", look::CdiUnresolvable,
     "The container toolkit writes the files of /var/run/cdi on {node} at its start. Start it "
     "again:\n"
     "$ kubectl delete pod -n {namespace} {toolkit-pod}"},
    {"nouveau-loaded", "driver", nullptr,
     "On {node}: echo 'blacklist nouveau' > /etc/modprobe.d/nouveau.conf, rebuild the initial RAM "
     "disk (update-initramfs -u or dracut -f), and restart the node.",
     kNouveau, "the kernel module nouveau holds the GPUs"},
    {"secure-boot", "driver", nullptr,
     "The kernel of {node} loads only signed modules (secure boot). Use precompiled, signed "
     "drivers (spec.driver.usePrecompiled: true), enrol the key that signs the driver (mokutil "
     "--import), or switch secure boot off in the firmware.",
     kUnsigned, "the kernel refuses the driver's module because it is not signed by a known key"},
    {"gpu-pods-remain", "", nullptr,
     "The GPUs of {node} change hands when the pods that the message names are gone. End them by "
     "its commands, or let the driver manager evict them: ENABLE_GPU_POD_EVICTION, and for pods "
     "without a controller DRAIN_USE_FORCE, with an emptyDir DRAIN_DELETE_EMPTYDIR_DATA, in "
     "ClusterPolicy {policy} (spec.vfioManager.driverManager.env on the way to passthrough, "
     "spec.vgpuManager.driverManager.env to vGPUs, spec.driver.manager.env to containers).",
     kGpuPods, "pods have GPUs for what the node was for before"},
    {"driver-in-use", "driver", nullptr,
     "End what uses the GPUs on {node} (fuser -v /dev/nvidia* names it: nvidia-persistenced, a "
     "monitoring agent, a desktop, a pod), or restart the node. Pods with GPUs there:\n"
     "$ kubectl get pods -A --field-selector spec.nodeName={node}",
     kInUse, "the loaded driver is in use and cannot be replaced"},
    {"host-driver-present", "driver", nullptr,
     "Keep the driver of the host: spec.driver.enabled: false in ClusterPolicy {policy}, or, for "
     "this node, the label below. Or remove its packages from {node} and restart the node.\n"
     "$ kubectl label node {node} nvidia.com/gpu.deploy.driver=false --overwrite",
     kHostModule, "a driver that is installed on the host is in the way"},
    {"kernel-headers-missing", "driver", nullptr,
     "The package repositories of the driver container have no headers for kernel {kernel}. "
     "Restart {node} with a kernel that they have, give them by spec.driver.repoConfig, or use "
     "precompiled drivers (spec.driver.usePrecompiled: true).",
     kHeaders, "the driver cannot be compiled: headers of the running kernel are missing"},
    {"package-repository-unreachable", "driver", nullptr,
     "The driver container installs packages. Give it a proxy (spec.driver.env), a mirror "
     "(spec.driver.repoConfig) and its certificate (spec.driver.certConfig), or use precompiled "
     "drivers, which need none.",
     kRepository, "the driver container does not reach its package repository"},
    {"driver-build-failed", "driver", nullptr,
     "This driver does not compile for kernel {kernel}: choose a newer spec.driver.version, or "
     "precompiled drivers. What the compiler says:\n"
     "$ kubectl logs -n {namespace} {pod} -c {container} --previous",
     kCompile, "the driver's kernel modules do not compile"},
    {"gpu-not-supported", "driver", nullptr,
     "Set spec.driver.kernelModuleType in ClusterPolicy {policy} (GPUs from Blackwell on need "
     "open, those before Turing proprietary; auto chooses), or a spec.driver.version that knows "
     "the GPU.",
     kUnsupported, "this driver does not drive the node's GPU"},
    {"iommu-not-enabled",
     "VFIO manager",
     nullptr,
     "Intel: set the kernel argument intel_iommu=on on {node} (GRUB_CMDLINE_LINUX of "
     "/etc/default/grub, then update-grub or grub2-mkconfig), and restart it. AMD and Arm need no "
     "argument: dmesg | grep -i -e AMD-Vi -e smmu tells why. OpenShift, for a pool ROLE that has "
     "only these nodes, since its nodes restart:\n"
     "$ oc create -f - <<< '{\"apiVersion\": \"machineconfiguration.openshift.io/v1\", \"kind\": "
     "\"MachineConfig\", \"metadata\": {\"name\": \"100-ROLE-iommu\", \"labels\": "
     "{\"machineconfiguration.openshift.io/role\": \"ROLE\"}}, \"spec\": {\"config\": "
     "{\"ignition\": "
     "{\"version\": \"3.2.0\"}}, \"kernelArguments\": [\"intel_iommu=on\"]}}'",
     {},
     "the kernel does not use the node's IOMMU, so no GPU can go to a virtual machine",
     "IommuNotEnabled"},
    {"iommu-switched-off",
     "VFIO manager",
     nullptr,
     "Take the argument that the Event names away from the kernel's command line of {node} "
     "(/etc/default/grub; OpenShift: the MachineConfig that sets it), and restart the node.",
     {},
     "a kernel argument switches the node's IOMMU off",
     "IommuSwitchedOff"},
    {"iommu-missing",
     "VFIO manager",
     nullptr,
     "Switch Intel VT-d, AMD-Vi or the SMMU on in the firmware's setup of {node}. If the node is a "
     "virtual machine itself, its hypervisor must give it an IOMMU.",
     {},
     "the node's firmware offers no IOMMU",
     "IommuMissing"},
    {"iommu-group-missing",
     "VFIO manager",
     nullptr,
     "On {node}: ls /sys/kernel/iommu_groups/*/devices, and dmesg | grep -i -e dmar -e iommu. The "
     "firmware may leave root ports out; look for an update of it.",
     {},
     "the IOMMU does not translate for a GPU",
     "NoIommuGroup"},
    {"iommu-group-shared",
     "VFIO manager",
     nullptr,
     "A virtual machine gets a group whole or not at all. On {node}: switch ACS on in the "
     "firmware's "
     "setup (on AMD below AER), put the GPU into another slot, or free the other devices. What "
     "shares a group with what: vfio-manage status in the pod.\n"
     "$ kubectl exec -n {namespace} {pod} -- vfio-manage status",
     {},
     "a GPU shares its IOMMU group with a device that the node uses",
     "IommuGroupShared"},
    {"console-on-gpu",
     "VFIO manager",
     nullptr,
     "Make another display the first one in the firmware's setup of {node}, or set the kernel "
     "argument that the Event names (nvidia-drm.modeset=0, nouveau.modeset=0), and restart it.",
     {},
     "the node's text console is on a GPU",
     "ConsoleOnGpu"},
    {"framebuffer-on-gpu",
     "VFIO manager",
     nullptr,
     "Make another display the first one in the firmware's setup of {node}, or set the kernel "
     "argument initcall_blacklist=sysfb_init (before Linux 5.15: video=efifb:off), and restart it.",
     {},
     "the firmware's framebuffer holds memory of a GPU",
     "FramebufferOnGpu"},
    {"vfio-driver-missing",
     "VFIO manager",
     nullptr,
     "The message names the module and what is wrong with it. On {node}: modprobe vfio-pci; the "
     "modules of the running kernel must be installed, and no line of modprobe.d may blacklist it.",
     {},
     "the kernel has no VFIO driver for a GPU",
     "VfioDriverMissing"},
    {"gpu-in-use",
     "VFIO manager",
     nullptr,
     "The Event names the processes. End them on {node}, or the pods that they belong to; the VFIO "
     "manager goes on by itself.\n"
     "$ kubectl get pods -A --field-selector spec.nodeName={node}",
     {},
     "a GPU is still in use, so it cannot go to virtual machines",
     "GpuInUse"},
    {"virtual-functions-in-use",
     "VFIO manager",
     nullptr,
     "Stop the virtual machines on {node} that have vGPUs; the VFIO manager goes on by itself.\n"
     "$ kubectl get pods -A -l kubevirt.io=virt-launcher --field-selector spec.nodeName={node}",
     {},
     "virtual machines use virtual functions of a GPU that is to go to one whole",
     "VirtualFunctionsInUse"},
    {"out-of-memory", "", look::OutOfMemory,
     "Raise spec.{resources-field}.resources.limits.memory of ClusterPolicy {policy}."},
    {"toolkit-validation-failed", "validator", look::ToolkitValidationFails,
     "See what the toolkit has configured, and which runtime the kubelet uses:\n"
     "$ kubectl logs -n {namespace} {toolkit-pod} -c nvidia-container-toolkit-ctr\n"
     "$ kubectl get node {node} -o wide"},
    {"cuda-validation-failed", "validator", look::CudaValidationFails,
     "On {node}, see whether the GPUs answer: nvidia-smi; dmesg | grep -i -e nvrm -e xid. GPUs "
     "behind NVSwitch need the fabric manager of the same version as the driver."},
    {"crash-loop", "", look::CrashLoop,
     "Read its log:\n"
     "$ kubectl logs -n {namespace} {pod} -c {container} --previous"},
    {"driver-installing", "driver", look::DriverInstalling,
     "Usually this takes up to ten minutes.\n"
     "$ kubectl logs -n {namespace} {pod} -c {container} -f"},
    {"operand-waits", "", look::InitWaits,
     "If it lasts, see what it says:\n"
     "$ kubectl logs -n {namespace} {pod} -c {container}"},
    {"operand-not-ready", "", look::NotReady,
     "Read its log:\n"
     "$ kubectl logs -n {namespace} {pod} -c {container}"},
    {"pod-starting", "", look::Starting,
     "If this lasts:\n"
     "$ kubectl describe pod -n {namespace} {pod}"},
};

}  // namespace

std::span<const OperandRule> OperandRules() { return kOperandRules; }

}  // namespace pitcrew::fleet
