#!/usr/bin/env python3
"""Measures `pitcrew status` and `pitcrew doctor` on a file of many nodes, each with the pods of its operands.

Prints, for each size: the file's size, seconds and peak resident memory of both commands, and the first lines of what
status says. A few nodes are broken in three ways, so that there is something to find.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPERANDS = {
    "nvidia-driver-daemonset": "driver", "nvidia-container-toolkit-daemonset": "container-toolkit",
    "nvidia-operator-validator": "operator-validator", "nvidia-device-plugin-daemonset": "device-plugin",
    "nvidia-mig-manager": "mig-manager", "gpu-feature-discovery": "gpu-feature-discovery",
    "nvidia-dcgm-exporter": "dcgm-exporter"}
REQUIRED = ("daemonsets", "dcgmExporter", "devicePlugin", "driver", "gfd", "nodeStatusExporter", "operator", "toolkit")
NOW, EARLIER = "2026-01-05T12:00:00Z", "2026-01-05T08:00:00Z"
SPACE = "gpu-operator"


def node(index):
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{i}": "true" for i in range(40)}
    labels |= {f"nvidia.com/gpu.deploy.{name}": "true" for name in (*OPERANDS.values(), "dcgm", "node-status-exporter",
                                                                    "client")}
    labels |= {
        "kubernetes.io/hostname": f"gpu-{index}", "feature.node.kubernetes.io/pci-10de.present": "true",
        "feature.node.kubernetes.io/kernel-version.full": "6.8.0-60-generic",
        "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID": "22.04",
        "nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/mig.capable": "true", "nvidia.com/mig.config.state": "success"}
    offered = {"nvidia.com/gpu": "8"}
    healthy = {"nvidia.com/gpu": "7" if index % 3000 == 1 else "8"}
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": f"gpu-{index}", "labels": labels, "creationTimestamp": EARLIER},
            "spec": {"unschedulable": index % 2000 == 2},
            "status": {"capacity": offered, "allocatable": healthy,
                       "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": EARLIER}],
                       "images": [{"names": [f"registry.example/image{i}@sha256:{i:064x}"], "sizeBytes": i}
                                  for i in range(20)]}}


def pod(name, index):
    broken = name == "nvidia-driver-daemonset" and index % 1500 == 3
    state = ({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}} if broken
             else {"running": {"startedAt": EARLIER}})
    mounts = [{"name": f"volume-{i}", "mountPath": f"/run/nvidia/path-{i}"} for i in range(8)]
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"{name}-{index}", "namespace": SPACE, "labels": {"app": name},
                         "creationTimestamp": EARLIER,
                         "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": "1",
                                              "controller": True}]},
            "spec": {"nodeName": f"gpu-{index}", "volumes": [{"name": mount["name"], "hostPath": {"path": "/run"}}
                                                             for mount in mounts],
                     "containers": [{"name": "main", "image": "registry.example/pitcrew", "volumeMounts": mounts}]},
            "status": {"phase": "Pending" if broken else "Running",
                       "conditions": [{"type": "Ready", "status": "False" if broken else "True",
                                       "lastTransitionTime": NOW if broken else EARLIER}],
                       "containerStatuses": [{"name": "main", "image": "registry.example/driver:1", "ready": not broken,
                                              "restartCount": 0, "state": state}]}}


def objects(count):
    """All but the nodes and the pods of their operands."""
    yield from [
        {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy",
         "metadata": {"name": "cluster-policy", "creationTimestamp": EARLIER},
         "spec": {name: {} for name in REQUIRED} | {"dcgm": {"enabled": False}},
         "status": {"state": "notReady", "namespace": SPACE}},
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gpu-operator-1", "namespace": SPACE,
                                                         "labels": {"app": "gpu-operator"}},
         "spec": {"containers": [{"name": "main", "image": "registry.example/pitcrew"}]},
         "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}]
    for name, label in OPERANDS.items():
        selector = {f"nvidia.com/gpu.deploy.{label}": "true"}
        yield {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": SPACE},
               "spec": {"selector": {"matchLabels": {"app": name}},
                        "template": {"metadata": {"labels": {"app": name}},
                                     "spec": {"nodeSelector": selector,
                                              "containers": [{"name": "main", "image": "registry.example/pitcrew"}]}}},
               "status": {"desiredNumberScheduled": count, "numberReady": count}}


def write(file, count):
    with file.open("w") as out:
        out.write('{"apiVersion": "v1", "kind": "List", "items": [\n')
        out.write(",\n".join(json.dumps(one) for one in objects(count)))
        for index in range(count):
            for one in (node(index), *(pod(name, index) for name in OPERANDS)):
                out.write(",\n" + json.dumps(one))
        out.write("\n]}\n")


def run(words):
    """Output, exit status, seconds, seconds of a processor and peak memory in MB of one command."""
    begin = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    busy = usage.ru_utime + usage.ru_stime
    return output, process.returncode, time.monotonic() - begin, busy, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release",
                        help="the build tree whose pitcrew is measured")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 10000])
    arguments = parser.parse_args()
    program = str(arguments.build.resolve() / "bin/pitcrew")
    for count in arguments.nodes:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "cluster.json"
            write(file, count)
            print(f"{count} nodes, {count * len(OPERANDS)} pods, {file.stat().st_size / 1e6:.0f} MB of JSON")
            for command in ("status", "doctor"):
                output, code, seconds, busy, memory = run([program, command, "--cluster", str(file)])
                print(f"  {command}: {seconds:.1f} s, of them {busy:.1f} s of a processor, {memory:.0f} MB, "
                      f"exit status {code}")
                if command == "status":
                    print("\n".join("    " + line for line in output.splitlines()))


if __name__ == "__main__":
    main()
