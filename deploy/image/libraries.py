"""Programs of one architecture: the shared libraries that they need, and how they are stripped.

The libraries are found as the dynamic loader finds them on Debian, but by reading the files: nothing is run, so
programs of another architecture are looked into as well, below a root of their own.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

_NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
_INTERPRETER = re.compile(r"\[Requesting program interpreter: (.+)\]")
_OWN_PATH = re.compile(r"\((?:RPATH|RUNPATH)\).*\[(.+)\]")
_MACHINE = re.compile(r"^\s*Machine:\s+(.+)$", re.MULTILINE)


class BuildError(Exception):
    """Something that the recipe needs is not there, or a tool failed."""


@dataclasses.dataclass(frozen=True)
class Architecture:
    name: str  # as in image indexes, and Debian's
    triplet: str  # of its libraries' folders and its tools
    machine: str  # as readelf tells it

    def tool(self, name: str) -> str:
        """The binutils program for this architecture; each reads and writes only its own."""
        full = f"{self.triplet}-{name}"
        found = shutil.which(full)
        if not found:
            package = "binutils" if self.name == this_machine().name else f"binutils-{self.triplet.replace('_', '-')}"
            raise BuildError(f"{full} is not installed; install the Debian package {package}")
        return found


ARCHITECTURES = {one.name: one for one in (
    Architecture("amd64", "x86_64-linux-gnu", "Advanced Micro Devices X86-64"),
    Architecture("arm64", "aarch64-linux-gnu", "AArch64"))}


def this_machine() -> Architecture:
    machine = os.uname().machine
    name = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine)
    if name is None:
        raise BuildError(f"this machine is {machine}; images are built on x86_64 or aarch64")
    return ARCHITECTURES[name]


def real_path(root: pathlib.Path, path: str) -> pathlib.Path | None:
    """The file that `path` names for somebody whose root is `root`, through links that never lead out of it."""
    rest = [part for part in path.split("/") if part]
    done: list[str] = []
    links = 0
    while rest:
        part = rest.pop(0)
        if part == "..":
            done = done[:-1]
            continue
        here = root.joinpath(*done, part)
        if here.is_symlink():
            links += 1
            if links > 40:
                return None
            target = os.readlink(here)
            if target.startswith("/"):
                done = []
            rest = [piece for piece in target.split("/") if piece not in ("", ".")] + rest
        else:
            done.append(part)
    found = root.joinpath(*done)
    return found if found.is_file() else None


def _read_elf(program: pathlib.Path, architecture: Architecture) -> str:
    readelf = shutil.which("readelf")
    if not readelf:
        raise BuildError("readelf is not installed; install the Debian package binutils")
    result = subprocess.run([readelf, "--wide", "--file-header", "--program-headers", "--dynamic", str(program)],
                            capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    machine = _MACHINE.search(result.stdout)
    if result.returncode != 0 or not machine:
        raise BuildError(f"{program} is not a program: {result.stderr.strip() or 'no ELF header'}")
    if machine[1].strip() != architecture.machine:
        raise BuildError(f"{program} is built for {machine[1].strip()}, and the image is for {architecture.name}; "
                         "name the build folder of that architecture")
    return result.stdout


def find_library(name: str, asked_by: str, architecture: Architecture,
                 root: pathlib.Path = pathlib.Path("/")) -> tuple[str, pathlib.Path]:
    """The path at which the loader finds it, and the file."""
    folders = (f"/lib/{architecture.triplet}", f"/usr/lib/{architecture.triplet}", "/lib", "/usr/lib")
    for folder in folders:
        file = real_path(root, f"{folder}/{name}")
        if file is not None:
            return f"{folder}/{name}", file
    raise BuildError(f"{name}, which {asked_by} needs, is in none of {', '.join(folders)} below {root}")


def libraries_of(program: pathlib.Path, architecture: Architecture,
                 root: pathlib.Path = pathlib.Path("/")) -> dict[str, pathlib.Path]:
    """{path that the loader looks at: file}, the loader itself included; empty for a static program."""
    found: dict[str, pathlib.Path] = {}
    names: set[str] = set()
    waiting = [(program, program.name)]
    while waiting:
        file, asked_by = waiting.pop()
        text = _read_elf(file, architecture)
        own = _OWN_PATH.search(text)
        if own:
            raise BuildError(f"{file} looks for its libraries in {own[1]}, which the image would not have; link it "
                             "without a path of its own")
        interpreter = _INTERPRETER.search(text)
        if interpreter:
            loader = real_path(root, interpreter[1])
            if loader is None:
                raise BuildError(f"{file}: its loader {interpreter[1]} is not below {root}")
            found[interpreter[1]] = loader
        for name in _NEEDED.findall(text):
            if name in names:
                continue
            names.add(name)
            seen, library = find_library(name, asked_by, architecture, root)
            if library not in found.values():  # the loader is a library of libc as well
                found[seen] = library
            waiting.append((library, name))
    return found


def stripped(program: pathlib.Path, architecture: Architecture) -> bytes:
    """The program without symbols: they are for debuggers, and the build folder keeps them."""
    with tempfile.TemporaryDirectory() as folder:
        target = f"{folder}/stripped"
        result = subprocess.run([architecture.tool("strip"), "-o", target, str(program)], capture_output=True,
                                text=True, check=False)
        if result.returncode != 0:
            raise BuildError(f"strip {program}: {result.stderr.strip()}")
        return pathlib.Path(target).read_bytes()
