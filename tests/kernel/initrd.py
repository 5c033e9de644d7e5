"""The root file system of the virtual machine: busybox, kernel modules with their index, programs with their
libraries, a scenario. Written as a cpio archive, which the kernel unpacks at boot (Linux:
Documentation/driver-api/early-userspace/buffer-format.rst)."""

from __future__ import annotations

import os
import pathlib
import shutil
import stat
import subprocess
import sys

import driver_image
import package_images
import rebooted_image
from machine import DISGUISES, Kernel, MissingPart, find_kernel

_HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(_HERE.parents[1] / "deploy/image"))
import libraries  # noqa: E402  pylint: disable=wrong-import-position  # the image writer's own collector

# Not loaded: a scenario loads what it needs, as a node would. What they depend on comes along.
MODULES = ["vfio_pci", "vfio_iommu_type1", "pci_pf_stub", "fuse", "overlay"]
_FOLDERS = ["bin", "dev", "etc", "proc", "run", "sys", "tmp", "usr/bin", "var"]


def _copy_modules(kernel: Kernel, root: pathlib.Path):
    """The modules and all that they need, with an index of their own, as depmod makes it."""
    needs: dict[str, list[str]] = {}
    for line in (kernel.modules / "modules.dep").read_text(encoding="utf-8").splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
    by_name = {pathlib.PurePath(path).name.removesuffix(".ko").replace("-", "_"): path for path in needs}
    target = root / "lib/modules" / kernel.release
    target.mkdir(parents=True)
    waiting = []
    for name in MODULES:
        if name not in by_name:
            raise MissingPart(f"the kernel {kernel.release} has no module {name}")
        waiting.append(by_name[name])
    for path in set(waiting) | {need for path in waiting for need in needs[path]}:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(kernel.modules / path, target / path)
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy2(kernel.modules / name, target / name)
    depmod = shutil.which("depmod", path="/usr/sbin:/sbin:" + os.environ.get("PATH", ""))
    if not depmod:
        raise MissingPart("depmod is not installed; `tools/setup.sh` installs it (Debian package kmod)")
    subprocess.run([depmod, "--basedir", str(root), kernel.release], check=True)


def _copy_program(root: pathlib.Path, program: pathlib.Path, guest: str):
    architecture = libraries.this_machine()
    target = root / guest.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(libraries.stripped(program, architecture))
    target.chmod(0o755)
    for path, library in libraries.libraries_of(program, architecture).items():
        place = root / path.lstrip("/")
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(library, place)
            place.chmod(0o755)


def _cpio_entry(name: str, mode: int, content: bytes) -> bytes:
    encoded = name.encode() + b"\0"
    fields = [0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0]
    header = b"070701" + b"".join(f"{field:08x}".encode() for field in fields)
    padded = header + encoded
    padded += b"\0" * (-len(padded) % 4)
    return padded + content + b"\0" * (-len(content) % 4)


def _write_cpio(root: pathlib.Path, target: pathlib.Path):
    with open(target, "wb") as stream:
        for folder, names, files in os.walk(root):
            for name in sorted(names + files):
                path = pathlib.Path(folder, name)
                mode = path.lstat().st_mode
                if stat.S_ISLNK(mode):
                    content = os.readlink(path).encode()
                else:
                    content = path.read_bytes() if stat.S_ISREG(mode) else b""
                stream.write(_cpio_entry(str(path.relative_to(root)), mode, content))
            names[:] = [name for name in names if not os.path.islink(os.path.join(folder, name))]
        stream.write(_cpio_entry("TRAILER!!!", 0, b""))


def write(kernel: Kernel, work: pathlib.Path, scenario: list[str], programs: dict[str, pathlib.Path],
          files: dict[str, pathlib.Path], links: dict[str, str],
          driver_images: dict[str, pathlib.Path] | None = None,
          installed_images: dict[str, pathlib.Path] | None = None,
          rebooted_images: dict[str, pathlib.Path] | None = None) -> pathlib.Path:
    """`programs` and `files`: {path in the machine: path here}; `links`: {path in the machine: what it leads to};
    `driver_images`: {path in the machine: nvidia-driver}, root file systems of driver containers; `installed_images`
    likewise, folders with those that dnf and apt have made; `rebooted_images`: with those of a node that had the usual
    kernel before; `scenario`: the command line that is tried."""
    root = work / "root"
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True)
    busybox = shutil.which("busybox")
    if not busybox:
        raise MissingPart("busybox is not installed; `tools/setup.sh` installs it (Debian package busybox-static)")
    shutil.copy2(busybox, root / "bin/busybox")
    for name in ("init", "disguise"):
        place = root / ("init" if name == "init" else f"bin/{name}")
        shutil.copy2(_HERE / "guest" / name, place)
        place.chmod(0o755)
    _copy_modules(kernel, root)
    for guest, program in programs.items():
        _copy_program(root, program, guest)
    for guest, file in files.items():
        place = root / guest.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            shutil.copytree(file, place)
        else:
            shutil.copy2(file, place)
    for guest, program in (driver_images or {}).items():
        driver_image.write(root / guest.lstrip("/"), kernel, program)
    for guest, program in (installed_images or {}).items():
        package_images.write(root / guest.lstrip("/"), kernel, program)
    for guest, program in (rebooted_images or {}).items():
        rebooted_image.write(root / guest.lstrip("/"), find_kernel(), kernel, program)
    for guest, target in links.items():
        (root / guest.lstrip("/")).symlink_to(target)
    (root / "etc/disguises").write_text("".join(one.line() + "\n" for one in DISGUISES), encoding="ascii")
    (root / "etc/scenario").write_text("".join(word + "\n" for word in scenario), encoding="utf-8")
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n", encoding="ascii")
    target = work / "initrd"
    _write_cpio(root, target)
    return target
