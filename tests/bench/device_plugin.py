#!/usr/bin/env python3
"""Measures the device plugin on a simulated node of eight GPUs, each offered a hundred times.

Prints, for each program: seconds from its start until the kubelet has all 800 devices, microseconds of Allocate (median
and 99th percentile, the way through the test's kubelet included, which is the same for all), and resident memory. With
PITCREW_PEER_DEVICE_PLUGIN another nvidia-device-plugin runs beside it, round by round. Needs root.
"""

import argparse
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/differential/node"))

from kubelet_side import Kubelet  # noqa: E402
from side import SOCKETS, Programs, end  # noqa: E402
from simulated_node import SimulatedNode  # noqa: E402

RESOURCE = "nvidia.com/gpu"
GPUS, REPLICAS = 8, 100
DESCRIPTION = {"gpus": [{"profile": "H100-80", "count": GPUS}]}
CONFIG = f"version: v1\nsharing: {{timeSlicing: {{resources: [{{name: {RESOURCE}, replicas: {REPLICAS}}}]}}}}\n"


def memory(node, process, name):
    """KiB of the process's status; the namespace's own /proc has no processes."""
    text = (node.folder / "proc" / str(process.pid) / "status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith(f"{name}:")).split()[1])


def measure(node, program, kubelet_program, allocations):
    """One round, in the node's mount namespace."""
    programs = Programs(node)
    config = node.folder / "config.yaml"
    config.write_text(CONFIG)
    kubelet = Kubelet(kubelet_program, SOCKETS)
    variables = {"DRIVER_ROOT_CTR_PATH": "{root}", "NVIDIA_DRIVER_ROOT": "/run/nvidia/driver", "CONFIG_FILE": str(config),
                 "LD_LIBRARY_PATH": "{libraries}", "DEVICE_LIST_STRATEGY": "envvar", "PASS_DEVICE_SPECS": "true"}
    started = time.monotonic()
    plugin = programs.start(program, "nvidia-device-plugin", [], variables)
    try:
        listed = kubelet.wait(lambda: RESOURCE in kubelet.lists, 60, lambda: plugin.poll() is not None)
        seconds = time.monotonic() - started
        if not listed or len(kubelet.listed(RESOURCE)) != GPUS * REPLICAS:
            raise RuntimeError(f"{program} has not offered its devices:\n{programs.text()}")
        ids = [device["id"] for device in kubelet.listed(RESOURCE)]
        rng = random.Random(1)
        taken = []
        for _ in range(allocations):
            asked = time.perf_counter()
            answer = kubelet.ask(RESOURCE, allocate=[[rng.choice(ids)]])
            taken.append(time.perf_counter() - asked)
            if "answer" not in answer:
                raise RuntimeError(f"{program} does not allocate: {answer}")
        taken.sort()
        return {"seconds": seconds, "median": statistics.median(taken) * 1e6, "p99": taken[len(taken) * 99 // 100] * 1e6,
                "resident": memory(node, plugin, "VmRSS") / 1024, "peak": memory(node, plugin, "VmHWM") / 1024}
    finally:
        end(plugin)
        kubelet.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--allocations", type=int, default=2000)
    options = parser.parse_args()
    binaries = options.build.resolve() / "bin"
    # Looked for where it is built: a release build has no test programs.
    kubelet = next((path for path in (binaries / "test_kubelet", ROOT / "build/dev/bin/test_kubelet") if path.exists()), None)
    if kubelet is None:
        sys.exit("there is no test_kubelet: build it in build/dev (cmake --build --preset dev --target test_kubelet)")
    sides = {"pitcrew": binaries / "pitcrew"}
    if peer := os.environ.get("PITCREW_PEER_DEVICE_PLUGIN"):
        sides["peer"] = pathlib.Path(peer).resolve()
    figures = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, program in sides.items():
            with tempfile.TemporaryDirectory(prefix="bench-node-", dir="/tmp") as folder:
                node = SimulatedNode(pathlib.Path(folder, "node"), binaries, DESCRIPTION)
                figures[name].append(node.run_inside(
                    lambda: measure(node, program, kubelet, options.allocations)))  # pylint: disable=W0640
    print(f"{GPUS} GPUs x {REPLICAS} replicas, {options.rounds} rounds, {options.allocations} allocations each; medians")
    print(f"{'':10} {'start to listed':>16} {'Allocate p50':>14} {'Allocate p99':>14} {'resident':>10} {'peak':>10}")
    for name, rounds in figures.items():
        middle = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        print(f"{name:10} {middle['seconds']:14.3f} s {middle['median']:11.0f} us {middle['p99']:11.0f} us "
              f"{middle['resident']:6.1f} MiB {middle['peak']:6.1f} MiB")


if __name__ == "__main__":
    main()
