"""The root file systems of driver containers on a node that has booted another kernel than before: `nvidia-driver build` has
compiled here, with the real headers, for the kernel of before (`before`), and in one of them `nvidia-driver update` for the
one that runs now, too (`updated`), as after a kernel was installed.
"""

from __future__ import annotations

import pathlib
import shutil
import sys
import tempfile

import driver_image
from machine import Kernel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "driver_packages"))
import systems  # noqa: E402  pylint: disable=wrong-import-position

# What is compiled already needs no more; the machine has its root file system in memory.
_NOT_NEEDED = ("usr/lib/gcc", "usr/src", "usr/lib/linux-kbuild-*", "usr/bin/*gcc*", "usr/bin/make")


def _run(system: systems.System, *words: str):
    done = system.driver(*words)
    if done.returncode != 0:
        raise OSError(f"`nvidia-driver {' '.join(words)}` ended with {done.returncode}:\n{done.stdout}")


def write(folder: pathlib.Path, before: Kernel, now: Kernel, program: pathlib.Path):
    """`program` is nvidia-driver as it was built. Which kernel they were first compiled for says the file /release."""
    root = folder / "before"
    root.mkdir(parents=True)
    driver_image.write(root, before, program)
    driver_image.copy_headers(root, now)
    (root / "repositories").mkdir()
    (root / "release").write_text(before.release + "\n", encoding="ascii")
    with tempfile.TemporaryDirectory(prefix="pitcrew-rebooted-") as nothing:
        system = systems.System(root, pathlib.Path(nothing))
        _run(system, "build", "--kernel", before.release)
        shutil.copytree(root, folder / "updated", symlinks=True)
        updated = systems.System(folder / "updated", pathlib.Path(nothing))
        _run(updated, "update", "--kernel", now.release)
    for pattern in _NOT_NEEDED:
        for place in updated.root.glob(pattern):
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink()
