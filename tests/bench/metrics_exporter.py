#!/usr/bin/env python3
"""Measures the metrics exporter on simulated nodes of eight GPUs.

Prints the milliseconds of a scrape (median and 99th percentile) and resident memory with 56 MIG devices, each held by one
of 200 pods, and the milliseconds of processor time of one round over eight whole GPUs with the default counters. Aims: 10 ms,
25 MiB, 50 ms. Needs root.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/differential/node"))

from side import Programs, end  # noqa: E402
from simulated_node import SimulatedNode  # noqa: E402

PORT = 19400
COUNTERS = ROOT / "deploy/counters/default-counters.csv"
PODS = 200
MIG = {"gpus": [{"profile": "H100-80", "count": 8, "mig": {"enabled": True, "devices": {"1g.10gb": 7}}}]}
WHOLE = {"gpus": [{"profile": "H100-80", "count": 8, "load": 70}]}


def of_process(node, process, name):
    """A file of the process; the namespace's own /proc has no processes."""
    return (node.folder / "proc" / str(process.pid) / name).read_text(encoding="ascii")


def status(node, process, name):
    """MiB."""
    text = of_process(node, process, "status")
    return int(re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)[1]) / 1024


def processor_seconds(node, process):
    fields = of_process(node, process, "stat").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scrape(connection, path="/metrics"):
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status} {body[:200]}")
    return body.decode()


def await_page(programs, process):
    """The first page; the exporter listens when its first round is complete."""
    for _ in range(600):
        if process.poll() is not None:
            break
        try:
            return scrape(http.client.HTTPConnection("127.0.0.1", PORT, timeout=30))
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise RuntimeError(f"the exporter does not listen:\n{programs.text()}")


def start(node, program, interval, **variables):
    programs = Programs(node)
    fixed = {"LD_LIBRARY_PATH": "{libraries}", "DCGM_EXPORTER_LISTEN": f"127.0.0.1:{PORT}",
             "DCGM_EXPORTER_COLLECTORS": str(COUNTERS), "DCGM_EXPORTER_INTERVAL": str(interval)}
    return programs, programs.start(program, "dcgm-exporter", [], fixed | variables)


def hold(kubelet, devices):
    """Pods of a busy node; the first of them have a device each."""
    pods = [{"namespace": f"team-{i % 10}", "pod": f"training-{i}-abcde", "container": "main",
             "resource": "nvidia.com/mig-1g.10gb" if i < len(devices) else "example.com/other",
             "ids": [devices[i]] if i < len(devices) else [f"other-{i}"]} for i in range(PODS)]
    kubelet.stdin.write(json.dumps(pods) + "\n")
    kubelet.stdin.flush()
    kubelet.stdout.readline()


def measure_scrapes(node, program, kubelet_program, scrapes):
    socket = node.folder / "kubelet.sock"
    programs, exporter = None, None
    kubelet = subprocess.Popen([kubelet_program, socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        kubelet.stdout.readline()
        programs, exporter = start(node, program, 1000, DCGM_EXPORTER_KUBERNETES="true",
                                   DCGM_POD_RESOURCES_KUBELET_SOCKET=str(socket))
        page = await_page(programs, exporter)
        # The kubelet knows devices by instance here: no listing of MIG UUIDs is needed.
        instances = sorted(set(re.findall(r'gpu="(\d+)",UUID="[^"]+",[^}]*GPU_I_ID="(\d+)"', page)))
        hold(kubelet, [f"nvidia{gpu}/gi{instance}" for gpu, instance in instances])
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
        taken = []
        for _ in range(scrapes):
            asked = time.perf_counter()
            page = scrape(connection)
            taken.append((time.perf_counter() - asked) * 1000)
        taken.sort()
        owned = len(set(re.findall(r'pod="([^"]+)"', page)))
        return {"instances": len(instances), "owned": owned, "series": page.count("\nDCGM_"), "bytes": len(page),
                "median": taken[len(taken) // 2], "p99": taken[len(taken) * 99 // 100],
                "resident": status(node, exporter, "VmRSS"), "peak": status(node, exporter, "VmHWM")}
    finally:
        for process in filter(None, (exporter, kubelet)):
            end(process)


def measure_rounds(node, program, rounds):
    interval = 200
    programs, exporter = start(node, program, interval)
    try:
        await_page(programs, exporter)
        before, begun = processor_seconds(node, exporter), time.monotonic()
        time.sleep(rounds * interval / 1000)
        used = processor_seconds(node, exporter) - before
        return used * 1000 / ((time.monotonic() - begun) * 1000 / interval)
    finally:
        end(exporter)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--scrapes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    binaries = options.build.resolve() / "bin"
    # Looked for where it is built: a release build has no test programs.
    kubelet = next((path for path in (binaries / "test_pod_resources", ROOT / "build/dev/bin/test_pod_resources")
                    if path.exists()), None)
    if kubelet is None:
        sys.exit("there is no test_pod_resources: cmake --build --preset dev --target test_pod_resources")
    program = next(path for path in (binaries / "pitcrew", binaries / "metrics_exporter_program") if path.exists())
    with tempfile.TemporaryDirectory(prefix="bench-node-", dir="/tmp") as folder:
        node = SimulatedNode(pathlib.Path(folder, "mig"), binaries, MIG)
        got = node.run_inside(lambda: measure_scrapes(node, program, kubelet, options.scrapes))
        print(f"{got['instances']} MIG devices, {PODS} pods of which {got['owned']} hold one; {got['series']} series, "
              f"{got['bytes'] / 1024:.0f} KiB a page")
        print(f"scrape: median {got['median']:.2f} ms, p99 {got['p99']:.2f} ms; resident {got['resident']:.1f} MiB, "
              f"peak {got['peak']:.1f} MiB")
        node = SimulatedNode(pathlib.Path(folder, "whole"), binaries, WHOLE)
        each = node.run_inside(lambda: measure_rounds(node, program, options.rounds))
        print(f"round over 8 GPUs: {each:.1f} ms of processor time")


if __name__ == "__main__":
    main()
