"""The root file system of a driver container for virtual machines: Debian's compiler and what it needs, the kernel's
headers, nvidia-driver under all its names, and a stand-in for NVIDIA's run file. Everything but the GPUs and NVIDIA's own code is real.
"""

from __future__ import annotations

import gzip
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

from machine import Kernel, MissingPart

_HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(_HERE.parents[1] / "deploy/image"))
import libraries  # noqa: E402  pylint: disable=wrong-import-position

VERSIONS = ["580.95.05", "590.10.01"]
# A compiler with what it calls, a shell with its tools, and the libraries of all these.
_PACKAGES = ["binutils", "binutils-x86-64-linux-gnu", "coreutils", "cpp-12", "dash", "findutils", "gcc-12", "grep",
             "gzip", "kmod", "libc6", "libelf1", "make", "mawk", "perl-base", "sed", "tar", "util-linux", "zlib1g"]
_NOT_NEEDED = ("usr/bin/expr", "usr/bin/factor", "usr/share/", "usr/include/", "etc/", "var/", "usr/lib/systemd/",
               "usr/lib/x86_64-linux-gnu/gconv/", "usr/lib/x86_64-linux-gnu/perl")


def _files_of(packages: list[str]) -> list[pathlib.Path]:
    listed = subprocess.run(["dpkg-query", "--listfiles", *packages], check=True, capture_output=True, text=True).stdout
    return [pathlib.Path(line) for line in listed.splitlines() if line.startswith("/") and line != "/."]


def _place(path: pathlib.Path) -> pathlib.PurePath:
    """Debian's merged layout: /bin, /sbin and /lib are links into /usr."""
    parts = path.parts[1:]
    return pathlib.PurePath("usr", *parts) if parts[0] in ("bin", "sbin", "lib", "lib64") else pathlib.PurePath(*parts)


def _copy(root: pathlib.Path, path: pathlib.Path) -> bool:
    """Whether it is a file that was not there yet."""
    place = root / _place(path)
    if place.is_symlink() or place.exists() or str(_place(path)).startswith(_NOT_NEEDED):
        return False
    if path.is_symlink():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.readlink(path))
    elif path.is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
        place.chmod(path.stat().st_mode & 0o777)
        return True
    return False


def _copy_with_libraries(root: pathlib.Path, paths: list[pathlib.Path]):
    architecture = libraries.this_machine()
    for path in paths:
        if not _copy(root, path):
            continue
        with open(path, "rb") as stream:
            is_program = stream.read(4) == b"\x7fELF"
        if is_program and path.suffix not in (".o", ".a"):
            for seen, library in libraries.libraries_of(path, architecture).items():
                place = root / _place(pathlib.Path(seen))
                if not place.exists():
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(library, place)
                    place.chmod(0o755)


def copy_headers(root: pathlib.Path, kernel: Kernel):
    """As Debian's packages lay them out, without those of other processors."""
    cache = kernel.modules.parents[2]
    headers = cache / "usr/src"
    if not headers.is_dir():
        raise MissingPart(f"no kernel headers in {cache}; `tools/setup.sh test` unpacks Debian's there")

    def others(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name not in ("x86", "Kconfig")] if folder.endswith("-common/arch") else []

    shutil.copytree(headers, root / "usr/src", symlinks=True, ignore=others, dirs_exist_ok=True)
    for folder in (cache / "usr/lib").glob("linux-kbuild-*"):
        shutil.copytree(folder, root / "usr/lib" / folder.name, symlinks=True)
    modules = root / "usr/lib/modules" / kernel.release
    modules.mkdir(parents=True)
    (modules / "build").symlink_to(f"/usr/src/linux-headers-{kernel.release}")
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy2(kernel.modules / name, modules / name)


def _payload(version: str) -> bytes:
    stand_in = _HERE / "stand_in_driver"
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        def text(name: str, content: str):
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))

        text("version", version + "\n")
        for program in sorted((stand_in / "programs").iterdir()):
            archive.add(program, program.name)
        for folder, kind in (("kernel", "proprietary"), ("kernel-open", "open")):
            for source in sorted((stand_in / "modules").iterdir()):
                archive.add(source, f"{folder}/{source.name}")
            text(f"{folder}/kind", f"STAND_IN_VERSION := {version}\nSTAND_IN_KIND := {kind}\n")
    return gzip.compress(stream.getvalue(), mtime=0)


def _write_keys(folder: pathlib.Path):
    """A key with its certificate, which no kernel trusts."""
    folder.mkdir(parents=True)
    subprocess.run(["openssl", "req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=driver/",
                    "-outform", "DER", "-keyout", str(folder / "module.pem"), "-out", str(folder / "module.x509")],
                   check=True, capture_output=True)


def copy_packages(root: pathlib.Path, packages: list[str]):
    """Files of installed packages and of all that they depend on."""
    depends: dict[str, list[list[str]]] = {}
    listed = subprocess.run(["dpkg-query", "--show", "--showformat", "${Package}\t${Depends}, ${Pre-Depends}\n"], check=True,
                            capture_output=True, text=True).stdout
    for line in listed.splitlines():
        name, words = line.split("\t", 1)
        depends[name] = [re.findall(r"(?:^|\|)\s*([a-z0-9.+-]+)", group) for group in words.split(",")]
    wanted: set[str] = set()
    waiting = list(packages)
    while waiting:
        name = waiting.pop()
        if name in wanted:
            continue
        if name not in depends:
            raise MissingPart(f"the package {name} is not installed; `tools/setup.sh test` installs it")
        wanted.add(name)
        waiting += [one for group in depends[name] for one in [next((each for each in group if each in depends), None)] if one]
    for path in _files_of(sorted(wanted)):
        _copy(root, path)


def write(root: pathlib.Path, kernel: Kernel, program: pathlib.Path, headers: bool = True):
    """`program` is nvidia-driver as it was built; without `headers` packages have to bring them."""
    for link in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / link).mkdir(parents=True)
        (root / link).symlink_to(f"usr/{link}")
    # Without any folder of headers the compiler fails at all that is not told which it is to take.
    (root / "usr/include").mkdir()
    for folder in ("dev", "proc", "sys", "run", "tmp", "var/log", "var/lib", "etc", "drivers"):
        (root / folder).mkdir(parents=True)
    (root / "var/run").symlink_to("/run")
    _copy_with_libraries(root, _files_of(_PACKAGES))
    for name, target in (("sh", "dash"), ("gcc", "gcc-12"), ("awk", "mawk")):
        link = root / "usr/bin" / name
        if not link.is_symlink() and not link.exists():
            link.symlink_to(target)
    if headers:
        copy_headers(root, kernel)
    place = root / "usr/bin/nvidia-driver"
    architecture = libraries.this_machine()
    place.write_bytes(libraries.stripped(program, architecture))
    place.chmod(0o755)
    for name in ("nvidia-gds-driver", "nvidia-gdrcopy-driver"):
        (root / "usr/bin" / name).symlink_to("nvidia-driver")
    for seen, library in libraries.libraries_of(program, architecture).items():
        target = root / _place(pathlib.Path(seen))
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(library, target)
            target.chmod(0o755)
    _write_keys(root / "etc/keys")
    head = (_HERE / "stand_in_driver/run_file.sh").read_bytes()
    for version in VERSIONS:
        run_file = root / f"drivers/NVIDIA-Linux-x86_64-{version}.run"
        run_file.write_bytes(head + _payload(version))
        run_file.chmod(0o755)
    (root / "etc/os-release").write_text('ID=debian\nVERSION_ID="12"\n', encoding="ascii")
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n", encoding="ascii")
