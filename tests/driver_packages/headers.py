"""Debian's kernel headers laid out as other distributions have theirs, under releases of their own: the names and places
are the distribution's, what is compiled against is Debian's."""

from __future__ import annotations

import pathlib
import shutil

# The rest of Debian's common headers is other processors'.
_ARCHITECTURE = "x86"
# What no module of ours includes: packing and installing thousands of small files takes its time.
_LEFT_OUT = shutil.ignore_patterns("dt-bindings", "media", "sound", "rdma", "drm", "scsi", "soc", "mfd", "platform_data",
                                   "mtd", "usb", "regulator", "net", "config")


def _parts(cache: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path, pathlib.Path]:
    """Of every flavour, of this flavour, the programs that compiling calls."""
    sources = cache / "usr/src"
    common = next(sources.glob("linux-headers-*-common"))
    flavour = next(folder for folder in sources.glob("linux-headers-*") if folder != common)
    return common, flavour, next((cache / "usr/lib").glob("linux-kbuild-*"))


def _copy_common(common: pathlib.Path, into: pathlib.Path):
    shutil.copytree(common / "include", into / "include", symlinks=True, ignore=_LEFT_OUT)
    shutil.copytree(common / "arch" / _ARCHITECTURE, into / "arch" / _ARCHITECTURE, symlinks=True)
    shutil.copy2(common / "Makefile", into / "Makefile")


def _copy_flavour(flavour: pathlib.Path, into: pathlib.Path, release: str):
    """What is generated, and says which kernel it is."""
    for name in (".config", "Module.symvers"):
        shutil.copy2(flavour / name, into / name)
    for name in ("include/generated", f"arch/{_ARCHITECTURE}"):
        shutil.copytree(flavour / name, into / name, symlinks=True, dirs_exist_ok=True)
    (into / "include/config").mkdir()
    shutil.copy2(flavour / "include/config/auto.conf", into / "include/config/auto.conf")
    (into / "include/config/kernel.release").write_text(release + "\n", encoding="ascii")
    (into / "include/generated/utsrelease.h").write_text(f'#define UTS_RELEASE "{release}"\n', encoding="ascii")


def _copy_programs(kbuild: pathlib.Path, into: pathlib.Path):
    for name in ("scripts", "tools"):
        shutil.copytree(kbuild / name, into / name, symlinks=True)


def red_hat(cache: pathlib.Path, into: pathlib.Path, release: str):
    """One tree, as kernel-devel has it in /usr/src/kernels/<release>. Modules that are compiled with it are for the kernel
    `release`."""
    common, flavour, kbuild = _parts(cache)
    into.mkdir(parents=True)
    _copy_common(common, into)
    _copy_flavour(flavour, into, release)
    _copy_programs(kbuild, into)


def ubuntu(cache: pathlib.Path, base: pathlib.Path, of_flavour: pathlib.Path, release: str):
    """Two trees side by side: that of the flavour has what is generated, and links into the common one."""
    common, flavour, kbuild = _parts(cache)
    base.mkdir(parents=True)
    _copy_common(common, base)
    of_flavour.mkdir(parents=True)
    _copy_flavour(flavour, of_flavour, release)
    _copy_programs(kbuild, of_flavour)
    for folder in ("", "include", f"arch/{_ARCHITECTURE}", f"arch/{_ARCHITECTURE}/include"):
        up = "../" * (len(pathlib.PurePath(folder).parts) + 1)
        for entry in sorted((base / folder).iterdir()):
            place = of_flavour / folder / entry.name
            if not place.exists():
                place.symlink_to(up + str(pathlib.PurePath(base.name, folder, entry.name)))
