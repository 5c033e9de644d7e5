"""A program with the libraries that it was linked with and their loader: it runs on any Linux of its architecture,
whatever the distribution's own C library is."""

from __future__ import annotations

import pathlib

import libraries
from build import BuildError, Target


def files_of(program: pathlib.Path, target: Target) -> tuple[dict[str, bytes], str]:
    """The files of one folder by name, and which of them is the loader."""
    if not program.is_file():
        raise BuildError(f"{program} is not there; build it first: `make build`")
    files = {program.name: libraries.stripped(program, target.architecture)}
    loader = ""
    for seen, library in libraries.libraries_of(program, target.architecture, target.root).items():
        name = pathlib.PurePath(seen).name
        files[name] = library.read_bytes()
        if name.startswith("ld-"):
            loader = name
    return files, loader


def launcher(folder: str, loader: str, program: str, name: str) -> str:
    """A shell script's last line: `folder` may be an expression of the shell, `name` is what the program is called by.
    The loader's cache and the machine's own name service modules are left out: they go with another libc."""
    return (f'exec "{folder}/{loader}" --argv0 {name} --inhibit-cache --library-path "{folder}" "{folder}/{program}" '
            f'"$@"\n')
