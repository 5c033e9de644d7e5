"""Root file systems of driver containers of Red Hat's family and of Ubuntu for virtual machines. `nvidia-driver build` has made
them here, with the real package tools: it has installed the headers of a kernel from a repository, and compiled with them.
What it has compiled is for the machine's own kernel; only its name is the distribution's.
"""

from __future__ import annotations

import pathlib
import shutil
import sys
import tempfile

from machine import Kernel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "driver_packages"))
import deb_repositories  # noqa: E402  pylint: disable=wrong-import-position
import rpm_repositories  # noqa: E402  pylint: disable=wrong-import-position
import systems  # noqa: E402  pylint: disable=wrong-import-position
from signing import Key  # noqa: E402  pylint: disable=wrong-import-position

# What a driver that is installed needs no more; the machine has its root file system in memory.
_NOT_NEEDED = ("usr/lib/gcc", "usr/lib/python3*", "usr/lib/x86_64-linux-gnu/libicu*", "usr/src", "var/cache")


def _red_hat(root: pathlib.Path, kernel: Kernel, program: pathlib.Path, work: pathlib.Path, key: Key):
    release = "5.14.0-427.37.1.el9_4.x86_64"
    repositories = work / "repositories"
    packages = rpm_repositories.kernel(kernel.modules.parents[2], work, release, kernel.release)
    names = (*rpm_repositories.OF_THE_IMAGE, *rpm_repositories.NEEDED)
    packages += [rpm_repositories.named_only(work, name) for name in names] + [rpm_repositories.shell(work)]
    for package in packages:
        package.build(work, repositories / "9.4", key)
    rpm_repositories.index(repositories / "9.4")
    system = systems.red_hat(root, program, repositories)
    system.write("/etc/pki/rpm-gpg/key", key.public())
    system.write("/etc/yum.repos.d/distribution.repo", "[baseos]\nname=BaseOS\nbaseurl=file:///repositories/$releasever\n"
                                                       "gpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/key\n")
    _build(system, release)


def _ubuntu(root: pathlib.Path, kernel: Kernel, program: pathlib.Path, work: pathlib.Path, key: Key):
    release = "6.8.0-44-generic"
    repositories = work / "repositories"
    for package in deb_repositories.kernel(kernel.modules.parents[2], work, release, kernel.release):
        package.build(repositories / "pool")
    deb_repositories.publish(repositories, "noble", repositories / "pool", key)
    system = systems.ubuntu(root, program, repositories)
    system.write("/usr/share/keyrings/ubuntu-archive-keyring.asc", key.public())
    system.write("/etc/apt/sources.list.d/ubuntu.sources", "Types: deb\nURIs: file:/repositories\nSuites: noble\nComponents: main\n"
                                                           "Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.asc\n")
    _build(system, release)


def _build(system: systems.System, release: str):
    done = system.driver("build", "--kernel", release)
    if done.returncode != 0:
        raise OSError(f"`nvidia-driver build` ended with {done.returncode}:\n{done.stdout}")
    system.write("/release", release + "\n")
    for pattern in _NOT_NEEDED:
        for place in system.root.glob(pattern):
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink()


def write(folder: pathlib.Path, kernel: Kernel, program: pathlib.Path):
    """One root for each below `folder`, which says in its file /release which kernel it is for. `program` is nvidia-driver as
    it was built."""
    for make in (_red_hat, _ubuntu):
        with tempfile.TemporaryDirectory(prefix="pitcrew-packages-") as name:
            work = pathlib.Path(name)
            key = Key.make(work / "gnupg", "Distribution")
            try:
                make(folder / make.__name__.lstrip("_"), kernel, program, work, key)
            finally:
                key.forget()
