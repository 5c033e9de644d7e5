// The vocabulary of NVIDIA's gpu-operator v26.7.0: labels, annotations, resource names, finalizers
// and object names that more than one room reads or writes. Source: reference
// operator-behaviour.md sections 5, 7, 13, 14 and 20, operand-manifests.md section 3.
#pragma once

#include <string_view>

namespace pitcrew::api {

// --- Node labels that node feature discovery writes ------------------------------------------
inline constexpr std::string_view kMellanoxPresent = "feature.node.kubernetes.io/pci-15b3.present";
inline constexpr std::string_view kNfdPrefix = "feature.node.kubernetes.io/";
inline constexpr std::string_view kPciVendorPresent = "feature.node.kubernetes.io/pci-10de.present";
inline constexpr std::string_view kPci3dControllerPresent =
    "feature.node.kubernetes.io/pci-0302_10de.present";
inline constexpr std::string_view kPciVgaControllerPresent =
    "feature.node.kubernetes.io/pci-0300_10de.present";
// A node carries a GPU when any of these is exactly "true".
inline constexpr std::string_view kGpuPciLabels[] = {kPciVendorPresent, kPci3dControllerPresent,
                                                     kPciVgaControllerPresent};
inline constexpr std::string_view kKernelVersionFull =
    "feature.node.kubernetes.io/kernel-version.full";
inline constexpr std::string_view kArchitecture = "kubernetes.io/arch";
inline constexpr std::string_view kOsReleaseId = "feature.node.kubernetes.io/system-os_release.ID";
inline constexpr std::string_view kOsReleaseVersionId =
    "feature.node.kubernetes.io/system-os_release.VERSION_ID";
inline constexpr std::string_view kOsReleaseVersionMajor =
    "feature.node.kubernetes.io/system-os_release.VERSION_ID.major";
// RHCOS version, read on OpenShift for the driver toolkit image.
inline constexpr std::string_view kOsTreeVersion =
    "feature.node.kubernetes.io/system-os_release.OSTREE_VERSION";

// Kubernetes' own.
inline constexpr std::string_view kZone = "topology.kubernetes.io/zone";

// --- Node labels of the operator's node controller -------------------------------------------
inline constexpr std::string_view kGpuPresent = "nvidia.com/gpu.present";
inline constexpr std::string_view kDeployPrefix = "nvidia.com/gpu.deploy.";
inline constexpr std::string_view kDeployDriver = "nvidia.com/gpu.deploy.driver";
inline constexpr std::string_view kDeployContainerToolkit =
    "nvidia.com/gpu.deploy.container-toolkit";
inline constexpr std::string_view kDeployOperatorValidator =
    "nvidia.com/gpu.deploy.operator-validator";
inline constexpr std::string_view kDeployDevicePlugin = "nvidia.com/gpu.deploy.device-plugin";
inline constexpr std::string_view kDeployGpuFeatureDiscovery =
    "nvidia.com/gpu.deploy.gpu-feature-discovery";
inline constexpr std::string_view kDeployDcgm = "nvidia.com/gpu.deploy.dcgm";
inline constexpr std::string_view kDeployDcgmExporter = "nvidia.com/gpu.deploy.dcgm-exporter";
inline constexpr std::string_view kDeployNodeStatusExporter =
    "nvidia.com/gpu.deploy.node-status-exporter";
inline constexpr std::string_view kDeployMigManager = "nvidia.com/gpu.deploy.mig-manager";
inline constexpr std::string_view kDeployClient = "nvidia.com/gpu.deploy.client";
inline constexpr std::string_view kDeploySandboxValidator =
    "nvidia.com/gpu.deploy.sandbox-validator";
inline constexpr std::string_view kDeployCcManager = "nvidia.com/gpu.deploy.cc-manager";
inline constexpr std::string_view kDeployVfioManager = "nvidia.com/gpu.deploy.vfio-manager";
inline constexpr std::string_view kDeployKataManager = "nvidia.com/gpu.deploy.kata-manager";
inline constexpr std::string_view kDeploySandboxDevicePlugin =
    "nvidia.com/gpu.deploy.sandbox-device-plugin";
inline constexpr std::string_view kDeployKataSandboxDevicePlugin =
    "nvidia.com/gpu.deploy.kata-sandbox-device-plugin";
inline constexpr std::string_view kDeployVgpuManager = "nvidia.com/gpu.deploy.vgpu-manager";
inline constexpr std::string_view kDeployVgpuDeviceManager =
    "nvidia.com/gpu.deploy.vgpu-device-manager";
// The dynamic resource allocation stack (GPUCluster); swept from ClusterPolicy nodes.
inline constexpr std::string_view kDeployDraDriver = "nvidia.com/gpu.deploy.dra-driver";
inline constexpr std::string_view kDeployDraValidator = "nvidia.com/gpu.deploy.dra-validator";
inline constexpr std::string_view kDeployDcgmDra = "nvidia.com/gpu.deploy.dcgm-dra";
inline constexpr std::string_view kDeployDcgmExporterDra =
    "nvidia.com/gpu.deploy.dcgm-exporter-dra";
// "false", set by a person, keeps every operand off the node.
inline constexpr std::string_view kDeployOperands = "nvidia.com/gpu.deploy.operands";
// Written even to nodes that have none; no operand asks for it.
inline constexpr std::string_view kDeployNvsm = "nvidia.com/gpu.deploy.nvsm";
// What the driver manager writes where nodes bring their own driver.
inline constexpr std::string_view kPreInstalled = "pre-installed";
// What the driver manager writes in place of "true" while it unloads a driver.
inline constexpr std::string_view kPausedForDriverUpgrade = "paused-for-driver-upgrade";
// The same of the MIG manager and of the vGPU device manager (mig-manager.md section 9.3,
// vgpu-device-manager.md section 6.2).
inline constexpr std::string_view kPausedForMigChange = "paused-for-mig-change";
inline constexpr std::string_view kPausedForVgpuChange = "paused-for-vgpu-change";
// container, vm-passthrough or vm-vgpu; set by a person.
inline constexpr std::string_view kWorkloadConfig = "nvidia.com/gpu.workload.config";
// Whether the node's GPUs can do confidential computing.
inline constexpr std::string_view kCcCapable = "nvidia.com/cc.capable";
inline constexpr std::string_view kDriverOwner = "nvidia.com/gpu-operator.driver.owner";

// --- Driver upgrade --------------------------------------------------------------------------
inline constexpr std::string_view kUpgradeState = "nvidia.com/gpu-driver-upgrade-state";
inline constexpr std::string_view kUpgradeSkip = "nvidia.com/gpu-driver-upgrade.skip";
// Node annotation, "true" where the driver may be upgraded without a person.
inline constexpr std::string_view kUpgradeEnabledAnnotation =
    "nvidia.com/gpu-driver-upgrade-enabled";
// Node annotations of an upgrade that is under way (driver-lifecycle.md section 1.1).
inline constexpr std::string_view kUpgradeSafeLoadAnnotation =
    "nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load";
inline constexpr std::string_view kUpgradePodCompletionStartAnnotation =
    "nvidia.com/gpu-driver-upgrade-wait-for-pod-completion-start-time";
inline constexpr std::string_view kUpgradeValidationStartAnnotation =
    "nvidia.com/gpu-driver-upgrade-validation-start-time";
inline constexpr std::string_view kUpgradeRequestorModeAnnotation =
    "nvidia.com/gpu-driver-upgrade-requestor-mode";
// Node annotation, "true": a person asks for an upgrade of a node that would need none.
inline constexpr std::string_view kUpgradeRequestedAnnotation =
    "nvidia.com/gpu-driver-upgrade-requested";
// Node annotation: revision of the driver's DaemonSet at which the upgrade failed, which also says
// that the cordon of the node is the upgrade's; "unknown" where no revision was known then.
// Upstream has no such thing.
inline constexpr std::string_view kUpgradeFailedRevisionAnnotation =
    "nvidia.com/gpu-driver-upgrade-failed-revision";
// Node annotations, which upstream does not have: when the node had its turn (seconds of Unix
// time); the upgrade that was completed last ({"revision", "finished", "seconds"},
// driver_upgrade/record.h).
inline constexpr std::string_view kUpgradeTurnAnnotation =
    "nvidia.com/gpu-driver-upgrade-turn-time";
inline constexpr std::string_view kUpgradeLastAnnotation = "nvidia.com/gpu-driver-upgrade-last";
// Likewise: what the metrics of a canary's node say since then (driver_upgrade/metrics_note.h).
inline constexpr std::string_view kUpgradeMetricsAnnotation =
    "nvidia.com/gpu-driver-upgrade-metrics";
// Annotations of a ClusterPolicy, which upstream does not have (upgrade_schedule.h).
inline constexpr std::string_view kUpgradeScheduleAnnotation =
    "nvidia.com/gpu-driver-upgrade.schedule";
inline constexpr std::string_view kUpgradePausedAnnotation = "nvidia.com/gpu-driver-upgrade.paused";
inline constexpr std::string_view kUpgradeApprovedAnnotation =
    "nvidia.com/gpu-driver-upgrade.approved";
// Likewise, "true" or "false": api::UpgradePolicy::image_check.
inline constexpr std::string_view kUpgradeImageCheckAnnotation =
    "nvidia.com/gpu-driver-upgrade.image-check";
// Pod label, "true": a drain for a driver upgrade leaves the pod alone.
inline constexpr std::string_view kUpgradeDrainSkip = "nvidia.com/gpu-driver-upgrade-drain.skip";
// The node was cordoned before its upgrade began.
inline constexpr std::string_view kUpgradeInitiallyUnschedulableAnnotation =
    "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable";

// --- MIG -------------------------------------------------------------------------------------
inline constexpr std::string_view kMigConfig = "nvidia.com/mig.config";
inline constexpr std::string_view kMigConfigState = "nvidia.com/mig.config.state";
inline constexpr std::string_view kMigCapable = "nvidia.com/mig.capable";
inline constexpr std::string_view kMigConfigAllDisabled = "all-disabled";
// Of the vGPU device manager.
inline constexpr std::string_view kVgpuConfigState = "nvidia.com/vgpu.config.state";

// --- Labels that GPU feature discovery writes and others read ----------------------------------
inline constexpr std::string_view kGpuProduct = "nvidia.com/gpu.product";
inline constexpr std::string_view kMpsCapable = "nvidia.com/mps.capable";
inline constexpr std::string_view kVgpuHostDriverVersion = "nvidia.com/vgpu.host-driver-version";
// Name of the configuration that a node's device plugin uses.
inline constexpr std::string_view kDevicePluginConfig = "nvidia.com/device-plugin.config";

// --- Labels and annotations of the operator's objects ------------------------------------------
inline constexpr std::string_view kLastAppliedHash = "nvidia.com/last-applied-hash";
inline constexpr std::string_view kStateLabel = "nvidia.com/gpu-operator.state";
// Of a driver's DaemonSet: what the ConfigMaps and Secrets of the driver held, and which change of
// them was rolled out last (desired/operands/driver_content.h).
inline constexpr std::string_view kDriverContent = "nvidia.com/gpu-operator.driver-content";
// Of its pods: that change, where the driver stays loaded over it.
inline constexpr std::string_view kDriverFiles = "nvidia.com/gpu-operator.driver-files";
inline constexpr std::string_view kPrecompiled = "nvidia.com/precompiled";
inline constexpr std::string_view kAppLabel = "app";
inline constexpr std::string_view kPartOfLabel = "app.kubernetes.io/part-of";
inline constexpr std::string_view kComponentLabel = "app.kubernetes.io/component";
inline constexpr std::string_view kDriverComponent = "nvidia-driver";
inline constexpr std::string_view kVgpuHostComponent = "nvidia-vgpu-host-manager";
inline constexpr std::string_view kDriverDaemonSet = "nvidia-driver-daemonset";
// Of the DaemonSets of NVIDIADriver objects: the pool's operating system and kernel.
inline constexpr std::string_view kNodeOsVersion = "nvidia.com/node.os-version";
inline constexpr std::string_view kPrecompiledKernel = "nvidia.com/precompiled.kernel-version";
inline constexpr std::string_view kDriverToolkit = "openshift.driver-toolkit";
inline constexpr std::string_view kDriverToolkitRhcos = "openshift.driver-toolkit.rhcos";
inline constexpr std::string_view kDriverToolkitImageMissing =
    "openshift.driver-toolkit.rhcos-image-missing";

// --- Resources, CDI ----------------------------------------------------------------------------
inline constexpr std::string_view kResourcePrefix = "nvidia.com/";
inline constexpr std::string_view kGpuResource = "nvidia.com/gpu";
inline constexpr std::string_view kMigResourcePrefix = "nvidia.com/mig-";
inline constexpr std::string_view kCdiAnnotationPrefix = "cdi.k8s.io/";
inline constexpr std::string_view kNriCdiContainerAnnotationPrefix = "nvidia.cdi.k8s.io/container.";
// All GPUs of a node, for management containers.
inline constexpr std::string_view kManagementCdiDevice = "management.nvidia.com/gpu=all";

// --- Groups, kinds, names ----------------------------------------------------------------------
inline constexpr std::string_view kNvidiaV1 = "nvidia.com/v1";
inline constexpr std::string_view kClusterPolicyKind = "ClusterPolicy";
inline constexpr std::string_view kNvidiaV1Alpha1 = "nvidia.com/v1alpha1";
inline constexpr std::string_view kNvidiaDriverKind = "NVIDIADriver";
inline constexpr std::string_view kNfdNodeNameLabel = "nfd.node.kubernetes.io/node-name";
inline constexpr std::string_view kOperatorLease = "53822513.nvidia.com";

// Status files in a node's /run/nvidia/validations.
inline constexpr std::string_view kValidationsDir = "/run/nvidia/validations";

}  // namespace pitcrew::api
