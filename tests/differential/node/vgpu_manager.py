#!/usr/bin/env python3
"""Compares Pitcrew's nvidia-k8s-vgpu-dm with another one: on one real API server each follows its own node's label
nvidia.com/vgpu.config over the same random run of changes, each on a simulated sysfs of its own where writes have their
effect.

After each change both must say the same in nvidia.com/vgpu.config.state. Where that is `success`, each GPU must have
the same vGPUs by type and number; where it is `failed`, ours must have left the node as it was and its operands running. As
long as both sides had the same vGPUs before, the values that state and operands' labels took have to be equal in order
too, but for what ours refuses before it pauses anybody (docs/differences.md).

The other side is the program named by $PITCREW_PEER_VGPU_MANAGER, and the nvidia-vgpu-dm that it starts lies beside it.
Without it, root or /dev/fuse the exit status is 77.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import apiserver  # noqa: E402
import label_history  # noqa: E402
import vgpu  # noqa: E402
import vgpu_trees  # noqa: E402

CONFIG, STATE, PAUSED = "nvidia.com/vgpu.config", "nvidia.com/vgpu.config.state", "paused-for-vgpu-change"
LABELS = {f"{label_history.DEPLOY}sandbox-device-plugin": "true", f"{label_history.DEPLOY}sandbox-validator": "true"}
TOKEN = "admin"
NODES = [["T4"], ["T4", "T4"], ["A30"], ["T4", "A30"]]


def layout(rng, boards):
    """One configuration, as vgpu_trees makes them: some fit, some have too many, some a type that the GPU lacks."""
    return vgpu_trees.configuration(rng, boards)["vgpu-configs"]["one"]


def fitting(boards):
    entries = []
    for board in sorted(set(boards)):
        device, types = vgpu_trees.BOARDS[board]
        name, count = sorted(types.items())[0]
        entries.append({"device-filter": device, "devices": "all", "vgpu-devices": {name: count}})
    return entries


class Side:
    """One manager on its node. What it starts is looked for in `path`."""

    def __init__(self, arguments, server, folder, name, program, path, boards):
        self.node = vgpu_trees.Node(str(pathlib.Path(arguments.programs, "pitcrew-simulate")), folder / name, boards)
        server.create("/api/v1/nodes", {"metadata": {"name": f"{folder.name}-{name}", "labels": LABELS}})
        self.history = label_history.LabelHistory(server.port, TOKEN, f"{folder.name}-{name}", STATE, PAUSED,
                                                  vgpu_trees.SECONDS)
        host = folder / f"{name}-host"
        for part in ("run", "driver", "proc"):  # no process has a vGPU
            (host / part).mkdir(parents=True)
        # Not below /run, which the program has an empty one of.
        environment = {"PATH": f"{path}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(host), "NO_PROXY": "*",
                       "NODE_NAME": f"{folder.name}-{name}", "NAMESPACE": "default",
                       "KUBECONFIG": str(server.kubeconfig()), "CONFIG_FILE": str(folder / "config.yaml"),
                       "DEFAULT_VGPU_CONFIG": "default", "HOST_ROOT_MOUNT": str(host),
                       "DRIVER_ROOT_CTR_PATH": str(host / "driver")}
        self.log = folder / f"{name}.log"
        try:
            with open(self.log, "wb") as log:
                self.process = subprocess.Popen(  # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
                    ["nvidia-k8s-vgpu-dm"], executable=program, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                    stderr=log, cwd=folder, preexec_fn=vgpu.entering(self.node.sys))
        except OSError:
            self.node.close()
            raise
        self.history.settle(self.process, 0)  # the default configuration

    def change_to(self, config):
        before, start = self.node.counts(), len(self.history.seen)
        self.history.set_labels({CONFIG: config, STATE: None})
        told = label_history.told(self.history.settle(self.process, start), STATE)
        return {**told, "ended": self.process.poll(), "before": before, "after": self.node.counts()}

    def close(self):
        self.process.kill()
        self.process.wait()
        self.node.close()


def differences(ours, theirs):
    """What is not as it has to be, in words."""
    last = [side["states"][-1] if side["states"] else "nothing" for side in (ours, theirs)]
    if ours["ended"] is not None:
        yield f"ours has ended with {ours['ended']}"
    if last[0] != last[1]:
        yield f"state {last[0]}, theirs {last[1]}"
        return
    if last[0] == "success" and ours["after"] != theirs["after"]:
        yield f"vGPUs {ours['after']}, theirs {theirs['after']}"
    if last[0] == "failed":
        if ours["after"] != ours["before"]:
            yield f"ours has left {ours['after']} of {ours['before']}"
        return
    if ours["before"] == theirs["before"]:
        for what in ("states", "operands"):
            if ours[what] != theirs[what]:
                yield f"{what} {ours[what]}, theirs {theirs[what]}"


def paused_after(result):
    return [name for name, values in result["operands"].items() if values and values[-1] != "true"]


def run_case(arguments, server, folder, rng):
    """Pairs of a change and what differs; counts how the changes ended."""
    boards = rng.choice(NODES)
    layouts = {f"layout-{number}": layout(rng, boards) for number in range(5)}
    (folder / "config.yaml").write_text(yaml.safe_dump(
        {"version": "v1", "vgpu-configs": {"default": fitting(boards), **layouts}}))
    changes = ["default"]  # what both have at the start
    while len(changes) <= arguments.changes:
        # The same again is no change.
        changes += [one for one in [rng.choice([*layouts, *layouts, "default", "no-such-layout"])] if one != changes[-1]]
    changes = changes[1:]
    peer = os.environ["PITCREW_PEER_VGPU_MANAGER"]
    sides = [Side(arguments, server, folder, "ours", str(pathlib.Path(arguments.programs, "pitcrew")),
                  arguments.programs, boards),
             Side(arguments, server, folder, "theirs", peer, os.path.dirname(peer), boards)]
    ended = {}
    found = []
    try:
        with concurrent.futures.ThreadPoolExecutor(2) as workers:
            for number, change in enumerate(changes):
                ours, theirs = workers.map(lambda side, name=change: side.change_to(name), sides)
                told = list(differences(ours, theirs))
                if paused_after(ours):
                    told.append(f"ours has left {paused_after(ours)} paused")
                found += [f"{boards}, change {number} to {change} ({json.dumps(layouts.get(change))}): {one}"
                          for one in told]
                state = ours["states"][-1] if ours["states"] else "nothing"
                ended[state] = ended.get(state, 0) + 1
    finally:
        for side in sides:
            side.close()
    if found and arguments.verbose:
        found += [f"log of {side.log.name}:\n{side.log.read_text()[-3000:]}" for side in sides]
    return found, ended


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default=str(vgpu.ROOT / "build/release/bin"), help="the folder of our programs")
    parser.add_argument("--cases", type=int, default=3, help="nodes")
    parser.add_argument("--changes", type=int, default=8, help="changes of each node's label")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="also the logs of a case with differences")
    arguments = parser.parse_args()
    arguments.programs = str(pathlib.Path(arguments.programs).resolve())
    if not os.environ.get("PITCREW_PEER_VGPU_MANAGER") or os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK):
        print("skipped: it needs root, /dev/fuse and PITCREW_PEER_VGPU_MANAGER")
        return vgpu.SKIPPED
    total, count = {}, 0
    with tempfile.TemporaryDirectory(prefix="vgpu-manager-", dir="/tmp") as name, apiserver.ApiServer() as server:
        for number in range(arguments.cases):
            folder = pathlib.Path(name, f"case-{number}")
            folder.mkdir()
            found, ended = run_case(arguments, server, folder, random.Random(f"{arguments.seed} {number}"))
            count += len(found)
            for one in found:
                print(f"case {number}: {one}", flush=True)
            for state, times in ended.items():
                total[state] = total.get(state, 0) + times
    print(f"{arguments.cases} cases, {sum(total.values())} changes, {count} differences: {total}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
