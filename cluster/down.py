"""Takes a cluster down and leaves nothing: no process, mount, namespace, interface, control group or file.

What belongs to the cluster is found by its marks (processes.MARKER, the names of the interface and of the
control groups), not by the record alone: it works after an interruption at any moment.
"""

from __future__ import annotations

from cluster import cgroups, network, processes, progress, state
from cluster.errors import ClusterError
from cluster.state import State


def traces(cluster: str) -> list[str]:
    """What there is of a cluster on the machine, in words; empty when nothing is."""
    found = [f"process {process.pid} ({process.command})" for process in processes.of_cluster(cluster)]
    if network.interface(cluster) in network.interfaces():
        found.append(f"interface {network.interface(cluster)}")
    found += [f"control group {path}" for path in cgroups.existing(cluster)]
    folder = State(cluster).folder
    if folder.exists():
        found.append(f"folder {folder}")
    return found


def remove(cluster: str):
    """Takes everything of the cluster away, step by step. The caller holds the cluster's lock."""
    with progress.step("processes and namespaces") as step:
        count = len(processes.of_cluster(cluster))
        left = processes.end_all(cluster)
        if left:
            raise ClusterError("these processes do not end: " + ", ".join(f"{p.pid} {p.command}" for p in left))
        step.detail = f"{count} processes ended; their mounts and networks went with them"
    with progress.step("network interface"):
        network.disconnect(cluster)
    with progress.step("control groups"):
        cgroups.remove(cluster)
    with progress.step("state folder") as step:
        own = State(cluster)
        own.remove()
        step.detail = str(own.folder)
    left = traces(cluster)
    if left:
        raise ClusterError("something is left of the cluster: " + "; ".join(left))


def clusters() -> list[str]:
    """All clusters of which anything is on this machine."""
    names = set(state.known_clusters()) | processes.clusters() | cgroups.clusters()
    names |= {name.removeprefix("pitcrew-") for name in network.interfaces()}
    return sorted(names)


def down(cluster: str):
    own = State(cluster)
    processes.refuse_foreign(cluster)
    if not traces(cluster):
        print(f"There is no cluster `{cluster}`.")
        others = clusters()
        if others:
            print(f"These exist: {', '.join(others)} (make down NAME=...)")
        return
    with own.lock():
        progress.heading(f"Taking cluster `{cluster}` down")
        remove(cluster)
    print(f"\nCluster `{cluster}` is gone; nothing of it is left on this machine.")
