#!/usr/bin/env python3
"""Compares Pitcrew's nvidia-cdi-hook with another one: the root file systems of random containers, after the same hooks
have run on each of two copies.

Compared are exit statuses, every file's kind, mode, content and target, and what the loader's cache says: the file of
each library's name. What docs/differences.md says is left out: names that are drawn by lot, the further file of
ld.so.conf.d with the system's folders, links that ldconfig makes in folders that the hook was not asked for, and those to
nothing, which it takes away.

The other side is the program named by $PITCREW_PEER_CDI_HOOK. Without it, or without root, ldconfig or a C compiler, the
exit status is 77.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import stat
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import simulated_node  # noqa: E402
from cdi import Libraries  # noqa: E402

SKIPPED = 77
SECONDS = 60
TRIPLE = "usr/lib/x86_64-linux-gnu"
# Where libraries lie: the system's folders, one of the image's own choice, one of a driver's.
FOLDERS = (TRIPLE, "usr/lib", "usr/lib64", "opt/own/lib", "opt/driver")
MUSL = "etc/ld-musl-x86_64.path"
DRIVER = "580.95.05"
# The cache is compared by what it says; what ldconfig keeps for itself, the system's folders, the place of its mount.
LEFT_OUT = ("etc/ld.so.cache", "var/cache/ldconfig", "etc/ld.so.conf.d/zz-nvcr-", "run/nvidia-ctk-hook")


def maybe(rng, chance=0.5):
    return rng.random() < chance


class Tree:
    def __init__(self, root):
        self.root = root

    def at(self, path):
        where = self.root / path
        where.parent.mkdir(parents=True, exist_ok=True)
        return where

    def text(self, path, text):
        self.at(path).write_text(text)

    def link(self, path, target):
        where = self.at(path)
        if not where.is_symlink() and not where.exists():
            where.symlink_to(target)

    def library(self, libraries, folder, name, version, soname, has_link):
        shutil.copy(libraries.of(soname)["copy"], self.at(f"{folder}/{name}.so.{version}"))
        if has_link:
            self.link(f"{folder}/{soname}", f"{name}.so.{version}")


def lay_out_image(rng, tree, libraries):
    """A container's files, before anything of a driver is mounted into it."""
    for folder in ("proc", "tmp", "dev", "etc", "run", "var/tmp"):
        (tree.root / folder).mkdir(parents=True)
    debian = maybe(rng)
    if debian:
        tree.text("etc/debian_version", "12.1\n")
    elif maybe(rng, 0.3):
        tree.text("etc/alpine-release", "3.20\n")
        if maybe(rng):
            tree.text(MUSL, rng.choice(["/opt/own/lib\n", "/lib\n/usr/lib\n"]))
    for name in ("lib", "lib64"):
        if maybe(rng, 0.8):
            tree.link(name, f"usr/{name}")
            (tree.root / "usr" / name).mkdir(parents=True, exist_ok=True)
    if maybe(rng, 0.8):
        tree.text("etc/ld.so.conf", rng.choice(["include /etc/ld.so.conf.d/*.conf\n", "#\ninclude /etc/ld.so.conf.d/*.conf\n\n",
                                                "# none\n/opt/own/lib\ninclude /etc/ld.so.conf.d/*.conf\n"]))
    if maybe(rng, 0.6):
        tree.text("etc/ld.so.conf.d/libc.conf", "# libc\n/usr/local/lib\n")
    if maybe(rng, 0.5):
        tree.text("etc/ld.so.conf.d/own.conf", "/opt/own/lib\n")
    for number in range(rng.randrange(6)):
        folder = rng.choice(FOLDERS[:4])
        tree.library(libraries, folder, f"libown{number}", "1.2", f"libown{number}.so.1", has_link=True)
    if maybe(rng, 0.6) and (tree.root / "etc/ld.so.conf").exists():
        more = [] if debian else [f"/{name}" for name in ("lib64", "usr/lib64") if (tree.root / name).is_dir()]
        subprocess.run(["ldconfig", "-r", tree.root, *more], check=True, capture_output=True)


def mount_driver(rng, tree, libraries):
    """What a CDI specification would mount, and a compatibility library of the image's. None has a name of the image's:
    docs/differences.md says what differs then."""
    folder = rng.choice([TRIPLE, "usr/lib64", "opt/driver"])
    for name, soname in (("libcuda", "libcuda.so.1"), ("libnvidia-ml", "libnvidia-ml.so.1"),
                         ("libnvidia-glcore", f"libnvidia-glcore.so.{DRIVER}")):
        if maybe(rng, 0.7):
            tree.library(libraries, folder, name, DRIVER, soname, has_link=maybe(rng, 0.3) and soname[-2] == ".")
    if maybe(rng, 0.4):
        compat = rng.choice(["usr/local/cuda/compat", "usr/local/cuda-13.0/compat"])
        tree.link("usr/local/cuda", "cuda-13.0") if "13.0" in compat else None
        for version in rng.choice([["590.48.01"], ["580.95.05"], ["575.1.2"], ["590.48.01", "595.1.1"]]):
            tree.library(libraries, compat, "libcuda", version, "libcuda.so.1", has_link=True)
    for minor in range(rng.randrange(3)):
        os.mknod(tree.root / f"dev/nvidia{minor}", stat.S_IFCHR | 0o666, os.makedev(195, minor))
    if maybe(rng):
        (tree.root / "dev/dri").mkdir(mode=0o700)
    return f"/{folder}"


def link(rng, folder):
    target = rng.choice(["libcuda.so.1", "../a", "/usr/lib/b", f"libcuda.so.{DRIVER}"])
    where = rng.choice([f"{folder}/libcuda.so", f"{folder}/libcuda.so.1", "/usr/lib/new/deep/x.so", "/etc/ld.so.conf.d/l",
                        "/lib64/x.so", "/../up.so", "/usr/lib/./y.so"])
    return f"--link={target}::{where}"


def hooks(rng, folder):
    choices = {
        "create-symlinks": lambda: [link(rng, folder) for _ in range(rng.randrange(1, 4))],
        "update-ldcache": lambda: [f"--folder={one}" for one in
                                   [folder, *rng.sample(["/opt/own/lib", "/usr/lib", "/none"], rng.randrange(2))]],
        "enable-cuda-compat": lambda: [f"--host-driver-version={rng.choice([DRIVER, '570.1.2', '', 'x'])}",
                                       *(["--host-cuda-version=13.0"] if maybe(rng, 0.3) else []),
                                       *(["--cuda-compat-container-root=/usr/local/cuda-13.0/compat"]
                                         if maybe(rng, 0.2) else [])],
        "chmod": lambda: [f"--mode={rng.choice(['755', '0711', '777'])}", "--path=/dev/dri",
                          *(["--path=/dev/none"] if maybe(rng) else [])],
        "update-application-profile": lambda: [],
        "noop": lambda: [],
    }
    names = rng.sample(sorted(choices), rng.randrange(1, 4))
    if maybe(rng, 0.7) and "update-ldcache" not in names:
        names.append("update-ldcache")
    return [[name, *choices[name]()] for name in names]


# What a container has afterwards.

def cache_entries(path):
    """(name, path) in the order of the loader's cache; of the newer form only."""
    bytes_ = path.read_bytes()
    at = bytes_.find(b"glibc-ld.so.cache1.1")
    if at < 0:
        return []
    count, = struct.unpack_from("<I", bytes_, at + 20)

    def string(offset):
        return bytes_[at + offset:bytes_.index(b"\0", at + offset)].decode()
    return [(string(name), string(file)) for _, name, file, _, _ in
            (struct.unpack_from("<iIIIQ", bytes_, at + 48 + 24 * index) for index in range(count))]


def inside(root, path):
    """Where a path of the container leads, as a path below `root`; "" to nothing."""
    root = pathlib.Path(root)
    parts, seen, at = path.strip("/").split("/"), 0, root
    while parts:
        part = parts.pop(0)
        if part == "..":
            at = at if at == root else at.parent
            continue
        at = at / part
        if at.is_symlink() and (seen := seen + 1) < 40:
            target = os.readlink(at)
            parts = target.strip("/").split("/") + parts
            at = root if target.startswith("/") else at.parent
    return str(at.relative_to(root)) if at.exists() else ""


def found_by_loader(root):
    cache = root / "etc/ld.so.cache"
    if not cache.is_file():
        return None
    found = {}
    for name, path in cache_entries(cache):
        if name not in found:
            found[name] = inside(root, path)
    return {name: path for name, path in found.items() if path}


def one_form_of_list(text):
    """A folder counts where it stands first; /libx32 has no system, and /usr/local/lib is only in ours."""
    return [line for line in dict.fromkeys(text.splitlines()) if line not in ("/libx32", "/usr/libx32", "/usr/local/lib")]


def contents(root, asked):
    """{path: what it is}, and what the loader finds."""
    seen = {"what the loader finds": found_by_loader(root)}
    for folder, folders, names in os.walk(root):
        for name in folders + names:
            path = pathlib.Path(folder, name)
            inside_root = str(path.relative_to(root))
            about = path.lstat()
            what = [stat.filemode(about.st_mode)]
            if path.is_symlink():
                what.append(os.readlink(path))
                if ".so" in name and f"/{pathlib.Path(inside_root).parent}" not in asked:
                    continue
                if ".so." in name and not inside(root, inside_root):
                    continue  # which ldconfig takes away
            elif path.is_file():
                what.append(one_form_of_list(path.read_text()) if inside_root == MUSL else path.read_bytes())
            if inside_root.startswith(LEFT_OUT) or inside_root == "etc/ld.so.conf.d":
                continue
            inside_root = re.sub(r"(ld.so.conf.d/00-(?:nvcr|compat))-[^/]*\.conf$", r"\1", inside_root)
            seen.setdefault(inside_root, what)
    return seen


def run(program, root, arguments):
    state = {"ociVersion": "1.0.2", "id": "c", "status": "creating", "pid": 1, "bundle": str(root.parent)}
    (root.parent / "config.json").write_text(json.dumps({"ociVersion": "1.0.2", "root": {"path": str(root)}}))
    done = subprocess.run([program, *arguments], input=json.dumps(state), text=True,
                          capture_output=True, timeout=SECONDS, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, check=False)
    return done.returncode == 0, done.stderr.strip()[-500:]


def lines_of_difference(ours, theirs):
    for path in sorted(ours.keys() | theirs.keys()):
        left, right = ours.get(path), theirs.get(path)
        if left != right:
            yield f"  {path}: ours {left!r}, theirs {right!r}"[:600]


def try_case(seed, folder, libraries, programs):
    """(the hooks, whether the other side changed anything, lines that tell of differences)."""
    rng = random.Random(seed)
    image = folder / "image/rootfs"
    image.mkdir(parents=True)
    tree = Tree(image)
    lay_out_image(rng, tree, libraries)
    driver = mount_driver(rng, tree, libraries)
    steps = hooks(rng, driver)
    asked = {word.partition("=")[2] for step in steps for word in step if word.startswith("--folder=")}
    results, trees = [], []
    for side in ("ours", "theirs"):
        root = folder / side / "rootfs"
        subprocess.run(["cp", "-a", folder / "image", folder / side], check=True)
        simulated_node.mount(root, root, flags=simulated_node.MS_BIND)  # as a low-level runtime does
        results.append([run(programs[side], root, step) for step in steps])
        trees.append(contents(root, asked))
        subprocess.run(["umount", root], check=True)
    lines = [f"  {' '.join(step)}: ours {ours}, theirs {theirs}" for step, ours, theirs in zip(steps, *results)
             if ours[0] != theirs[0]]
    return steps, trees[1] != contents(image, asked), [*lines, *lines_of_difference(*trees)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, help="nvidia-container-runtime, which is nvidia-cdi-hook by that name")
    parser.add_argument("--cases", type=int, default=30, metavar="N", help="how many containers (30)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first (1)")
    arguments = parser.parse_args()
    peer = os.environ.get("PITCREW_PEER_CDI_HOOK")
    if not peer or os.geteuid() != 0 or not shutil.which("cc") or not shutil.which("ldconfig"):
        print("skipped: " + ("mounting needs root, images ldconfig, and libraries a C compiler" if peer else
                             "PITCREW_PEER_CDI_HOOK names no program to compare with"))
        return SKIPPED
    simulated_node.own_mounts()
    simulated_node.mount("none", "/", flags=simulated_node.MS_REC | simulated_node.MS_PRIVATE)
    wrong = changed = 0
    with tempfile.TemporaryDirectory(prefix="pitcrew-hook-", dir="/var/tmp") as name:
        libraries = Libraries(pathlib.Path(name))
        ours = pathlib.Path(name, "nvidia-cdi-hook")
        ours.symlink_to(pathlib.Path(arguments.ours).resolve())
        for number in range(arguments.cases):
            folder = pathlib.Path(name, str(number))
            folder.mkdir()
            steps, has_changed, lines = try_case(f"{arguments.seed} {number}", folder, libraries,
                                                 {"ours": ours, "theirs": peer})
            changed += has_changed
            if lines:
                wrong += 1
                print(f"case {arguments.seed} {number}: {steps}\n" + "\n".join(lines), flush=True)
            shutil.rmtree(folder)
    print(f"{arguments.cases} containers, {changed} of them changed by the other side: {wrong} differ")
    return 1 if wrong or changed * 2 < arguments.cases else 0


if __name__ == "__main__":
    sys.exit(main())
