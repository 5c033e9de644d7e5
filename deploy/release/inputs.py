"""Which files of Debian's packages end in the programs of a build folder: archives that were linked, headers that were
compiled. The build itself says so: ninja knows each link's command and the headers that each compilation read."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess

_ARCHIVE = re.compile(r"(?:^|/)lib[^/]+\.a$")


class InputsError(Exception):
    """The build folder does not tell."""


def _ninja(build: pathlib.Path, *arguments: str) -> str:
    result = subprocess.run(["ninja", "-C", str(build), "-t", *arguments], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise InputsError(f"ninja -t {arguments[0]} in {build}: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


def linked_archives(build: pathlib.Path, program: str) -> list[pathlib.Path]:
    """Archives outside the build folder that the program is linked with; for a static program also those of the
    compiler and of libc, which no command names."""
    lines = [line for line in _ninja(build, "commands", "-s", program).splitlines()
             if not line.startswith("ninja: Entering")]
    words = shlex.split(lines[-1].replace("&&", " "))
    found = {pathlib.Path(word) for word in words if word.startswith("/") and _ARCHIVE.search(word)}
    found = {path for path in found if not path.is_relative_to(build)}
    if "-static" in words:
        compiler = next(word for word in words if re.search(r"(?:g\+\+|c\+\+)(?:-\d+)?$", word))
        sysroot = [word for word in words if word.startswith("--sysroot=")]
        for name in ("libc.a", "libm.a", "libstdc++.a", "libgcc.a"):
            told = subprocess.run([compiler, *sysroot, f"-print-file-name={name}"], capture_output=True, text=True,
                                  check=True).stdout.strip()
            if told != name:
                found.add(pathlib.Path(told))
    return sorted(path.resolve() for path in found)


def compiled_headers(build: pathlib.Path) -> list[pathlib.Path]:
    """Headers outside checkout and build folder that any source read."""
    found = set()
    for line in _ninja(build, "deps").splitlines():
        path = line.strip()
        if line.startswith("    /") and "/include/" in path:
            found.add(pathlib.Path(path))
    return sorted(path for path in {pathlib.Path(str(path)).resolve() for path in found})
