"""`make cluster-status`: nodes, processes, GPUs."""

from __future__ import annotations

from cluster import api, down, processes, progress, showcase, timeline
from cluster.api import Api
from cluster.errors import ClusterError
from cluster.state import State


def _nodes(client: Api, record: dict):
    described = {node["name"]: node for node in record["description"]["nodes"]}
    rows = []
    for node in sorted(client.get("/api/v1/nodes")["items"], key=lambda item: item["metadata"]["name"]):
        name = node["metadata"]["name"]
        address = next((entry["address"] for entry in node["status"].get("addresses", [])
                        if entry["type"] == "InternalIP"), "-")
        gpus = showcase.gpus_in_words(described[name]) if name in described else "-"
        rows.append([name, "Ready" if api.has_condition(node, "Ready") else "not Ready", address, gpus,
                     described.get(name, {}).get("driver", "-"), timeline.in_words(timeline.offered(node))])
    progress.heading("Nodes")
    progress.table(rows, ["node", "state", "address", "simulated GPUs", "host driver", "allocatable GPUs"])


def _processes(cluster: str):
    rows = [[process.role, process.command, process.pid, f"{process.resident_kib / 1024:.0f} MiB"]
            for process in sorted(processes.of_cluster(cluster), key=lambda one: (one.role, one.pid))]
    progress.heading("Processes")
    progress.table(rows, ["where", "program", "process id", "memory"])


def show(cluster: str):
    state = State(cluster)
    record = state.read()
    if record is None or not processes.of_cluster(cluster):
        others = [name for name in down.clusters() if name != cluster]
        print(f"Cluster `{cluster}` is not up." + (f" These exist: {', '.join(others)}." if others else ""))
        if down.traces(cluster):
            print(f"Remains of it are there; `make down NAME={cluster}` takes them away.")
        return
    print(f"Cluster `{cluster}` ({'up' if record['phase'] == 'up' else 'its start was not completed'}), "
          f"from {record['file']}\nexport KUBECONFIG={state.kubeconfig}")
    _processes(cluster)
    client = Api(state.kubeconfig)
    try:
        _nodes(client, record)
    except ClusterError as error:
        raise ClusterError(f"the API server does not answer: {error}",
                           str(state.log("control-plane-kube-apiserver"))) from error
    policies = client.find("/apis/nvidia.com/v1/clusterpolicies")
    for policy in (policies or {}).get("items", []):
        print(f"\nClusterPolicy {policy['metadata']['name']}: {policy.get('status', {}).get('state', 'no state yet')}")
