#!/usr/bin/env python3
"""Compares Pitcrew's config-manager with another one: on one real API server each follows its own node's label over
the same run of changes, with the same files, default and fallback strategies. After each change what is linked, how
often the process was told, and whether the program has ended have to be equal. A difference that
config_manager_accepted.yaml does not list is a failure.

The other side is the program named by $PITCREW_PEER_CONFIG_MANAGER. Without it, or without root, the exit status is
77. The same seed gives the same cases.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1])]

import apiserver  # noqa: E402
import compare  # noqa: E402
import config_manager_side  # noqa: E402

SKIPPED = 77
# Processes of their own namespace: any process of the machine that ends while upstream looks for the one that it has to
# tell is an error to it.
OWN_PROCESSES = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
NAMES = ["default", "whole", "shared"]


def cases(seed, count):
    """Each with its options, files, the label at the start, and changes: a label (None: taken away), or files."""
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        files = rng.sample(NAMES, rng.choice([0, 1, 1, 2, 2, 2, 3, 3]))
        files += rng.choice([[], [], ["..hidden"], ["..data/"]])
        strategies = rng.choice([None, None, "empty", "single", "named", "named,single", "single,empty",
                                 "named,single,empty", "other", "named,other"])
        options = {"CONFIG_FILE_SRCDIR": "{source}", "CONFIG_FILE_DST": "{link}"}
        options |= {} if strategies is None else {"FALLBACK_STRATEGIES": strategies}
        options |= {"DEFAULT_CONFIG": rng.choice(NAMES)} if rng.random() < 0.5 else {}
        options |= {"SEND_SIGNAL": "false"} if rng.random() < 0.1 else {}
        options |= {"SIGNAL": "10"} if rng.random() < 0.1 else {}
        options |= {"ONESHOT": "true"} if rng.random() < 0.15 else {}
        changes = [rng.choice([*NAMES, *NAMES, None, "", "missing"]) for _ in range(rng.randint(2, 5))]
        changes = [{"label": label} if rng.random() < 0.85 else {"edit": rng.choice(NAMES)} for label in changes]
        yield {"name": f"case {number}", "options": options, "files": files, "changes": changes,
               "label": rng.choice([None, None, None, rng.choice([*NAMES, "missing"])]),
               "listens": rng.random() < 0.92}


def tidy(ours, theirs):
    """What is compared: each step that both have reached. After the end of one nothing can be."""
    for side in (ours, theirs):
        for step in side.values():
            del step["signals in all"]
    common = [name for name in ours if name in theirs]
    return {name: ours[name] for name in common}, {name: theirs[name] for name in common}


def run_side(server, kubeconfig, program, case, node):
    request = {"case": case, "program": program, "node": node, "kubeconfig": kubeconfig, "port": server.port,
               "token": "admin"}
    server.create("/api/v1/nodes", {"metadata": {"name": node, "labels": {} if case["label"] is None else {
        config_manager_side.LABEL: case["label"]}}})
    done = subprocess.run([*OWN_PROCESSES, sys.executable, HERE / "config_manager_side.py"], input=json.dumps(request),
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def check(server, kubeconfig, programs, case):
    with concurrent.futures.ThreadPoolExecutor(2) as workers:
        both = [workers.submit(run_side, server, kubeconfig, program, case, f"{name}-{case['name'].replace(' ', '-')}")
                for name, program in programs.items()]
        both = [side.result() for side in both]
    return tidy(*(side["steps"] for side in both)), [side["log"] for side in both]


def kind(case):
    """What about a case may make it differ in its own way."""
    return ("" if case["listens"] else "nobody to tell, ") + ("oneshot, " if "ONESHOT" in case["options"] else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default=str(ROOT / "build/release/bin"), help="the folder of Pitcrew's programs")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=8, help="how many cases at once; they mostly wait")
    parser.add_argument("--verbose", action="store_true", help="with each difference the case and both logs")
    arguments = parser.parse_args()
    peer = os.environ.get("PITCREW_PEER_CONFIG_MANAGER")
    if not peer or os.geteuid() != 0:
        print("skipped: " + ("process namespaces need root" if peer else
                             "PITCREW_PEER_CONFIG_MANAGER names no program to compare with"))
        return SKIPPED
    accepted = yaml.safe_load((HERE / "config_manager_accepted.yaml").read_text())
    programs = {"ours": str(pathlib.Path(arguments.programs) / "pitcrew"), "peer": peer}
    chosen = list(cases(arguments.seed, arguments.cases))
    used, places, failures, steps = set(), collections.Counter(), 0, 0
    with apiserver.ApiServer() as server, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as workers:
        kubeconfig = server.kubeconfig()
        both = workers.map(lambda one: check(server, kubeconfig, programs, one), chosen)
        for case, (told, logs) in zip(chosen, both):
            titled = [{f"{kind(case)}{name}": step for name, step in side.items()} for side in told]
            steps += len(titled[0])
            found = list(compare.differences(*titled, accepted, used=used))
            failures += bool(found)
            places.update(where for where, _, _ in found)
            if found:
                print(f"{case['name']}: {len(found)} differences", *compare.lines(found), sep="\n    ", flush=True)
                if arguments.verbose:
                    print(f"    case: {case}\n    our log: {logs[0]}\n    their log: {logs[1]}")
    for where, count in places.most_common():
        print(f"{count:4} x {where}")
    if arguments.cases >= 300:
        for rule in accepted:
            if rule["where"] not in used:
                print(f"not needed: {rule['where']}")
    print(f"{len(chosen) - failures} of {len(chosen)} cases equal, {steps} steps")
    return 1 if failures or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
