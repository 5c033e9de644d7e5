#!/usr/bin/env python3
"""Runs tests of one or more built presets and closes with one line: N passed, N failed, N skipped.

Each --suite names a preset and the kinds (CTest labels) to run in it, for example
    run_tests.py --suite release:unit,golden --suite asan:unit
Suites run one after the other. Those named by --beside do so at the same time as the others: whole clusters wait most
of their time, so builds and other tests fit in between, with a lower priority. Their output is shown when a kind has
ended.
Tests of some kinds wait for real programs, which a busy machine can keep longer than they allow. Where few of those
failed they run once more at the end, with nothing beside them, unless a sanitizer spoke or a program broke off. One
that passes then counts as passed and is told of as unsteady, with what it said first: a defect, of the test or of the
product.
Cases of C++ programs are told by reports (cmake/Room.cmake); Python programs count as one each, but for the cases that
they skip (tests/unittest_main.py). What was skipped is listed by name: it proved nothing.
Exit status: 0 when every test passed and at least one ran, 1 otherwise, 2 for a usage error.
"""

import argparse
import dataclasses
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
KINDS = ("unit", "golden", "integration", "fuzz", "kernel", "long-kernel", "e2e")
# What gives way to the suites beside it. Their tests have deadlines of minutes; a build has none.
BUILD_NICENESS, TEST_NICENESS = 15, 5
# Integration tests wait for API servers, leases and processes more than they compute.
JOBS_FOR_ONE_CORE = {"integration": 2}
# What may be run again, and how many tests: more than that is no chance.
KINDS_AGAIN, MOST_AGAIN = ("integration", "kernel", "long-kernel", "e2e"), 3
# Never by chance, even if it comes only now and then.
NO_CHANCE = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|SUMMARY: \w+Sanitizer|runtime error:|"
                       r"terminate called|Assertion .* failed")
SKIPPED_CASE = re.compile(r"^skipped case: ([^\t]+)\t(.*)$", re.MULTILINE)
BROKE_OFF = re.compile(r"Test +#\d+: (\S+) .*\*\*\*Exception", re.MULTILINE)
printing = threading.Lock()


@dataclasses.dataclass
class Failure:
    """A test that failed, or a case of one. `test` is CTest's name for it; "" for what is no test."""
    reasons: list = dataclasses.field(default_factory=list)
    preset: str = ""
    kind: str = ""
    test: str = ""
    may_be_chance: bool = False


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
    """(passed, failed names with their reasons, skipped names with theirs) of the cases in one program's report; nothing
    without it."""
    passed, failed, skipped = 0, {}, {}
    if report.exists():
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            failures = case.findall("failure")
            if failures:
                told = "\n".join(failure.text or failure.get("message", "") for failure in failures)
                failed[f"{name}/{case.get('classname')}.{case.get('name')}"] = told.splitlines()[:40]
            elif case.find("skipped") is not None:
                # The first line is the place in the source.
                why = (case.find("skipped").get("message") or "").strip().splitlines()
                skipped[f"{name}/{case.get('classname')}.{case.get('name')}"] = why[-1] if why else ""
            elif case.get("status") == "run":
                passed += 1
    return passed, failed, skipped


def run_kind(preset, kind, arguments, lane):
    """Runs one label of one preset; returns (passed, failed names with their reasons, skipped names with theirs)."""
    build = arguments.root / "build" / preset
    if not (build / "CTestTestfile.cmake").exists():
        return 0, {f"{preset}: it is not built; run: make build PRESET={preset}": Failure()}, {}
    reports = build / "Testing" / "cases"  # of programs that run all their cases (cmake/Room.cmake)
    shutil.rmtree(reports, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        command = ["ctest", "--test-dir", str(build), "-L", f"^{kind}$", "--output-on-failure",
                   "--no-tests=ignore", "--test-output-size-failed", "100000000",
                   "--test-output-size-passed", "100000000", "--output-junit", str(report),
                   "-j", str(arguments.clusters if kind == "e2e" else arguments.jobs * JOBS_FOR_ONE_CORE.get(kind, 1))]
        if arguments.only:
            command += ["-R", arguments.only]
        broke_off = BROKE_OFF.findall(lane.run(command, TEST_NICENESS)[1])
        if not report.exists():
            return 0, {f"{preset}: ctest left no report for {kind}": Failure()}, {}
        passed, failed, skipped = 0, {}, {}
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            status = case.get("status")
            name = case.get("name")
            whole = cases_of(reports / f"{name.partition('/')[2]}_{kind}_test.xml", f"{preset}: {name}")
            output = case.findtext("system-out") or ""
            parts = {f"{preset}: {name}/{part}": why for part, why in SKIPPED_CASE.findall(output)}
            found = Failure(why_it_failed(output), preset, kind, name,
                            kind in KINDS_AGAIN and name not in broke_off and not NO_CHANCE.search(output))
            if any(whole):
                passed += whole[0]
                failed |= {one: dataclasses.replace(found, reasons=why) for one, why in whole[1].items()}
                skipped |= whole[2]
                # Not of one case: a sanitizer's word at the end, or an end before the last case.
                if status != "run" and not whole[1]:
                    failed[f"{preset}: {name}"] = found
            elif status == "run":
                passed += 1
                skipped |= parts
            elif status in ("notrun", "disabled") and case.find("skipped") is not None \
                    and "SKIP" in (case.find("skipped").get("message") or "").upper():
                skipped |= parts or {f"{preset}: {name}": ""}
            else:
                failed[f"{preset}: {name}"] = found
        return passed, failed, skipped


def run_again(failures, arguments):
    """Those of the failures whose tests passed the second time."""
    chances = {(failure.preset, failure.kind, failure.test) for failure in failures.values() if failure.may_be_chance}
    if len({(failure.preset, failure.test) for failure in failures.values()}) > MOST_AGAIN:
        return {}
    lane = Lane([], aside=False, yielding=False)
    unsteady = {}
    for preset, kind, test in sorted(chances):
        print(f"\n== once more, by itself: {test}, {preset} build", flush=True)
        once = argparse.Namespace(**vars(arguments) | {"only": f"^{re.escape(test)}$"})
        passed, failed, _ = run_kind(preset, kind, once, lane)
        if passed and not failed:
            unsteady |= {name: failure for name, failure in failures.items()
                         if (failure.preset, failure.kind, failure.test) == (preset, kind, test)}
    return unsteady


class Lane:
    """Suites that run one after the other. `aside`: beside another lane, whose output must not be mixed with theirs.
    `yielding`: another lane's processes go first."""

    def __init__(self, suites, aside, yielding):
        self.suites, self.aside, self.yielding = suites, aside, yielding
        self.rows = []  # (preset, kind, passed, failed, skipped, seconds)
        self.failures, self.skipped = {}, {}  # names with their reasons

    def run(self, command, niceness):
        """Runs a command to its end; its exit status and what it printed, which is shown."""
        if self.yielding:
            command = ["nice", "-n", str(niceness), *command]
        lines = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace") as process:
            for line in process.stdout:
                lines.append(line)
                if not self.aside:
                    with printing:
                        print(line, end="", flush=True)
        if self.aside:
            with printing:
                print("".join(lines), end="", flush=True)
        return process.returncode, "".join(lines)

    def build(self, preset):
        """Builds a preset as `make build` does."""
        started = time.monotonic()
        status = self.run([os.environ.get("MAKE", "make"), "--no-print-directory", "-C", str(ROOT), "build",
                           f"PRESET={preset}"], BUILD_NICENESS)[0]
        self.rows.append((preset, "(build)", "", "", "", time.monotonic() - started))
        if status != 0:
            self.failures[f"{preset}: the build failed; its tests did not run"] = Failure()
        return status == 0

    def run_all(self, arguments):
        try:
            self.run_each(arguments)
        except Exception as problem:  # pylint: disable=broad-except  # a lane that ends early must not look well
            self.failures[f"tools/run_tests.py: {problem!r}"] = Failure()

    def run_each(self, arguments):
        for preset, kinds in self.suites:
            if arguments.build and not self.aside and not self.build(preset):
                continue
            for kind in kinds:
                started = time.monotonic()
                with printing:
                    print(f"\n== {kind} tests, {preset} build{', beside the others' if self.aside else ''}", flush=True)
                passed, failed, skipped = run_kind(preset, kind, arguments, self)
                self.rows.append((preset, kind, passed, len(failed), len(skipped), time.monotonic() - started))
                self.failures |= failed
                self.skipped |= skipped


def report(lanes, failures, unsteady):
    """Prints what ran and what failed; whether all is well."""
    rows = [row for lane in lanes for row in lane.rows]
    print(f"\n{'build':<10}{'kind':<14}{'passed':>7}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for preset, kind, passed, failed, skipped, seconds in rows:
        print(f"{preset:<10}{kind:<14}{passed:>7}{failed:>8}{skipped:>9}{seconds:>9.1f}")
    for word, those in (("unsteady: failed, then passed by itself", unsteady), ("failed", failures)):
        for name, failure in those.items():
            print(f"\n{word}: {name}")
            for line in failure.reasons:
                print(f"    {line}")
    skipped = {name: why for lane in lanes for name, why in lane.skipped.items()}
    if skipped:
        print("\nskipped, so that they prove nothing here:")
    for name, why in skipped.items():
        print(f"    {name}{': ' if why else ''}{why}")
    passed = sum(row[2] or 0 for row in rows) + len(unsteady)
    if unsteady:
        print(f"unsteady, to be mended: {', '.join(unsteady)}")
    print(f"{passed} passed, {len(failures)} failed, {len(skipped)} skipped")
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
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the checkout (default: this one)")
    arguments = parser.parse_args()
    # Kubernetes' programs live for minutes at most in tests: collecting less often costs memory that is free again at once.
    os.environ.setdefault("GOGC", "400")
    lanes = [Lane(arguments.suite, aside=False, yielding=bool(arguments.beside))]
    if arguments.beside:
        lanes.append(Lane(arguments.beside, aside=True, yielding=False))
    threads = [threading.Thread(target=lane.run_all, args=(arguments,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failures = {name: failure for lane in lanes for name, failure in lane.failures.items()}
    unsteady = run_again(failures, arguments)
    return 0 if report(lanes, {name: failures[name] for name in failures.keys() - unsteady.keys()}, unsteady) else 1


if __name__ == "__main__":
    sys.exit(main())
