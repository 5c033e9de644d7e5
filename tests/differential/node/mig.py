#!/usr/bin/env python3
"""Compares Pitcrew's nvidia-mig-parted with another one: every layout of the operator's default configuration on every
simulated model that has MIG.

Each layout is applied by both, each on a node of its own, from the layout before; then both assert and export on both
nodes. generate-config, checkpoint and restore are compared in the same way, and so is the verdict about the files of
mig_configurations.yaml. A difference that accepted.yaml does not list is a failure.

The other side is the program named by $PITCREW_PEER_MIG_PARTED. Without it, or without root, the exit status is 77.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent)]

import cases  # noqa: E402
import compare  # noqa: E402

SKIPPED = 77
DEFAULTS = ROOT / "src/desired/manifests/state-mig-manager/0400_config_map.yaml"
SIDES = ("ours", "theirs")
# Layouts that the model does not have are refused by both; so many of them are tried.
FOREIGN = 3


def defaults():
    return yaml.safe_load(DEFAULTS.read_text())["data"]["config.yaml"]


def profiles_of(layout):
    return {name for spec in layout for name in spec.get("mig-devices", {})}


def layouts(model):
    """Names of the default configuration's layouts in the order in which they are applied, and of those that the
    model does not have."""
    known = {name for name, _, _ in cases.mig_names(model)}
    configurations = yaml.safe_load(defaults())["mig-configs"]
    mine = [name for name, layout in configurations.items() if not profiles_of(layout) or profiles_of(layout) & known]
    foreign = [name for name, layout in configurations.items() if name not in mine][:FOREIGN]
    return mine, foreign


def node(models):
    return {"gpus": [{"profile": model, "count": count} for model, count in models]}


class Walk:
    """The steps on one node, of which `applier` does those that change it, and what each step is about."""

    def __init__(self, applier):
        self.applier, self.steps, self.names = applier, [], []

    def add(self, name, side, *arguments, **more):
        who = "applier" if side == self.applier else "other"
        again = sum(known.startswith(f"{name} by {who}") for known in self.names)
        self.names.append(f"{name} by {who}" + (f" ({again + 1})" if again else ""))
        self.steps.append({"side": side, "arguments": list(arguments)} | more)

    def look(self, name, layout, closely=False):
        for side in SIDES:
            self.add(f"{name}: assert", side, "assert", "-f", "{config.yaml}", "-c", layout)
            self.add(f"{name}: export", side, "export")
            if closely:
                self.add(f"{name}: assert mode", side, "assert", "--mode-only", "-f", "{config.yaml}", "-c", layout)
                self.add(f"{name}: export json", side, "export", "-o", "json", "-l", "mine")

    def change(self, layout, title=None):
        self.add(f"{title or layout}: apply", self.applier, "apply", "-f", "{config.yaml}", "-c", layout)

    def apply(self, layout, title=None, closely=False):
        self.change(layout, title)
        self.look(title or layout, layout, closely)

    def checkpoint(self, layout, name):
        """The other side's checkpoint of this side's layout, restored over another one."""
        other = SIDES[1 - SIDES.index(self.applier)]
        for side in SIDES:
            self.change(layout)
            self.add(f"{layout}: checkpoint", side, "checkpoint", "-f", "{" + name + "}", file=name)
            self.change("all-disabled")
            reader = other if side == self.applier else self.applier
            self.add(f"{layout}: restore of a checkpoint", reader, "restore", "-f", "{" + name + "}")
            self.look(f"{layout} restored", layout)


def walk_of(model, applier):
    walk = Walk(applier)
    for side in SIDES:
        walk.add("generate-config", side, "generate-config")
        walk.add("generate-config json", side, "generate-config", "-o", "json")
    walk.look("at first", "all-disabled", closely=True)
    chosen, foreign = layouts(model)
    for index, layout in enumerate(chosen):
        walk.apply(layout, closely=index < 3)
    for layout in foreign:
        walk.apply(layout, f"foreign {layout}")
    walk.checkpoint(next(name for name in chosen if name not in ("all-disabled", "all-enabled")), "state.json")
    return walk


def run_walk(arguments, peer, description, walk, files):
    request = {"description": description, "programs": arguments.programs, "steps": walk.steps, "files": files,
               "parted": {"ours": arguments.ours or str(pathlib.Path(arguments.programs) / "pitcrew"), "theirs": peer}}
    done = subprocess.run([sys.executable, HERE / "mig_side.py"], input=json.dumps(request), capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


def meant(name, result):
    """Status and what was written, as values; each side has its own words for failures."""
    value = {"status": {0: "done", "still running": "still running"}.get(result["status"], "failed")}
    if "export" in name or "generate-config" in name:
        value["output"] = yaml.safe_load(result["stdout"]) if result["status"] == 0 else None
    elif result["status"] == 0:
        value["output"] = result["stdout"].strip()
    if "file" in result:
        value["file"] = checkpoint(json.loads(result["file"])) if result["file"] else None
    return value


def checkpoint(value):
    """With the instances of each GPU in the order of their places: upstream has them in the order in which they were
    made, and places decide what is made of them."""
    for device in value.get("MigState", {}).get("Devices", []):
        (device.get("GpuInstances") or []).sort(key=lambda one: (one["ProfileID"], one["Placement"]["Start"]))
    return value


def values(walk, results):
    return {name: meant(name, result) for name, result in zip(walk.names, results)}


def compare_node(arguments, peer, title, description, make_walk, accepted, used):
    """What differs: on one node what both say of it, and between the nodes what both made of them."""
    walks = [make_walk(side) for side in SIDES]
    results = [run_walk(arguments, peer, description, walk, {"config.yaml": defaults(), "state.json": None})
               for walk in walks]
    # On the other side's node the names by applier and by other are exchanged.
    told = [values(walk, result) for walk, result in zip(walks, results)]
    titled = [{f"{title}: {name}": value for name, value in side.items()} for side in told]
    found = list(compare.differences(*titled, accepted, used=used))
    for walk, made in zip(walks, told):
        for name, value in made.items():
            if " by other" not in name or "restore of" in name:
                continue
            applier = made[name.replace(" by other", " by applier")]
            ours, theirs = (applier, value) if walk.applier == "ours" else (value, applier)
            where = f"{title}: {name.replace(' by other', '')} on the node of {walk.applier}"
            found += compare.differences({where: ours}, {where: theirs}, accepted, used=used)
    logs = {name: (results[0][index]["stderr"], results[1][index]["stderr"])
            for index, name in enumerate(walks[0].names)}
    return found, len(walks[0].steps) * 2, logs


def verdicts(arguments, peer, accepted, used):
    """Each file of mig_configurations.yaml: taken or refused, and what it makes of a node without MIG devices."""
    entries = yaml.safe_load((HERE / "mig_configurations.yaml").read_text())
    files = {f"file{index}.yaml": entry["config"] for index, entry in enumerate(entries)} | {"config.yaml": defaults()}
    told = []
    for side in SIDES:
        walk = Walk(side)
        for index, entry in enumerate(entries):
            words = ["-f", "{file%d.yaml}" % index] + (["-c", entry["select"]] if "select" in entry else [])
            walk.change("all-disabled")
            walk.add(f"file {entry['name']}: assert --valid-config", side, "assert", "--valid-config", *words)
            walk.add(f"file {entry['name']}: apply", side, "apply", *words)
            walk.add(f"file {entry['name']}: export", side, "export")
        results = run_walk(arguments, peer, node([("A100-40", 2)]), walk, files)
        told.append(values(walk, results))
    return list(compare.differences(*told, accepted, used=used)), 8 * len(entries)


def nodes(chosen):
    """Nodes of one model, and two of several; where some are chosen, only those."""
    models = [model for model in sorted(cases.PROFILES) if "mig" in cases.PROFILES[model]]
    every = [(model, model, node([(model, 2)])) for model in models]
    every += [("A100-40 and T4", "A100-40", node([("A100-40", 1), ("T4", 1)])),
              ("A100-80 and H100", "A100-80", node([("A100-80", 1), ("H100-80", 2)]))]
    return [one for one in every if not chosen or one[0] in chosen]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default=str(ROOT / "build/release/bin"), help="the folder of Pitcrew's programs")
    parser.add_argument("--ours", help="another program than pitcrew as our nvidia-mig-parted")
    parser.add_argument("--models", nargs="*", help="only these nodes: a model, or `A100-40 and T4`")
    parser.add_argument("--jobs", type=int, default=1, help="how many nodes at once")
    parser.add_argument("--verbose", action="store_true",
                        help="with each difference what was written to standard error")
    arguments = parser.parse_args()
    peer = os.environ.get("PITCREW_PEER_MIG_PARTED")
    if not peer or os.geteuid() != 0:
        print("skipped: " + ("mount namespaces need root" if peer else
                             "PITCREW_PEER_MIG_PARTED names no program to compare with"))
        return SKIPPED
    accepted = yaml.safe_load((HERE / "mig_accepted.yaml").read_text())
    used, places = set(), collections.Counter()

    def one(item):
        title, model, description = item
        return title, *compare_node(arguments, peer, title, description, lambda side: walk_of(model, side), accepted,
                                    used)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as workers:
        for title, found, steps, logs in workers.map(one, nodes(arguments.models)):
            print(f"{title}: {steps} steps, {len(found)} differences", flush=True)
            for line in compare.lines(found):
                print("    " + line)
            for name, (ours, theirs) in logs.items() if arguments.verbose else ():
                if any(name in where for where, _, _ in found):
                    print(f"    {name}\n      on our node:   {ours}\n      on their node: {theirs}")
            places.update(where for where, _, _ in found)
    if not arguments.models:
        found, steps = verdicts(arguments, peer, accepted, used)
        print(f"configuration files: {steps} steps, {len(found)} differences")
        for line in compare.lines(found):
            print("    " + line)
        places.update(where for where, _, _ in found)
        for rule in accepted:
            if rule["where"] not in used:
                print(f"not needed: {rule['where']}")
    print(f"{sum(places.values())} differences")
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main())
