#!/usr/bin/env python3
"""Changes one token of the product at a time and sees whether a test fails: `make mutants`.

A sample of changes (|| to &&, == to !=, < to <=, continue to break, true to false, one less, a negation gone) is drawn
by a seed from the sources of the rooms. Each is built in a tree of its own under build/mutants and tried by the tests
of its room, then by the unit and golden tests of the rooms that link it, then by those rooms' integration tests, until
one fails. A change that no test sees is a survivor: the tests say nothing about that line, or the line is not needed. A
change that does not compile is replaced by another one.

The tree is built as the checkout's build/asan is: what `make test` has compiled comes out of the compiler's cache, and
what this program has built it finds again the next time. A test program that fails with a change runs without it too:
one that fails then says nothing, and one that takes several times as long later hangs. A program that has no code of
the changed file is not run.

Exit status: 0 when fewer than one in ten survive, 1 otherwise, 2 for a usage error.
"""

import argparse
import mmap
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

import check_rooms

ROOT = pathlib.Path(__file__).resolve().parent.parent
TREE = ROOT / "build/mutants/tree"
FOLDERS = ("src", "simulation", "cmake", "tests", "deploy", "docs", "tools", "cluster")
# A program that takes so many times as long as without the change, and a while, hangs: it has seen the change.
TIMES_AS_LONG, SECONDS_BESIDES = 4, 30
# For a program of which that is not known yet.
SECONDS_UNKNOWN = 300

CHANGES = [(re.compile(pattern), replacement) for pattern, replacement in (
    (r" \|\| ", " && "), (r" && ", " || "), (r" == ", " != "), (r" != ", " == "), (r" < ", " <= "), (r" <= ", " < "),
    (r" > ", " >= "), (r" >= ", " > "), (r"\bcontinue;", "break;"), (r"\bbreak;", "continue;"), (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"), (r" \+ 1\b", " + 0"), (r" - 1\b", " - 0"), (r"(?<=[( ])!(?=[a-z_(*])", ""))]
# Neither comments nor texts are changed, nor what only the compiler reads.
MASKED = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<raw>\w*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
                    r'|^\s*#[^\n]*|static_assert[^;]*;|operator(?:==|!=|<=>|<)[^;]*;|template\s*<[^\n]*', re.DOTALL | re.MULTILINE)


class Mutant:
    def __init__(self, file, start, end, replacement):
        self.file, self.start, self.end, self.replacement = file, start, end, replacement
        text = (ROOT / file).read_text()
        self.line = text.count("\n", 0, start) + 1
        self.was = text[start:end].strip()
        self.source = text.splitlines()[self.line - 1].strip()

    def __str__(self):
        return f"{self.file}:{self.line}: {self.was} to {self.replacement.strip() or 'nothing'}: {self.source}"


def candidates(places):
    """Every change that could be made, or those at the given places ("src/fleet/rules.cc:80")."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.cc")):
        file = path.relative_to(ROOT).as_posix()
        if {"tests", "testing"} & set(path.parts) or (places and not any(place.startswith(file + ":") for place in places)):
            continue
        text = path.read_text()
        masked = MASKED.sub(lambda part: re.sub(r"[^\n]", "\0", part[0]), text)
        for pattern, replacement in CHANGES:
            found += [Mutant(file, *match.span(), replacement) for match in pattern.finditer(masked)]
    if places:
        found = [mutant for mutant in found if f"{mutant.file}:{mutant.line}" in places]
    return found


def copy_tree():
    """The checkout as it is now; files that have not changed keep their time, so that little is built again."""
    for folder in FOLDERS:
        source, target = ROOT / folder, TREE / folder
        files = {file.relative_to(source) for file in source.rglob("*") if file.is_file() and "__pycache__" not in file.parts}
        for old in [file for file in target.rglob("*") if file.is_file()]:
            if old.relative_to(target) not in files:
                old.unlink()
        for file in files:
            old = target / file
            if not old.exists() or old.read_bytes() != (source / file).read_bytes():
                old.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / file, old)
    for file in ("CMakeLists.txt", "CMakePresets.json", "ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"):
        shutil.copy(ROOT / file, TREE / file)


class Tree:
    """The copy of the checkout, built with one preset."""

    def __init__(self, preset, jobs):
        self.preset, self.jobs = preset, jobs
        self.folder = TREE / "build" / preset
        copy_tree()
        subprocess.run(["cmake", "--preset", preset, "--log-level=WARNING"], cwd=TREE, check=True, stdout=subprocess.DEVNULL)
        self.seconds = {}  # how long each program takes without a change; None: it fails then

    def programs_by_room(self, rooms, kinds, above):
        """{room: its own programs, then `above` those of the rooms that link it (integration tests last)}, as far as
        they exist."""
        targets = subprocess.run(["ninja", "-C", self.folder, "-t", "targets", "all"], check=True, capture_output=True,
                                 text=True).stdout
        existing = set(re.findall(r"^bin/(\w+_test): ", targets, re.MULTILINE))
        links = {room.name: set() for room in rooms}
        for one in check_rooms.read_linking(ROOT):
            room = one.target.removeprefix("pitcrew_")
            if room in links and not one.of_tests:
                links[room] |= {library.removeprefix("pitcrew_") for library in one.libraries}
        found = {}
        for room in links:
            own = [f"{room}_{kind}_test" for kind in kinds]
            if above:
                own += sorted((f"{other}_{kind}_test" for other in sorted(links) if room in links[other] for kind in kinds),
                              key=lambda program: "_integration_" in program)
            found[room] = [program for program in own if program in existing]
        return found

    def builds(self, program):
        return subprocess.run(["ninja", "-C", self.folder, f"-j{self.jobs}", f"bin/{program}"], check=False,
                              capture_output=True).returncode == 0

    def has_part_of(self, program, file):
        """Whether the built program holds code of the source file, by the names that its debug information has: a
        program that links a room's library takes only the files of it that it needs."""
        name = file.rpartition("/")[2].encode() + b"\0"
        with (self.folder / "bin" / program).open("rb") as binary, \
                mmap.mmap(binary.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(name) >= 0

    def passes(self, program, limit=None, only="*"):
        """Whether the program passes, and the case that fails first."""
        try:
            ended = subprocess.run([self.folder / "bin" / program, "--gtest_brief=1", "--gtest_fail_fast",
                                    f"--gtest_filter={only}"], check=False, cwd=self.folder, capture_output=True,
                                   timeout=limit)
        except subprocess.TimeoutExpired:
            return False, ""
        failed = re.search(rb"^\[  FAILED  \] ([\w/]+\.[\w/]+)", ended.stdout, re.MULTILINE)
        return ended.returncode == 0, failed[1].decode() if failed else ""

    def measure(self, program):
        """Runs the program without any change, once; whether it passes."""
        if program not in self.seconds:
            if not self.builds(program):
                sys.exit(f"{program} does not build without any change: ninja -C {self.folder} bin/{program}")
            started = time.monotonic()
            self.seconds[program] = time.monotonic() - started if self.passes(program)[0] else None
            if self.seconds[program] is None:
                print(f"    {program} fails without any change: it is left out", flush=True)
        return self.seconds[program] is not None

    def fails(self, program):
        """Whether the program fails as the tree is now. A case that fails in an integration test has to fail twice:
        on a machine with other work one may have waited too long."""
        known = self.seconds.get(program)
        passes, case = self.passes(program, SECONDS_BESIDES + TIMES_AS_LONG * known if known else SECONDS_UNKNOWN)
        if not passes and case and "_integration_" in program:
            passes = self.passes(program, SECONDS_UNKNOWN, case)[0]
        return not passes

    def try_out(self, mutant, programs):
        """Which program has seen the change: its name, "" for none, None when that cannot be said."""
        path = TREE / mutant.file
        text = path.read_text()
        changed = text[:mutant.start] + mutant.replacement + text[mutant.end:]
        tried = False
        try:
            for program in programs:
                if program in self.seconds and self.seconds[program] is None:
                    continue
                if path.read_text() != changed:
                    path.write_text(changed)
                # Warnings are errors: what cannot be any more (a comparison that is always true) is no change.
                if not self.builds(program):
                    return None
                if not self.has_part_of(program, mutant.file):
                    continue
                # Most programs pass, and then nothing else has to be known of them.
                if self.fails(program):
                    path.write_text(text)
                    if self.measure(program):
                        return program
                else:
                    tried = True
            return "" if tried else None
        finally:
            if path.read_text() != text:
                path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=25, help="how many changes (default: 25)")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws another sample (default: 1)")
    parser.add_argument("--kinds", default="unit,golden,integration", help="of the room's own tests (default: all three)")
    parser.add_argument("--own", action="store_true", help="only by the tests of the room itself: quicker and stricter")
    parser.add_argument("--rooms", type=lambda text: text.split(","), metavar="ROOM[,ROOM]", default=[],
                        help="only in these rooms (default: in all)")
    parser.add_argument("--at", nargs="*", metavar="FILE:LINE", help="these places instead of a sample")
    parser.add_argument("--preset", default="asan", help="asan: eight files at a time, the compiler's cache knows them; "
                        "dev: one by one, so that a change is built faster once all is (default: asan)")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    rooms = check_rooms.read_table(ROOT / "ARCHITECTURE.md")
    unknown = set(arguments.rooms) - {room.name for room in rooms}
    if unknown:
        parser.error(f"ARCHITECTURE.md has no room {', '.join(sorted(unknown))}")
    drawn = candidates(arguments.at)
    if not arguments.at:
        random.Random(arguments.seed).shuffle(drawn)
    if arguments.rooms:
        drawn = [mutant for mutant in drawn if getattr(check_rooms.room_of(rooms, mutant.file), "name", "") in arguments.rooms]
    if not drawn:
        parser.error("there is nothing to change there")
    tree = Tree(arguments.preset, arguments.jobs)
    programs = tree.programs_by_room(rooms, arguments.kinds.split(","), not arguments.own)
    survivors, tried = [], 0
    for mutant in drawn:
        if tried == arguments.count:
            break
        room = check_rooms.room_of(rooms, mutant.file)
        own = programs.get(room.name, []) if room else []
        if not own:
            continue
        started = time.monotonic()
        seen = tree.try_out(mutant, own)
        if seen is None:
            continue
        tried += 1
        survivors += [] if seen else [mutant]
        print(f"{tried:>3} {seen or 'SURVIVES'} ({time.monotonic() - started:.0f} s) {mutant}", flush=True)
    print(f"{tried} changes, {len(survivors)} not seen by any test (seed {arguments.seed})")
    for mutant in survivors:
        print(f"    {mutant}")
    return 0 if tried and 10 * len(survivors) < tried else 1


if __name__ == "__main__":
    sys.exit(main())
