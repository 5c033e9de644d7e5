#!/usr/bin/env python3
"""Compares what Pitcrew's nvidia-vgpu-dm makes of a node with what another one makes of the same node.

Each has a simulated sysfs of its own at /sys, where a write has its effect: the same GPUs with the same mediated
devices, and the same random configuration. Afterwards both must have ended the same way. Where they did what was asked
for, each GPU must have the same vGPUs by type and number; where they did not, ours must have left the node exactly as
it was (the other one leaves what it has got to: docs/differences.md).

The other side is the program named by $PITCREW_PEER_VGPU_DM. Without it, root or /dev/fuse the exit status is 77.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import uuid

import yaml

import vgpu

# Types with how many an empty GPU takes (simulation/profiles); those of one framebuffer size go together.
# A board with virtual functions has some hundred files for each, and every part of a path is a request to the simulation.
SECONDS = 900
BOARDS = {"T4": ("0x1EB810DE", {"T4-1Q": 16, "T4-2Q": 8, "T4-4Q": 4, "T4-8Q": 2, "T4-16Q": 1}),
          "A30": ("0x20B710DE", {"A30-4C": 6, "A30-6C": 4, "A30-8C": 3, "A30-12C": 2, "A30-24C": 1})}


class Node:
    """A simulated sysfs with NVIDIA's driver loaded, and virtual functions where the boards have some."""

    def __init__(self, simulate, folder, boards):
        folder.mkdir()
        self.sys, dev = folder / "sys", folder / "dev"
        self.sys.mkdir()
        dev.mkdir()
        description = folder / "description.yaml"
        description.write_text(yaml.safe_dump({"kernel": {"vgpu": "mdev"},
                                               "gpus": [{"profile": board} for board in boards]}))
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [simulate, "sysfs", "--node-name", "node", "--no-uevents", "--load-driver", "--description", description,
             "--into", self.sys, "--dev", dev], stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline():
            raise OSError("no simulated sysfs")
        self.devices = self.sys / "bus/pci/devices"
        self.gpus = sorted(path.name for path in self.devices.iterdir())
        for gpu in self.gpus:
            self.enable(gpu)

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.process.stdout.close()

    def write(self, inside, text):
        with open(self.sys / inside, "w", encoding="ascii") as file:
            file.write(text)

    def enable(self, gpu):
        """As NVIDIA's sriov-manage does."""
        total = self.devices / gpu / "sriov_totalvfs"
        if not total.exists():
            return
        self.write(f"bus/pci/devices/{gpu}/driver_override", "pci-pf-stub")
        self.write("bus/pci/drivers/nvidia/unbind", gpu)
        self.write("bus/pci/drivers_probe", gpu)
        self.write(f"bus/pci/devices/{gpu}/sriov_numvfs", total.read_text())
        self.write(f"bus/pci/devices/{gpu}/driver_override", "\n")
        self.write("bus/pci/drivers/pci-pf-stub/unbind", gpu)
        self.write("bus/pci/drivers_probe", gpu)

    def parents(self, gpu):
        functions = sorted(link.resolve().name for link in (self.devices / gpu).glob("virtfn*"))
        return functions or [gpu]

    def make(self, gpu, name, count, rng):
        """`count` mediated devices of a type, with UUIDs of the random numbers."""
        for parent in self.parents(gpu):
            for folder in sorted((self.devices / parent / "mdev_supported_types").iterdir()):
                if (folder / "name").read_text().split()[-1] != name:
                    continue
                while count > 0 and int((folder / "available_instances").read_text()) > 0:
                    self.write((folder / "create").relative_to(self.sys),
                               str(uuid.UUID(int=rng.getrandbits(128), version=4)))
                    count -= 1

    def mdevs(self):
        """UUID to parent and type."""
        return {link.name: (link.resolve().parent.name, (link / "mdev_type/name").read_text().split()[-1])
                for link in (self.sys / "bus/mdev/devices").iterdir()}

    def counts(self):
        """Of each GPU, vGPUs by type."""
        made = {gpu: {} for gpu in self.gpus}
        for parent, name in self.mdevs().values():
            gpu = next(one for one in self.gpus if parent in self.parents(one))
            made[gpu][name] = made[gpu].get(name, 0) + 1
        return made


def configuration(rng, boards):
    entries = []
    for board in sorted(set(boards)):
        device, types = BOARDS[board]
        name = rng.choice(sorted(types))
        most = types[name]
        counts = {} if rng.random() < 0.15 else {name: rng.choice([1, most, most, max(1, most // 2), most + 1])}
        if counts and rng.random() < 0.15:
            counts[rng.choice(sorted(types))] = 1
        entries.append({"device-filter": device, "devices": "all", "vgpu-devices": counts})
    if rng.random() < 0.1:
        entries[-1]["vgpu-devices"] = {"H100-10C": 1}
    return {"version": "v1", "vgpu-configs": {"one": entries}}


def compare(programs, simulate, folder, rng):
    """What differs, or nothing; and how the case ended."""
    boards = rng.choice([["T4"], ["T4", "T4"], ["A30"], ["A30", "T4"]])
    config, seed = configuration(rng, boards), rng.random()
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    ends = []
    for side, program in zip(("ours", "theirs"), programs):
        node = Node(simulate, folder / side, boards)
        try:
            before_rng = random.Random(seed)
            for gpu, board in zip(node.gpus, boards):
                name = before_rng.choice(sorted(BOARDS[board][1]))
                node.make(gpu, name, before_rng.randrange(0, BOARDS[board][1][name] + 1), before_rng)
            before = node.mdevs()
            status, log = vgpu.inside(node.sys, program, ["apply", "-f", str(file), "-c", "one"])
            ends.append({"status": status, "before": before, "after": node.mdevs(), "counts": node.counts(), "log": log})
        finally:
            node.close()
    ours, theirs = ends
    case = {"boards": boards, "config": config["vgpu-configs"]["one"], "before": ours["before"]}
    if sorted(ours["before"]) != sorted(theirs["before"]):
        return {**case, "not the same before": theirs["before"]}, ""
    if ours["status"] != theirs["status"]:
        return {**case, "ours": [ours["status"], ours["log"]], "theirs": [theirs["status"], theirs["log"]]}, ""
    if ours["status"] != 0:
        wrong = ours["after"] != ours["before"]
        return ({**case, "ours is not as before": ours["after"], "log": ours["log"]} if wrong else None), "refused"
    if ours["counts"] != theirs["counts"]:
        return {**case, "ours": ours["counts"], "theirs": theirs["counts"]}, ""
    return None, "unchanged" if ours["after"] == ours["before"] else "changed"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default=str(vgpu.ROOT / "build/release/bin"), help="the folder of our programs")
    parser.add_argument("--ours", help="another program than pitcrew as our nvidia-vgpu-dm")
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    peer = os.environ.get("PITCREW_PEER_VGPU_DM")
    if not peer or os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("skipped: it needs root, /dev/fuse and PITCREW_PEER_VGPU_DM")
        return vgpu.SKIPPED
    vgpu.SECONDS = SECONDS
    programs = [arguments.ours or str(pathlib.Path(arguments.programs, "pitcrew")), peer]
    simulate = str(pathlib.Path(arguments.programs, "pitcrew-simulate"))
    ended, found = {}, 0
    with tempfile.TemporaryDirectory(prefix="vgpu-trees-", dir="/tmp") as name:
        for number in range(arguments.cases):
            here = pathlib.Path(name, str(number))
            here.mkdir()
            difference, end = compare(programs, simulate, here, random.Random(f"{arguments.seed} {number}"))
            ended[end] = ended.get(end, 0) + 1
            if difference:
                found += 1
                print(f"case {number}: {json.dumps(difference, indent=2)}", flush=True)
    print(f"{arguments.cases} cases, {found} differences: {ended}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
