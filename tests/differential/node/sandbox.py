#!/usr/bin/env python3
"""Compares Pitcrew's device plugin for KubeVirt with another one, over random nodes.

For each case both sides get a node of their own, in a root folder of their own, and a kubelet that asks the same
questions: what is registered and listed, Allocate, GetPreferredAllocation, health when a device node goes. A difference
that sandbox_accepted.yaml does not list is a failure.

The other side is the program named by $PITCREW_PEER_KUBEVIRT_PLUGIN. Without it, or without root, the exit status is 77
("skipped: ..."). The same seed gives the same cases.
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
sys.path[:0] = [str(HERE), str(HERE.parent)]

import compare  # noqa: E402
import sandbox_cases  # noqa: E402

SKIPPED = 77


def run_side(programs, plugin, database, case, expected=0):
    """`expected`: how many resources are waited for, not only until no further one comes."""
    request = {"case": case, "programs": str(programs), "plugin": str(plugin), "database": str(database),
               "expected": expected}
    done = subprocess.run([sys.executable, HERE / "sandbox_side.py"], input=json.dumps(request), capture_output=True,
                          text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"case {case['name']}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def reply(answer):
    """Each side has its own words for errors; all else is compared as it is, the order of device nodes too."""
    if "error" in answer:
        return {"error": "refused"}
    if "allocate" not in answer["question"]:
        return {"preferred": answer["answer"]}
    return {"containers": [{**container, "devices": [" ".join(one[key] for key in ("container", "host", "permissions"))
                                                     for one in container["devices"]]}
                           for container in answer["answer"]]}


def meant(result):
    return {"ended": {"with": result["ended"]}, "registered": result["registered"],
            "lists": {resource: {device["id"]: {"healthy": device["healthy"], "numa": device.get("numa")}
                                 for device in devices} for resource, devices in result["lists"].items()},
            "answers": {resource: {str(index): reply(answer) for index, answer in enumerate(answers)}
                        for resource, answers in result["answers"].items()},
            "after": result["after"]}


def differences(case, ours, theirs, accepted, used):
    rules = [rule for rule in accepted if set(rule.get("tags", [])) <= set(case["tags"])]
    return list(compare.differences(meant(ours), meant(theirs), rules, used=used))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default=str(ROOT / "build/release/bin"), help="the folder of Pitcrew's programs")
    parser.add_argument("--ours", help="another program than pitcrew as our plugin")
    parser.add_argument("--database", default=str(ROOT / "deploy/image/pci.ids"), help="the PCI ID database of both")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--only", nargs="*", help="only the cases of these names")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="how many cases at once")
    parser.add_argument("--verbose", action="store_true", help="with each difference the case and the logs")
    arguments = parser.parse_args()
    peer = os.environ.get("PITCREW_PEER_KUBEVIRT_PLUGIN")
    if not peer or os.geteuid() != 0:
        print("skipped: " + ("mount namespaces need root" if peer else
                             "PITCREW_PEER_KUBEVIRT_PLUGIN names no program to compare with"))
        return SKIPPED
    accepted = yaml.safe_load((HERE / "sandbox_accepted.yaml").read_text())
    programs = pathlib.Path(arguments.programs).resolve()
    plugins = [pathlib.Path(plugin).resolve() for plugin in (arguments.ours or programs / "pitcrew", peer)]
    chosen = [case for case in sandbox_cases.cases(arguments.seed, arguments.cases)
              if not arguments.only or case["name"] in arguments.only]
    used, failures, resources = set(), 0, 0

    def one(case):
        """Both sides' answers, and what differs."""
        try:
            ours = run_side(programs, plugins[0], arguments.database, case)
            both = [ours, run_side(programs, plugins[1], arguments.database, case, len(ours["registered"]))]
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            nothing = {"log": str(error), "registered": {}}
            return [nothing, nothing], [("the comparison", None, str(error).splitlines()[-1])]
        return both, differences(case, *both, accepted, used)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as workers:
        for case, (both, found) in zip(chosen, workers.map(one, chosen)):
            resources += len(both[0]["registered"])
            failures += bool(found)
            if found:
                print(f"{case['name']} {','.join(case['tags'])}: {len(found)} differences\n    "
                      + "\n    ".join(compare.lines(found)), flush=True)
            if found and arguments.verbose:
                print(f"    case: {json.dumps(case)}")
                for name, side in zip(("our", "their"), both):
                    print(f"    {name} log:   " + "\n        ".join(side["log"].splitlines()[-12:]))
    if not arguments.only:
        for rule in accepted:
            if rule["where"] not in used:
                print(f"not needed: {rule['where']}")
    print(f"{len(chosen) - failures} of {len(chosen)} cases equal, {resources} resources")
    return 1 if failures or not resources else 0


if __name__ == "__main__":
    sys.exit(main())
