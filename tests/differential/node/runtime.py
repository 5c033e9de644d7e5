#!/usr/bin/env python3
"""Compares Pitcrew's nvidia-container-runtime with another one: what each makes of random bundles (variables, mounts,
annotations, privileges, hooks) with random CDI specifications and configurations.

Both have the same bundle, specifications and config.toml, in the modes cdi, and auto with CDI names. Compared are
whether the low-level runtime is called, and the config.json that it finds; members that are empty mean the same as
members that are not there. A difference that is not accepted is a failure.

The other side is the program named by $PITCREW_PEER_CONTAINER_RUNTIME. Without it, or without root, the exit status is
77 ("skipped: ..."). The same seed gives the same cases.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import runtime_cases  # noqa: E402

SKIPPED = 77
SECONDS = 60


def significant(value):
    """Without members that are empty, null, false or 0, which Go leaves out or writes as it likes."""
    if isinstance(value, dict):
        kept = {key: significant(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one not in ({}, [], None, "", False, 0)}
    if isinstance(value, list):
        return [significant(one) for one in value]
    return value


def in_one_form(spec):
    """Of a variable that stands twice the last counts; devices and mounts of one depth have no order."""
    spec = significant(spec)
    process = spec.get("process", {})
    if "env" in process:
        process["env"] = dict(entry.partition("=")[::2] for entry in process["env"])
    if "devices" in spec.get("linux", {}):
        spec["linux"]["devices"].sort(key=lambda device: device["path"])
    if "mounts" in spec:
        spec["mounts"].sort(key=lambda one: (one["destination"].count("/"), one["destination"]))
    return spec


def is_accepted(found, error):
    """docs/differences.md: a request of "none" starts without devices; so does one at which the other panics."""
    if found != [("the low-level runtime is called", True, False)]:
        return False
    return re.search(r"\.go:\d+ \+0x", error) is not None or all(
        name.endswith("=none") for name in error.partition("unresolvable CDI devices ")[2].rstrip('"').split(", "))


def one_side(program, folder, config, text):
    """What the low-level runtime is called with, and the error of the runtime."""
    bundle = folder / "bundle"
    (bundle / "config.json").write_text(text)
    called = folder / "called"
    called.unlink(missing_ok=True)
    done = subprocess.run([program, "create", "--bundle", str(bundle), "id"], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", "NVIDIA_CTK_CONFIG_FILE_PATH": str(config)}, timeout=SECONDS)
    if not called.exists():
        return None, done.stderr.strip().splitlines()[-1:]
    return in_one_form(json.loads((bundle / "config.json").read_text())), []


def leaves(value, path=""):
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, f"{path}.{key}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from leaves(one, f"{path}[{number}]")
        yield f"{path}.length", len(value)
    else:
        yield path, value


def differences(ours, theirs):
    if ours is None or theirs is None:
        return [] if ours is theirs else [("the low-level runtime is called", ours is not None, theirs is not None)]
    left, right = dict(leaves(ours)), dict(leaves(theirs))
    return [(name, left.get(name), right.get(name)) for name in sorted(left.keys() | right.keys())
            if left.get(name) != right.get(name)]


class Case:
    def __init__(self, seed, folder):
        rng = random.Random(seed)
        self.folder = folder
        (folder / "bundle").mkdir()
        folders = [folder / "etc-cdi", folder / "run-cdi"]
        for one in folders:
            one.mkdir()
        low_level = folder / "low-level"
        low_level.write_text(f"#!/bin/sh\n: > {folder}/called\n")
        low_level.chmod(0o755)
        runtime_cases.write_specifications(rng, folders, runtime_cases.make_nodes(folder))
        self.configuration = runtime_cases.configuration(rng, folders, low_level)
        (folder / "config.toml").write_text(runtime_cases.as_toml(self.configuration))
        self.bundle = runtime_cases.bundle(rng, self.configuration)

    def answers(self, programs):
        return [one_side(program, self.folder, self.folder / "config.toml", json.dumps(self.bundle))
                for program in programs]

    def describe(self):
        files = "\n".join(f"--- {path.name}\n{path.read_text()}" for path in sorted(self.folder.glob("*-cdi/*")))
        return f"{runtime_cases.as_toml(self.configuration)}\n{json.dumps(self.bundle, indent=1)}\n{files}"


def missing():
    if "PITCREW_PEER_CONTAINER_RUNTIME" not in os.environ:
        return "PITCREW_PEER_CONTAINER_RUNTIME names no other container runtime"
    return "device nodes need root" if os.geteuid() != 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, help="nvidia-container-runtime")
    parser.add_argument("--cases", type=int, default=100, metavar="N", help="how many bundles (100)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first (1)")
    parser.add_argument("--verbose", action="store_true", help="show the whole case where there is a difference")
    arguments = parser.parse_args()
    if reason := missing():
        print(f"skipped: {reason}")
        return SKIPPED
    programs = [arguments.ours, os.environ["PITCREW_PEER_CONTAINER_RUNTIME"]]
    failed = called = edited = accepted = 0
    for number in range(arguments.cases):
        seed = f"{arguments.seed} {number}"
        with tempfile.TemporaryDirectory(prefix="pitcrew-runtime-") as name:
            case = Case(seed, pathlib.Path(name).resolve())
            (ours, our_error), (theirs, their_error) = case.answers(programs)
            if "failed to initialize NVML" in " ".join(their_error):
                continue  # upstream asks the driver, of which there is none here
            called += theirs is not None
            edited += theirs is not None and theirs != in_one_form(case.bundle)
            found = differences(ours, theirs)
            if not found or is_accepted(found, " ".join(their_error)):
                accepted += bool(found)
                continue
            failed += 1
            print(f"case {seed}: {' '.join([*our_error, *their_error])}")
            for where, left, right in found[:20]:
                print(f"  {where}: ours {left!r}, theirs {right!r}")
            if arguments.verbose:
                print(case.describe())
    print(f"{arguments.cases} bundles, {called} started by the other side, {edited} of them edited: {failed} differ, "
          f"{accepted} as documented")
    # Cases that never come so far compare nothing.
    return 1 if failed or edited * 5 < arguments.cases else 0


if __name__ == "__main__":
    sys.exit(main())
