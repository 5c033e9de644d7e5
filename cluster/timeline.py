"""When each node reached each stage, seen through watches while it happens: finer than Kubernetes' own
timestamps, which are whole seconds."""

from __future__ import annotations

import threading
import time

from cluster import api

_PREFIX = "nvidia.com/"
GPU_RESOURCE = f"{_PREFIX}gpu"
_NAMESPACE = "gpu-operator"
_LONGEST = 3600.0
# Stages in the order in which they are shown. Those of pods are reached when the pod on the node is Ready.
JOINED = "joined the cluster"
READY = "node Ready"
PCI = "GPU found on the PCI bus (label)"
PRESENT = "chosen as a GPU node (label)"
ALLOCATABLE = "GPUs allocatable"
OPERANDS = {
    "nvidia-driver-daemonset": "driver ready",
    "nvidia-container-toolkit-daemonset": "container toolkit ready",
    "nvidia-device-plugin-daemonset": "device plugin ready",
    "gpu-feature-discovery": "feature discovery ready",
    "nvidia-operator-validator": "validated",
    "nvidia-vfio-manager": "VFIO manager ready",
    "nvidia-vgpu-manager-daemonset": "vGPU manager ready",
    "nvidia-vgpu-device-manager": "vGPU device manager ready",
    "nvidia-sandbox-device-plugin-daemonset": "device plugin for VMs ready",
    "nvidia-sandbox-validator": "validated for VMs",
}
STAGES = [JOINED, READY, PCI, PRESENT, "driver ready", "container toolkit ready", "VFIO manager ready",
          "vGPU manager ready", "vGPU device manager ready", "validated for VMs", "device plugin ready",
          "device plugin for VMs ready", ALLOCATABLE, "feature discovery ready", "validated"]


def offered(node: dict) -> dict[str, int]:
    """What the node has for containers and virtual machines, by its resource without `nvidia.com/`."""
    resources = node.get("status", {}).get("allocatable", {})
    return {name.removeprefix(_PREFIX): int(count) for name, count in sorted(resources.items())
            if name.startswith(_PREFIX) and count != "0"}


def in_words(resources: dict[str, int]) -> str:
    """Of whole GPUs only their number."""
    return ", ".join(str(count) if name == "gpu" else f"{count} {name}" for name, count in resources.items()) or "0"


def gpus(node: dict) -> int:
    """The whole GPUs that the node offers, 0 when it offers none."""
    return int(node.get("status", {}).get("allocatable", {}).get(GPU_RESOURCE, "0"))


class Timeline:
    def __init__(self, client: api.Api):
        self._client = client
        self._lock = threading.Lock()
        self._seen: dict[str, dict[str, float]] = {}  # node -> stage -> time.time()
        for path, take in (("/api/v1/nodes", self._take_node),
                           (f"/api/v1/namespaces/{_NAMESPACE}/pods", self._take_pod)):
            threading.Thread(target=self._follow, args=(path, take), daemon=True).start()

    def _follow(self, path: str, take):
        try:
            for kind, item in self._client.watch(path, _LONGEST):
                if kind != "DELETED":
                    take(item)
        except api.ApiError:
            return  # the table then shows fewer stages; whoever waits for them says what is wrong

    def _reached(self, node: str, stage: str):
        with self._lock:
            self._seen.setdefault(node, {}).setdefault(stage, time.time())

    def _take_node(self, node: dict):
        name = node["metadata"]["name"]
        labels = node["metadata"].get("labels", {})
        self._reached(name, JOINED)
        if api.has_condition(node, "Ready"):
            self._reached(name, READY)
        if labels.get("feature.node.kubernetes.io/pci-10de.present") == "true":
            self._reached(name, PCI)
        if labels.get("nvidia.com/gpu.present") == "true":
            self._reached(name, PRESENT)
        if offered(node):
            self._reached(name, ALLOCATABLE)

    def _take_pod(self, pod: dict):
        labels = pod["metadata"].get("labels", {})
        app = labels.get("app") or labels.get("name", "")  # the VFIO manager's pods have no `app`
        node = pod.get("spec", {}).get("nodeName")
        if app in OPERANDS and node and api.has_condition(pod, "Ready"):
            self._reached(node, OPERANDS[app])

    def since(self, node: str, moment: float) -> dict[str, float]:
        """{stage: seconds between `moment` (time.time()) and the node's reaching it}, of those reached after it."""
        with self._lock:
            return {stage: reached - moment for stage, reached in self._seen.get(node, {}).items() if reached > moment}

    def since_joined(self) -> dict[str, dict[str, float]]:
        """{node: {stage: seconds since the node joined}}."""
        with self._lock:
            return {node: {stage: moment - stages[JOINED] for stage, moment in stages.items()}
                    for node, stages in self._seen.items() if JOINED in stages}
