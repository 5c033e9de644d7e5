"""What a node consists of: the files, folders and services that its first process is given."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import subprocess
import uuid

import yaml

from cluster import certificates, cgroups, control_plane, network, processes
from cluster.description import Node
from cluster.programs import Programs
from cluster.state import State

DESCRIPTION = "/etc/pitcrew/simulated-gpus.yaml"
_PROGRAMS = "/opt/pitcrew/programs"
_SIMULATION = "/opt/pitcrew/simulation"
SIMULATE = f"{_SIMULATION}/bin/pitcrew-simulate"
# Of the running kernel, which is the nodes' too.
_MODULES = f"/usr/lib/modules/{os.uname().release}"
_BASE_SPECIFICATION = "/etc/containerd/base-specification.json"
PAUSE_IMAGE = "docker.io/pitcrew/pause:1"

# Configuration of containerd 2: CDI is on by default, sandbox image and restrict_oom_score_adj stand where
# version 3 of the file has them. What the container toolkit adds comes in through the imports line.
_CONTAINERD = """version = 3
imports = ["/etc/containerd/conf.d/*.toml"]

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{cni}"]
  conf_dir = "/etc/cni/net.d"

[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"{base}

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = false
"""


def _kubelet_configuration(node: Node, cluster: str, address: str) -> str:
    configuration = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                           "x509": {"clientCAFile": "/etc/kubernetes/ca.crt"}},
        "authorization": {"mode": "Webhook"},
        "address": address, "healthzPort": 0,
        "cgroupDriver": "cgroupfs", "cgroupRoot": cgroups.path(cluster, node.name), "failCgroupV1": False,
        "failSwapOn": False, "oomScoreAdj": 0, "makeIPTablesUtilChains": False,
        # There is no DNS, and a name fails at once in a pod. Without a server's address the kubelet would warn
        # of that in the events of every pod, over and over.
        "clusterDomain": "cluster.local", "resolvConf": "", "clusterDNS": ["127.0.0.1"],
        # A node on a tmpfs has little room by design; images are never collected from under a cluster.
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
                         "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        # The kubelet tells of new resources with its next status; the default of 10 s would be the
        # longest stage of all. Only differences are written, so nothing is sent more often.
        "nodeStatusUpdateFrequency": "1s",
        "registerWithTaints": node.taints, "topologyManagerPolicy": node.topology_policy,
        "logging": {"verbosity": 1},
    }
    return json.dumps(configuration, indent=1) + "\n"


def _network_configuration(index: int) -> str:
    subnet = network.pod_network(index)
    return json.dumps({
        "cniVersion": "1.0.0", "name": "pods",
        "plugins": [{
            "type": "bridge", "bridge": "cni0", "isDefaultGateway": True, "ipMasq": False, "hairpinMode": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": subnet}]], "dataDir": "/run/cni"},
        }],
    }, indent=1) + "\n"


def _hosts(nodes: list[Node], subnet: str) -> str:
    lines = ["127.0.0.1 localhost", "::1 localhost"]
    lines += [f"{network.node_address(subnet, index)} {node.name}" for index, node in enumerate(nodes)]
    return "\n".join(lines) + "\n"


def _files(state: State, node: Node, index: int, nodes: list[Node], subnet: str, cni: str,
           containerd: pathlib.Path) -> dict[str, str]:
    # As on real machines, an identifier of the machine's own: the same for the same name.
    machine = uuid.UUID(bytes=hashlib.sha256(f"{state.name}/{node.name}".encode()).digest()[:16])
    files = {
        "/etc/hostname": f"{node.name}\n",
        "/etc/hosts": _hosts(nodes, subnet),
        "/etc/machine-id": f"{machine.hex}\n",
        "/etc/containerd/config.toml": _CONTAINERD.format(
            pause=PAUSE_IMAGE, cni=cni,
            base="" if node.kernel is None else f'\n  base_runtime_spec = "{_BASE_SPECIFICATION}"'),
        "/etc/cni/net.d/10-pods.conflist": _network_configuration(index),
        "/etc/kubernetes/ca.crt": (state.certificates / "ca.crt").read_text(encoding="ascii"),
        "/etc/kubernetes/kubelet.kubeconfig": certificates.kubeconfig(
            state.certificates, f"node-{node.name}", state.name, control_plane.server(subnet)),
        "/etc/kubernetes/kubelet.yaml": _kubelet_configuration(node, state.name,
                                                               network.node_address(subnet, index)),
    }
    if node.gpus:
        files[DESCRIPTION] = gpu_description(node)
    if node.kernel is not None:
        files[_BASE_SPECIFICATION] = base_specification(f"{containerd}/ctr")
        files |= module_files(node.kernel)
    return files


def module_files(kernel: dict) -> dict[str, str]:
    """What a kernel with VFIO built in tells modprobe of it. The machine's own modules are not the node's to load."""
    drivers = ["vfio-pci", *kernel.get("variants", [])] if kernel.get("vfio") is not False else []
    builtin = [f"kernel/drivers/vfio/pci/{name}.ko\n" for name in drivers]
    return {f"{_MODULES}/modules.builtin": "".join(builtin), f"{_MODULES}/modules.order": ""}


def base_specification(ctr: str) -> str:
    """What containers begin with: containerd's own default, but the node's /sys instead of a new one. On a real node
    the two show the same devices, for there is one kernel. The type stays: by it containerd finds what privileged
    containers may write to, and for runc `rbind` decides. A slave: what a container mounts in it stays its own."""
    result = subprocess.run([ctr, "oci", "spec"], capture_output=True, text=True, check=True)
    specification_ = json.loads(result.stdout)
    for mount in specification_["mounts"]:
        if mount["destination"] == "/sys":
            mount |= {"source": "/sys", "options": ["rbind", "rslave", "nosuid", "noexec", "nodev", "ro"]}
    return json.dumps(specification_, indent=1) + "\n"


def gpu_description(node: Node) -> str:
    kernel = {} if node.kernel is None else {"kernel": node.kernel}
    return yaml.safe_dump({**kernel, "gpus": node.gpus}, sort_keys=False)


def gpu_description_in_place(node: Node) -> str:
    """The same, with each entry on the line that it has in the cluster file: what the simulation says of a line
    is then true of that file."""
    first, *lines = node.gpu_lines
    entries = [json.dumps(entry) for entry in node.gpus]
    if len({first, *lines}) != len(lines) + 1:
        text = [""] * first
        text[first - 1] = f"gpus: [{', '.join(entries)}]"
    else:
        text = [""] * max([first, *lines])
        text[first - 1] = "gpus:"
        for line, entry in zip(lines, entries):
            text[line - 1] = f"  - {entry}"
    if node.kernel is not None:
        text += [""] * (node.kernel_line - len(text))
        at = node.kernel_line - 1 if not text[node.kernel_line - 1] else len(text)
        text[at:at + 1] = [f"kernel: {json.dumps(node.kernel)}"]
    return "\n".join(text) + "\n"


def _commands(node: Node) -> list[list[str]]:
    """What the hardware, and an administrator who preinstalled a driver, would have done before the boot."""
    if not node.gpus:
        return []
    if node.kernel is None:
        commands = [[SIMULATE, "pci-tree", "--description", DESCRIPTION, "--into", "/sys/bus/pci/devices"]]
    else:
        commands = [["/usr/sbin/depmod", os.uname().release],
                    [SIMULATE, "sysfs", "--background", "--description", DESCRIPTION, "--over", "/sys", "--dev",
                     "/dev", "--state", "/run/nvidia/simulation/state"]]
    if node.driver == "host":
        commands.append([SIMULATE, "driver-install", "--root", "/", "--version", node.driver_version,
                         "--description", DESCRIPTION])
    return commands


def specification(state: State, programs: Programs, nodes: list[Node], index: int, subnet: str) -> dict:
    node = nodes[index]
    base = state.folder / "nodes" / node.name
    base.mkdir(parents=True, exist_ok=True)
    binds = {f"{_PROGRAMS}/{folder.name}": str(folder) for folder in programs.folders("containerd", "kubelet")}
    containerd = f"{_PROGRAMS}/{programs.folder('containerd').name}"
    kubelet = f"{_PROGRAMS}/{programs.folder('kubelet').name}"
    simulation = state.folder / "simulation"
    if simulation.is_dir():
        binds[_SIMULATION] = str(simulation)
    labels = ",".join(f"{key}={value}" for key, value in node.labels.items())
    return {
        "cluster": state.name, "role": node.name, "hostname": node.name,
        "path": f"{containerd}:{processes.PATH}", "logs": str(state.folder / "log"),
        # The hardware's own tool is in reach; the folder's nvidia-smi must not be: it comes with a driver.
        "root": {"base": str(base), "binds": binds, "machine_gpus": node.machine_gpus,
                 "links": {} if node.machine_gpus else {"/usr/local/bin/pitcrew-simulate": SIMULATE},
                 "fresh": [] if node.kernel is None else [_MODULES],
                 "files": _files(state, node, index, nodes, subnet, programs.cni_folder(),
                                 programs.folder("containerd"))},
        "sysctls": {"/proc/sys/net/ipv4/ip_forward": "1"},
        "commands": _commands(node),
        "services": [
            {"name": "containerd", "argv": [f"{containerd}/containerd", "--config", "/etc/containerd/config.toml"]},
            {"name": "kubelet", "after": "containerd",
             "argv": [f"{kubelet}/kubelet", "--config=/etc/kubernetes/kubelet.yaml",
                      "--kubeconfig=/etc/kubernetes/kubelet.kubeconfig", f"--hostname-override={node.name}",
                      f"--node-ip={network.node_address(subnet, index)}",
                      *([f"--node-labels={labels}"] if labels else [])]},
        ],
    }
