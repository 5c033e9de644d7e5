#!/usr/bin/env python3
"""Measures `pitcrew status --watch` on a real kube-apiserver with many nodes, each with the pods of its operands.

Prints, for each size: seconds until the first screen, peak resident memory, the share of a processor that watching
costs at rest and under the heartbeats of the nodes, and how long a GPU that is lost takes to be shown.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "differential")]

import apiserver  # noqa: E402
import operator_scale  # noqa: E402
import status_scale  # noqa: E402

CRDS = ROOT / "deploy/chart/gpu-operator/crds"
MERGE = "application/merge-patch+json"
HEARTBEATS_PER_NODE = 1 / 300  # the kubelet's when nothing changes


def load(server, count):
    """The objects of status_scale.py on the server."""
    fast = operator_scale.Fast(server)

    def create(path, body):
        """With its status, which the server takes from a second request only."""
        status = body.pop("status")
        fast.send("POST", path, body)
        fast.send("PATCH", f"{path}/{body['metadata']['name']}/status", {"status": status}, MERGE)

    server.create_crd(yaml.safe_load((CRDS / "nvidia.com_clusterpolicies.yaml").read_text()))
    server.create("/api/v1/namespaces", {"metadata": {"name": status_scale.SPACE}})
    pods = f"/api/v1/namespaces/{status_scale.SPACE}/pods"
    daemonsets = f"/apis/apps/v1/namespaces/{status_scale.SPACE}/daemonsets"
    for one in status_scale.objects(count):
        path = {"ClusterPolicy": operator_scale.differential.POLICIES, "DaemonSet": daemonsets, "Pod": pods,
                "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses"}[one["kind"]]
        create(path, one) if "status" in one else fast.send("POST", path, one)
    for index in range(count):
        create("/api/v1/nodes", status_scale.node(index))
        for name in status_scale.OPERANDS:
            create(pods, status_scale.pod(name, index))
    return fast


def busy_during(pid, work):
    """Per cent of a processor that a process takes while `work` goes on, and what `work` returns."""
    begin, used = time.monotonic(), operator_scale.processor_seconds(pid)
    result = work()
    return 100 * (operator_scale.processor_seconds(pid) - used) / (time.monotonic() - begin), result


def await_text(file, text, seen=0, seconds=120):
    """Seconds until the text stands in the file, behind what was seen of it before."""
    begin = time.monotonic()
    while text not in file.read_text()[seen:]:
        if time.monotonic() - begin > seconds:
            sys.exit(f"no {text!r} within {seconds} s; there is: {file.read_text()[-2000:]}")
        time.sleep(0.01)
    return time.monotonic() - begin


def heartbeats(fast, count, seconds):
    begin, sent = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        node = f"/api/v1/nodes/gpu-{sent % count}/status"
        fast.send("PATCH", node, {"status": {"conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": status_scale.EARLIER,
            "lastHeartbeatTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}]}}, MERGE)
        sent += 1
        time.sleep(max(0.0, begin + sent / (count * HEARTBEATS_PER_NODE) - time.monotonic()))
    return sent / seconds


def measure(program, server, count, folder):
    fast = load(server, count)
    shown = pathlib.Path(folder) / "shown"
    with shown.open("w") as out, subprocess.Popen(
            [program, "status", "--watch", "-n", status_scale.SPACE], stdout=out,
            env={**os.environ, "KUBECONFIG": server.kubeconfig()}) as process:
        try:
            first = await_text(shown, f" of {count} ready")
            at_rest, _ = busy_during(process.pid, lambda: time.sleep(10))
            beating, each_second = busy_during(process.pid, lambda: heartbeats(fast, count, 20))
            seen = len(shown.read_text())
            fast.send("PATCH", "/api/v1/nodes/gpu-7/status", {"status": {"allocatable": {"nvidia.com/gpu": "7"}}},
                      "application/strategic-merge-patch+json")
            lost = await_text(shown, "gpu-7", seen)
            print(f"{count} nodes, {count * len(status_scale.OPERANDS)} pods")
            print(f"  the first screen after          {first:6.1f} s")
            print(f"  resident memory, peak           {operator_scale.memory(process.pid, 'VmHWM'):6.0f} MB")
            print(f"  processor at rest               {at_rest:6.1f} %")
            print(f"  with {each_second:3.0f} heartbeats a second    {beating:6.1f} %")
            print(f"  a lost GPU is shown after       {lost:6.2f} s", flush=True)
        finally:
            process.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release",
                        help="the build tree whose pitcrew is measured")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000])
    arguments = parser.parse_args()
    for count in arguments.nodes:
        with apiserver.ApiServer() as server, tempfile.TemporaryDirectory() as folder:
            measure(str(arguments.build.resolve() / "bin/pitcrew"), server, count, folder)


if __name__ == "__main__":
    main()
