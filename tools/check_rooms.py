#!/usr/bin/env python3
"""Holds every #include against the room table of ARCHITECTURE.md.

Exits 0 when each include goes to a room that the table allows, 1 with one line per include that it
forbids ("file:line: room A may not include room B"), 2 when the table itself cannot be read.
"""

import argparse
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
SOURCES = {".h", ".cc", ".def"}
# Programs that the kube room must be usable without: it knows none of their words.
ACCELERATOR_WORDS = re.compile(r"nvidia|gpu|cuda", re.IGNORECASE)


class Room:
    def __init__(self, name, folder, allowed):
        self.name, self.folder, self.allowed = name, folder, allowed


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
        rooms.append(Room(cells[0], cells[1], {w.strip() for w in cells[3].split(",") if w.strip()}))
    names = {room.name for room in rooms}
    for room in rooms:
        for other in room.allowed - names - {"everything"}:
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
            if other.name not in room.allowed and not (in_tests and other.name == "simulation"):
                problems.append(
                    f"{relative}:{number}: room {room.name} may not include room {other.name}"
                    f" ({match.group(1)}); allowed: {', '.join(sorted(room.allowed)) or 'nothing'}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the checkout to look at (default: the one this file stands in)")
    arguments = parser.parse_args()
    problems = check(arguments.root, read_table(arguments.root / "ARCHITECTURE.md"))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
