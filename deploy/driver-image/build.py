#!/usr/bin/env python3
"""Builds a driver image from a run file of NVIDIA's, which is yours to have and not ours to give out.

    build.py --build build/release --run-file NVIDIA-Linux-x86_64-580.95.05.run [--system ubuntu24.04]
             [--base IMAGE] [--kernel RELEASE]... [--repository registry/path] [--engine podman] [--into FOLDER]

The context (Containerfile, run file, nvidia-driver with its libraries) is written below FOLDER; a container engine
(podman, buildah or docker, whichever there is) makes the image of it. Its tag is what the operator asks for: VERSION-SYSTEM,
and with one --kernel, for which the modules are compiled in the image, VERSION-KERNEL-SYSTEM. Exit status: 0 done,
1 failure, 2 usage; 3 when the context is written and no engine is there to build it.
"""

from __future__ import annotations

import argparse
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
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Where the systems' own images are found; --base names another one.
_BASES = {"debian": "docker.io/library/debian:{release}", "ubuntu": "docker.io/library/ubuntu:{release}",
          "rocky": "docker.io/rockylinux/rockylinux:{release}", "rhel": "registry.access.redhat.com/ubi{release}/ubi"}
_FAMILIES = {"debian": "debian", "ubuntu": "debian", "rocky": "redhat", "rhel": "redhat"}
_ENGINES = {"podman": ["podman", "build"], "buildah": ["buildah", "build"], "docker": ["docker", "build"]}
_PROGRAM = "nvidia-driver"
_FOLDER = "/opt/pitcrew/driver"


class UsageError(Exception):
    """The command line asks for what cannot be."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", metavar="FOLDER",
                        help="where nvidia-driver was built (%(default)s)")
    parser.add_argument("--run-file", type=pathlib.Path, required=True, metavar="FILE")
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
    """What remains of the run file is of no use once all is installed."""
    return (f"RUN {_PROGRAM} build --kernel '{kernel}' \\\n"
            f" && rm -rf /drivers/*.run /usr/src/nvidia-*/kernel*/*.o /var/lib/apt/lists/*\n")


def _containerfile(family: str, run_file: str, version: str, machine: str, kernel: str | None, guest: bool) -> str:
    head = (ROOT / f"deploy/driver-image/{family}.Containerfile").read_text(encoding="utf-8")
    variables = {"DRIVER_VERSION": version, "DRIVER_BRANCH": version.split(".")[0],
                 "TARGETARCH": _ARCHITECTURES[machine], "DRIVER_TYPE": "vgpu" if guest else "passthrough",
                 "NVIDIA_VISIBLE_DEVICES": "void"}
    return (head + f"COPY program {_FOLDER}\nCOPY {_PROGRAM} /usr/local/bin/{_PROGRAM}\n"
            f"COPY {run_file} /drivers/{run_file}\n"
            "ENV " + " ".join(f"{name}={value}" for name, value in variables.items()) + "\n"
            + (_precompile(kernel) if kernel else "")
            + f'WORKDIR /drivers\nENTRYPOINT ["{_PROGRAM}"]\nCMD ["init"]\n')


def _write_context(arguments: argparse.Namespace, run_file: re.Match, family: str, folder: pathlib.Path):
    target = image.Target.of(arguments.build.absolute(), _ARCHITECTURES[run_file["machine"]])
    files, loader = bundle.files_of(arguments.build / "bin" / _PROGRAM, target)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "program").mkdir(parents=True)
    for name, content in files.items():
        (folder / "program" / name).write_bytes(content)
        (folder / "program" / name).chmod(0o755)
    launcher = folder / _PROGRAM
    launcher.write_text("#!/bin/sh\n" + bundle.launcher(_FOLDER, loader, _PROGRAM, _PROGRAM), encoding="utf-8")
    launcher.chmod(0o755)
    shutil.copyfile(arguments.run_file, folder / arguments.run_file.name)
    version = run_file["version"] + (run_file["grid"] or "")
    (folder / "Containerfile").write_text(
        _containerfile(family, arguments.run_file.name, version, run_file["machine"], arguments.kernel,
                       bool(run_file["grid"])), encoding="utf-8")


def _engine(wanted: str | None) -> list[str] | None:
    names = [wanted] if wanted else list(_ENGINES)
    return next((_ENGINES[name] for name in names if name in _ENGINES and shutil.which(name)), None)


def _run(arguments: argparse.Namespace) -> int:
    run_file = _RUN_FILE.fullmatch(arguments.run_file.name)
    if not run_file:
        raise UsageError(f"{arguments.run_file}: a run file is called NVIDIA-Linux-x86_64-580.95.05.run, with its own "
                         "machine and version; do not rename it")
    if not arguments.run_file.is_file():
        raise UsageError(f"{arguments.run_file} is not there; NVIDIA's download page of drivers has it")
    name, release = _system(arguments.system)
    tag = "-".join([run_file["version"], *([arguments.kernel] if arguments.kernel else []), arguments.system])
    reference = f"{arguments.repository.rstrip('/')}/driver:{tag}"
    folder = arguments.into / tag
    _write_context(arguments, run_file, _FAMILIES[name], folder)
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
          f"  driver.repository={arguments.repository.rstrip('/')} driver.image=driver "
          f"driver.version={run_file['version']}" + (" driver.usePrecompiled=true" if arguments.kernel else ""))
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
