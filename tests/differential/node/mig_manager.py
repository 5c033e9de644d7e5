#!/usr/bin/env python3
"""Compares Pitcrew's nvidia-mig-manager with another one: on one real API server each follows its own node's label
nvidia.com/mig.config over the same run of changes; the values of nvidia.com/mig.config.state and of the operands'
labels have to be equal in order, and so has the geometry after each.

The other side is the program named by $PITCREW_PEER_MIG_MANAGER, and the nvidia-mig-parted that it starts lies beside
it. Without it, or without root, the exit status is 77.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1])]

import apiserver  # noqa: E402
import compare  # noqa: E402
import mig  # noqa: E402

SKIPPED = 77
LABELS = {f"nvidia.com/gpu.deploy.{operand}": "true"
          for operand in ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm")}
LABELS["nvidia.com/gpu.deploy.nvsm"] = "false"
CHANGES = ["all-1g.10gb", "all-disabled", "all-2g.20gb", "no-such-layout", "all-1g.10gb", "all-balanced",
           "all-enabled", "all-7g.80gb", "too-many", "all-3g.40gb", "all-disabled"]


def configuration():
    """The operator's default layouts, and one that no GPU can have."""
    value = yaml.safe_load(mig.defaults())
    value["mig-configs"]["too-many"] = [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 9}}]
    return yaml.safe_dump(value)


def run_side(arguments, server, node, program, path):
    server.create("/api/v1/nodes", {"metadata": {"name": node, "labels": LABELS}})
    request = {"description": mig.node([("H100-80", 2)]), "programs": arguments.programs, "program": program,
               "path": path,
               "parted": str(pathlib.Path(os.environ["PITCREW_PEER_MIG_MANAGER"]).with_name("nvidia-mig-parted")),
               "config": configuration(), "kubeconfig": str(server.kubeconfig()), "port": server.port,
               "token": "admin", "node": node, "changes": CHANGES}
    done = subprocess.run([sys.executable, HERE / "mig_manager_side.py"], input=json.dumps(request),
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def by_change(side):
    return {f"change {index} to {result.pop('change')}": result for index, result in enumerate(side["results"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default=str(ROOT / "build/release/bin"), help="the folder of Pitcrew's programs")
    parser.add_argument("--verbose", action="store_true",
                        help="also what each side told after each change, and its log")
    arguments = parser.parse_args()
    peer = os.environ.get("PITCREW_PEER_MIG_MANAGER")
    if not peer or os.geteuid() != 0:
        print("skipped: " + ("mount namespaces need root" if peer else
                             "PITCREW_PEER_MIG_MANAGER names no program to compare with"))
        return SKIPPED
    accepted = yaml.safe_load((HERE / "mig_accepted.yaml").read_text())
    with apiserver.ApiServer() as server, concurrent.futures.ThreadPoolExecutor(2) as workers:
        both = [workers.submit(run_side, arguments, server, "ours", str(pathlib.Path(arguments.programs) / "pitcrew"),
                               arguments.programs),
                workers.submit(run_side, arguments, server, "theirs", peer, os.path.dirname(peer))]
        ours, theirs = (side.result() for side in both)
    for name, side in (("ours", ours), ("theirs", theirs)) if arguments.verbose else ():
        print(f"{name}:\n" + "\n".join(f"  {result}" for result in side["results"]) + f"\n  log: {side['log']}")
    found = list(compare.differences(by_change(ours), by_change(theirs), accepted))
    for line in compare.lines(found):
        print(line)
    print(f"{len(CHANGES)} changes, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
