#!/usr/bin/env python3
"""Measures `pitcrew plan` over a file with many Node objects of ordinary size.

Prints, for each size and format of the file: its size, seconds, processor seconds and the highest resident
memory of one plan.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import operator_scale  # noqa: E402
import sides  # noqa: E402

ROOT = HERE.parent.parent


def nodes(count):
    for index in range(count):
        yield {"apiVersion": "v1", "kind": "Node", **operator_scale.node(index), **operator_scale.status(index)}


def write(path, count):
    """The objects as `kubectl get nodes -o json` or `-o yaml` prints them."""
    with open(path, "w", encoding="utf-8") as file:
        if path.suffix == ".json":
            json.dump({"apiVersion": "v1", "kind": "List", "items": list(nodes(count))}, file, indent=4)
            return
        file.write("apiVersion: v1\nkind: List\nitems:\n")
        for node in nodes(count):
            yaml.dump([node], file, Dumper=yaml.CSafeDumper, default_flow_style=False)


def measure(program, policy, cluster):
    environment = {**os.environ, **{f"{name}_IMAGE": f"registry.example.com/{name.lower()}:v1" for name in sides.IMAGES}}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    ran = subprocess.run([program, "plan", "-f", policy, "--cluster", cluster, "-o", "table"], check=False,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    seconds = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode != 3:
        sys.exit(f"pitcrew plan ended with {ran.returncode}: {ran.stderr}")
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{cluster.name:14} {cluster.stat().st_size / 1e6:7.1f} MB  {seconds:6.1f} s  processor {processor:6.1f} s"
          f"  memory {after.ru_maxrss / 1024:7.1f} MB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release",
                        help="the build tree whose pitcrew is measured")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 10000])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pitcrew-bench-") as name:
        folder = pathlib.Path(name)
        policy = folder / "policy.yaml"
        policy.write_text(json.dumps({
            "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"},
            "spec": yaml.safe_load((HERE / "policy.yaml").read_text())}), encoding="utf-8")
        for count in arguments.nodes:
            for suffix in ("json", "yaml"):
                cluster = folder / f"{count}.{suffix}"
                write(cluster, count)
                measure(arguments.build.resolve() / "bin/pitcrew", policy, cluster)
                cluster.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
