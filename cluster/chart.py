"""Installs the operator's Helm chart into the cluster and waits for the ClusterPolicy to be ready."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess
import threading

import yaml

from cluster import api, enter, images, timeline
from cluster.api import Api
from cluster.description import Cluster
from cluster.errors import ClusterError
from cluster.processes import PATH
from cluster.programs import Programs
from cluster.progress import Step
from cluster.state import State

NAMESPACE = "gpu-operator"
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
_CHART = images.ROOT / "deploy/chart/gpu-operator"
_TROUBLE = ("CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull",
            "ErrImagePull", "ImagePullBackOff", "RunContainerError")
_QUIET = ("Disabled", "NoGPUNodes")
_RECONCILED = "Reconciled"  # the reason of a policy that is ready because GPU nodes are, not for want of them
_VALUES = pathlib.Path(__file__).parent / "values.yaml"


def values_of(state: State, cluster: Cluster) -> list[pathlib.Path]:
    """The values that the cluster's own file asks for, as a file that Helm reads."""
    if not cluster.values:
        return []
    path = state.folder / "values.yaml"
    path.write_text(yaml.safe_dump(cluster.values, sort_keys=False), encoding="utf-8")
    return [path]


def digest(values: list[pathlib.Path]) -> str:
    """Of the chart and its values: the same digest, the same release."""
    total = hashlib.sha256()
    for path in [*sorted(path for path in _CHART.rglob("*") if path.is_file()), _VALUES, *values]:
        total.update(str(path).encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def helm(state: State, programs: Programs, arguments: list[str], log: pathlib.Path | None = None) -> int:
    """Runs helm against this cluster alone: none of a person's own helm folders is read or written."""
    home = state.folder / "helm"
    environment = {"PATH": PATH, "HOME": str(home), "KUBECONFIG": str(state.kubeconfig),
                   "HELM_CACHE_HOME": f"{home}/cache", "HELM_CONFIG_HOME": f"{home}/config",
                   "HELM_DATA_HOME": f"{home}/data"}
    with open(log or state.log("helm"), "ab") as output:
        return subprocess.run([programs.path("helm"), *arguments], env=environment, stdout=output, stderr=output,
                              check=False).returncode


def install(state: State, programs: Programs, values: list[pathlib.Path]):
    arguments = ["upgrade", "--install", "gpu-operator", str(_CHART), "--namespace", NAMESPACE, "--create-namespace",
                 "--values", str(_VALUES)]
    for path in values:
        arguments += ["--values", str(path)]
    if helm(state, programs, arguments) != 0:
        raise ClusterError("helm could not install the chart", str(state.log("helm")))


def uninstall(state: State, programs: Programs):
    if helm(state, programs, ["uninstall", "gpu-operator", "--namespace", NAMESPACE, "--wait"]) != 0:
        raise ClusterError("helm could not remove the release", str(state.log("helm")))


def restart_pods(client: Api, seconds: float):
    """Ends the operator's and its operands' pods and waits until as many are ready again, from the image that the
    nodes now have. Until then the policy still says "ready" of before, and a node's GPUs count as allocatable that no
    device plugin tells of."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    before = {pod["metadata"]["uid"]: api.has_condition(pod, "Ready") for pod in client.get(path)["items"]}
    client.delete(path, own_grace=True)
    for _ in client.watch(path, seconds):
        now = client.get(path)["items"]
        new = [pod for pod in now if pod["metadata"]["uid"] not in before]
        if len(new) == len(now) and sum(api.has_condition(pod, "Ready") for pod in new) >= sum(before.values()):
            return
    raise ClusterError(f"not all pods are back within {seconds:.0f} s. What is behind:\n"
                       + "\n".join(f"  {line}" for line in behind(client)))


def _tell_conditions(step: Step, policy: dict, told: dict[str, str]):
    status = policy.get("status", {})
    for condition in status.get("conditions", []):
        if condition.get("reason") in _QUIET:
            continue
        text = f"{condition['type']}={condition['status']} ({condition.get('reason', '')})"
        if condition["status"] != "True" and condition["type"] != "Error" and condition.get("message"):
            text += f": {condition['message']}"
        if told.get(condition["type"]) != text:
            told[condition["type"]] = text
            step.note(text[:220])


def _tell_pods(client: Api, step: Step, seconds: float):
    """Tells of pods in trouble while the wait goes on: each trouble once."""
    told: set[str] = set()
    try:
        for kind, pod in client.watch(f"/api/v1/namespaces/{NAMESPACE}/pods", seconds):
            if kind == "DELETED":
                continue
            for status in pod["status"].get("initContainerStatuses", []) + pod["status"].get("containerStatuses", []):
                waiting = status.get("state", {}).get("waiting") or {}
                key = f"{pod['metadata']['name']} {status['name']} {waiting.get('reason')}"
                if waiting.get("reason") in _TROUBLE and key not in told:
                    told.add(key)
                    step.note(f"{key} {waiting.get('message', '')}"[:220])
    except api.ApiError:
        return  # the main wait says what is wrong with the server


def await_ready(client: Api, step: Step, seconds: float, gpu_nodes: bool, told: dict[str, str]):
    """Tells each condition as it changes, until the policy's state is `ready`. Where there are GPU nodes, a policy
    that is ready because it knows of none does not count. `told` is what has been told of each condition before."""
    if not told:
        threading.Thread(target=_tell_pods, args=(client, step, seconds), daemon=True).start()
    state = "none yet"
    for kind, policy in client.watch(POLICIES, seconds):
        if kind == "DELETED":
            continue
        _tell_conditions(step, policy, told)
        state = policy.get("status", {}).get("state") or state
        # A status of before a change of the policy says nothing about the policy.
        ready = api.condition(policy, "Ready") or {}
        if (state == "ready" and ready.get("observedGeneration") == policy["metadata"]["generation"]
                and (not gpu_nodes or ready.get("reason") == _RECONCILED)):
            step.detail = f"ClusterPolicy {policy['metadata']['name']} is ready"
            return
    raise ClusterError(f"the ClusterPolicy is not ready within {seconds:.0f} s (state: {state}). "
                       "What is behind:\n" + "\n".join(f"  {line}" for line in behind(client)))


def await_allocatable(client: Api, step: Step, nodes: list[str], seconds: float):
    """Waits until each of the nodes offers its GPUs, to containers or to virtual machines."""
    waiting = set(nodes)
    if not waiting:
        return
    offered = {}
    for _, node in client.watch("/api/v1/nodes", seconds):
        name = node["metadata"]["name"]
        found = timeline.offered(node)
        if name in waiting and found:
            waiting.discard(name)
            offered[name] = timeline.in_words(found)
        if not waiting:
            step.detail = ", ".join(f"{name} {offered[name]}" for name in sorted(offered))
            return
    raise ClusterError(f"no GPUs are allocatable within {seconds:.0f} s on {', '.join(sorted(waiting))}. What is "
                       "behind:\n" + "\n".join(f"  {line}" for line in behind(client)))


def _container_problem(status: dict) -> str:
    waiting = status.get("state", {}).get("waiting")
    if waiting:
        return f"{status['name']}: {waiting.get('reason', 'waiting')} {waiting.get('message', '')}".strip()
    ended = status.get("state", {}).get("terminated") or {}
    if ended.get("exitCode"):
        return f"{status['name']}: ended with {ended['exitCode']} {ended.get('message', '')}".strip()
    if not status.get("ready") and not ended:
        return f"{status['name']}: running, not ready"
    return ""


def _last_words(client: Api, pod: dict) -> list[str]:
    """Of init containers that run on: what they wait for."""
    lines = []
    for status in pod["status"].get("initContainerStatuses", []):
        if "running" not in status.get("state", {}):
            continue
        name = pod["metadata"]["name"]
        try:
            said = client.log(NAMESPACE, name, container=status["name"], tailLines="3").splitlines()
        except api.ApiError as error:
            said = [f"its log cannot be read: {error}"]
        lines += [f"  {status['name']} says: {line}"[:300] for line in said]
    return lines


def _state_of_node(state: State, node: str, pods: list[dict]) -> list[str]:
    """What operands of a node tell each other, and which of them it has."""
    def condition(pod):
        if "deletionTimestamp" in pod["metadata"]:
            return "goes"
        return "ready" if api.has_condition(pod, "Ready") else "not ready"
    there = ", ".join(f"{pod['metadata']['name']} ({condition(pod)})" for pod in pods if pod["spec"].get("nodeName") == node)
    looked = enter.run(state, node, ["sh", "-c", "ls -Al --full-time /run/nvidia/validations; "
                                     "grep -c ' /run/nvidia/driver ' /proc/self/mountinfo"],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return [f"node {node} has the pods {there}; its files of validations, and mounts of a driver's root:",
            *[f"  {line}" for line in looked.stdout.splitlines()]]


def behind(client: Api, state: State | None = None) -> list[str]:
    """The pods that are not as they should be, each with its reason, and the latest warnings. With the cluster's state
    also what their nodes have."""
    lines, nodes = [], set()
    pods = client.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    for pod in pods:
        if api.has_condition(pod, "Ready") or pod["status"].get("phase") == "Succeeded":
            continue
        status = pod["status"]
        nodes.add(pod["spec"].get("nodeName"))
        reasons = [_container_problem(one) for one in
                   status.get("initContainerStatuses", []) + status.get("containerStatuses", [])]
        scheduled = api.condition(pod, "PodScheduled") or {}
        if scheduled.get("status") == "False":
            reasons.append(scheduled.get("message", ""))
        lines.append(f"pod {pod['metadata']['name']} on {pod['spec'].get('nodeName', 'no node')}: "
                     f"{status.get('phase')}; {'; '.join(reason for reason in reasons if reason)}"[:400])
        lines += _last_words(client, pod)
    for node in sorted(filter(None, nodes)) if state else []:
        lines += _state_of_node(state, node, pods)
    events = [event for event in client.get(f"/api/v1/namespaces/{NAMESPACE}/events")["items"]
              if event.get("type") == "Warning"]
    events.sort(key=lambda event: event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])
    lines += [f"event on {event['involvedObject'].get('name', '?')}: {event.get('reason')}: "
              f"{event.get('message', '')}"[:300] for event in events[-8:]]
    return lines or ["no pod of the operator is behind; see the operator's log: "
                     f"kubectl -n {NAMESPACE} logs deployment/gpu-operator"]
