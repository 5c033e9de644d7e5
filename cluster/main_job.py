"""The main job on a cluster that is up: the operator, until its policy is ready, and pods that use GPUs."""

from __future__ import annotations

import pathlib

from cluster import chart, progress, showcase
from cluster.api import Api
from cluster.errors import MalformedInput
from cluster.programs import Programs
from cluster.state import State
from cluster.timeline import Timeline

_POLICY_READY = 600.0  # seconds
_ALLOCATABLE = 180.0


def _install(state: State, programs: Programs, values: list[pathlib.Path], client: Api):
    for path in values:
        if not path.is_file():
            raise MalformedInput(f"{path}: there is no such file; give a Helm values file")
    record = state.read()
    digest = chart.digest(values)
    with progress.step("operator: Helm chart") as step:
        if record.get("chart") == digest:
            step.detail = "installed already, unchanged"
        else:
            chart.install(state, programs, values)
            step.detail = f"release gpu-operator in namespace {chart.NAMESPACE}"
            record["chart"] = digest
        if record.pop("restart", False):
            chart.restart_pods(client, _POLICY_READY)
            step.detail += "; pods restarted for the new images"
        state.write(record)


def run(state: State, programs: Programs, values: list[pathlib.Path], history: Timeline | None):
    """`history` is None on a cluster that was up before: what its nodes went through then was recorded then."""
    client = Api(state.kubeconfig)
    progress.heading("The operator")
    _install(state, programs, values, client)
    gpu_nodes = [node["name"] for node in state.read()["description"]["nodes"]
                 if node["gpus"] or node["machine_gpus"]]
    told: dict[str, str] = {}
    with progress.step("operator: policy ready") as step:
        chart.await_ready(client, step, _POLICY_READY, bool(gpu_nodes), told)
    with progress.step("GPUs allocatable") as step:
        chart.await_allocatable(client, step, gpu_nodes, _ALLOCATABLE)
    # The policy may have been ready before the last of the nodes was known to be one with GPUs.
    with progress.step("operator: every node validated") as step:
        chart.await_ready(client, step, _POLICY_READY, bool(gpu_nodes), told)
    progress.heading("Pods")
    showcase.show_all(client)
    record = state.read()
    if history is not None:
        record["seconds"] = history.since_joined()
        state.write(record)
    showcase.show_table(client, record["description"]["nodes"], record.get("seconds", {}))
