#!/usr/bin/env python3
"""Runs tests of one or more built presets and closes with one line: N passed, N failed, N skipped.

Each --suite names a preset and the kinds (CTest labels) to run in it, for example
    run_tests.py --suite release:unit,golden --suite asan:unit
Suites run one after the other. Those named by --beside do so at the same time as the others: whole clusters wait most of
their time, so builds and other tests fit in between, with a lower priority. Their output is shown when a kind has ended.
Exit status: 0 when every test passed and at least one ran, 1 otherwise, 2 for a usage error.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = ("unit", "golden", "integration", "fuzz", "kernel", "e2e")
# What gives way to the suites beside it. Their tests have deadlines of minutes; a build has none.
BUILD_NICENESS, TEST_NICENESS = 15, 5
# Integration tests wait for API servers, leases and processes more than they compute.
JOBS_FOR_ONE_CORE = {"integration": 2}
printing = threading.Lock()


def parse_suite(text):
    preset, _, kinds = text.partition(":")
    chosen = [kind for kind in kinds.split(",") if kind] or list(KINDS)
    unknown = [kind for kind in chosen if kind not in KINDS]
    if not preset or unknown:
        raise argparse.ArgumentTypeError(
            f'"{text}": write PRESET:KIND[,KIND], where KIND is one of {", ".join(KINDS)}')
    return preset, chosen


def why_it_failed(output):
    """The lines of a test's output from the first one that tells of a failure on, at most 40."""
    lines = (output or "").splitlines()
    signs = re.compile(r"Failure$|FAILED|FAIL:|ERROR:|Error:|error:|Traceback|Assertion")
    first = next((number for number, line in enumerate(lines) if signs.search(line)), max(0, len(lines) - 40))
    return lines[first:first + 40]


def cases_of(report, name):
    """(passed, failed names with their reasons, skipped) of the cases in one program's report; nothing without it."""
    passed, failed, skipped = 0, {}, 0
    if report.exists():
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            failures = case.findall("failure")
            if failures:
                told = "\n".join(failure.text or failure.get("message", "") for failure in failures)
                failed[f"{name}/{case.get('classname')}.{case.get('name')}"] = told.splitlines()[:40]
            elif case.find("skipped") is not None:
                skipped += 1
            elif case.get("status") == "run":
                passed += 1
    return passed, failed, skipped


def run_kind(preset, kind, arguments, lane):
    """Runs one label of one preset; returns (passed, failed names with their reasons, skipped)."""
    build = ROOT / "build" / preset
    if not (build / "CTestTestfile.cmake").exists():
        return 0, {f"{preset}: it is not built; run: make build PRESET={preset}": []}, 0
    reports = build / "Testing" / "cases"  # of programs that run all their cases (cmake/Room.cmake)
    shutil.rmtree(reports, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        command = ["ctest", "--test-dir", str(build), "-L", f"^{kind}$", "--output-on-failure",
                   "--no-tests=ignore", "--output-junit", str(report),
                   "-j", str(arguments.clusters if kind == "e2e" else arguments.jobs * JOBS_FOR_ONE_CORE.get(kind, 1))]
        if arguments.only:
            command += ["-R", arguments.only]
        lane.run(command, TEST_NICENESS)
        if not report.exists():
            return 0, {f"{preset}: ctest left no report for {kind}": []}, 0
        passed, failed, skipped = 0, {}, 0
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            status = case.get("status")
            name = case.get("name")
            whole = cases_of(reports / f"{name.partition('/')[2]}_{kind}_test.xml", f"{preset}: {name}")
            if any(whole):
                passed += whole[0]
                failed |= whole[1]
                skipped += whole[2]
                # Not of one case: a sanitizer's word at the end, or an end before the last case.
                if status != "run" and not whole[1]:
                    failed[f"{preset}: {name}"] = why_it_failed(case.findtext("system-out"))
            elif status == "run":
                passed += 1
            elif status in ("notrun", "disabled") and case.find("skipped") is not None \
                    and "SKIP" in (case.find("skipped").get("message") or "").upper():
                skipped += 1
            else:
                failed[f"{preset}: {name}"] = why_it_failed(case.findtext("system-out"))
        return passed, failed, skipped


class Lane:
    """Suites that run one after the other. `aside`: beside another lane, whose output must not be mixed with theirs.
    `yielding`: another lane's processes go first."""

    def __init__(self, suites, aside, yielding):
        self.suites, self.aside, self.yielding = suites, aside, yielding
        self.rows, self.failures = [], {}  # (preset, kind, passed, failed, skipped, seconds); names with their reasons

    def run(self, command, niceness):
        """Runs a command to its end; its exit status."""
        if self.yielding:
            command = ["nice", "-n", str(niceness), *command]
        if not self.aside:
            return subprocess.run(command, check=False).returncode
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        with printing:
            print(done.stdout, end="", flush=True)
        return done.returncode

    def build(self, preset):
        """Builds a preset as `make build` does."""
        started = time.monotonic()
        status = self.run([os.environ.get("MAKE", "make"), "--no-print-directory", "-C", str(ROOT), "build",
                           f"PRESET={preset}"], BUILD_NICENESS)
        self.rows.append((preset, "(build)", "", "", "", time.monotonic() - started))
        if status != 0:
            self.failures[f"{preset}: the build failed; its tests did not run"] = []
        return status == 0

    def run_all(self, arguments):
        try:
            self.run_each(arguments)
        except Exception as problem:  # pylint: disable=broad-except  # a lane that ends early must not look well
            self.failures[f"tools/run_tests.py: {problem!r}"] = []

    def run_each(self, arguments):
        for preset, kinds in self.suites:
            if arguments.build and not self.aside and not self.build(preset):
                continue
            for kind in kinds:
                started = time.monotonic()
                with printing:
                    print(f"\n== {kind} tests, {preset} build{', beside the others' if self.aside else ''}", flush=True)
                passed, failed, skipped = run_kind(preset, kind, arguments, self)
                self.rows.append((preset, kind, passed, len(failed), skipped, time.monotonic() - started))
                self.failures |= failed


def report(lanes):
    """Prints what ran and what failed; whether all is well."""
    rows = [row for lane in lanes for row in lane.rows]
    failures = {name: reasons for lane in lanes for name, reasons in lane.failures.items()}
    print(f"\n{'build':<10}{'kind':<14}{'passed':>7}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for preset, kind, passed, failed, skipped, seconds in rows:
        print(f"{preset:<10}{kind:<14}{passed:>7}{failed:>8}{skipped:>9}{seconds:>9.1f}")
    for name, reasons in failures.items():
        print(f"\nfailed: {name}")
        for line in reasons:
            print(f"    {line}")
    passed, skipped = sum(row[2] or 0 for row in rows), sum(row[4] or 0 for row in rows)
    print(f"{passed} passed, {len(failures)} failed, {skipped} skipped")
    return bool(passed) and not failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=parse_suite, action="append", required=True)
    parser.add_argument("--beside", type=parse_suite, action="append", default=[],
                        help="a suite, already built, that runs at the same time as the others")
    parser.add_argument("--build", action="store_true", help="build each --suite's preset first")
    parser.add_argument("--only", help="a regular expression over test names")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--clusters", type=int, default=1, help="whole clusters at a time (default: 1)")
    arguments = parser.parse_args()
    lanes = [Lane(arguments.suite, aside=False, yielding=bool(arguments.beside))]
    if arguments.beside:
        lanes.append(Lane(arguments.beside, aside=True, yielding=False))
    threads = [threading.Thread(target=lane.run_all, args=(arguments,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0 if report(lanes) else 1


if __name__ == "__main__":
    sys.exit(main())
