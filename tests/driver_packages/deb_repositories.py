"""Packages made by dpkg-deb and repositories signed as Ubuntu's are, with a kernel's packages as Ubuntu divides them.

Content is Debian's headers; names, places and dependencies are those of the packages that they stand for.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import pathlib
import shutil
import subprocess

import headers
from signing import Key

_ARCHITECTURE = "amd64"


@dataclasses.dataclass
class Package:
    name: str
    version: str
    content: pathlib.Path  # what is put into /
    depends: str = ""
    scripts: dict[str, str] = dataclasses.field(default_factory=dict)  # {"postinst": "#!/bin/sh..."}

    def build(self, into: pathlib.Path):
        control = self.content / "DEBIAN"
        control.mkdir(parents=True)
        (control / "control").write_text(
            f"Package: {self.name}\nVersion: {self.version}\nArchitecture: {_ARCHITECTURE}\nMaintainer: a test\n"
            + (f"Depends: {self.depends}\n" if self.depends else "") + f"Description: stands in for {self.name}\n",
            encoding="ascii")
        for name, text in self.scripts.items():
            (control / name).write_text(text, encoding="ascii")
            (control / name).chmod(0o755)
        into.mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(self.content), str(into)],
                       check=True, capture_output=True)
        shutil.rmtree(control)


def publish(archive: pathlib.Path, suite: str, pool: pathlib.Path, key: Key):
    """`pool`, a folder of packages below `archive`, becomes what `suite` has."""
    packages = subprocess.run(["dpkg-scanpackages", "--multiversion", str(pool.relative_to(archive))], check=True,
                              capture_output=True, text=True, cwd=archive).stdout
    folder = archive / "dists" / suite
    index = folder / f"main/binary-{_ARCHITECTURE}"
    index.mkdir(parents=True, exist_ok=True)
    (index / "Packages.gz").write_bytes(gzip.compress(packages.encode(), mtime=0))
    (index / "Packages").write_text(packages, encoding="utf-8")
    sums = [f" {hashlib.sha256(file.read_bytes()).hexdigest()} {file.stat().st_size} {file.relative_to(folder)}"
            for file in sorted(index.iterdir())]
    release = "\n".join(["Origin: Ubuntu", f"Suite: {suite}", f"Codename: {suite}", "Components: main",
                         f"Architectures: {_ARCHITECTURE}", "Date: Tue, 24 Nov 2026 00:00:00 UTC", "SHA256:", *sums, ""])
    (folder / "InRelease").write_text(key.sign_in_line(release), encoding="utf-8")


def kernel(cache: pathlib.Path, work: pathlib.Path, uname: str, modules_for: str = "") -> list[Package]:
    """The packages of `uname`, as 6.8.0-44-generic. What is compiled with its headers is for the kernel `modules_for`, where
    that is another one."""
    base, _, flavour = uname.rpartition("-")
    version = f"{base}.44"
    work = work / uname
    sources = pathlib.PurePath("usr/src")
    headers.ubuntu(cache, work / "base" / sources / f"linux-headers-{base}",
                   work / "flavour" / sources / f"linux-headers-{uname}", modules_for or uname)
    link = work / "flavour/lib/modules" / uname
    link.mkdir(parents=True)
    (link / "build").symlink_to(f"/usr/src/linux-headers-{uname}")
    boot = work / "image/boot"
    boot.mkdir(parents=True)
    (boot / f"vmlinuz-{uname}").write_bytes(b"no kernel")
    modules = work / "modules/lib/modules" / uname
    (modules / "kernel").mkdir(parents=True)
    debian = next((cache / "lib/modules").iterdir())
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy2(debian / name, modules / name)
    boots = {"postinst": "#!/bin/sh\ntouch /boots-the-system\n"}
    return [
        Package(f"linux-headers-{base}", version, work / "base"),
        Package(f"linux-headers-{base}-{flavour}", version, work / "flavour", depends=f"linux-headers-{base}, libc6"),
        Package(f"linux-image-{uname}", version, work / "image", depends=f"linux-modules-{uname}", scripts=boots),
        Package(f"linux-modules-{uname}", version, work / "modules", scripts=boots),
    ]
