#!/usr/bin/env python3
"""Compares Pitcrew's nvidia-vgpu-dm with another one: what each says about random configurations on random nodes with
mediated devices, of boards with and without virtual functions.

Both see the same tree at /sys, in a mount namespace of their own: plain files, where a write has no effect. So what is
compared is every verdict that needs none: whether a file and its selected configuration are well-formed, whether it is
applied, and of those that are applied or that a GPU has no type for, that `apply` ends as the other one and writes
nothing. A difference that is not accepted is a failure.

The other side is the program named by $PITCREW_PEER_VGPU_DM. Without it, or without root, the exit status is 77.
"""

import argparse
import ctypes
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import uuid

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SKIPPED = 77
SECONDS = 120
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000

# Device id, subsystem, virtual functions, and types with how many an empty GPU has (vgpu-device-manager.md section 8.1).
BOARDS = {
    "T4": ("1eb8", "12a2", 0, {"GRID T4-1Q": 16, "GRID T4-4Q": 4, "GRID T4-8Q": 2, "GRID T4-16C": 1}),
    "V100D": ("1db6", "124a", 0, {"GRID V100D-4C": 8, "GRID V100D-16Q": 2}),
    "A100": ("20f1", "145f", 8, {"NVIDIA A100-5C": 8, "NVIDIA A100-10C": 4, "NVIDIA A100-1-5C": 7}),
    "A16": ("25b6", "14a9", 8, {"NVIDIA A16-1Q": 8, "NVIDIA A16-8Q": 2}),
    "RTX": ("2bb5", "204e", 8, {"NVIDIA RTX Pro 6000 Blackwell DC-48Q": 2,
                                "NVIDIA RTX Pro 6000 Blackwell DC-1-24Q": 4}),
}
BROKEN = ["version: v2", "vgpu-configs: {a: [{devices: all, vgpu-devices: {}}]}", "version: v1\nbogus: 1",
          "version: v1\nvgpu-configs: {}", "version: v1\nvgpu-configs: {a: []}", "{}", "", "version: v1", "7",
          "version: v1\nvgpu-configs: {a: [{vgpu-devices: {}}]}", "version: v1\nvgpu-configs: {a: [{devices: all}]}",
          "version: v1\nvgpu-configs: {a: [{devices: some, vgpu-devices: {}}]}",
          "version: v1\nvgpu-configs: {a: [{devices: {}, vgpu-devices: {}}]}",
          "version: v1\nvgpu-configs: {a: [{devices: [1.5], vgpu-devices: {}}]}",
          "version: v1\nvgpu-configs: {a: [{devices: all, bogus: 1, vgpu-devices: {}}]}",
          "version: v1\nvgpu-configs: {a: [{devices: all, device-filter: 7, vgpu-devices: {}}]}",
          "version: v1\nvgpu-configs: {a: [{devices: all, device-filter: [a, b], vgpu-devices: {}}]}",
          *("version: v1\nvgpu-configs: {a: [{devices: all, vgpu-devices: {%s}}]}" % counts for counts in (
              "A100-5C: 0", "A100-5C: -1", "A100-5C: 1.5", "A100-5C: x", "bogus: 1", "A16-8E: 1", "A100-05C: 1",
              "A100-1-5Cme: 1", "A100-1-5CNOME: 1", "A100-5CME: 1", "A100-5C: 1, A100-1-5C: 1", "A100-0Q: 1",
              "A100-1-5C: 1, A100-2-10C: 1", "A100-0-5C: 1", "RTX6000-Ada-2Q: 1", "RTX6000-Ada-2QGFX: 1"))]


class Tree:
    """A /sys with GPUs and their mediated devices."""

    def __init__(self, folder):
        self.sys = folder / "sys"
        for name in ("bus/pci/devices", "bus/mdev/devices", "class/mdev_bus", "kernel/iommu_groups"):
            (self.sys / name).mkdir(parents=True)
        self.groups = 0

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def group(self):
        self.groups += 1
        folder = self.sys / f"kernel/iommu_groups/{self.groups}"
        folder.mkdir()
        return folder

    def add_device(self, address, device, subsystem):
        real = self.sys / "devices/pci0000:00" / address
        for name, text in {"vendor": "0x10de", "device": f"0x{device}", "class": "0x030200", "numa_node": "-1",
                           "subsystem_vendor": "0x10de", "subsystem_device": f"0x{subsystem}",
                           "resource": "0x0 0x0 0x0"}.items():
            self.write(real / name, text + "\n")
        (real / "iommu_group").symlink_to(self.group())
        (self.sys / "bus/pci/devices" / address).symlink_to(real)
        return real

    def add_parent(self, real, types, rooms):
        for index, (title, room) in enumerate(zip(types, rooms)):
            folder = real / f"mdev_supported_types/nvidia-{400 + index}"
            self.write(folder / "name", title + "\n")
            self.write(folder / "available_instances", f"{room}\n")
            self.write(folder / "create", "")
        (self.sys / "class/mdev_bus" / real.name).symlink_to(real)

    def add_mdev(self, real, index, name):
        folder = real / name
        folder.mkdir()
        (folder / "mdev_type").symlink_to(real / f"mdev_supported_types/nvidia-{400 + index}")
        (folder / "driver").mkdir()
        (folder / "iommu_group").symlink_to(self.group())
        self.write(folder / "remove", "")
        (self.sys / "bus/mdev/devices" / name).symlink_to(folder)

    def add_gpu(self, position, board, chosen):
        """`chosen`: indices of types, one for each vGPU."""
        device, subsystem, functions, types = BOARDS[board]
        bus = 0x10 + 0x10 * position
        physical = self.add_device(f"0000:{bus:02x}:00.0", device, subsystem)
        parents = [physical]
        if functions:
            self.write(physical / "sriov_totalvfs", f"{functions}\n")
            self.write(physical / "sriov_numvfs", f"{functions}\n")
            parents = []
            for number in range(functions):
                real = self.add_device(f"0000:{bus:02x}:{number // 8 + 1:02x}.{number % 8}", device, subsystem)
                (real / "physfn").symlink_to(physical)
                (physical / f"virtfn{number}").symlink_to(real)
                parents.append(real)
        for place, real in enumerate(parents):
            taken = chosen if not functions else chosen[place:place + 1]
            self.add_parent(real, types, [0 if taken and functions else most if not functions else 1
                                          for most in types.values()])
            for index in taken:
                number = len(list((self.sys / "bus/mdev/devices").iterdir()))
                self.add_mdev(real, index, str(uuid.uuid5(uuid.NAMESPACE_OID, f"{real.name} {number}")))

    def written(self):
        """What was written to, by file."""
        return {str(path.relative_to(self.sys)): path.read_text() for pattern in ("create", "remove")
                for path in (self.sys / "devices").rglob(pattern) if path.read_text()}


def names(board):
    return [title.split()[-1] for title in BOARDS[board][3]]


def filters(board):
    device, subsystem, _, _ = BOARDS[board]
    plain = f"0x{device.upper()}10DE"
    return [plain, f"{plain}:0x{subsystem.upper()}10DE", [plain, "0x000110DE"]]


def entry(rng, boards, held):
    board = rng.choice(boards)
    made = {"devices": rng.choice(["all", "all", "all", [rng.randrange(3)]]), "vgpu-devices": {}}
    if rng.random() < 0.7:
        made["device-filter"] = rng.choice([*filters(board), "0x000110DE"])
    if rng.random() < 0.4:
        made["vgpu-devices"] = dict(held[board])
    elif rng.random() < 0.8:
        made["vgpu-devices"] = {rng.choice(names(board)): rng.randrange(1, 3)}
    return made


def as_it_is(rng, held):
    """What the node has, with something in front that it overrides, or behind that it does not."""
    entries = [{"device-filter": rng.choice(filters(board)), "devices": "all", "vgpu-devices": dict(counts)}
               for board, counts in held.items()]
    rng.shuffle(entries)
    noise = entry(rng, list(held), held)
    return rng.choice([entries, entries, [noise, *entries], [*entries, noise]])


def configuration(rng, held):
    boards = list(held)
    return {"version": "v1",
            "vgpu-configs": {"one": as_it_is(rng, held) if rng.random() < 0.6 else [entry(rng, boards, held)],
                             "two": [entry(rng, boards, held) for _ in range(rng.randrange(1, 4))]}}


def is_accepted(step, config, ours):
    """docs/differences.md: an entry whose types the GPU lacks gives way to one before it with the same devices."""
    selections = [json.dumps([one.get("device-filter"), one["devices"]]) for one in config if "device-filter" in one]
    return step == "assert" and ours == 0 and len(selections) != len(set(selections))


class Case:
    def __init__(self, rng, folder):
        self.tree = Tree(folder)
        boards = [rng.choice(sorted(BOARDS)) for _ in range(rng.randrange(1, 4))]
        chosen, held = {}, {}
        for board in sorted(set(boards)):
            time_sliced = [index for index, name in enumerate(names(board)) if "-1-" not in name]
            chosen[board] = [rng.choice(time_sliced) for _ in range(rng.randrange(0, 3))]
            types = [names(board)[index] for index in chosen[board]]
            held[board] = {name: types.count(name) for name in types}
        for position, board in enumerate(boards):
            self.tree.add_gpu(position, board, chosen[board])
        self.config = configuration(rng, held)
        self.selected = rng.choice(["one", "one", "one", "one", "two", "two", "three", ""])

    def entries(self):
        return self.config["vgpu-configs"].get(self.selected, [])


def checked(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def entering(tree):
    """What a child process does to see `tree` at /sys, and an empty /run."""
    def enter():
        libc = ctypes.CDLL(None, use_errno=True)
        checked(libc.unshare(CLONE_NEWNS), "unshare")
        checked(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")
        checked(libc.mount(b"tmpfs", b"/run", b"tmpfs", 0, None), "/run")
        checked(libc.mount(os.fsencode(tree), b"/sys", None, MS_BIND, None), "/sys")
    return enter


def inside(tree, program, words):
    """Exit status and log of the program where `tree` is /sys."""
    done = subprocess.run(["nvidia-vgpu-dm", *words], executable=program, capture_output=True, text=True, check=False,
                          timeout=SECONDS, stdin=subprocess.DEVNULL,
                          preexec_fn=entering(tree))  # pylint: disable=subprocess-popen-preexec-fn
    return done.returncode, done.stderr


def both(programs, tree, words):
    return [inside(tree, program, words) for program in programs]


def compare_case(programs, case, folder, told):
    """Pairs of a place and what both said."""
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(case.config))
    words = ["-f", str(file), "-c", case.selected]
    steps = [("assert --valid-config", ["assert", "-a", *words]), ("assert", ["assert", *words])]
    for name, step in steps:
        (ours, our_log), (theirs, their_log) = both(programs, case.tree.sys, step)
        told[name, theirs == 0] = told.get((name, theirs == 0), 0) + 1
        if ours != theirs and not is_accepted(name, case.entries(), ours):
            yield name, (ours, our_log), (theirs, their_log)
    applied = theirs == 0
    if not applied:
        return
    for index, program in enumerate(programs):
        status, log = inside(case.tree.sys, program, ["apply", *words])
        if status != 0 or case.tree.written():
            yield f"apply of what is applied, by {('ours', 'theirs')[index]}", (status, log), case.tree.written()
    told["apply", True] = told.get(("apply", True), 0) + 1


def compare_files(programs, folder):
    tree = Tree(folder)
    for index, text in enumerate(BROKEN):
        file = folder / f"file{index}.yaml"
        file.write_text(text)
        (ours, our_log), (theirs, their_log) = both(programs, tree.sys, ["assert", "-a", "-f", str(file)])
        if ours != theirs:
            yield f"file {text!r}", (ours, our_log), (theirs, their_log)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default=str(ROOT / "build/release/bin"), help="the folder of Pitcrew's programs")
    parser.add_argument("--ours", help="another program than pitcrew as our nvidia-vgpu-dm")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    peer = os.environ.get("PITCREW_PEER_VGPU_DM")
    if not peer or os.geteuid() != 0:
        print("skipped: " + ("mount namespaces need root" if peer else
                             "PITCREW_PEER_VGPU_DM names no program to compare with"))
        return SKIPPED
    programs = [arguments.ours or str(pathlib.Path(arguments.programs, "pitcrew")), peer]
    told, found = {}, 0
    with tempfile.TemporaryDirectory(prefix="vgpu-differential-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        (folder / "files").mkdir()
        for place, ours, theirs in compare_files(programs, folder / "files"):
            found += 1
            print(f"{place}\n    ours:   {ours}\n    theirs: {theirs}")
        for number in range(arguments.cases):
            rng = random.Random(f"{arguments.seed} {number}")
            here = folder / str(number)
            here.mkdir()
            case = Case(rng, here)
            for place, ours, theirs in compare_case(programs, case, here, told):
                found += 1
                print(f"case {number}, {place} of {case.selected!r} in {json.dumps(case.config)}\n"
                      f"    ours:   {ours}\n    theirs: {theirs}", flush=True)
            shutil.rmtree(here)
    for (step, good), count in sorted(told.items()):
        print(f"{step}: {count} times {'yes' if good else 'no'}")
    print(f"{len(BROKEN)} files, {arguments.cases} cases, {found} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
