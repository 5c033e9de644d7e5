"""The end of `make up`: pods that use GPUs, shown from inside, and the table of nodes, GPUs and seconds."""

from __future__ import annotations

import pathlib

import yaml

from cluster import api, progress, timeline
from cluster.api import Api
from cluster.errors import ClusterError
from cluster.state import State

_SAMPLES = pathlib.Path(__file__).parent / "samples"
_PODS = "/api/v1/namespaces/default/pods"
_SECONDS = 180.0


def sample(name: str) -> dict:
    return yaml.safe_load((_SAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))


def _create(client: Api, name: str):
    """Creates the sample pod; one that is there from an earlier time is removed first."""
    if client.find(f"{_PODS}/{name}") is not None:
        client.delete(f"{_PODS}/{name}")
        client.wait_gone(_PODS, name, _SECONDS)
    client.create(_PODS, sample(name))


def _why(pod: dict | None) -> str:
    if pod is None:
        return "it is not there"
    scheduled = api.condition(pod, "PodScheduled") or {}
    states = [one.get("state", {}).get("waiting", {}) for one in pod["status"].get("containerStatuses", [])]
    return "; ".join(filter(None, [pod["status"].get("phase"), scheduled.get("message"), pod["status"].get("message"),
                                   *(f"{one.get('reason')}: {one.get('message', '')}" for one in states if one)]))


def _ready_or_done(pod: dict) -> bool:
    return api.has_condition(pod, "Ready") or pod["status"].get("phase") in ("Succeeded", "Failed")


def show_one_gpu(client: Api) -> list[str]:
    """What the pod with one GPU sees, line by line."""
    with progress.step("a pod with one GPU") as step:
        _create(client, "one-gpu")
        pod = client.wait(_PODS, "one-gpu", _SECONDS, _ready_or_done)
        if pod is None or pod["status"]["phase"] == "Failed":
            raise ClusterError(f"the pod one-gpu does not run: {_why(client.find(f'{_PODS}/one-gpu'))}")
        step.detail = f"runs on {pod['spec']['nodeName']}"
    return client.log("default", "one-gpu").splitlines()


def show_too_many(client: Api):
    with progress.step("a pod that asks for too many") as step:
        _create(client, "too-many-gpus")
        pod = client.wait(_PODS, "too-many-gpus", _SECONDS, lambda one: bool(
            (api.condition(one, "PodScheduled") or {}).get("message")))
        if pod is None:
            raise ClusterError("the scheduler says nothing about the pod too-many-gpus")
        step.detail = f"{pod['status']['phase']}: {api.condition(pod, 'PodScheduled')['message']}"


def show_no_gpu(client: Api):
    with progress.step("a pod on a node without GPU") as step:
        _create(client, "no-gpu")
        pod = client.wait(_PODS, "no-gpu", _SECONDS, lambda one: one["status"].get("phase") in ("Succeeded", "Failed"))
        if pod is None or pod["status"]["phase"] != "Succeeded":
            raise ClusterError(f"the pod no-gpu does not run: {_why(client.find(f'{_PODS}/no-gpu'))}")
        step.detail = f"{pod['spec']['nodeName']}: " + ", ".join(client.log("default", "no-gpu").split("\n")).strip(", ")


def gpus_in_words(node: dict) -> str:
    if node["machine_gpus"]:
        return "the machine's"
    return ", ".join(f"{entry.get('count', 1)} x {entry['profile']}" for entry in node["gpus"]) or "none"


def show_table(client: Api, described: list[dict], seconds: dict[str, dict[str, float]]):
    """Nodes with their GPUs, and the seconds of each stage since the node joined."""
    gpus = {node["name"]: gpus_in_words(node) for node in described}
    nodes = sorted(client.get("/api/v1/nodes")["items"], key=lambda node: node["metadata"]["name"])
    rows = []
    for node in nodes:
        labels = node["metadata"].get("labels", {})
        joined = seconds.get(node["metadata"]["name"], {})
        allocatable = joined.get(timeline.ALLOCATABLE)
        rows.append([node["metadata"]["name"], gpus.get(node["metadata"]["name"], "-"),
                     labels.get("nvidia.com/gpu.product", "-"), timeline.in_words(timeline.offered(node)),
                     f"{allocatable:.1f} s" if allocatable is not None else "-"])
    progress.heading("Nodes")
    progress.table(rows, ["node", "GPUs", "nvidia.com/gpu.product", "allocatable", "after"])
    names = [node["metadata"]["name"] for node in nodes]
    stages = [stage for stage in timeline.STAGES if any(stage in seconds.get(name, {}) for name in names)]
    if stages:
        progress.heading("Seconds since the node joined the cluster")
        progress.table([[stage, *(f"{seconds[name][stage]:.1f}" if stage in seconds.get(name, {}) else "-"
                                  for name in names)] for stage in stages], ["stage", *names])


def show_all(client: Api):
    """The three pods; those for which the cluster has no node are left out, and that is said."""
    nodes = client.get("/api/v1/nodes")["items"]
    if any(timeline.gpus(node) for node in nodes):
        lines = show_one_gpu(client)
        for line in lines:
            print(f"      {line}")
        show_too_many(client)
    else:
        print("  no node has GPUs: the pods that use them are left out")
    if any(node["metadata"].get("labels", {}).get("nvidia.com/gpu.present") != "true" for node in nodes):
        show_no_gpu(client)
    else:
        print("  every node has GPUs: the pod on a node without is left out")


def show_next(state: State, kubectl_folder: str, bare: bool):
    name = "" if state.name == "local" else f" NAME={state.name}"
    progress.heading("Ready to paste")
    print(f"  export KUBECONFIG={state.kubeconfig}\n  export PATH={kubectl_folder}:$PATH")
    progress.heading("What to try next")
    if bare:
        print("  kubectl get nodes                                the nodes; a chart brings the operator")
    else:
        print("  kubectl get clusterpolicy                        the policy and its state\n"
              "  kubectl get pods -A -o wide                      the operator, its operands and the sample pods\n"
              "  kubectl exec one-gpu -- pitcrew smi              the GPU of the first sample pod\n"
              "  kubectl describe pod too-many-gpus               why the second one waits")
    print(f"  make cluster-status{name:<30}nodes, processes, GPUs\n"
          f"  make down{name:<40}take it all away again")
