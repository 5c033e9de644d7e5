#!/usr/bin/env python3
"""Measures the operator against a real kube-apiserver with many Node objects of ordinary size.

Prints, for each size: seconds from the operator's start until every node is labelled, processor seconds until
then, resident memory (peak and at rest), the writes of an idle period, and how long a joining node waits for its
labels. A bare client that patches each node once (bare-client/, in Go) takes turns with it on the same server: what
that takes is the server's own time.
With $PITCREW_ORACLE (see tests/differential/run.py) another operator is measured in the same run.
"""

import argparse
import collections
import http.client
import json
import os
import pathlib
import re
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "differential"))

import apiserver  # noqa: E402
import run as differential  # noqa: E402
import sides  # noqa: E402

WRITES = ("create", "update", "patch", "delete", "deletecollection")
LABEL = "nvidia.com/gpu.deploy.device-plugin"
JOINING = 200
PRODUCT = "nvidia.com/gpu.product"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{sides.NAMESPACE}/leases"


def node(index):
    """A Node of ordinary size: about 60 labels, conditions, addresses and 20 images."""
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{i}": "true" for i in range(40)}
    labels |= {
        "kubernetes.io/hostname": f"node-{index}", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": f"zone-{index % 3}", "node.kubernetes.io/instance-type": "gpu-8x",
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "feature.node.kubernetes.io/kernel-version.full": "6.1.0-37-amd64",
        "feature.node.kubernetes.io/system-os_release.ID": "debian",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID": "12",
        PRODUCT: "NVIDIA-H100-80GB-HBM3"}
    return {"metadata": {"name": f"node-{index:05}", "labels": labels,
                         "annotations": {"nfd.node.kubernetes.io/feature-labels": ",".join(sorted(labels))}}}


def status(index):
    images = [{"names": [f"registry.example.com/team/image-{i}@sha256:" + "ab" * 32,
                         f"registry.example.com/team/image-{i}:v1"], "sizeBytes": 10_000_000 + i}
              for i in range(20)]
    conditions = [{"type": kind, "status": "False", "reason": "Kubelet" + kind, "message": "kubelet is fine",
                   "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                  for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")]
    return {"status": {"images": images, "conditions": conditions,
                       "capacity": {"cpu": "128", "memory": "2000Gi", "pods": "110", "nvidia.com/gpu": "8"},
                       "addresses": [{"type": "InternalIP", "address": f"10.1.{index // 250}.{index % 250}"}],
                       "nodeInfo": differential.node_info({"runtime": "containerd://2.2.0"})}}


class Fast:
    """One kept connection: a thousand nodes are made in seconds."""

    def __init__(self, server):
        self.connection = http.client.HTTPSConnection(
            "127.0.0.1", server.port, context=ssl._create_unverified_context())

    def send(self, method, path, body, content_type="application/json"):
        self.connection.request(method, path, json.dumps(body), {
            "Authorization": "Bearer admin", "Content-Type": content_type})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")


def by_verb(requests):
    return collections.Counter(verb for verb, resource, _, _ in requests if resource != "leases")


class Watch:
    """When each node first had its labels, as a watch tells it."""

    def __init__(self, server):
        self.seen, self.server = {}, server
        start = server.get("/api/v1/nodes?limit=1")["metadata"]["resourceVersion"]
        self.connection = http.client.HTTPSConnection(
            "127.0.0.1", server.port, context=ssl._create_unverified_context())
        self.connection.request("GET", f"/api/v1/nodes?watch=true&resourceVersion={start}", headers={
            "Authorization": "Bearer admin",
            "Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"})
        self.answer = self.connection.getresponse()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while line := self.answer.readline():
            now = time.monotonic()
            metadata = json.loads(line)["object"]["metadata"]
            if LABEL in metadata.get("labels", {}):
                self.seen.setdefault(metadata["name"], now)


def waiting_times(server, fast, count):
    """Sorted milliseconds from the creation of a node to its labels, for nodes that join one after another."""
    watch, made = Watch(server), {}
    for index in range(count, count + JOINING):
        one = node(index)
        made[one["metadata"]["name"]] = time.monotonic()
        fast.send("POST", "/api/v1/nodes", one)
        time.sleep(0.05)
    deadline = time.monotonic() + 120
    while not made.keys() <= watch.seen.keys() and time.monotonic() < deadline:
        time.sleep(0.1)
    return sorted(1000 * (watch.seen.get(name, float("inf")) - begin) for name, begin in made.items())


def memory(pid, field):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+)", text, re.M).group(1)) / 1024


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def all_labelled(fast):
    """Whether no node lacks a deploy label; asks for one, metadata only, so that asking does not load the server."""
    fast.connection.request("GET", f"/api/v1/nodes?limit=1&labelSelector=%21{LABEL}", headers={
        "Authorization": "Bearer admin",
        "Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"})
    return not json.loads(fast.connection.getresponse().read())["items"]


def build_bare_client(folder):
    """The program's path. Go's: on PATH, or the one that `make setup` has installed."""
    cache = os.environ.get("PITCREW_CACHE") or os.path.expanduser("~/.cache/pitcrew")
    go = shutil.which("go", path=os.pathsep.join(
        [os.environ.get("PATH", ""), f"{cache}/go/go/bin", "/usr/local/go/bin"]))
    if not go:
        raise FileNotFoundError("the bare client needs a Go toolchain: `make setup` installs one")
    program = pathlib.Path(folder, "bare-client")
    subprocess.run([go, "build", "-buildvcs=false", "-o", program, "."], cwd=HERE / "bare-client", check=True)
    return program


class Bare:
    """A client that does nothing but patch each node once, as the operator's user."""

    def __init__(self, program, server, count):
        self.program, self.server, self.count = program, server, count
        self.best, self.rounds = float("inf"), 0

    def run(self, in_flight, remove=()):
        """Seconds. `remove`: takes these labels away; otherwise sets ten of its own."""
        self.rounds += 1
        labels = dict.fromkeys(remove) or {
            f"bench.example.com/label-{index}": f"round-{self.rounds}" for index in range(10)}
        seconds = float(subprocess.run(
            [self.program, "--server", f"https://127.0.0.1:{self.server.port}", "--token", apiserver.USER,
             "--nodes", str(self.count), "--in-flight", str(in_flight), "--labels", json.dumps(labels)],
            check=True, stdout=subprocess.PIPE, text=True).stdout)
        self.best = min(self.best, seconds)
        print(f"  bare client, {in_flight:2} in flight    {seconds:8.1f} s", flush=True)
        return seconds


def label_all(side, fast):
    """Seconds and processor seconds from the operator's start until every node is labelled."""
    started = time.monotonic()
    side.start(side.server.kubeconfig(apiserver.USER))
    while not all_labelled(fast):
        if side.process.poll() is not None:
            raise RuntimeError(f"{side.name} ended: {side.log.read_text()[-2000:]}")
        if time.monotonic() - started > 600:
            raise RuntimeError(f"{side.name}: not all nodes after 600 s")
        time.sleep(0.1)
    return time.monotonic() - started, processor_seconds(side.process.pid)


def release_lease(side):
    """As an operator that ends in peace does: the next one need not wait until the lease has run out."""
    for lease in side.server.get(LEASES)["items"]:
        side.server.delete(LEASES, lease["metadata"]["name"])


def rounds_beside(side, fast, bare, rounds, first):
    """Medians of the operator and of the bare client, which take away and set the same labels in turn. A server is
    fastest while it is fresh, so who goes `first` has the better of it."""
    ours, processor, bares = [], [], [bare.run(32)] if first == "bare" else []
    for number in range(rounds):
        if number:
            side.stop()
            release_lease(side)
        seconds, used = label_all(side, fast)
        ours.append(seconds)
        processor.append(used)
        print(f"  start to all nodes labelled   {seconds:8.1f} s", flush=True)
        if number + 1 < rounds:
            side.stop()
            bares.append(bare.run(32, remove=operator_labels(side)))
    return statistics.median(ours), statistics.median(processor), bares


def operator_labels(side):
    """The labels that the operator has set on the first node; all nodes are alike."""
    one = side.server.get("/api/v1/nodes/node-00000")
    return [name for name in one["metadata"]["labels"] if name.startswith("nvidia.com/") and name != PRODUCT]


def make_cluster(side, fast, count):
    for index in range(count):
        made = node(index)
        fast.send("POST", "/api/v1/nodes", made)
        fast.send("PATCH", f"/api/v1/nodes/{made['metadata']['name']}/status", status(index),
                  "application/merge-patch+json")
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"},
              "spec": yaml.safe_load((HERE / "policy.yaml").read_text())}
    side.server.create(differential.POLICIES, policy)
    side.server.allow_everything()


def measure(side, count, arguments, bare_client):
    rounds, idle_seconds = arguments.rounds, arguments.idle_seconds
    fast = Fast(side.server)
    make_cluster(side, fast, count)
    print(f"{side.name}, {count} nodes")
    bare = Bare(bare_client, side.server, count)
    seconds, processor, bares = rounds_beside(side, fast, bare, rounds, arguments.first)
    side.wait_until_quiet(5, 60)
    peak, rest = memory(side.process.pid, "VmHWM"), memory(side.process.pid, "VmRSS")
    before, settled = processor_seconds(side.process.pid), len(list(side.server.requests()))
    time.sleep(idle_seconds)
    idle = by_verb(list(side.server.requests())[settled:])
    resting = processor_seconds(side.process.pid) - before
    waits = waiting_times(side.server, Fast(side.server), count)
    side.stop()
    for in_flight in (2, 8):
        bare.run(in_flight)
    bares.append(bare.run(32))
    print(f"  start to all nodes labelled   {seconds:8.1f} s (median of {rounds})")
    print(f"  that is, of the bare client's median {seconds / statistics.median(bares):5.2f}, "
          f"of its best {seconds / bare.best:.2f}")
    print(f"  processor until then          {processor:8.1f} s")
    print(f"  resident memory, peak         {peak:8.1f} MB")
    print(f"  resident memory, at rest      {rest:8.1f} MB")
    print(f"  in {idle_seconds:.0f} idle seconds          {sum(idle[verb] for verb in WRITES)} writes, "
          f"{sum(idle.values())} requests, {resting:.1f} s of the processor (leases not counted)")
    print(f"  a joining node's labels       {waits[len(waits) // 2]:8.0f} ms (median), "
          f"{waits[len(waits) * 99 // 100]:.0f} ms (99 of 100)", flush=True)


def side_of(name, command, crds=()):
    return differential.Side(name, command, crds, server=apiserver.ApiServer(audit=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=differential.ROOT / "build/release",
                        help="the build tree whose pitcrew is measured")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000])
    parser.add_argument("--rounds", type=int, default=3, help="how often operator and bare client take turns")
    parser.add_argument("--first", choices=("bare", "operator"), default="bare", help="whose turn is the first")
    parser.add_argument("--idle-seconds", type=float, default=60)
    arguments = parser.parse_args()
    oracle = os.environ.get("PITCREW_ORACLE")
    with tempfile.TemporaryDirectory() as folder:
        bare_client = build_bare_client(folder)
        for count in arguments.nodes:
            with side_of("pitcrew", [str(arguments.build.resolve() / "bin/pitcrew"), "operator"]) as side:
                measure(side, count, arguments, bare_client)
            if oracle:
                crds = sorted(pathlib.Path(oracle, "crds").glob("*.yaml"))
                with side_of("other", differential.oracle_command(oracle), crds) as side:
                    measure(side, count, arguments, bare_client)
    return 0


if __name__ == "__main__":
    sys.exit(main())
