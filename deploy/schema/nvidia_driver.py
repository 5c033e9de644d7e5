"""Schema of NVIDIADriver, nvidia.com/v1alpha1 (clusterpolicy-api.md sections 1, 3 and 5)."""

import cluster_policy
import fragments
from model import array, boolean, integer, obj, string, string_map, strings


def _config(about, name_about):
    return obj(about, {"name": string(name_about)})


def _constant(schema):
    """A field whose value stays what it was when the object was made."""
    return {**schema, "x-kubernetes-validations": [{
        "rule": "self == oldSelf",
        "message": "cannot be changed; create another NVIDIADriver instead",
    }]}


def _sidecar(what, variable):
    schema = cluster_policy.driver_sidecar(what, variable)
    schema["properties"]["image"]["description"] = (
        f"Image name of {what}, or a whole reference when repository and version are empty.")
    return schema


def _expressions(about):
    return array(about, {
        "type": "object", "required": ["key", "operator"],
        "properties": {
            "key": string("Key that the expression is about."),
            "operator": string("In, NotIn, Exists, DoesNotExist, Gt or Lt."),
            "values": strings("Values to compare with.", **{"x-kubernetes-list-type": "atomic"}),
        }}, **{"x-kubernetes-list-type": "atomic"})


def _node_selector_term():
    return {"matchExpressions": _expressions("Conditions on labels."),
            "matchFields": _expressions("Conditions on fields.")}


def node_affinity():
    """Accepted for upstream's sake; nothing reads it."""
    atomic_list = {"x-kubernetes-list-type": "atomic"}
    atomic = {"x-kubernetes-map-type": "atomic"}
    term = {"type": "object", "properties": _node_selector_term(), **atomic}
    return obj("Accepted and not used: see nodeSelector.", {
        "preferredDuringSchedulingIgnoredDuringExecution": array("Accepted and not used.", {
            "type": "object", "required": ["preference", "weight"],
            "properties": {
                "preference": obj("Nodes that are preferred.", _node_selector_term(), **atomic),
                "weight": integer("How much.", bits=32),
            }}, **atomic_list),
        "requiredDuringSchedulingIgnoredDuringExecution": obj("Accepted and not used.", {
            "nodeSelectorTerms!": array("Terms, of which one has to hold.", term, **atomic_list),
        }, **atomic),
    })


def upgrade_policy():
    schema = cluster_policy.upgrade_policy()
    schema["properties"]["autoUpgrade"]["default"] = True
    return schema


def spec():
    image = fragments.image("driver")
    image["image"] = string("Image name of the driver, or a whole reference when repository and version are empty.",
                            default="nvcr.io/nvidia/driver")
    policy = cluster_policy.driver()["properties"]
    image_name = image.pop("image")
    return obj("The driver, and the nodes that it is for.", {
        **image,
        "image!": image_name,
        "annotations": string_map("Annotations of the DaemonSets and their pods."),
        "args": strings("Arguments of the driver container after the built-in one."),
        "certConfig": policy["certConfig"],
        "default!": boolean("This driver is for the nodes that no other NVIDIADriver selects.", default=False),
        "driverType!": _constant(string(
            "gpu: for containers; vgpu: for the guests of vGPUs; vgpu-host-manager: for hosts that share GPUs between"
            " virtual machines.", default="gpu", enum=["gpu", "vgpu", "vgpu-host-manager"])),
        "env": fragments.env(),
        "gdrcopy": _sidecar("GDRCopy", None),
        "gds": _sidecar("GPUDirect Storage", None),
        "hostNetwork": fragments.host_network(),
        "kernelModuleConfig": policy["kernelModuleConfig"],
        "kernelModuleType": policy["kernelModuleType"],
        "labels": string_map("Labels of the DaemonSets and their pods; app and app.kubernetes.io/* are left out."),
        "licensingConfig": obj("Licence of a vGPU guest.", {
            "name": string("Deprecated: ConfigMap with gridd.conf; used without secretName."),
            "nlsEnabled": boolean("Use the client token of the NVIDIA Licence System. Left out it means true."),
            "secretName": string("Secret with gridd.conf and client_configuration_token.tok."),
        }),
        "livenessProbe": {**fragments.probe("liveness"), "description": "Accepted and not used."},
        "manager": fragments.driver_manager("driver's pods"),
        "nodeAffinity": node_affinity(),
        "nodeSelector": string_map("Labels of the nodes that this driver is for; left out, all nodes with a GPU. A"
                                   " default driver has none."),
        "podSecurityContext": fragments.pod_security_context("Security context of the pods."),
        "priorityClassName": string("Priority class of the pods. Left out it means system-node-critical."),
        "rdma": policy["rdma"],
        "readinessProbe": {**fragments.probe("readiness"), "description": "Accepted and not used."},
        "repoConfig": _config("Package repositories.", "ConfigMap whose keys are the repository files."),
        "resources": fragments.resources(),
        "secretEnv": policy["secretEnv"],
        "startupProbe": fragments.probe("startup"),
        "tolerations": fragments.tolerations("Tolerations of the pods, after the built-in one for nvidia.com/gpu."),
        "upgradePolicy": upgrade_policy(),
        "useOpenKernelModules": boolean("Deprecated and not used: see kernelModuleType."),
        "usePrecompiled": _constant(boolean("Use images with modules compiled for the node's kernel.")),
        "virtualTopologyConfig": _config("Daemon of the vGPU topology.", "ConfigMap with nvidia-topologyd.conf."),
    }, **{"x-kubernetes-validations": [{
        "rule": "has(self.default) && self.default ? !has(self.nodeSelector) || size(self.nodeSelector) == 0 : true",
        "message": "a default NVIDIADriver has no nodeSelector",
    }]})


def status():
    return obj("How far the driver is.", {
        "conditions": fragments.conditions(),
        "namespace": string("Namespace of the operator that looks after this driver."),
        "state!": string("Sum of all pools of nodes; disabled: the ClusterPolicy describes the driver.",
                         enum=["ignored", "ready", "notReady", "disabled"]),
    })


def crd():
    return {
        "group": "nvidia.com",
        "kind": "NVIDIADriver",
        "plural": "nvidiadrivers",
        "short_names": ["nvd", "nvdriver", "nvdrivers"],
        "scope": "Cluster",
        "version": "v1alpha1",
        "status_subresource": True,
        "columns": [
            {"name": "Status", "type": "string", "jsonPath": ".status.state"},
            {"name": "Default", "type": "boolean", "jsonPath": ".spec.default"},
            {"name": "Age", "type": "string", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "about": "Describes a GPU driver and the nodes that it is for.",
        "properties": {"spec": spec(), "status": status()},
    }
