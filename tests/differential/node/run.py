#!/usr/bin/env python3
"""Compares Pitcrew's device plugin and feature discovery with other ones, over random nodes and configurations.

For each case both sides get a simulated node of their own, in a mount namespace of their own, and a kubelet that asks
the same questions: what is registered and listed (ListAndWatch), Allocate, GetPreferredAllocation, health after XIDs,
the names in CDI files, and the labels of feature discovery. A difference that accepted.yaml does not list is a failure.

The other side are programs named by $PITCREW_PEER_DEVICE_PLUGIN and $PITCREW_PEER_FEATURE_DISCOVERY. Without them, or
without root, the exit status is 77 ("skipped: ..."). The same seed gives the same cases.
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
sys.path[:0] = [str(HERE), str(HERE.parent)]

import cases  # noqa: E402
import compare  # noqa: E402
import configurations  # noqa: E402
import meaning  # noqa: E402

SKIPPED = 77


class Side:
    """`programs` is the build's folder of programs: the simulation and the kubelet are this project's on both sides."""

    def __init__(self, programs, plugin, discovery):
        self.programs, self.plugin, self.discovery = str(programs), str(plugin), str(discovery)

    def run(self, case, until=None):
        """`until`: labels that need no further attempt."""
        request = {"case": case, "programs": self.programs, "plugin": self.plugin, "discovery": self.discovery,
                   "until": until}
        done = subprocess.run([sys.executable, HERE / "side.py"], input=json.dumps(request), capture_output=True,
                              text=True, check=False, timeout=600)
        if done.returncode != 0:
            raise RuntimeError(f"case {case['name']}: {done.stderr[-2000:]}")
        return json.loads(done.stdout)


def applies(rule, case):
    return set(rule.get("tags", [])) <= set(case["tags"])


def differences(case, ours, theirs, accepted, used):
    rules = [rule for rule in accepted if applies(rule, case)]
    values = ({}, {})
    if "plugin" in case:
        by_index = "index" in str(case["plugin"]["env"].get("DEVICE_ID_STRATEGY")) + str(case["plugin"]["flags"]) + \
            str(case["plugin"]["config"])
        for value, side in zip(values, (ours, theirs)):
            value["plugin"] = meaning.plugin(side["plugin"], by_index)
    if "discovery" in case:
        values[0]["labels"] = ours["labels"][0]
        values[1]["labels"] = meaning.differing_labels(ours["labels"][0], theirs["labels"])
    return list(compare.differences(*values, rules, used=used))


def check(case, sides, accepted, used):
    """Both sides' answers, and what differs."""
    # Upstream draws by lot where a node has several models; ours does not.
    try:
        ours = sides[0].run({**case, "attempts": 1})
        both = [ours, sides[1].run(case, ours.get("labels", [None])[0])]
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return [{"log": str(error)}, {"log": ""}], [("the comparison", None, str(error).splitlines()[-1])]
    return both, differences(case, *both, accepted, used)


def describe(case, both, found, verbose):
    registered = sorted(both[1].get("plugin", {}).get("registered", {}))
    yield f"{case['name']} {','.join(case['tags'])}: {len(found)} differences; theirs registered {registered}"
    if found:
        yield "    " + "\n    ".join(compare.lines(found))
    if found and verbose:
        yield f"    case: {json.dumps(case)}"
        yield "    our log:   " + "\n        ".join(both[0]["log"].splitlines()[-8:])
        yield "    their log: " + "\n        ".join(both[1]["log"].splitlines()[-8:])


def missing():
    """Why nothing can be compared, if so."""
    names = [name for name in ("PITCREW_PEER_DEVICE_PLUGIN", "PITCREW_PEER_FEATURE_DISCOVERY")
             if not os.environ.get(name)]
    if names:
        return f"{' and '.join(names)} name no program to compare with"
    return None if os.geteuid() == 0 else "mount namespaces need root"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default=str(ROOT / "build/release/bin"), help="the folder of Pitcrew's programs")
    parser.add_argument("--cases", type=int, default=300, help="how many random nodes with configurations")
    parser.add_argument("--configurations", type=int, help="how many of configurations.yaml (default: all)")
    parser.add_argument("--only", nargs="*", help="only the cases of these names")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="how many cases at once")
    parser.add_argument("--verbose", action="store_true", help="with each difference the case and the logs")
    arguments = parser.parse_args()
    reason = missing()
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    accepted = yaml.safe_load((HERE / "accepted.yaml").read_text())
    programs = pathlib.Path(arguments.programs)
    sides = [Side(programs, programs / "pitcrew", programs / "pitcrew"),
             Side(programs, os.environ["PITCREW_PEER_DEVICE_PLUGIN"], os.environ["PITCREW_PEER_FEATURE_DISCOVERY"])]
    files = configurations.cases()
    if arguments.configurations is not None:
        files = random.Random(arguments.seed).sample(files, arguments.configurations)
    chosen = [case for case in files + cases.cases(arguments.seed, arguments.cases)
              if not arguments.only or case["name"] in arguments.only]
    used, places, failures = set(), collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as workers:
        for case, (both, found) in zip(chosen, workers.map(lambda one: check(one, sides, accepted, used), chosen)):
            if found or arguments.verbose:
                print("\n".join(describe(case, both, found, arguments.verbose)), flush=True)
            failures += bool(found)
            places.update({where for where, _, _ in found})
    for where, count in places.most_common():
        print(f"{count:4} x {where}")
    if not arguments.only and arguments.configurations is None:
        for rule in accepted:
            if rule["where"] not in used:
                print(f"not needed: {rule['where']}")
    print(f"{len(chosen) - failures} of {len(chosen)} cases equal")
    return 1 if failures or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
