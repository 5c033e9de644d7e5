#!/usr/bin/env python3
"""Unpacks Debian packages of one architecture into a folder, with all that they depend on: a sysroot.

    sysroot.py --architecture arm64 --into FOLDER PACKAGE...

What a cross compiler needs to build for another architecture, and what an image for it is filled from. Nothing
is installed on this machine and no maintainer script runs, so it needs no root. The packages come from the
machine's own apt sources, and apt checks their signatures. The folder has a dpkg database of its own
(`dpkg-query --admindir FOLDER/var/lib/dpkg -S FILE` names a file's package). A folder that holds just these
packages is left alone; one that an interruption left half done is never taken for a whole one.
Exit status: 0 done, 1 failure, 2 usage.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

_MERGED = ("bin", "lib", "sbin")  # Debian 12: links into /usr; the packages still ship files under either name
_STAMP = "packages-asked-for"


class SysrootError(Exception):
    """A package cannot be had, or a tool failed."""


def run(argv: list[str], **options) -> str:
    try:
        result = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
    except FileNotFoundError as error:
        raise SysrootError(f"{argv[0]} is not installed; this needs the tools of Debian") from error
    if result.returncode != 0:
        lines = [line for line in (result.stderr or result.stdout).splitlines() if line.strip()]
        raise SysrootError(f"{' '.join(argv[:2])}: " + "\n  ".join(lines[-8:]))
    return result.stdout


class Apt:
    """apt with a state of its own, in which nothing is installed: it downloads whole closures of packages."""

    def __init__(self, folder: pathlib.Path, architecture: str):
        for name in ("state/lists/partial", "cache/archives/partial", "log"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").write_text("", encoding="ascii")
        self.archives = folder / "cache/archives"
        settings = {"APT::Architecture": architecture, "APT::Architectures": architecture,
                    "APT::Install-Recommends": "false", "APT::Sandbox::User": "", "Dir::State": f"{folder}/state",
                    "Dir::State::status": f"{folder}/status", "Dir::Cache": f"{folder}/cache",
                    "Dir::Log": f"{folder}/log", "Acquire::Languages": "none", "Acquire::Retries": "3",
                    # The machine's hooks (container images clean the cache after each run) are not for this one.
                    "APT::Update::Post-Invoke": "", "DPkg::Post-Invoke": "", "APT::Keep-Downloaded-Packages": "true"}
        config = folder / "apt.conf"
        config.write_text("".join(f'{key} "{value}";\n' for key, value in settings.items())
                          + "#clear APT::Update::Post-Invoke;\n#clear DPkg::Post-Invoke;\n", encoding="utf-8")
        self._environment = {**os.environ, "APT_CONFIG": str(config), "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}

    def download(self, packages: list[str]) -> list[pathlib.Path]:
        run(["apt-get", "--quiet", "update"], env=self._environment)
        run(["apt-get", "--quiet", "--yes", "--download-only", "install", *packages], env=self._environment)
        found = sorted(self.archives.glob("*.deb"))
        if not found:
            raise SysrootError(f"apt-get downloaded nothing for {' '.join(packages)}")
        return found


def unpack(archive: pathlib.Path, root: pathlib.Path) -> list[str]:
    """Unpacks one package; returns the paths of its files."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE) as reader:
        # Device nodes and owners do not matter to a compiler; a folder that is a link (/lib) stays one.
        listed = run(["tar", "--extract", "--verbose", "--keep-directory-symlink", "--no-same-owner",
                      "--directory", str(root)], stdin=reader.stdout)
    if reader.returncode != 0:
        raise SysrootError(f"dpkg-deb {archive}: exit status {reader.returncode}")
    return [line.removeprefix(".").rstrip("/") or "/." for line in listed.splitlines()]


def record(archive: pathlib.Path, files: list[str], database: pathlib.Path):
    """Enters the package into the folder's own dpkg database."""
    control = run(["dpkg-deb", "--field", str(archive)])
    fields = dict(line.split(": ", 1) for line in control.splitlines() if ": " in line and not line.startswith(" "))
    name = fields["Package"]
    if fields.get("Multi-Arch") == "same":
        name += f":{fields['Architecture']}"
    (database / "info" / f"{name}.list").write_text("\n".join(files) + "\n", encoding="utf-8")
    with open(database / "status", "a", encoding="utf-8") as status:
        status.write(control.rstrip("\n").replace("\n", "\nStatus: install ok installed\n", 1) + "\n\n")


def build(into: pathlib.Path, architecture: str, packages: list[str]):
    into.parent.mkdir(parents=True, exist_ok=True)
    root = pathlib.Path(tempfile.mkdtemp(prefix=f".{into.name}.", dir=into.parent))
    try:
        root.chmod(0o755)
        for name in _MERGED:
            (root / "usr" / name).mkdir(parents=True)
            (root / name).symlink_to(f"usr/{name}")
        database = root / "var/lib/dpkg"
        (database / "info").mkdir(parents=True)
        (database / "status").write_text("", encoding="ascii")
        # What dpkg-query asks of a database; without it, file names under an architecture are not found.
        (database / "info/format").write_text("1\n", encoding="ascii")
        (database / "arch").write_text(f"{architecture}\n", encoding="ascii")
        with tempfile.TemporaryDirectory(dir=into.parent) as apt:
            for archive in Apt(pathlib.Path(apt), architecture).download(packages):
                record(archive, unpack(archive, root), database)
        _make_links_relative(root)
        (root / _STAMP).write_text(_stamp(architecture, packages), encoding="utf-8")
        if into.exists():
            shutil.rmtree(into)
        os.rename(root, into)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _make_links_relative(root: pathlib.Path):
    """An absolute link would lead out of the folder, to a library of this machine."""
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = pathlib.Path(folder) / name
            if path.is_symlink() and os.readlink(path).startswith("/"):
                target = os.path.relpath(f"{root}{os.readlink(path)}", folder)
                path.unlink()
                path.symlink_to(target)


def _stamp(architecture: str, packages: list[str]) -> str:
    return f"{architecture}\n" + "\n".join(sorted(packages)) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--architecture", required=True, help="Debian's name: arm64, amd64")
    parser.add_argument("--into", type=pathlib.Path, required=True, help="the folder; replaced as a whole")
    parser.add_argument("--check", action="store_true", help="only say by the exit status whether it is there")
    parser.add_argument("packages", nargs="+")
    arguments = parser.parse_args()
    try:
        present = (arguments.into / _STAMP).read_text(encoding="utf-8") == _stamp(arguments.architecture,
                                                                                arguments.packages)
    except OSError:
        present = False
    if present or arguments.check:
        return 0 if present else 1
    try:
        build(arguments.into.absolute(), arguments.architecture, arguments.packages)
    except (SysrootError, OSError) as error:
        print(f"sysroot: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
