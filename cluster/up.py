"""Brings a cluster up: control plane, nodes, images, until every node is Ready."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys

from cluster import (api, cgroups, certificates, control_plane, down, images, leash, linux, network, node,
                     node_root, processes, progress)
from cluster.description import Cluster
from cluster.errors import ClusterError, MalformedInput
from cluster.leash import Started
from cluster.programs import Programs
from cluster.state import State
from cluster.timeline import Timeline

_TOOLS = {"ip": "iproute2", "nsenter": "util-linux", "openssl": "openssl"}
_STARTED = 180.0  # seconds for a start that on an idle machine takes one or two; a busy one is no failure
_NODES_READY = 300.0


def check_prerequisites():
    if sys.platform != "linux":
        raise ClusterError(f"the local cluster needs Linux, and this is {sys.platform}")
    if os.geteuid() != 0:
        raise ClusterError("the local cluster makes namespaces, mounts and control groups, which needs root; "
                           "run the command as root (or with sudo)")
    missing = [f"{tool} (Debian package {package})" for tool, package in _TOOLS.items() if not shutil.which(tool)]
    if missing:
        raise ClusterError(f"missing: {', '.join(missing)}; `make setup` installs what is missing")
    filesystems = pathlib.Path("/proc/filesystems").read_text(encoding="ascii")
    if "\toverlay\n" not in filesystems:
        raise ClusterError("this kernel has no overlay file system (no `overlay` in /proc/filesystems)")
    check_root()


def check_root(mountinfo: pathlib.Path = pathlib.Path("/proc/self/mountinfo")):
    """A namespace's mounts are made its own from its root on, which has to be one."""
    if "/" not in linux.mount_points(mountinfo):
        raise ClusterError("the local cluster makes mount namespaces, which cannot be done in a chroot whose root is no "
                           "mount point; enter it with `systemd-nspawn --directory=FOLDER`, or by pivot_root in a mount "
                           "namespace")


def check_machine_gpus(name: str, sysfs: pathlib.Path = pathlib.Path("/sys"), proc: pathlib.Path = pathlib.Path("/proc")):
    if not node_root.find_machine_gpus(sysfs):
        raise ClusterError(f"node {name} is to have the machine's GPUs, and the machine has none (no device of NVIDIA's "
                           f"in {sysfs}/bus/pci/devices); simulated ones: `gpus: [{{profile: H100-80, count: 8}}]`")
    if not (proc / "driver/nvidia/version").exists():
        raise ClusterError(f"node {name} is to have the machine's GPUs, and their driver is not loaded (no "
                           f"{proc}/driver/nvidia/version); nodes of a local cluster share the machine's kernel, so "
                           "load NVIDIA's driver first")


def check_gpus(cluster: Cluster, simulation: images.Simulation | None):
    """Lets the simulation itself read each node's GPUs, and looks for the machine's, before anything is made."""
    for one in cluster.nodes:
        if one.machine_gpus:
            check_machine_gpus(one.name)
        if not one.gpus:
            continue
        if simulation is None:
            raise ClusterError(f"node {one.name} has GPUs, but there is no pitcrew-simulate to simulate them; "
                               "build it with `make build`")
        problem = simulation.check(node.gpu_description_in_place(one), cluster.path)
        if problem:
            raise MalformedInput(f"{problem} (node {one.name})")


def is_complete(state: State, cluster: Cluster) -> bool:
    """Whether this very cluster is up. Raises when one of the same name but another description is."""
    record = state.read()
    if record is None or record.get("phase") != "up":
        return False
    roles = [control_plane.ROLE, *(one["name"] for one in record["description"]["nodes"])]
    if any(processes.first_process(state.name, role) is None for role in roles):
        return False
    if record["description"] != cluster.plain():
        raise ClusterError(f"cluster `{cluster.name}` is up with another description than {cluster.path}; take it "
                           f"down first (`make down NAME={cluster.name}`), or give this one another name")
    return True


def _taken_subnets() -> set[str]:
    records = [State(other).read() or {} for other in down.clusters()]
    return {record["subnet"] for record in records if record.get("subnet")}


def _record(state: State, cluster: Cluster, subnet: str) -> dict:
    with progress.step("record") as step:
        record = {"phase": "starting", "subnet": subnet, "description": cluster.plain(), "file": str(cluster.path)}
        state.write(record)
        (state.folder / "log").mkdir(exist_ok=True)
        step.detail = str(state.folder)
    return record


def _start_control_plane(state: State, programs: Programs, subnet: str) -> Started:
    with progress.step("control plane: namespaces") as step:
        started = Started(state.name, control_plane.specification(state, programs, subnet), state.folder / "specs")
        leash.wait([started], "namespaces", _STARTED)
        network.connect_control_plane(state.name, subnet, started.pid)
        started.network_ready()
        leash.wait([started], "booted", _STARTED)
        step.detail = f"nodes' network {subnet}"
    with progress.step("control plane: etcd"):
        leash.wait([started], "ready etcd", _STARTED)
    with progress.step("control plane: kube-apiserver") as step:
        leash.wait([started], "ready kube-apiserver", _STARTED)
        step.detail = control_plane.server(subnet)
    with progress.step("control plane: controllers"):
        for service in ("kube-controller-manager", "kube-scheduler"):
            leash.wait([started], f"started {service}", _STARTED)
    return started


def _start_nodes(state: State, cluster: Cluster, programs: Programs, subnet: str, control_pid: int) -> list[Started]:
    with progress.step("nodes: control groups"):
        for one in cluster.nodes:
            cgroups.create(state.name, one.name)
    with progress.step("nodes: namespaces") as step:
        started = [Started(state.name, node.specification(state, programs, cluster.nodes, index, subnet),
                           state.folder / "specs") for index in range(len(cluster.nodes))]
        leash.wait(started, "namespaces", _STARTED)
        network.connect_nodes(subnet, control_pid, [one.pid for one in started])
        for one in started:
            one.network_ready()
        step.detail = ", ".join(one.role for one in started)
    with progress.step("nodes: file systems and devices"):
        leash.wait(started, "booted", _STARTED)
    with progress.step("nodes: containerd"):
        leash.wait(started, "ready containerd", _STARTED)
    return started


def _await_ready_nodes(state: State, cluster: Cluster):
    waiting = {one.name for one in cluster.nodes}
    client = api.Api(state.kubeconfig)
    with progress.step("nodes: Ready") as step:
        reasons: dict[str, str] = {}
        for _, item in client.watch("/api/v1/nodes", _NODES_READY):
            name = item["metadata"]["name"]
            if api.has_condition(item, "Ready"):
                waiting.discard(name)
            else:
                reasons[name] = (api.condition(item, "Ready") or {}).get("message", "it has told no status yet")
            if not waiting:
                step.detail = f"{len(cluster.nodes)} of {len(cluster.nodes)}"
                return
        name = sorted(waiting)[0]
        raise ClusterError(f"not Ready within {_NODES_READY:.0f} s: " + "; ".join(
            f"{one}: {reasons.get(one, 'its kubelet has not registered it')}" for one in sorted(waiting)),
            str(state.log(f"{name}-kubelet")))


def _await_service_account(state: State):
    """Without it no pod can be created; the controllers make it a moment after their start."""
    with progress.step("default service account"):
        found = api.Api(state.kubeconfig).wait("/api/v1/namespaces/default/serviceaccounts", "default", _STARTED,
                                               lambda _: True)
        if found is None:
            raise ClusterError(f"the controllers have not made it within {_STARTED:.0f} s",
                               str(state.log("control-plane-kube-controller-manager")))


def bring_up(state: State, cluster: Cluster, programs: Programs, simulation: images.Simulation | None,
             archives: list[images.Archive]) -> Timeline:
    """Everything up to Ready nodes. The caller holds the lock and has removed what an interruption left."""
    if not any(archive.path.stem == "pause" for archive in archives):
        raise ClusterError("the sandbox image is not built, without which no pod starts; `make image` builds it")
    with network.chosen_subnet(_taken_subnets()) as subnet:
        record = _record(state, cluster, subnet)
        with progress.step("certificates"):
            certificates.create(state.certificates, subnet, [one.name for one in cluster.nodes])
            control_plane.write_kubeconfigs(state, subnet)
        if simulation is not None:
            with progress.step("simulation") as step:
                simulation.install(state.folder / "simulation")
                step.detail = str(simulation.source)
        control = _start_control_plane(state, programs, subnet)
    history = Timeline(api.Api(state.kubeconfig))
    nodes = _start_nodes(state, cluster, programs, subnet, control.pid)
    _import(state, [one.role for one in nodes], archives)
    _await_ready_nodes(state, cluster)
    _await_service_account(state)
    for one in [control, *nodes]:
        one.keep()
    record["phase"] = "up"
    record["images"] = {archive.name: archive.digest for archive in archives}
    state.write(record)
    return history


def _import(state: State, nodes: list[str], archives: list[images.Archive]):
    with progress.step("nodes: images") as step:
        images.import_into(state, nodes, archives)
        step.detail = ", ".join(archive.name.removeprefix("docker.io/pitcrew/") for archive in archives)


def renew_images(state: State, cluster: Cluster, archives: list[images.Archive]):
    """For a cluster that is up: images that were built anew since go onto its nodes."""
    record = state.read()
    changed = [archive for archive in archives if record["images"].get(archive.name) != archive.digest]
    if changed:
        _import(state, [one.name for one in cluster.nodes], changed)
        record["images"] |= {archive.name: archive.digest for archive in changed}
        record["restart"] = True  # pods still run the images of before
        state.write(record)
