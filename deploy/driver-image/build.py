#!/usr/bin/env python3
"""Builds a driver image from what is yours to have and not ours to give out: a run file of NVIDIA's, or packages.

    build.py --build build/release --run-file NVIDIA-Linux-x86_64-580.95.05.run [--system ubuntu24.04]
             [--base IMAGE] [--kernel RELEASE] [--repository registry/path] [--engine podman] [--into FOLDER]
    build.py --build build/release --packages 'PACKAGE...' --driver-version 580.95.05 --kernel RELEASE ...
    build.py --build build/release --module-sources FOLDER/nvidia-fs-2.28.4 [--system ubuntu24.04] ...

Packages are installed in the image with the system's own tool, from the repositories that its base has: the driver's
programs and libraries, and its modules for the kernel.

Sources of nvidia-fs or gdrdrv make an image of GPUDirect Storage or GDRCopy, for the container beside the driver's; their
folder is called by name and version, as DKMS has it. On the node they are compiled against the driver.

The context (Containerfile, run file, nvidia-driver with its libraries) is written below FOLDER; a container engine
(podman, buildah or docker, whichever there is) makes the image of it. Its tag is what the operator asks for: VERSION-SYSTEM,
and with one --kernel, for which the modules are compiled in the image, VERSION-KERNEL-SYSTEM. Exit status: 0 done,
1 failure, 2 usage; 3 when the context is written and no engine is there to build it.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "deploy/image"))
import build as image  # noqa: E402  pylint: disable=wrong-import-position
import bundle  # noqa: E402  pylint: disable=wrong-import-position

_RUN_FILE = re.compile(r"NVIDIA-Linux-(?P<machine>x86_64|aarch64)-(?P<version>\d[\d.]*)(?P<grid>-grid)?\.run")
_VERSION = re.compile(r"\d[\d.]*")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_:~=-]*")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Where the systems' own images are found; --base names another one.
_BASES = {"debian": "docker.io/library/debian:{release}", "ubuntu": "docker.io/library/ubuntu:{release}",
          "rocky": "docker.io/rockylinux/rockylinux:{release}", "rhel": "registry.access.redhat.com/ubi{release}/ubi"}
_FAMILIES = {"debian": "debian", "ubuntu": "debian", "rocky": "redhat", "rhel": "redhat"}
_ENGINES = {"podman": ["podman", "build"], "buildah": ["buildah", "build"], "docker": ["docker", "build"]}
_PROGRAM = "nvidia-driver"
_MODULE = re.compile(r"(?P<name>nvidia-fs|gdrdrv)-(?P<version>\d[\w.-]*)")
# Its other names, and the block of values that its image belongs to.
_COMPANIONS = {"nvidia-fs": ("nvidia-gds-driver", "gds"), "gdrdrv": ("nvidia-gdrcopy-driver", "gdrcopy")}
_FOLDER = "/opt/pitcrew/driver"


class UsageError(Exception):
    """The command line asks for what cannot be."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", metavar="FOLDER",
                        help="where nvidia-driver was built (%(default)s)")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--run-file", type=pathlib.Path, metavar="FILE")
    source.add_argument("--packages", metavar="NAMES", help="packages that have the driver for --kernel, by spaces")
    source.add_argument("--module-sources", type=pathlib.Path, metavar="FOLDER",
                        help="nvidia-fs-VERSION or gdrdrv-VERSION, for an image of GPUDirect Storage or GDRCopy")
    parser.add_argument("--driver-version", metavar="VERSION", help="which driver the packages have, as 580.95.05")
    parser.add_argument("--system", default="ubuntu24.04", metavar="NAME",
                        help="the nodes' system as the operator calls it: debian12, ubuntu22.04, rhel9, rocky9 "
                             "(%(default)s)")
    parser.add_argument("--base", metavar="IMAGE", help="the system's image (its distributor's)")
    parser.add_argument("--kernel", metavar="RELEASE", help="compile the modules for this kernel now (precompiled)")
    parser.add_argument("--repository", default="localhost/nvidia", metavar="REGISTRY/PATH",
                        help="what stands before the image's name (%(default)s)")
    parser.add_argument("--engine", choices=[*_ENGINES, "none"], help="the container engine (the first that is there)")
    parser.add_argument("--into", type=pathlib.Path, default=ROOT / "build/driver-image", metavar="FOLDER",
                        help="where the context is written (%(default)s)")
    return parser


def _system(name: str) -> tuple[str, str]:
    found = re.fullmatch(r"([a-z]+)(\d+(?:\.\d+)?)", name)
    if not found or found[1] not in _FAMILIES:
        raise UsageError(f"--system {name}: write one of {', '.join(_FAMILIES)} with its release, as ubuntu24.04")
    if _FAMILIES[found[1]] == "redhat" and "." in found[2]:
        raise UsageError(f"--system {name}: of {found[1]} the operator asks for the major release only, as {found[1]}9")
    return found[1], found[2]


def _precompile(kernel: str) -> str:
    """What packages have brought, `build` finds there, and fails where something is missing. What remains of the run file
    is of no use once all is installed."""
    return (f"RUN {_PROGRAM} build --kernel '{kernel}' \\\n"
            f" && rm -rf /drivers/*.run /usr/src/nvidia-*/kernel*/*.o /var/lib/apt/lists/* /var/cache/dnf/*\n")


def _install(family: str, packages: list[str]) -> str:
    names = " ".join(packages)
    if family == "redhat":
        return f"RUN dnf install -y {names} \\\n && dnf clean all\n"
    return (f"RUN apt-get update \\\n && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "
            f"{names} \\\n && rm -rf /var/lib/apt/lists/*\n")


class Source:
    """Where the driver of the image comes from."""

    image, program, block = "driver", _PROGRAM, "driver"

    def __init__(self, arguments: argparse.Namespace):
        self.run_file, self.packages, self.kernel = arguments.run_file, [], arguments.kernel
        self.machine, self.guest = os.uname().machine, False
        if self.run_file is not None:
            self._read_name(arguments)
        else:
            self._read_packages(arguments)
        self.tag = "-".join([self.version, *([self.kernel] if self.kernel else [])])

    def _read_name(self, arguments: argparse.Namespace):
        name = _RUN_FILE.fullmatch(self.run_file.name)
        if not name:
            raise UsageError(f"{self.run_file}: a run file is called NVIDIA-Linux-x86_64-580.95.05.run, with its own "
                             "machine and version; do not rename it")
        if arguments.driver_version:
            raise UsageError("--driver-version is for packages: a run file has its version in its name")
        if not self.run_file.is_file():
            raise UsageError(f"{self.run_file} is not there; NVIDIA's download page of drivers has it")
        self.version, self.machine, self.guest = name["version"], name["machine"], bool(name["grid"])

    def _read_packages(self, arguments: argparse.Namespace):
        self.packages = arguments.packages.split()
        wrong = next((name for name in self.packages if not _PACKAGE.fullmatch(name)), None)
        if wrong or not self.packages:
            raise UsageError(f"--packages {wrong or ''}: write names of packages, with spaces between them")
        if not _VERSION.fullmatch(arguments.driver_version or ""):
            raise UsageError("--packages: say with --driver-version which driver they have, as 580.95.05")
        if not self.kernel:
            raise UsageError("--packages: say with --kernel for which kernel they have modules: without a run file the "
                             "nodes have nothing to compile them from")
        self.version = arguments.driver_version

    def lines(self, family: str) -> str:
        """Of the Containerfile."""
        variables = {"DRIVER_VERSION": self.version + ("-grid" if self.guest else ""),
                     "DRIVER_BRANCH": self.version.split(".")[0], "TARGETARCH": _ARCHITECTURES[self.machine],
                     "DRIVER_TYPE": "vgpu" if self.guest else "passthrough", "NVIDIA_VISIBLE_DEVICES": "void"}
        return (self._driver_lines(family) + "ENV " + " ".join(f"{name}={value}" for name, value in variables.items())
                + "\n" + (_precompile(self.kernel) if self.kernel else "")
                + f'WORKDIR /drivers\nENTRYPOINT ["{_PROGRAM}"]\nCMD ["init"]\n')

    def _driver_lines(self, family: str) -> str:
        if self.packages:
            return _install(family, self.packages)
        return f"COPY {self.run_file.name} /drivers/{self.run_file.name}\n"

    def write(self, folder: pathlib.Path):
        """What `lines` copies."""
        if self.run_file is not None:
            shutil.copyfile(self.run_file, folder / self.run_file.name)

    def values(self) -> str:
        return (f"driver.image=driver driver.version={self.version}"
                + (" driver.usePrecompiled=true" if self.kernel else ""))


class ModuleSource:
    """Of an image of a module beside the driver's."""

    def __init__(self, arguments: argparse.Namespace):
        self.folder, self.machine = arguments.module_sources, os.uname().machine
        name = _MODULE.fullmatch(self.folder.name)
        if not name:
            raise UsageError(f"--module-sources {self.folder}: call the folder nvidia-fs-VERSION or gdrdrv-VERSION")
        if not (self.folder / "Makefile").is_file():
            raise UsageError(f"{self.folder} has no Makefile; of nvidia-fs it is what its repository has in src, of GDRCopy what "
                             "it has in src/gdrdrv, with its folder scripts beside the Makefile")
        if arguments.kernel or arguments.driver_version:
            raise UsageError("--module-sources: they are compiled on the node, against its driver; leave --kernel and "
                             "--driver-version out")
        self.image, self.version = name["name"], name["version"]
        self.program, self.block = _COMPANIONS[self.image]
        self.tag = self.version

    def lines(self, _family: str) -> str:
        return (f"COPY {self.folder.name} /usr/src/{self.folder.name}\n"
                f"ENV TARGETARCH={_ARCHITECTURES[self.machine]} NVIDIA_VISIBLE_DEVICES=void\n"
                f'ENTRYPOINT ["{self.program}"]\nCMD ["install"]\n')

    def write(self, folder: pathlib.Path):
        shutil.copytree(self.folder, folder / self.folder.name, symlinks=True)

    def values(self) -> str:
        return f"{self.block}.enabled=true {self.block}.image={self.image} {self.block}.version={self.version}"


def _containerfile(family: str, source: Source | ModuleSource) -> str:
    head = (ROOT / f"deploy/driver-image/{family}.Containerfile").read_text(encoding="utf-8")
    return (head + f"COPY program {_FOLDER}\nCOPY {source.program} /usr/local/bin/{source.program}\n"
            + source.lines(family))


def _write_context(arguments: argparse.Namespace, source: Source | ModuleSource, family: str, folder: pathlib.Path):
    target = image.Target.of(arguments.build.absolute(), _ARCHITECTURES[source.machine])
    files, loader = bundle.files_of(arguments.build / "bin" / _PROGRAM, target)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "program").mkdir(parents=True)
    for name, content in files.items():
        (folder / "program" / name).write_bytes(content)
        (folder / "program" / name).chmod(0o755)
    launcher = folder / source.program
    launcher.write_text("#!/bin/sh\n" + bundle.launcher(_FOLDER, loader, _PROGRAM, source.program), encoding="utf-8")
    launcher.chmod(0o755)
    source.write(folder)
    (folder / "Containerfile").write_text(_containerfile(family, source), encoding="utf-8")


def _engine(wanted: str | None) -> list[str] | None:
    names = [wanted] if wanted else list(_ENGINES)
    return next((_ENGINES[name] for name in names if name in _ENGINES and shutil.which(name)), None)


def _run(arguments: argparse.Namespace) -> int:
    source = ModuleSource(arguments) if arguments.module_sources else Source(arguments)
    name, release = _system(arguments.system)
    tag = f"{source.tag}-{arguments.system}"
    reference = f"{arguments.repository.rstrip('/')}/{source.image}:{tag}"
    folder = arguments.into / (tag if source.image == "driver" else f"{source.image}-{tag}")
    _write_context(arguments, source, _FAMILIES[name], folder)
    base = arguments.base or _BASES[name].format(release=release)
    engine = _engine(arguments.engine)
    command = [*(engine or _ENGINES["podman"]), "--build-arg", f"BASE={base}", "--file", str(folder / "Containerfile"),
               "--tag", reference, str(folder)]
    print(f"{folder}: the context of {reference}")
    if engine is None:
        print(f"no container engine is here; where there is one:\n  {' '.join(command)}", file=sys.stderr)
        return 3
    if subprocess.run(command, check=False).returncode != 0:
        print(f"driver image: {' '.join(command)} has failed; what it says stands above", file=sys.stderr)
        return 1
    print(f"{reference} is made; push it to where your nodes pull from, and set\n"
          f"  {source.block}.repository={arguments.repository.rstrip('/')} {source.values()}")
    return 0


def main() -> int:
    try:
        return _run(_parser().parse_args())
    except UsageError as error:
        print(f"driver image: {error}", file=sys.stderr)
        return 2
    except (image.BuildError, OSError) as error:
        print(f"driver image: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
