#!/usr/bin/env python3
"""Measures the way from a node's label nvidia.com/mig.config to the new geometry at the kubelet, on a simulated node
of eight GPUs with a real API server: MIG manager and device plugin run, and what pauses or resumes an operand by its
label is played at once, without the seconds that a real pod takes to end and to start.

Prints, for each program, the median seconds until the kubelet has all new devices, and until the state is `success`:
with a change of the MIG mode, between two layouts, and back to whole GPUs. With PITCREW_PEER_MIG_MANAGER (its
nvidia-mig-parted beside it) and PITCREW_PEER_DEVICE_PLUGIN other programs run beside them, round by round. Needs root
and dbus-daemon.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/differential/node"), str(ROOT / "tests/differential"), str(ROOT / "tests")]

import apiserver  # noqa: E402
import mig  # noqa: E402
import mig_manager_side  # noqa: E402
from kubelet_side import Kubelet  # noqa: E402
from side import SOCKETS, Programs, end  # noqa: E402
from simulated_node import SimulatedNode  # noqa: E402

GPUS = 8
RESOURCE = "nvidia.com/gpu"
PODS = "/api/v1/namespaces/default/pods"
PLUGIN = {"name": "device-plugin", "labels": {"app": "nvidia-device-plugin-daemonset"}}
OPERAND = mig_manager_side.DEPLOY + "device-plugin"
# What is measured, the label, and how many devices there are then.
CHANGES = [("MIG on", "all-1g.10gb", 7 * GPUS), ("another layout", "all-3g.40gb", 2 * GPUS),
           ("MIG off", "all-disabled", GPUS)]
MOST_SECONDS = 120


class Operand:
    """The device plugin as a DaemonSet has it: there while the node's label is true."""

    def __init__(self, server, node, start):
        self.server, self.node, self.start = server, node, start
        self.process, self._ending = None, threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self):
        while not self._ending.is_set():
            with self.node.changed:
                labels = self.node.seen[-1][1] if self.node.seen else {}
                wanted = labels.get(OPERAND) == "true"
                if wanted == (self.process is not None):
                    self.node.changed.wait(1)
                    continue
            if wanted:
                self.server.create(PODS, {"metadata": PLUGIN, "spec": {
                    "nodeName": "gpu", "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "c", "image": "i"}]}})
                self.process = self.start()
            else:
                end(self.process)
                self.process = None
                self.server.delete(f"{PODS}/{PLUGIN['name']}")

    def end(self):
        self._ending.set()
        self._thread.join()
        if self.process is not None:
            end(self.process)


def measure(server, node, side, kubelet_program):
    """Seconds of one round by what is measured, in the node's mount namespace."""
    programs = Programs(node)
    request = {"path": side["path"], "node": "gpu", "kubeconfig": server.kubeconfig(), "port": server.port,
               "token": "admin"}
    bus = mig_manager_side.start_bus()
    kubelet = Kubelet(kubelet_program, SOCKETS)
    watched = mig_manager_side.Node(request)
    variables = {"DRIVER_ROOT_CTR_PATH": "{root}", "NVIDIA_DRIVER_ROOT": "/run/nvidia/driver", "MIG_STRATEGY": "single",
                 "LD_LIBRARY_PATH": "{libraries}", "DEVICE_LIST_STRATEGY": "envvar", "PASS_DEVICE_SPECS": "true"}
    operand = Operand(server, watched, lambda: programs.start(side["plugin"], "nvidia-device-plugin", [], variables))
    manager = subprocess.Popen(["nvidia-mig-manager"], executable=side["manager"],
                               env=mig_manager_side.environment(request, node), stdin=subprocess.DEVNULL,
                               stdout=programs.log, stderr=programs.log, cwd="/run")

    def offered(count):
        return RESOURCE in kubelet.lists and [one["healthy"] for one in kubelet.listed(RESOURCE)] == [True] * count

    def told():
        return watched.seen[-1][1].get(mig_manager_side.STATE)
    try:
        if not kubelet.wait(lambda: offered(GPUS), MOST_SECONDS):
            raise RuntimeError(f"the plugin has not offered the GPUs:\n{programs.text()}")
        taken = {}
        for name, config, count in CHANGES:
            began = time.monotonic()
            watched.set_labels({mig_manager_side.CONFIG: config, mig_manager_side.STATE: None})
            if not kubelet.wait(lambda: offered(count), MOST_SECONDS):  # pylint: disable=W0640
                raise RuntimeError(f"{config} has not become allocatable:\n{programs.text()}")
            taken[f"{name}: allocatable"] = time.monotonic() - began
            with watched.changed:
                if not watched.changed.wait_for(lambda: told() == "success", MOST_SECONDS):
                    raise RuntimeError(f"{config} is {told()}:\n{programs.text()}")
            taken[f"{name}: success"] = time.monotonic() - began
        return taken
    finally:
        end(manager)
        operand.end()
        kubelet.end()
        end(bus)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    binaries = options.build.resolve() / "bin"
    # Looked for where it is built: a release build has no test programs.
    kubelet = next((path for path in (binaries / "test_kubelet", ROOT / "build/dev/bin/test_kubelet")
                    if path.exists()), None)
    if kubelet is None:
        sys.exit("there is no test_kubelet: build it in build/dev (cmake --build --preset dev --target test_kubelet)")
    ours = str(binaries / "pitcrew")
    sides = {"pitcrew": {"manager": ours, "plugin": ours, "path": str(binaries)}}
    manager, plugin = (os.environ.get(f"PITCREW_PEER_{name}") for name in ("MIG_MANAGER", "DEVICE_PLUGIN"))
    if manager and plugin:
        sides["peer"] = {"manager": manager, "plugin": plugin, "path": os.path.dirname(manager)}
    figures = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, side in sides.items():
            with (apiserver.ApiServer() as server,
                  tempfile.TemporaryDirectory(prefix="bench-mig-", dir="/tmp") as folder):
                server.create("/api/v1/nodes", {"metadata": {"name": "gpu", "labels": {OPERAND: "true"}}})
                server.create(PODS, {"metadata": {"name": "mig-manager"}, "spec": {
                    "nodeName": "gpu", "containers": [{"name": "c", "image": "i"}]}})
                node = SimulatedNode(pathlib.Path(folder, "node"), binaries, mig.node([("H100-80", GPUS)]))
                (node.folder / "config").mkdir()
                (node.folder / "config/config.yaml").write_text(mig.defaults())
                figures[name].append(node.run_inside(
                    lambda: measure(server, node, side, kubelet)))  # pylint: disable=W0640
    print(f"label to geometry, {GPUS} GPUs, {options.rounds} rounds; median seconds")
    print(f"{'':30}" + "".join(f"{name:>10}" for name in sides))
    for row in figures["pitcrew"][0]:
        medians = (statistics.median(one[row] for one in rounds) for rounds in figures.values())
        print(f"{row:30}" + "".join(f"{median:10.3f}" for median in medians))


if __name__ == "__main__":
    main()
