#!/usr/bin/env python3
"""Measures Pitcrew on a local cluster of one node with eight simulated GPUs and its driver preinstalled.

Prints: seconds from the agents' start to allocatable GPUs with their stages (on a fresh node; of all operands
after they had left it; of the device plugin alone), the image's size, the memory of the operator, and the API
writes of an idle period (aim: none).
"""

import argparse
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from cluster import api, chart, timeline  # noqa: E402

NAME = "bench"
FILE = f"name: {NAME}\nnodes:\n  - name: gpu-a\n    gpus: [{{profile: H100-80, count: 8}}]\n    driver: host\n"
OPERANDS = "nvidia.com/gpu.deploy.operands"
REQUESTS = re.compile(r"^apiserver_request_total\{(.*)\} ([0-9.e+]+)$")
LABEL = re.compile(r'(\w+)="([^"]*)"')
WRITES = ("POST", "PUT", "PATCH", "DELETE", "APPLY")
# Written by Kubernetes' own programs on every cluster, whatever runs on it.
OF_KUBERNETES = {"subjectaccessreviews", "tokenreviews", "serviceaccounts/token", "nodes/status"}


def cluster(state, *arguments):
    return subprocess.run([sys.executable, "-m", "cluster", *map(str, arguments)], cwd=ROOT, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "PITCREW_STATE": str(state)})


def await_gpus(client, wanted):
    """Waits until the node offers GPUs (or none any more); returns the moment."""
    if client.wait("/api/v1/nodes", "gpu-a", 180, lambda node: (timeline.gpus(node) > 0) == wanted) is None:
        sys.exit(f"the node's GPUs did not become {'allocatable' if wanted else 'unavailable'} within 180 s")
    return time.monotonic()


def label(client, value):
    client.request("PATCH", "/api/v1/nodes/gpu-a", {"metadata": {"labels": {OPERANDS: value}}},
                   content_type="application/merge-patch+json")


def is_operand(pod):
    app = pod["metadata"].get("labels", {}).get("app", "")
    return app in timeline.OPERANDS and pod["spec"].get("nodeName") == "gpu-a"


def all_operands(client):
    """Every operand leaves the node and comes back: toolkit, container runtime, plugin, validation. Returns the
    seconds of their leaving, and those of each stage of their return."""
    pods = f"/api/v1/namespaces/{chart.NAMESPACE}/pods"
    began = time.time()
    label(client, "false")
    await_gpus(client, False)
    while any(is_operand(pod) for pod in client.get(pods)["items"]):
        time.sleep(0.1)
    left = time.time() - began
    stages = timeline.Timeline(client)
    began = time.time()
    label(client, None)
    await_gpus(client, True)
    while timeline.STAGES[-1] not in stages.since("gpu-a", began):
        time.sleep(0.1)
    return left, stages.since("gpu-a", began)


def print_stages(seconds):
    for stage in timeline.STAGES:
        if stage in seconds and stage in (timeline.ALLOCATABLE, *timeline.OPERANDS.values()):
            print(f"    {stage:<28}{seconds[stage]:5.1f} s")


def print_fresh_node(state):
    """The stages of the cluster's own start, from the moment when the operator knew that the node has GPUs."""
    seconds = json.loads((state / NAME / "record.json").read_text(encoding="utf-8"))["seconds"]["gpu-a"]
    began = seconds.pop(timeline.PRESENT)
    print(f"a fresh node, from its label to allocatable: {seconds[timeline.ALLOCATABLE] - began:.1f} s")
    print_stages({stage: moment - began for stage, moment in seconds.items()})


def print_operands(client, rounds):
    measured = sorted((all_operands(client) for _ in range(rounds)), key=lambda one: one[1][timeline.ALLOCATABLE])
    left, seconds = measured[len(measured) // 2]
    allocatable = [one[timeline.ALLOCATABLE] for _, one in measured]
    print(f"all operands of a node, from scratch, to allocatable: {seconds[timeline.ALLOCATABLE]:.1f} s (median of "
          f"{rounds} rounds: {allocatable[0]:.1f} to {allocatable[-1]:.1f} s); they had left it in {left:.1f} s")
    print_stages(seconds)


def device_plugin(client):
    """The plugin's pod is deleted; from the start of the new one's container to allocatable."""
    pods = f"/api/v1/namespaces/{chart.NAMESPACE}/pods"
    old = next(pod for pod in client.get(pods)["items"]
               if pod["metadata"].get("labels", {}).get("app") == "nvidia-device-plugin-daemonset")
    client.delete(f"{pods}/{old['metadata']['name']}")
    began = None
    for kind, pod in client.watch(pods, 120):
        if kind == "DELETED" or pod["metadata"].get("labels", {}).get("app") != "nvidia-device-plugin-daemonset":
            continue
        running = any("running" in one.get("state", {}) for one in pod["status"].get("containerStatuses", []))
        if pod["metadata"]["uid"] != old["metadata"]["uid"] and running:
            began = time.monotonic()
            break
    if began is None:
        sys.exit("the device plugin's pod did not come back within 120 s")
    return max(0.0, await_gpus(client, True) - began)


def writes(client):
    """{(verb, resource): requests} that the server has answered so far."""
    counted = collections.Counter()
    for line in client.request("GET", "/metrics").decode().splitlines():
        match = REQUESTS.match(line)
        if match:
            labels = dict(LABEL.findall(match[1]))
            resource = "/".join(filter(None, [labels["resource"], labels.get("subresource")]))
            if labels["verb"] in WRITES and resource not in OF_KUBERNETES:
                counted[(labels["verb"], resource)] += int(float(match[2]))
    return counted


def operator_memory(state):
    shown = cluster(state, "exec", "--name", NAME, "gpu-a", "sh", "-c",
                    "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -q '^gpu-operator' && "
                    "grep VmRSS $p/status; done").stdout
    return max((int(word) for word in re.findall(r"VmRSS:\s+(\d+)", shown)), default=0) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--idle", type=float, default=300.0, help="seconds of the idle period (default: 300)")
    parser.add_argument("--rounds", type=int, default=5, help="how often the operands leave (default: 5)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # told to end, it still takes its cluster away
    with tempfile.TemporaryDirectory(prefix="pitcrew-bench-") as folder:
        file = pathlib.Path(folder) / "cluster.yaml"
        file.write_text(FILE, encoding="utf-8")
        state = pathlib.Path(folder) / "state"
        try:
            up = cluster(state, "up", "--build", arguments.build.absolute(), file)
            if up.returncode != 0:
                sys.exit(up.stdout)
            client = api.Api(state / NAME / "kubeconfig")
            print_fresh_node(state)
            time.sleep(15)  # the start's own aftermath is not idle time
            before = writes(client)
            time.sleep(arguments.idle)
            difference = writes(client) - before
            print(f"API writes in {arguments.idle:.0f} idle seconds, leases apart: "
                  f"{sum(n for (_, what), n in difference.items() if what != 'leases')}")
            for (verb, what), number in sorted(difference.items()):
                print(f"    {verb} {what}: {number}")
            print(f"operator memory, one node: {operator_memory(state):.1f} MiB")
            for _ in range(3):
                print(f"device plugin's start to allocatable: {device_plugin(client):.1f} s")
            print_operands(client, arguments.rounds)
        finally:
            cluster(state, "down", NAME)
    size = (arguments.build / "images/pitcrew.tar").stat().st_size
    print(f"image, compressed: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
