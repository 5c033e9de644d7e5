"""A file of a small fleet in which something of every kind is wrong, for the tests and the pictures of the page."""

import copy
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))

import status_scale  # noqa: E402  pylint: disable=wrong-import-position

SPACE = status_scale.SPACE
NOW, EARLIER = status_scale.NOW, "2026-01-05T11:48:00Z"
HEALTHY = 4  # an index of status_scale.py whose node and pods are well
COUNT = 24


def node(name):
    made = status_scale.node(HEALTHY)
    made["metadata"]["name"] = name
    made["status"]["nodeInfo"] = {"kernelVersion": "6.8.0-60-generic", "osImage": "Ubuntu 22.04.5 LTS",
                                  "containerRuntimeVersion": "containerd://2.2.0"}
    made["metadata"]["labels"] |= {
        "kubernetes.io/hostname": name, "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/cuda.driver-version.full": "580.95.05", "nvidia.com/mig.strategy": "mixed"}
    return made


def pods(name):
    for operand in status_scale.OPERANDS:
        made = status_scale.pod(operand, HEALTHY)
        made["metadata"]["name"] = f"{operand}-{name}"
        made["spec"]["nodeName"] = name
        yield made


def offer(made, capacity, allocatable):
    made["status"]["capacity"], made["status"]["allocatable"] = capacity, allocatable


def fail(made, reason, message):
    made["status"]["phase"] = "Pending"
    made["status"]["conditions"] = [{"type": "Ready", "status": "False", "lastTransitionTime": EARLIER}]
    made["status"]["containerStatuses"][0] |= {"ready": False, "state": {"waiting": {"reason": reason, "message": message}}}


def user_pod(name, node_name, resource, number):
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team", "creationTimestamp": EARLIER},
            "spec": {"containers": [{"name": "main", "image": "registry.example/train",
                                     "resources": {"limits": {resource: str(number)}}}]}}
    if node_name:
        made["spec"]["nodeName"] = node_name
        made["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": EARLIER}]}
    else:
        made["status"] = {"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": f"0/{COUNT} nodes are available: {COUNT} Insufficient {resource}."}]}
    return made


def objects():
    nodes = {name: node(name) for name in (*(f"gpu-{index:02}" for index in range(COUNT - 1)), "gpu-markup")}
    operands = {name: list(pods(name)) for name in nodes}
    for name in ("gpu-03", "gpu-04", "gpu-17"):
        fail(operands[name][0], "ImagePullBackOff",
             'Failed to pull image "nvcr.io/nvidia/driver:580.95.05-ubuntu22.04": rpc error: code = NotFound: not found')
    fail(operands["gpu-markup"][0], "ImagePullBackOff", "unauthorized: <img src=x onerror=alert(1)>")
    fail(operands["gpu-09"][3], "CrashLoopBackOff", "back-off 5m0s restarting failed container")
    offer(nodes["gpu-11"], {"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "7"})
    nodes["gpu-14"]["spec"]["unschedulable"] = True
    nodes["gpu-20"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                                                "message": "Kubelet stopped posting node status.", "lastTransitionTime": EARLIER}]
    divided = {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "16", "nvidia.com/mig-3g.40gb": "4"}
    for name in ("gpu-06", "gpu-07"):
        offer(nodes[name], divided, copy.deepcopy(divided))
    for name in ("gpu-12", "gpu-13"):
        nodes[name]["metadata"]["labels"] |= {"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.count": "4",
                                              "nvidia.com/gpu.memory": "23034"}
        offer(nodes[name], {"nvidia.com/gpu": "4"}, {"nvidia.com/gpu": "4"})
    yield from status_scale.objects(COUNT)
    for name, made in nodes.items():
        yield made
        yield from operands[name]
    yield user_pod("train-0", "gpu-00", "nvidia.com/gpu", 8)
    yield user_pod("serve-7f9c", "gpu-06", "nvidia.com/mig-1g.10gb", 1)
    yield user_pod("train-1", "", "nvidia.com/gpu", 8)
    yield user_pod("train-2", "", "nvidia.com/gpu", 16)
    yield user_pod("notebook-3", "", "nvidia.com/mig-2g.20gb", 1)
    # The moment at which all this is so.
    yield {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "now", "namespace": "team"}, "type": "Warning",
           "reason": "Test", "message": "", "lastTimestamp": NOW, "involvedObject": {"kind": "Pod", "name": "x", "namespace": "team"}}


def write_small(file):
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects())}), encoding="utf-8")
