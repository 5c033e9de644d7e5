#!/usr/bin/env python3
"""Compares Pitcrew's vfio-manage with another one on a real kernel: from random states of a machine's devices (which
driver has each, which overrides are left over) both do the same operation, and the states afterwards are compared.

The machine is that of tests/kernel: all cases run in one boot of it. A difference that vfio_accepted.yaml does not list
with its values is a failure.

The other side is the program named by $PITCREW_PEER_VFIO_MANAGE (linked statically, as Go links it). Without it, or
without the machine, the exit status is 77.
"""

import argparse
import collections
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MACHINE = ROOT / "tests/kernel/run.py"
SKIPPED = 77
# What the devices of the machine are (tests/kernel/README.md), and the driver that plays the node's own.
DEVICES = {
    "0000:00:04.0": ("gpu", "pci-pf-stub"),
    "0000:00:05.0": ("graphics", "pci-pf-stub"),
    "0000:00:05.1": ("audio", "pci-pf-stub"),
    "0000:00:06.0": ("shared", "pci-pf-stub"),
    "0000:00:06.1": ("foreign", "pci-pf-stub"),
    "0000:00:07.0": ("switch", "pci-pf-stub"),
    "0000:01:00.0": ("gpu", "nvme"),
}
NONE = "none"
OPERATIONS = (["bind", "--all"], ["bind", "--all", "--bind-nvswitches"], ["unbind", "--all"],
              ["unbind", "--all", "--unbind-nvswitches"])
SINGLE = ("0000:00:04.0", "0000:00:05.0", "0000:00:06.1", "0000:00:07.0", "0000:01:00.0")


def cases(count, seed):
    """[(words, {address: (driver, override)})]"""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        words = rng.choice(OPERATIONS) if rng.random() < 0.6 else [rng.choice(["bind", "unbind"]), "-d",
                                                                    rng.choice(SINGLE)]
        state = {}
        for address, (_, native) in DEVICES.items():
            driver = rng.choice([native, native, NONE, "vfio-pci"])
            # What a run that was cut off leaves; a device that VFIO has keeps its override.
            left = driver == "vfio-pci" or rng.random() < 0.2
            state[address] = (driver, "vfio-pci" if left else NONE)
        found.append((words, state))
    return found


def script(chosen):
    """What the machine runs: each case for both sides, a line of output for each."""
    lines = ["""set -e
modprobe vfio-pci
modprobe pci-pf-stub
echo 1234 11e8 > /sys/bus/pci/drivers/pci-pf-stub/new_id
export VFIO_MANAGE_TIMEOUT=0s
put() {
  device=/sys/bus/pci/devices/$1
  echo > $device/driver_override
  [ ! -e $device/driver ] || echo $1 > $device/driver/unbind
  [ "$2" != vfio-pci ] || echo vfio-pci > $device/driver_override
  [ "$2" = none ] || echo $1 > /sys/bus/pci/drivers/$2/bind
  [ "$3" = none ] || echo $3 > $device/driver_override
}
tell() {
  for device in /sys/bus/pci/devices/*; do
    link=$(readlink $device/driver || true)
    printf ' %s=%s,%s' "${device##*/}" "${link##*/}" "$(cat $device/driver_override)"
  done
  echo
}
"""]
    for number, (words, state) in enumerate(chosen):
        put = "\n".join(f"put {address} {driver} {override}" for address, (driver, override) in state.items())
        for side, program in (("ours", "vfio-manage"), ("theirs", "theirs")):
            lines.append(f"{put}\nstatus=0\n/usr/bin/{program} {' '.join(words)} > /run/said 2>&1 || status=$?\n"
                         f"printf 'RESULT {side} {number} %s' $status; tell")
    return "\n".join(lines) + "\n"


def results(output):
    """{(number, side): (status, {address: (driver, override)})}"""
    found = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) < 4 or words[0] != "RESULT":
            continue
        state = {}
        for pair in words[4:]:
            address, _, values = pair.partition("=")
            driver, _, override = values.partition(",")
            if address in DEVICES:
                state[address] = (driver or NONE, NONE if override == "(null)" else override)
        found[int(words[2]), words[1]] = (words[3], state)
    return found


def run(arguments, chosen, peer):
    with tempfile.TemporaryDirectory(prefix="pitcrew-vfio-") as folder:
        scenario = pathlib.Path(folder) / "scenario"
        scenario.write_text(script(chosen))
        done = subprocess.run(
            [sys.executable, MACHINE, "--deadline", str(arguments.deadline), "--program",
             f"/usr/bin/pitcrew={arguments.ours}", "--link", "/usr/bin/vfio-manage=pitcrew", "--file",
             f"/usr/bin/theirs={peer}", "--file", f"/scenario={scenario}", "--", "sh", "/scenario"],
            capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the machine ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-2000:]}")
    return results(done.stdout)


def differences(number, words, before, ours, theirs):
    """One for each device, and one for the exit status: what was done, to which kind of device, in which state, and
    what both made of it."""
    operation = " ".join(words[:2]) if words[1] == "--all" else f"{words[0]} -d"
    if ours[0] != theirs[0]:
        yield {"operation": operation, "device": "exit status", "ours": ours[0], "theirs": theirs[0], "case": number}
    for address, (kind, native) in DEVICES.items():
        one, other = ours[1][address], theirs[1][address]
        for index, field in enumerate(("driver", "override")):
            if one[index] == other[index]:
                continue
            name = {native: "its own", "": NONE}
            yield {"operation": operation, "device": f"{kind} {field}",
                   "before": name.get(before[address][0], before[address][0]),
                   "ours": name.get(one[index], one[index]), "theirs": name.get(other[index], other[index]),
                   "case": number}


def is_accepted(difference, rules):
    def matches(rule):
        return all(difference.get(key) in (value if isinstance(value, list) else [value])
                   for key, value in rule.items() if key != "reason")
    return any(matches(rule) for rule in rules)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default=str(ROOT / "build/dev/bin/pitcrew"))
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deadline", type=int, default=900, help="seconds for the machine's whole life")
    arguments = parser.parse_args()
    peer = os.environ.get("PITCREW_PEER_VFIO_MANAGE")
    if not peer:
        print("skipped: PITCREW_PEER_VFIO_MANAGE names no other vfio-manage")
        return SKIPPED
    if not MACHINE.exists():
        print("skipped: there is no machine to try them in")
        return SKIPPED
    chosen = cases(arguments.cases, arguments.seed)
    found = run(arguments, chosen, peer)
    rules = yaml.safe_load((HERE / "vfio_accepted.yaml").read_text()) or []
    unexpected, seen = [], collections.Counter()
    for number, (words, before) in enumerate(chosen):
        for difference in differences(number, words, before, found[number, "ours"], found[number, "theirs"]):
            if is_accepted(difference, rules):
                seen["accepted"] += 1
            else:
                unexpected.append(difference)
    for difference in unexpected:
        print(difference)
    print(f"{len(chosen)} cases, {len(unexpected)} unexpected differences, {seen['accepted']} accepted ones")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
