"""Which processes belong to a cluster.

Each process that the tool starts carries MARKER=<cluster> in its environment, and hands it on to its
children: so they are found by what they are, not by a list that an interruption may have left incomplete.
What runs inside containers lives in its node's pid namespace and ends with the node's first process.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import select
import signal
import time

from cluster.errors import ClusterError
from cluster.state import State

MARKER = "PITCREW_CLUSTER_PROCESS"
FOLDER = "PITCREW_CLUSTER_FOLDER"  # the state folder that the process belongs to
ROLE = "PITCREW_CLUSTER_ROLE"  # "control-plane" or the node's name
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclasses.dataclass(frozen=True)
class Process:
    pid: int
    role: str
    command: str
    resident_kib: int
    folder: str  # the state folder of the cluster that it belongs to
    namespace_pid: int  # its id inside its own pid namespace: 1 for a node's first process


def environment(cluster: str, role: str, extra: dict[str, str] | None = None) -> dict[str, str]:
    """A small environment of our own: a person's proxies and settings must not reach the cluster. How often Go's programs
    collect their garbage is no matter of what they do: tests let them do so less often."""
    collection = {"GOGC": os.environ["GOGC"]} if os.environ.get("GOGC") else {}
    folder = os.environ.get(FOLDER) or str(State(cluster).folder)
    return {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", MARKER: cluster, FOLDER: folder, ROLE: role,
            **collection, **(extra or {})}


def _environ(pid: int) -> dict[bytes, bytes]:
    data = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    return dict(entry.split(b"=", 1) for entry in data.split(b"\0") if b"=" in entry)


def _ancestors(pid: int) -> set[int]:
    found = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            break
        pid = int(stat.rpartition(")")[2].split()[1])
    return found


def of_cluster(cluster: str) -> list[Process]:
    found = []
    spared = _ancestors(os.getpid())
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in spared:
            continue
        pid = int(entry)
        try:
            environ = _environ(pid)
            if environ.get(MARKER.encode()) != cluster.encode():
                continue
            status = dict(line.split(":", 1) for line in
                          pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines() if ":" in line)
        except (OSError, ValueError):
            continue  # it has ended meanwhile
        if status["State"].split()[0] == "Z":
            continue
        found.append(Process(pid=pid, role=environ.get(ROLE.encode(), b"?").decode(), command=status["Name"].strip(),
                             folder=environ.get(FOLDER.encode(), b"?").decode(), resident_kib=int(status.get("VmRSS", "0").split()[0]),
                             namespace_pid=int(status["NSpid"].split()[-1])))
    return sorted(found, key=lambda process: process.pid)


def clusters() -> set[str]:
    """The names of all clusters that have a process."""
    names = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                name = _environ(int(entry)).get(MARKER.encode())
            except (OSError, ValueError):
                continue
            if name:
                names.add(name.decode())
    return names


def first_process(cluster: str, role: str) -> int | None:
    """The process id, as the machine sees it, of the first process of a node or of the control plane."""
    for process in of_cluster(cluster):
        if process.role == role and process.namespace_pid == 1:
            return process.pid
    return None


def refuse_foreign(cluster: str):
    """Raises when a cluster of this name is up that belongs to another state folder: it is not ours to touch."""
    own = str(State(cluster).folder)
    others = {process.folder for process in of_cluster(cluster)} - {own}
    if others:
        other = pathlib.Path(sorted(others)[0])
        raise ClusterError(f"a cluster `{cluster}` is up that belongs to the state folder {other}, not to {own}; "
                           f"use another name, or PITCREW_STATE={other.parent} to work with that one")


def end_all(cluster: str, seconds: float = 120.0) -> list[Process]:
    """Kills every process of the cluster and waits until it is gone. Returns those that did not go."""
    deadline = time.monotonic() + seconds
    while True:
        alive = of_cluster(cluster)
        if not alive or time.monotonic() > deadline:
            return alive
        # The first processes first: with each, its whole pid namespace goes.
        handles = []
        for process in sorted(alive, key=lambda process: process.namespace_pid != 1):
            try:
                handle = os.pidfd_open(process.pid)
                handles.append(handle)
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            except ProcessLookupError:
                continue
        poller = select.poll()
        for handle in handles:
            poller.register(handle, select.POLLIN)
        waiting = set(handles)
        while waiting and time.monotonic() < deadline:
            for handle, _ in poller.poll(max(0, (deadline - time.monotonic()) * 1000)):
                poller.unregister(handle)
                waiting.discard(handle)
        for handle in handles:
            os.close(handle)
