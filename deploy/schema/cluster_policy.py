"""Schema of ClusterPolicy, nvidia.com/v1 (clusterpolicy-api.md sections 1, 2 and 5)."""

import fragments
from model import array, bare, boolean, int_or_string, integer, obj, string, string_map, strings


def _named(about, name_about, **members):
    """A block that names one ConfigMap."""
    return obj(about, {"name": string(name_about), **members})


def _switch(what, unset):
    return boolean(f"Deploy the {what}. Left out it means {str(unset).lower()}.")


def operator():
    return obj("Settings of the operator itself.", {
        "annotations": string_map("Accepted and not used."),
        "defaultRuntime": string("Deprecated and not used: the container runtime is read from the "
                                 "nodes."),
        "initContainer": obj("Deprecated and not used.",
                             fragments.image("former init container", "CUDA_BASE_IMAGE")),
        "labels": string_map("Accepted and not used."),
        "metrics": obj("Metrics of the operator.", {
            "serviceMonitor": fragments.service_monitor("Changes to the operator's ServiceMonitor."),
        }),
        "runtimeClass": string("Name and handler of the RuntimeClass for GPU pods.",
                               default="nvidia"),
        "use_ocp_driver_toolkit": boolean("OpenShift only: build the driver in the Driver Toolkit "
                                          "image. Left out it means true."),
    })


def daemonsets():
    return obj("Settings of all DaemonSets of the operator.", {
        "annotations": string_map("Annotations of the DaemonSets and their pods."),
        "labels": string_map("Labels of the DaemonSets and their pods (pods keep their own app and "
                             "app.kubernetes.io/part-of)."),
        "podSecurityContext": fragments.pod_security_context(
            "Security context of the pods, in place of the built-in one."),
        "priorityClassName": string("Priority class of the pods."),
        "rollingUpdate": obj("Used unless updateStrategy is OnDelete; the driver's DaemonSets are "
                             "left out.", {
            "maxUnavailable": string("Pods that may be missing during an update: a number or, with "
                                     "%, a share."),
        }),
        "tolerations": fragments.tolerations("Tolerations of the pods, in place of the built-in "
                                             "ones."),
        "updateStrategy": string("How pods follow a change of their DaemonSet.",
                                 default="RollingUpdate", enum=["RollingUpdate", "OnDelete"]),
    })


def upgrade_schedule():
    """Not in NVIDIA's definition (docs/differences.md)."""
    return obj("When nodes may begin, and in which order. (Not in NVIDIA's definition; where that is in place, the "
               "annotation nvidia.com/gpu-driver-upgrade.schedule has the same members.)", {
        "paused": boolean("No node begins; those under way go on.", default=False),
        "windows": array("Times of the week in which nodes may begin; none means any time.",
                         obj("A window, by the clocks of its time zone.", {
                             "days": array("Days on which it opens; none means every day.",
                                           string("A day.", enum=["Monday", "Tuesday", "Wednesday", "Thursday",
                                                                  "Friday", "Saturday", "Sunday"])),
                             "start!": string("A time of day, like 22:30.", pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$"),
                             "end!": string("A time of day, up to 24:00; one that is not after the start is on the "
                                           "next day.", pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"),
                             "timeZone": string("A name of the IANA database, like Europe/Berlin.", default="UTC"),
                         })),
        "order": obj("Nodes with one value of a label are done before those with another begin.", {
            "label!": string("Key of the label, like topology.kubernetes.io/zone."),
            "first": array("Values that go first, in this order; the others follow by name.",
                           string("A value.")),
        }),
        "canary": obj("Nodes of each version of the driver that go before all others.", {
            "nodes": integer("How many.", default=1, minimum=0),
            "observeSeconds": integer("How long they are to be in order before others begin.", default=0, minimum=0),
            "requireApproval": boolean("Others begin when the annotation nvidia.com/gpu-driver-upgrade.approved of the "
                                       "ClusterPolicy names the version.", default=False),
            "metrics": boolean("A node on which the metrics exporter tells of an XID, of memory errors or of a GPU that "
                               "is missing is not in order.", default=True),
        }),
    })


def upgrade_policy():
    def pod_removal(about, timeout, **more):
        return obj(about, {
            "deleteEmptyDir": boolean("Go on although pods would lose emptyDir data.",
                                      default=False),
            "force": boolean("Also remove pods that no controller manages.", default=False),
            "timeoutSeconds": integer("Seconds to wait; 0 means without limit.", default=timeout,
                                      minimum=0),
            **more,
        })

    return obj("How a change of the driver reaches the nodes.", {
        "autoUpgrade": boolean("Upgrade node by node. Without it the other members have no effect.",
                               default=False),
        "drain": pod_removal(
            "Draining of the node.", 300,
            enable=boolean("Drain the node when removing the GPU pods did not suffice.",
                           default=False),
            podSelector=string("Labels of the pods to drain; empty for all.")),
        "imageCheck": boolean("Before nodes give their pods up, look on one of each kind whether the new driver's image can "
                              "be had there; true when it is not set. (Not in NVIDIA's definition; where that is in place, "
                              "the annotation nvidia.com/gpu-driver-upgrade.image-check says the same.)"),
        "maxParallelUpgrades": integer("Nodes that are upgraded at a time; 0 means without limit.",
                                       default=1, minimum=0),
        "maxUnavailable": int_or_string("Nodes, or their share with %, that may be unavailable; a "
                                        "share is rounded up.", default="25%"),
        "podDeletion": pod_removal("Removal of the pods that use GPUs.", 300),
        "schedule": upgrade_schedule(),
        "waitForCompletion": obj("Jobs to wait for before pods are removed.", {
            "podSelector": string("Labels of the pods to wait for."),
            "timeoutSeconds": integer("Seconds to wait; 0 means without limit.", default=0,
                                      minimum=0),
        }),
    })


def driver():
    return obj("GPU driver.", {
        **fragments.operand("driver", "DRIVER_IMAGE"),
        "enabled": _switch("driver", True),
        "hostNetwork": fragments.host_network(),
        "resources": fragments.resources(),
        "certConfig": _named("Certificates for package repositories.",
                             "ConfigMap whose keys are the certificate files."),
        "kernelModuleConfig": _named("Parameters of the kernel modules.",
                                     "ConfigMap whose keys are the parameter files."),
        "kernelModuleType": string("Flavour of the kernel modules; auto lets the driver choose.",
                                   default="auto", enum=["auto", "open", "proprietary"]),
        "licensingConfig": obj("Licence of a vGPU guest.", {
            "configMapName": string("Deprecated: ConfigMap with gridd.conf; used without "
                                    "secretName."),
            "nlsEnabled": boolean("Use the client token of the NVIDIA Licence System."),
            "secretName": string("Secret with gridd.conf and client_configuration_token.tok."),
        }),
        "livenessProbe": fragments.probe("liveness"),
        "manager": fragments.driver_manager("driver's pods"),
        "rdma": obj("GPUDirect RDMA.", {
            "enabled": boolean("Load nvidia-peermem."),
            "useHostMofed": boolean("The network driver is installed on the node; only with "
                                    "enabled."),
        }),
        "readinessProbe": fragments.probe("readiness"),
        "repoConfig": obj("Package repositories.", {
            "configMapName": string("ConfigMap whose keys are the repository files."),
        }),
        "secretEnv": string("Secret whose keys become environment variables of the driver "
                            "container."),
        "startupProbe": fragments.probe("startup"),
        "upgradePolicy": upgrade_policy(),
        "useNvidiaDriverCRD": boolean("Leave the driver to NVIDIADriver objects."),
        "useOpenKernelModules": boolean("Deprecated and not used: see kernelModuleType."),
        "usePrecompiled": boolean("Use images with modules compiled for the node's kernel."),
        "virtualTopology": obj("Daemon of the vGPU topology.", {
            "config": string("ConfigMap with nvidia-topologyd.conf."),
        }),
    })


def driver_sidecar(what, variable):
    return obj(f"{what}, beside the driver.", {
        **fragments.operand(what, variable, args_used=False),
        "enabled": _switch(what, False),
    })


def operand(what, variable, unset, **members):
    return obj(f"{what[0].upper()}{what[1:]}.", {
        **fragments.operand(what, variable),
        "enabled": _switch(what, unset),
        "hostNetwork": fragments.host_network(),
        "resources": fragments.resources(),
        **members,
    })


def toolkit():
    schema = operand(
        "container toolkit", "CONTAINER_TOOLKIT_IMAGE", True,
        installDir=string("Folder on the node that the toolkit is installed in.",
                          default="/usr/local/nvidia"))
    schema["properties"]["args"] = strings("Accepted and not used.")
    return schema


def device_plugin():
    return operand(
        "device plugin", "DEVICE_PLUGIN_IMAGE", True,
        config=obj("Configuration shared by device plugin and feature discovery.", {
            "default": string("Key for nodes that do not choose one."),
            "name": string("ConfigMap with one configuration per key."),
        }),
        mps=obj("Multi-process service.", {
            "root": string("Folder on the node for its sockets and logs.",
                           default="/run/nvidia/mps"),
        }))


def dcgm():
    return operand("DCGM host engine", "DCGM_IMAGE", True,
                   hostPort=integer("Deprecated and not used.", bits=32))


def dcgm_exporter():
    return operand(
        "metrics exporter", "DCGM_EXPORTER_IMAGE", True,
        annotations=string_map("Annotations of the exporter's pods."),
        config=_named("Choice of metrics.", "ConfigMap with dcgm-metrics.csv."),
        enablePodLabels=boolean("Add the labels of the pod that uses a GPU to its metrics."),
        enablePodUID=boolean("Add the UID of the pod that uses a GPU to its metrics."),
        hostPID=boolean("Run in the node's process namespace."),
        hpcJobMapping=obj("Mapping of GPUs to batch jobs.", {
            "directory": string("Folder with the mapping files."),
            "enabled": boolean("Read the mapping files."),
        }),
        podLabelAllowlistRegex=strings("Expressions for the pod labels to add; empty for all."),
        service=obj("Service of the exporter.", {
            "internalTrafficPolicy": string("Cluster or Local."),
            "type": string("Type of the Service."),
        }),
        serviceMonitor=fragments.service_monitor("ServiceMonitor of the exporter."))


def mig_manager():
    return operand(
        "MIG manager", "MIG_MANAGER_IMAGE", True,
        config=_named("MIG layouts.", "ConfigMap with config.yaml.",
                      default=string("Layout that capable nodes without a label receive.",
                                     default="all-disabled", enum=["all-disabled", ""])),
        gpuClientsConfig=_named("Services on the node that use GPUs.",
                                "ConfigMap with their names."))


def validator():
    def step(what, container):
        return obj(f"Validation of the {what}.", {
            "env": fragments.env(f"Environment variables of the init container {container}."),
        })

    schema = operand(
        "validator", "VALIDATOR_IMAGE", True,
        cuda=step("CUDA workload", "cuda-validation"),
        driver=step("driver", "driver-validation"),
        plugin=step("device plugin", "plugin-validation"),
        toolkit=step("container toolkit", "toolkit-validation"),
        vfioPCI=step("VFIO binding", "vfio-pci-validation"),
        vgpuDevices=step("vGPU devices", "vgpu-devices-validation"),
        vgpuManager=step("vGPU manager", "vgpu-manager-validation"),
        qualification=obj("Tests of GPUs against what a good one of their model does. (Not in NVIDIA's definition.)", {
            "required": boolean("A GPU node that joins takes no pods before its GPUs have passed: until then it has the "
                                "taint nvidia.com/gpu-operator.not-qualified, which operands tolerate.", default=False),
        }))
    del schema["properties"]["enabled"]
    return schema


def vgpu_manager():
    return operand(
        "vGPU manager", "VGPU_MANAGER_IMAGE", False,
        driverManager=fragments.driver_manager("vGPU manager's pods"),
        kernelModuleConfig=_named("Parameters of the kernel modules.",
                                  "ConfigMap whose keys are the parameter files."))


def vgpu_device_manager():
    return operand(
        "vGPU device manager", "VGPU_DEVICE_MANAGER_IMAGE", False,
        config=_named("vGPU device layouts.", "ConfigMap with the layouts.",
                      default=string("Layout for nodes that do not choose one.",
                                     default="default")))


def kata_manager():
    runtime_class = obj("", {
        "artifacts!": obj("Not used.", {
            "pullSecret": string("Not used."),
            "url!": string("Not used."),
        }),
        "name!": string("Not used."),
        "nodeSelector": string_map("Not used."),
    })
    schema = operand("former Kata manager", "KATA_MANAGER_IMAGE", False, config=obj("Not used.", {
        "artifactsDir": string("Not used.",
                               default="/opt/nvidia-gpu-operator/artifacts/runtimeclasses"),
        "runtimeClasses": array("Not used.", bare(runtime_class)),
    }))
    schema["description"] = "Deprecated and not used."
    return schema


def spec():
    return obj("What the cluster should run.", {
        "operator!": operator(),
        "daemonsets!": daemonsets(),
        "psa": obj("Pod Security Admission.", {
            "enabled": boolean("Label the operator's namespace as privileged."),
        }),
        "psp": obj("Deprecated and not used.", {"enabled": boolean("Not used.")}),
        "hostPaths": obj("Folders of the node.", {
            "driverInstallDir": string("Root folder of the driver."),
            "kubeletRootDir": string("Root folder of the kubelet.", default="/var/lib/kubelet"),
            "rootFS": string("Root folder of the node."),
        }),
        "cdi": obj("Container Device Interface.", {
            "default": boolean("Deprecated and not used.", default=False),
            "enabled": boolean("Hand GPUs to containers through CDI.", default=True),
            "nriPluginEnabled": boolean("Inject devices through an NRI plugin, without any change "
                                        "to the container runtime's configuration.",
                                        default=False),
        }),
        "mig": obj("Multi-instance GPUs.", {
            "strategy": string("How MIG devices become resources.",
                               enum=["none", "single", "mixed"]),
        }),
        "sandboxWorkloads": obj("Virtual machines.", {
            "defaultWorkload": string("Workload of nodes without nvidia.com/gpu.workload.config.",
                                      default="container",
                                      enum=["container", "vm-passthrough", "vm-vgpu"]),
            "enabled": boolean("Manage the operands of virtual machines."),
            "mode": string("What runs the virtual machines.", default="kubevirt",
                           enum=["kubevirt", "kata"]),
        }),
        "driver!": driver(),
        "gds": driver_sidecar("GPUDirect Storage", "GDS_IMAGE"),
        "gdrcopy": driver_sidecar("GDRCopy", "GDRCOPY_IMAGE"),
        "toolkit!": toolkit(),
        "devicePlugin!": device_plugin(),
        "gfd!": operand("GPU feature discovery", "GFD_IMAGE", True),
        "migManager": mig_manager(),
        "validator": validator(),
        "dcgm!": dcgm(),
        "dcgmExporter!": dcgm_exporter(),
        "nodeStatusExporter!": operand("node status exporter", "VALIDATOR_IMAGE", False),
        "vgpuManager": vgpu_manager(),
        "vgpuDeviceManager": vgpu_device_manager(),
        "vfioManager": operand("VFIO manager", "VFIO_MANAGER_IMAGE", False,
                               driverManager=fragments.driver_manager("VFIO manager's pods")),
        "sandboxDevicePlugin": operand("device plugin for KubeVirt", "SANDBOX_DEVICE_PLUGIN_IMAGE",
                                       False),
        "kataSandboxDevicePlugin": operand("device plugin for Kata containers",
                                           "KATA_SANDBOX_DEVICE_PLUGIN_IMAGE", False),
        "ccManager": operand(
            "confidential computing manager", "CC_MANAGER_IMAGE", False,
            defaultMode=string("Mode of nodes without a label.", enum=["on", "off", "devtools"])),
        "kataManager": kata_manager(),
    })


def status():
    return obj("What the cluster does run.", {
        "conditions": fragments.conditions(),
        "namespace": string("Namespace of the operator that looks after this policy."),
        "state!": string("Sum of all operands; ignored: another ClusterPolicy is in charge.",
                         enum=["ignored", "ready", "notReady"]),
    })


def crd():
    return {
        "group": "nvidia.com",
        "kind": "ClusterPolicy",
        "plural": "clusterpolicies",
        "scope": "Cluster",
        "version": "v1",
        "status_subresource": True,
        "columns": [
            {"name": "Status", "type": "string", "jsonPath": ".status.state"},
            {"name": "Age", "type": "string", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "about": "Says which GPU software the nodes of the cluster should run, and how.",
        "properties": {"spec": spec(), "status": status()},
    }
