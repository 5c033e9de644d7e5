"""Packages made by rpmbuild and repositories made by createrepo_c, with a kernel's packages as Red Hat divides them.

Content is Debian's headers; names, places, dependencies and scripts are those of the packages that they stand for
(kernel.spec of RHEL 9: kernel-modules-core owns the link `build`, kernel-core boots the system in its scripts).
"""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import subprocess

import headers
from signing import Key

_HEAD = """\
Name: {name}
Version: {version}
Release: {release}
Summary: Stands in for {name}
License: none
BuildArch: {architecture}
AutoReqProv: no
{relations}
%global debug_package %{{nil}}
%global __os_install_post %{{nil}}
%global _binary_payload w1.gzdio
%global _build_id_links none
%description
{name}
%install
cp -a {content}/. %{{buildroot}}/
{scripts}
%files
{files}
"""


@dataclasses.dataclass
class Package:
    name: str
    version: str
    release: str
    content: pathlib.Path  # what is put into /
    files: list[str]
    relations: list[str] = dataclasses.field(default_factory=list)  # "Requires: make"
    scripts: str = ""  # "%pre\n..."
    architecture: str = "x86_64"

    def build(self, work: pathlib.Path, into: pathlib.Path, key: Key | None = None):
        self.content.mkdir(parents=True, exist_ok=True)
        spec = work / f"{self.name}.spec"
        spec.write_text(_HEAD.format(**{**vars(self), "relations": "\n".join(self.relations),
                                        "files": "\n".join(self.files)}), encoding="utf-8")
        top = work / "rpmbuild"
        _run("rpmbuild", "-bb", "--quiet", "--define", f"_topdir {top}", "--define", f"_rpmdir {top}/RPMS",
             "--target", self.architecture, str(spec))
        into.mkdir(parents=True, exist_ok=True)
        for file in list((top / "RPMS").rglob("*.rpm")):
            if key is not None:
                sign(file, key)
            shutil.move(str(file), into / file.name)


def sign(file: pathlib.Path, key: Key):
    """In place of the signature that it has."""
    _run("rpmsign", "--define", f"_gpg_name {key.name}", "--define", f"_gpg_path {key.home}", "--define",
         f"__gpg {shutil.which('gpg')}", "--resign", str(file))


def _run(*command: str):
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def index(folder: pathlib.Path):
    folder.mkdir(parents=True, exist_ok=True)
    _run("createrepo_c", "--quiet", "--compress-type", "gz", "--no-database", str(folder))


# What kernel-devel asks for besides the tools that images of driver containers have.
OF_THE_IMAGE = ("findutils", "gcc", "make", "perl-interpreter")
NEEDED = ("bison", "dracut", "elfutils-libelf-devel", "flex", "openssl-devel")


def kernel(cache: pathlib.Path, work: pathlib.Path, uname: str, modules_for: str = "") -> list[Package]:
    """The packages of `uname`, as 5.14.0-427.37.1.el9_4.x86_64. What is compiled with its headers is for the kernel
    `modules_for`, where that is another one."""
    version, rest = uname.split("-", 1)
    release = rest.removesuffix(".x86_64")
    modules = f"lib/modules/{uname}"
    work = work / uname
    headers.red_hat(cache, work / "devel/usr/src/kernels" / uname, modules_for or uname)
    api = work / "headers/usr/include/linux"
    api.mkdir(parents=True)
    (api / "version.h").write_text("/* of " + uname + " */\n", encoding="ascii")
    core = work / "core" / modules
    core.mkdir(parents=True)
    debian = next((cache / "lib/modules").iterdir())
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy2(debian / name, core / name)
    links = work / "modules-core" / modules
    links.mkdir(parents=True)
    for name in ("build", "source"):
        (links / name).symlink_to(f"/usr/src/kernels/{uname}")
    (work / "modules" / modules / "kernel/drivers/video").mkdir(parents=True)
    exact = f"= {version}-{release}"

    def package(name: str, content: str, files: list[str], relations: list[str], scripts: str = "") -> Package:
        return Package(name, version, release, work / content, files, relations, scripts)

    return [
        package("kernel-devel", "devel", [f"/usr/src/kernels/{uname}"],
                ["Provides: installonlypkg(kernel)", f"Provides: kernel-devel-uname-r = {uname}",
                 *(f"Requires: {name}" for name in (*OF_THE_IMAGE, *NEEDED) if name != "dracut")]),
        package("kernel-headers", "headers", ["/usr/include/linux/version.h"], []),
        package("kernel-core", "core", [f"/{modules}/modules.*"],
                ["Provides: installonlypkg(kernel)", f"Provides: kernel-uname-r = {uname}", "Requires(pre): dracut"],
                "%posttrans\ntouch /boots-the-system\n"),
        package("kernel-modules-core", "modules-core", [f"/{modules}/build", f"/{modules}/source"],
                ["Provides: installonlypkg(kernel-module)", f"Requires: kernel-uname-r = {uname}"]),
        package("kernel-modules", "modules", [f"/{modules}/kernel"],
                ["Provides: installonlypkg(kernel-module)", f"Requires: kernel-uname-r = {uname}",
                 f"Requires: kernel-modules-core {exact}"]),
    ]


def named_only(work: pathlib.Path, name: str, relations: list[str] | None = None) -> Package:
    """A package of which nothing is needed but that it is there."""
    return Package(name, "1", "1.el9", work / "nothing", [], relations or [], architecture="noarch")


def shell(work: pathlib.Path) -> Package:
    return named_only(work, "bash", ["Provides: /bin/sh"])
