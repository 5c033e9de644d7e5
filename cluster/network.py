"""The cluster's network: a bridge inside the control plane's network namespace, one interface on the machine.

    machine --- pitcrew-NAME ---+
                                |   bridge `nodes`, in the control plane's namespace: SUBNET.2, and the address
    node 1 --- eth0 ------------+   of the service `kubernetes`, so that pods reach the API server without NAT
    node 2 --- eth0 ------------+

Nothing is named outside: when the control plane's and the nodes' first processes end, all of it is gone.
The machine's own routing, forwarding and packet filter are left alone.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import subprocess

from cluster.errors import ClusterError

SERVICE_NETWORK = "10.96.0.0/16"
KUBERNETES_SERVICE = "10.96.0.1"
POD_NETWORK = ipaddress.ip_network("10.244.0.0/16")
API_PORT = 443
_CANDIDATES = ipaddress.ip_network("172.29.0.0/16")


def interface(cluster: str) -> str:
    return f"pitcrew-{cluster}"


def _run(argv: list[str], stdin: str | None = None) -> str:
    result = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ClusterError(f"`{' '.join(argv)}` failed: {result.stderr.strip() or result.stdout.strip()}"
                           + (f" (commands: {stdin.strip()})" if stdin else ""))
    return result.stdout


def _overlaps_route(candidate) -> bool:
    for route in json.loads(_run(["ip", "-json", "-4", "route", "show", "table", "all"]) or "[]"):
        destination = route.get("dst", "default")
        if destination != "default" and candidate.overlaps(ipaddress.ip_network(destination, strict=False)):
            return True
    return False


@contextlib.contextmanager
def chosen_subnet(taken: set[str]):
    """A /24 that neither the machine's routes and addresses nor another cluster uses. Until the end of the context, by
    which its interface should be there, no other run on this machine chooses it: the name of an abstract socket can be
    had once in a network namespace, and goes with its process."""
    used = [ipaddress.ip_network(subnet) for subnet in taken]
    for candidate in _CANDIDATES.subnets(new_prefix=24):
        if any(candidate.overlaps(other) for other in used):
            continue
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as reservation:
            try:
                reservation.bind(f"\0pitcrew-subnet-{candidate}")
            except OSError:
                continue
            # After the reservation: who had it before may have just made its interface.
            if _overlaps_route(candidate):
                continue
            yield str(candidate)
            return
    raise ClusterError(f"no free /24 is left in {_CANDIDATES} for the cluster's nodes")


def address(subnet: str, number: int) -> str:
    return str(ipaddress.ip_network(subnet)[number])


def machine_address(subnet: str) -> str:
    return address(subnet, 1)


def control_address(subnet: str) -> str:
    return address(subnet, 2)


def node_address(subnet: str, index: int) -> str:
    return address(subnet, 10 + index)


def pod_network(index: int) -> str:
    """The /24 of a node's pods; pods of one node are on that node's own bridge."""
    return str(list(POD_NETWORK.subnets(new_prefix=24))[1 + index])


def _in_namespace(pid: int, commands: list[str]):
    _run(["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-batch", "-"], "\n".join(commands) + "\n")


def connect_control_plane(cluster: str, subnet: str, pid: int):
    _run(["ip", "-batch", "-"], "\n".join([
        f"link add name {interface(cluster)} type veth peer name machine netns {pid}",
        f"address add {machine_address(subnet)}/24 dev {interface(cluster)}",
        f"link set {interface(cluster)} up",
    ]) + "\n")
    _in_namespace(pid, [
        "link set lo up",
        "link add name nodes type bridge",
        "link set nodes up",
        "link set machine master nodes up",
        f"address add {control_address(subnet)}/24 dev nodes",
        f"address add {KUBERNETES_SERVICE}/32 dev lo",
    ])


def connect_nodes(subnet: str, control_pid: int, node_pids: list[int]):
    for index, pid in enumerate(node_pids):
        _run(["ip", "link", "add", "name", f"node{index}", "netns", str(control_pid), "type", "veth",
              "peer", "name", "eth0", "netns", str(pid)])
        _in_namespace(control_pid, [
            f"link set node{index} master nodes up",
            f"route add {pod_network(index)} via {node_address(subnet, index)}",
        ])
        # Pods of other nodes by that node; all else, the API server's service address first of all, by the
        # control plane.
        _in_namespace(pid, [
            "link set lo up",
            f"address add {node_address(subnet, index)}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {control_address(subnet)}",
            *[f"route add {pod_network(other)} via {node_address(subnet, other)}"
              for other in range(len(node_pids)) if other != index],
        ])


def interfaces() -> list[str]:
    """All interfaces of clusters on this machine."""
    links = json.loads(_run(["ip", "-json", "link", "show", "type", "veth"]) or "[]")
    return [link["ifname"] for link in links if link.get("ifname", "").startswith("pitcrew-")]


def disconnect(cluster: str):
    if interface(cluster) in interfaces():
        result = subprocess.run(["ip", "link", "delete", interface(cluster)], capture_output=True, text=True,
                                check=False)
        if result.returncode != 0 and interface(cluster) in interfaces():
            raise ClusterError(f"the interface {interface(cluster)} cannot be removed: {result.stderr.strip()}")
