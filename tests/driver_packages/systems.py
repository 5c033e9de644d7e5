"""Root file systems of driver containers that are, for whoever reads their files, a distribution's: its os-release, the
places of its repositories, the package tool itself (Debian's build of it) and what its database says of the image.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

_HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(_HERE.parent / "kernel"))
import driver_image  # noqa: E402  pylint: disable=wrong-import-position
from machine import find_kernel  # noqa: E402  pylint: disable=wrong-import-position

VERSION = driver_image.VERSIONS[0]
# What Red Hat's images have in it (RHEL 9's own file).
_DNF_CONFIGURATION = ("[main]\ngpgcheck=1\ninstallonly_limit=3\nclean_requirements_on_remove=True\nbest=True\n"
                      "skip_if_unavailable=False\n")
# Written to, and so no links to the files of the first root.
_OWN_FOLDERS = ("etc", "var", "drivers", "tmp", "run")


class System:
    """A root of its own, and the folder that it sees as /repositories."""

    def __init__(self, root: pathlib.Path, repositories: pathlib.Path):
        self.root, self.repositories = root, repositories

    def copy(self, into: pathlib.Path) -> System:
        subprocess.run(["cp", "--archive", "--link", str(self.root), str(into)], check=True)
        for name in _OWN_FOLDERS:
            shutil.rmtree(into / name)
            shutil.copytree(self.root / name, into / name, symlinks=True)
        return System(into, self.repositories)

    def has(self, path: str) -> bool:
        return os.path.lexists(self.root / path.lstrip("/"))

    def write(self, path: str, text: str):
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def run(self, *words: str, read_only: bool = False, **variables: str) -> subprocess.CompletedProcess:
        """In the root, as its root user, without a network; one process's own view of all that is mounted. `read_only`: nothing
        but /tmp, which is empty, can be written to."""
        frozen = (f"mount --bind {self.root} {self.root} && mount -o remount,bind,ro {self.root}"
                  f" && mount -t tmpfs tmpfs {self.root}/tmp && ") if read_only else ""
        mounts = (f"{frozen}mount -t proc proc {self.root}/proc && mount --rbind /dev {self.root}/dev && mount --rbind /sys {self.root}/sys"
                  f" && mount --bind {self.repositories} {self.root}/repositories && exec chroot {self.root} \"$@\"")
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", **variables}
        environment.update({name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")})
        return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--fork", "--kill-child",
                               "sh", "-c", mounts, "sh", *words], check=False, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=environment, timeout=300)

    def driver(self, *words: str, read_only: bool = False, **variables: str) -> subprocess.CompletedProcess:
        return self.run("nvidia-driver", *words, read_only=read_only, DRIVER_VERSION=VERSION, **variables)


def _begin(root: pathlib.Path, program: pathlib.Path, os_release: str):
    root.mkdir(parents=True)
    driver_image.write(root, find_kernel(), program, headers=False)
    for version in driver_image.VERSIONS[1:]:
        (root / f"drivers/NVIDIA-Linux-x86_64-{version}.run").unlink()
    (root / "repositories").mkdir()
    (root / "etc/os-release").write_text(os_release, encoding="ascii")


def red_hat(root: pathlib.Path, program: pathlib.Path, repositories: pathlib.Path) -> System:
    _begin(root, program, 'ID="rhel"\nID_LIKE="fedora"\nVERSION_ID="9.6"\n')
    driver_image.copy_packages(root, ["dnf", "rpm", "gpg", "gpg-agent"])
    for name in ("apt-get", "dpkg", "dpkg-deb"):
        (root / "usr/bin" / name).unlink(missing_ok=True)
    system = System(root, repositories)
    system.write("/etc/dnf/dnf.conf", _DNF_CONFIGURATION)
    # Debian has each user's packages apart.
    system.write("/etc/rpm/macros", "%_dbpath /var/lib/rpm\n")
    (root / "etc/yum.repos.d").mkdir()
    return system


def ubuntu(root: pathlib.Path, program: pathlib.Path, repositories: pathlib.Path) -> System:
    _begin(root, program, 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n')
    driver_image.copy_packages(root, ["apt", "diffutils", "dpkg", "gpgv", "libc-bin"])
    for folder in ("etc/apt/sources.list.d", "etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/trusted.gpg.d",
                   "usr/share/keyrings", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers",
                   "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/log/apt"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    # As NVIDIA's images have it: there is no other user.
    (root / "etc/apt/apt.conf.d/sandbox").write_text('APT::Sandbox::User "root";\n', encoding="ascii")
    shutil.copytree("/usr/share/dpkg", root / "usr/share/dpkg")
    system = System(root, repositories)
    system.write("/var/lib/dpkg/status", "Package: libc6\nStatus: install ok installed\nMaintainer: a test\n"
                                         "Architecture: amd64\nVersion: 2.39\nDescription: of the image\n\n")
    return system
