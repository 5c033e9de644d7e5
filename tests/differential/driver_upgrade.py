#!/usr/bin/env python3
"""Rolls a changed driver out with Pitcrew and with another operator, over random nodes and policies, and compares what
each node goes through: the values of its upgrade state in order, its cordon and annotations afterwards, and which
pods are left.

Each operator has a kube-apiserver of its own, for all cases; controllers and kubelets are played (upgrade_player.py), the
same for both. Drawn are also drivers that crash, budgets that refuse, jobs that last, validators that are late, another
change in the middle, and operators that are killed. What may differ is only what differs on purpose
(docs/differences.md, "Driver upgrades"); that is not drawn: nodes fail only where there is no limit to hold the others up,
and not so many that Pitcrew would begin no other; an upgrade that was asked for waits for no place. Where the moment at
which an operator is killed decides, it is named as known (upgrade_compare.py).

The other operator is named by $PITCREW_ORACLE (see run.py). Without it the exit status is 77.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import sys
import time

import upgrade_compare
from sides import ROOT, Side, oracle_command
from upgrade_player import DRIVERS, POLICY, History, Played

SKIPPED = 77
FIRST = "580.1.2"  # version of the driver
ENDS = ("upgrade-done", "upgrade-failed")
# What holds a node for a while, and in which state.
GATES = {"budget": "pod-deletion-required", "job": "wait-for-jobs-required", "driver": "pod-restart-required",
         "validator": "validation-required"}
HELD = {"budget": "frees", "job": "ends", "driver": "late", "validator": "late"}


def draw(rng, most_nodes):
    """What there is, and what changes."""
    change = rng.choice(["version", "version", "template", "request"])
    parallel = 0 if change == "request" else rng.choice([0, 0, 1, 2])
    unavailable = "100%" if parallel == 0 else rng.choice(["100%", "50%", 2])
    count = min(most_nodes, rng.choices([rng.randint(1, 4), rng.randint(5, 20), rng.randint(21, 60),
                                         rng.randint(61, 200)], [75, 18, 5, 2])[0])
    # Where a template alone changes, no pods are sent away and no jobs are waited for; where nothing changes, pods of
    # drivers stay.
    gates = {"version": list(GATES), "template": ["driver", "validator"], "request": ["budget", "job"]}[change]
    gate = rng.choice([None, None, *gates])
    case = {"change": change, "gate": gate, "edit": gate is not None and change == "version" and rng.random() < 0.4,
            "kill": rng.choice([None, None, "gate" if gate else None, round(rng.random() * 3, 2)]),
            "nodes": [draw_node(rng, number, parallel == 0, unavailable) for number in range(count)]}
    for node in case["nodes"]:
        if gate and (case["edit"] or rng.random() < 0.6):
            node[gate] = HELD[gate]
            if gate == "budget":
                node["pod"] = "controlled"
    never = draw_failures(rng, case, parallel)
    timeout = 3 if never else 300
    drawn = case | {"upgradePolicy": {
        "autoUpgrade": True, "maxParallelUpgrades": parallel, "maxUnavailable": unavailable,
        "podDeletion": {"force": rng.random() < 0.5, "deleteEmptyDir": rng.random() < 0.5, "timeoutSeconds": timeout},
        "drain": {"enable": rng.random() < 0.4, "force": rng.random() < 0.5, "deleteEmptyDir": rng.random() < 0.5,
                  "timeoutSeconds": timeout},
        "waitForCompletion": {"podSelector": "kind=job" if gate == "job" else "",
                              "timeoutSeconds": rng.choice([0, 600])}}}
    # The change in the middle may be none: the version of before.
    return drawn | {"back": case["edit"] and rng.random() < 0.5}


def draw_node(rng, number, unlimited, unavailable):
    return {"name": f"gpu-{number}",
            # A limit that cordons reach would hold the others up for ever.
            "cordoned": unavailable == "100%" and rng.random() < 0.25,
            "skip": rng.random() < 0.15,
            "pod": rng.choice(["none", "controlled"]),
            "other": rng.random() < 0.5,
            "may_fail": unlimited}


def draw_failures(rng, case, parallel):
    """Makes some nodes fail, maybe; whether one waits for a budget in vain."""
    never = False
    left = 0 if parallel or case["edit"] else max(1, len(case["nodes"]) // 10)
    kinds = ["bare", "empty-dir", "never"] + (["fails", "recovers"] if case["change"] == "version" else [])
    for node in case["nodes"]:
        del node["may_fail"]
        if left == 0 or rng.random() > 0.4 or any(gate in node for gate in GATES):
            continue
        left -= 1
        kind = rng.choice(kinds)
        if kind in ("bare", "empty-dir"):
            node["pod"] = kind
        elif kind == "never" and case["gate"] != "budget" and case["change"] != "template":
            node["pod"], node["budget"], never = "controlled", kind, True
        elif kind in ("fails", "recovers"):
            node["driver"] = kind
    return never


def submit(side, case):
    driver = {"repository": "nvcr.io/nvidia", "image": "driver", "version": FIRST,
              "upgradePolicy": case["upgradePolicy"]}
    if case["objects"]:
        side.server.create(DRIVERS, {"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver",
                                     "metadata": {"name": "all"}, "spec": {"default": True} | driver})
    # With virtual machines no driver of the policy is upgraded.
    side.submit({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}, "spec": {
        **POLICY, "sandboxWorkloads": {"enabled": False},
        "driver": {**POLICY.get("driver", {}), "enabled": True, "useNvidiaDriverCRD": case["objects"]} | driver}})


def roll_out(played, history, seconds):
    """The change, and what comes between; returns when every node is where it stays."""
    case = played.case
    skipped = {node["name"] for node in case["nodes"] if node["skip"]}

    def moved(states):
        return all(len(history.states.get(name, [])) > 2 for name in states)

    recovering = {node["name"] for node in case["nodes"] if node.get("driver") == "recovers"} - skipped

    def at_gate(states):
        if any(states[name] != "upgrade-failed" for name in recovering):
            return False
        held = GATES.get(case.get("gate"))
        return held is None or not case["edit"] or set(states) == skipped or (
            held in states.values() and all(state in (held, "upgrade-required", *ENDS) for state in states.values()))

    def ended(states):
        outdated = played.outdated() - skipped
        return all(state in ENDS or (name in skipped and state == "upgrade-required")
                   for name, state in states.items()) and not any(
                       name in outdated for name, state in states.items() if state != "upgrade-failed")

    kill, edit = case.get("kill"), case.get("edit")
    if isinstance(kill, float):
        played.kill_at = time.monotonic() + kill
    played.change()
    if case.get("gate") or any(node.get("driver") == "recovers" for node in case["nodes"]):
        played.wait(lambda states: moved(states) and at_gate(states), seconds)
        if kill == "gate":
            played.kill()
        if edit:
            played.change("version", FIRST if case.get("back") else "600.1.1")
            played.play()
        played.open()
    played.wait(lambda states: moved(states) and ended(states), seconds)


def run(side, case):
    played = Played(side, case)
    seconds = 90 + 3 * len(case["nodes"])
    played.fill()
    history = History(side.server)
    side.start()
    submit(side, case)
    try:
        played.wait(lambda states: all(state == "upgrade-done" for state in states.values()), seconds)
        roll_out(played, history, seconds)
        return played.result(history)
    except TimeoutError as problem:
        return {"stopped": str(problem)} | played.result(history)
    finally:
        side.stop()
        played.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default=str(ROOT / "build/release/bin/pitcrew"), help="the pitcrew program")
    parser.add_argument("--cases", type=int, default=3)
    parser.add_argument("--only", type=int, help="only the case of this number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=200, help="no case has more nodes")
    parser.add_argument("--objects", action="store_true", help="the driver of a NVIDIADriver, not the ClusterPolicy's")
    arguments = parser.parse_args()
    oracle = os.environ.get("PITCREW_ORACLE")
    if not oracle:
        print("skipped: no oracle (PITCREW_ORACLE names none)")
        return SKIPPED
    crds = sorted(pathlib.Path(oracle, "crds").glob("*.yaml"))
    numbers = range(arguments.cases) if arguments.only is None else [arguments.only]
    failures = explained = 0
    with Side("other", oracle_command(oracle), crds) as other, Side("ours", [arguments.ours, "operator"]) as ours, \
            concurrent.futures.ThreadPoolExecutor(2) as workers:
        for number in numbers:
            case = draw(random.Random(f"{arguments.seed}/{number}"), arguments.nodes) | {"objects": arguments.objects}
            begin = time.monotonic()
            theirs, mine = workers.map(lambda side: run(side, case), (other, ours))  # pylint: disable=cell-var-from-loop
            found, known = upgrade_compare.differences(case, theirs, mine)
            again = "back" if case["back"] else "edit" if case["edit"] else ""
            what = ", ".join(filter(None, [case["change"], case["gate"], again,
                                           f"kill {case['kill']}" if case["kill"] else ""]))
            print(f"case {number}: {len(case['nodes'])} nodes, {what}: {'differs' if found else 'the same'} "
                  f"({time.monotonic() - begin:.0f} s)", *(f"\n    known: {one}" for one in known), flush=True)
            explained += not found and bool(known)
            if found:
                failures += 1
                print("    " + "\n    ".join(found) + f"\n    {json.dumps(case)}", flush=True)
    print(f"{len(numbers) - failures} of {len(numbers)} cases are the same, {explained} of them but for what is known")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
