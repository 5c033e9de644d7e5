#!/usr/bin/env python3
"""Holds every #include and every library that CMake links against the room table of ARCHITECTURE.md.

Exits 0 when each of them goes to a room that the table allows, 1 with one line per edge that it forbids
("file:line: room A may not include room B", "file:line: room A may not link room B"), 2 when the table itself
cannot be read. Helpers of tests (tests/*) belong to no room: a test may link one when all rooms that the helper
links are allowed, however many helpers are between.
"""

import argparse
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
SOURCES = {".h", ".cc", ".def"}
LINKING = re.compile(r"\b(pitcrew_room|pitcrew_room_tests|target_link_libraries)\s*\(")
# Programs that the kube room must be usable without: it knows none of their words.
ACCELERATOR_WORDS = re.compile(r"nvidia|gpu|cuda", re.IGNORECASE)

# What a room that does no I/O may take of one that does: its values.
VALUES_ONLY = {("desired", "kube"): {"ownership.h", "projection.h", "resource.h", "selector.h"},
               ("driver_upgrade", "kube"): {"ownership.h", "resource.h"}}


class Room:
    def __init__(self, name, folder, allowed, allowed_in_tests):
        self.name, self.folder = name, folder
        self.allowed, self.allowed_in_tests = allowed, allowed_in_tests


def read_table(document):
    """The rooms between the markers, longest folder first (a room may stand inside another's folder)."""
    text = document.read_text()
    match = re.search(r"<!-- rooms:begin -->(.*?)<!-- rooms:end -->", text, re.DOTALL)
    if not match:
        sys.exit(f"{document}: the markers rooms:begin and rooms:end are missing")
    rooms = []
    for line in match.group(1).strip().splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 4:
            print(f"{document}: a row needs four cells: {line}", file=sys.stderr)
            sys.exit(2)
        words = [w.strip() for w in cells[3].split(",") if w.strip()]
        in_tests = {w.removesuffix(" (tests)") for w in words if w.endswith(" (tests)")}
        rooms.append(Room(cells[0], cells[1], {w for w in words if not w.endswith(" (tests)")}, in_tests))
    names = {room.name for room in rooms}
    for room in rooms:
        for other in (room.allowed | room.allowed_in_tests) - names - {"everything"}:
            print(f"{document}: room {room.name} names an unknown room {other}", file=sys.stderr)
            sys.exit(2)
    return sorted(rooms, key=lambda room: -len(room.folder))


def room_of(rooms, path):
    for room in rooms:
        if path == room.folder or path.startswith(room.folder + "/"):
            return room
    return None


def check(root, rooms):
    problems = []
    files = [p for folder in ("src", "simulation") for p in (root / folder).rglob("*")]
    for file in sorted(p for p in files if p.suffix in SOURCES):
        relative = file.relative_to(root).as_posix()
        room = room_of(rooms, relative)
        if room is None:
            if relative.startswith("src/"):
                problems.append(f"{relative}:1: this folder is not in the room table")
            continue
        in_tests = "/tests/" in relative
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
            if room.name == "kube" and not in_tests and ACCELERATOR_WORDS.search(line):
                problems.append(f"{relative}:{number}: the kube room knows no accelerator word")
            match = INCLUDE.match(line)
            if not match:
                continue
            other = room_of(rooms, "src/" + match.group(1)) or room_of(rooms, match.group(1))
            if other is None or other is room or "everything" in room.allowed:
                continue
            if in_tests and other.name in room.allowed_in_tests | {"simulation"}:
                continue
            values = VALUES_ONLY.get((room.name, other.name))
            if values and not in_tests and pathlib.PurePath(match.group(1)).name not in values:
                problems.append(f"{relative}:{number}: room {room.name} does no I/O: of {other.name} it"
                                f" takes only {', '.join(sorted(values))}")
            if other.name not in room.allowed:
                problems.append(
                    f"{relative}:{number}: room {room.name} may not include room {other.name}"
                    f" ({match.group(1)}); allowed: {', '.join(sorted(room.allowed)) or 'nothing'}")
    return problems


class Linking:
    """One command of a CMakeLists.txt that links: what `target` names, and whether only tests see it."""

    def __init__(self, file, line, target, libraries, of_tests):
        self.file, self.line, self.target, self.libraries, self.of_tests = file, line, target, libraries, of_tests


def words_of(text, start):
    """The words between the parentheses that open before `start`."""
    depth, end = 1, start
    while depth and end < len(text):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[start:end - 1].replace('"', " ").split()


def read_linking(root):
    """Every linking command of the checkout's CMakeLists.txt files."""
    found = []
    files = [file for folder in ("src", "simulation", "tests", "deploy") for file in (root / folder).rglob("CMakeLists.txt")]
    for file in sorted(files):
        # Comments become spaces, so that positions still tell the line.
        text = re.sub(r"#[^\n]*", lambda comment: " " * len(comment.group()), file.read_text())
        relative = file.relative_to(root).as_posix()
        for match in LINKING.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            name, *words = words_of(text, match.end())
            if match.group(1) == "target_link_libraries":
                found.append(Linking(relative, line, name, words, name.endswith("_test")))
                continue
            target = f"pitcrew_{name}"
            if match.group(1) == "pitcrew_room_tests":
                found.append(Linking(relative, line, f"{name}_test", words, True))
                continue
            section = None
            parts = {"FOLDERS": [], "DEPENDS": [], "TEST_DEPENDS": [], "EXTERNAL": []}
            for word in words:
                if word in parts:
                    section = word
                elif section:
                    parts[section].append(word)
            found.append(Linking(relative, line, target, [f"pitcrew_{word}" for word in parts["DEPENDS"]], False))
            found.append(Linking(relative, line, target, parts["TEST_DEPENDS"], True))
    return found


def linked_rooms(library, names, helpers, seen):
    """The rooms that linking `library` brings along: itself, or what a helper of tests links."""
    if library in seen:
        return set()
    seen.add(library)
    room = library.removeprefix("pitcrew_")
    if library.startswith("pitcrew_") and room in names:
        return {room}
    return {room for other in helpers.get(library, ()) for room in linked_rooms(other, names, helpers, seen)}


def check_linking(root, rooms):
    problems = []
    names = {room.name for room in rooms}
    linking = read_linking(root)
    helpers = {}
    for one in linking:
        if not one.of_tests:
            helpers.setdefault(one.target, set()).update(one.libraries)
    for one in linking:
        room = room_of(rooms, one.file)
        if room is None or "everything" in room.allowed:
            continue
        for library in one.libraries:
            # The simulation is the hardware of tests, whatever it is made of.
            in_tests = room.allowed_in_tests | {"simulation"} if one.of_tests else set()
            allowed = room.allowed | {room.name} | in_tests
            for other in sorted(linked_rooms(library, names, helpers, set()) - allowed):
                through = "" if library == f"pitcrew_{other}" else f" (through {library})"
                problems.append(
                    f"{one.file}:{one.line}: room {room.name} may not link room {other}{through}; allowed: "
                    f"{', '.join(sorted(room.allowed)) or 'nothing'}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the checkout to look at (default: the one this file stands in)")
    arguments = parser.parse_args()
    rooms = read_table(arguments.root / "ARCHITECTURE.md")
    problems = check(arguments.root, rooms) + check_linking(arguments.root, rooms)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
