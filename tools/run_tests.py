#!/usr/bin/env python3
"""Runs tests of one or more built presets and closes with one line: N passed, N failed, N skipped.

Each --suite names a preset and the kinds (CTest labels) to run in it, for example
    run_tests.py --suite release:unit,golden --suite asan:unit
Exit status: 0 when every test passed and at least one ran, 1 otherwise, 2 for a usage error.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = ("unit", "golden", "integration", "fuzz", "kernel", "e2e")


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


def run_kind(preset, kind, only, jobs):
    """Runs one label of one preset; returns (passed, failed names with their reasons, skipped)."""
    build = ROOT / "build" / preset
    if not (build / "CTestTestfile.cmake").exists():
        sys.exit(f"{build} is not built; run: make build PRESET={preset}")
    reports = build / "Testing" / "cases"  # of programs that run all their cases (cmake/Room.cmake)
    shutil.rmtree(reports, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        command = ["ctest", "--test-dir", str(build), "-L", f"^{kind}$", "--output-on-failure",
                   "--no-tests=ignore", "--output-junit", str(report),
                   "-j", "1" if kind == "e2e" else str(jobs)]
        if only:
            command += ["-R", only]
        subprocess.run(command, check=False)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=parse_suite, action="append", required=True)
    parser.add_argument("--only", help="a regular expression over test names")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    rows, failures = [], {}
    total_passed = total_skipped = 0
    for preset, kinds in arguments.suite:
        for kind in kinds:
            started = time.monotonic()
            print(f"\n== {kind} tests, {preset} build", flush=True)
            passed, failed, skipped = run_kind(preset, kind, arguments.only, arguments.jobs)
            rows.append((preset, kind, passed, len(failed), skipped, time.monotonic() - started))
            failures |= failed
            total_passed += passed
            total_skipped += skipped
    print(f"\n{'build':<10}{'kind':<14}{'passed':>7}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for preset, kind, passed, failed, skipped, seconds in rows:
        print(f"{preset:<10}{kind:<14}{passed:>7}{failed:>8}{skipped:>9}{seconds:>9.1f}")
    for name, reasons in failures.items():
        print(f"\nfailed: {name}")
        for line in reasons:
            print(f"    {line}")
    print(f"{total_passed} passed, {len(failures)} failed, {total_skipped} skipped")
    return 0 if total_passed and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
