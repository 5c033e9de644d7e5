#!/usr/bin/env python3
"""Lets libFuzzer look for inputs that break a parser: `make fuzz` builds the targets and runs this.

What it learns stays in build/fuzz/corpus/<target>, so that the next round goes on from there; an input on which a
parser fails lies in build/fuzz/findings. Mend the parser, and put that input under tests/fuzz/corpus/<target> with a
name that says what it was: `make test` tries it from then on. --merge adds to tests/fuzz/corpus what reaches new code.
Exit status: 0 when nothing was found, 1 when something was, 2 for a usage error.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "tests/fuzz/corpus"
BUILD = ROOT / "build/fuzz"
LONGEST_INPUT = 16384


def run(target, seconds, merge):
    learnt, findings = BUILD / "corpus" / target, BUILD / "findings"
    learnt.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    command = [BUILD / "bin/fuzz_targets", f"-max_len={LONGEST_INPUT}", "-timeout=20", "-rss_limit_mb=4096"]
    if merge:
        command += ["-merge=1", KEPT / target, learnt]
    else:
        command += [f"-max_total_time={seconds}", "-print_final_stats=1", f"-artifact_prefix={findings}/{target}-",
                    learnt, KEPT / target]
    ended = subprocess.run(command, env=os.environ | {"PITCREW_FUZZ_TARGET": target}, check=False,
                           capture_output=True, text=True)
    statistics = dict(line.rsplit(":", 1) for line in ended.stderr.splitlines() if line.startswith("stat::"))
    print(f"{target}: {statistics.get('stat::number_of_executed_units', '?').strip()} inputs, "
          f"{'nothing found' if ended.returncode == 0 else 'FOUND'}", flush=True)
    if ended.returncode:
        print("\n".join("    " + line for line in ended.stderr.splitlines()[-40:]), flush=True)
    return ended.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="which ones (default: all)")
    parser.add_argument("--seconds", type=int, default=60, help="how long for each target (default: 60)")
    parser.add_argument("--jobs", type=int, default=1, help="how many targets at the same time (default: 1)")
    parser.add_argument("--merge", action="store_true", help="take what was learnt into tests/fuzz/corpus")
    arguments = parser.parse_args()
    known = sorted(folder.name for folder in KEPT.iterdir())
    unknown = set(arguments.targets) - set(known)
    if unknown:
        parser.error(f"unknown target {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        well = list(pool.map(lambda target: run(target, arguments.seconds, arguments.merge), arguments.targets or known))
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
