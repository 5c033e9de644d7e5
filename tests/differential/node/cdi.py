#!/usr/bin/env python3
"""Compares what Pitcrew's nvidia-ctk and another one make of random nodes: simulated GPUs, the files of a driver, and
the lists of a Tegra system; each with several random sets of flags of `cdi generate`. Where both write a specification,
it has to be the same, byte for byte; where one refuses, the other has to.

What docs/differences.md says is taken away before: the driver's root in front of links that are made in a container, the
numbers of devices beside GPUs, and the device for all IMEX channels.

Ours does what the toolkit's main branch does since 19 August 2026 (d8b95c8a); with --released the other side is the
release v1.20.0, which gpu-operator v26.7.0 brings: mounts that it lacks or puts elsewhere are taken away on both sides.

The other side is the program named by $PITCREW_PEER_CTK. Without it, or without root or a C compiler, the exit status is
77.
"""

import argparse
import difflib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SKIPPED = 77
VERSION = "580.95.05"
LIB = "usr/lib/x86_64-linux-gnu"
LISTS = "etc/nvidia-container-runtime/host-files-for-container.d"
# Names up to .so, and what stands behind it in the SONAME; None: the SONAME is the whole name.
DRIVER = {"libcuda": "1", "libnvcuvid": "1", "libnvidia-opticalflow": "1", "libGLX_nvidia": "0", "libEGL_nvidia": "0",
          "libnvidia-glcore": None, "libnvidia-allocator": "1", "libnvidia-vulkan-producer": "",
          "vdpau/libvdpau_nvidia": "1"}
UNVERSIONED = {"libEGL": "1.1.0", "libGL": "1.7.0", "libOpenCL": "1.0.0", "libGLdispatch": "0.0.0"}
GRAPHICS = {"libnvidia-egl-gbm": "1.1.2", "libnvidia-egl-wayland": "1.1.20", "libnvidia-egl-xcb": "1.0.1"}
CONFIGURATIONS = ("etc/OpenCL/vendors/nvidia.icd", "usr/share/glvnd/egl_vendor.d/10_nvidia.json",
                  "usr/local/share/glvnd/egl_vendor.d/10_nvidia.json", "usr/share/nvidia/nvoptix.bin",
                  "etc/vulkan/icd.d/nvidia_icd.json", "vulkan/implicit_layer.d/nvidia_layers.json",
                  "usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
                  "usr/share/X11/xorg.conf.d/10-nvidia.conf", "opt/conf/glvnd/egl_vendor.d/10_nvidia.json")
FILES = (f"lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin", f"lib/firmware/nvidia/{VERSION}/gsp_tu10x.bin",
         "usr/bin/nvidia-xconfig", "usr/bin/nvidia-persistenced", "usr/bin/nvidia-cuda-mps-control",
         "usr/sbin/nvidia-imex", "bin/nvidia-debugdump")
# What v1.20.0 does not mount, and of what it mounts a driver's file at the path that it has on the node.
OTHERWISE_IN_RELEASE = re.compile(r"/(nvidia-xconfig|libnvidia-egl-x(cb|lib)\.so\.[^/]*|20_nvidia_x(cb|lib)\.json|"
                                  r"glvnd/egl_vendor\.d/[^/]*|egl/egl_external_platform\.d/[^/]*|nvidia/nvoptix\.bin|"
                                  r"X11/xorg\.conf\.d/[^/]*|OpenCL/vendors/nvidia\.icd)$")
CLASSES = {"--mode=gdrcopy", "--mode=gds", "--mode=mofed", "--mode=nvswitch"}
MODELS = ("GB200", "H100-80", "A100-40", "T4", "L4")


class Libraries:
    """Shared libraries, each SONAME compiled once."""

    def __init__(self, folder):
        self.folder = folder

    def of(self, soname):
        path = self.folder / soname
        if not path.exists():
            subprocess.run(["cc", "-shared", "-nostdlib", "-x", "c", "/dev/null", f"-Wl,-soname,{soname}", "-o", path],
                           check=True)
        return {"copy": str(path)}


def add_library(files, rng, libraries, folder, name, version, behind):
    """The file, and perhaps the links that an installer makes beside it."""
    plain = f"{name.rsplit('/', 1)[-1]}.so"
    file = f"{plain}.{version}"
    soname = file if behind is None else f"{plain}.{behind}" if behind else plain
    where = f"{folder}/{name.rsplit('/', 1)[0]}" if "/" in name else folder
    files[f"{where}/{file}"] = libraries.of(soname)
    if soname != file and rng.random() < 0.8:
        files[f"{where}/{soname}"] = {"link": file}
    if soname != plain and rng.random() < 0.5:
        files[f"{where}/{plain}"] = {"link": rng.choice([soname, file])}


def driver_files(rng, libraries):
    files = {}
    for name, behind in DRIVER.items():
        if rng.random() < 0.6:
            add_library(files, rng, libraries, LIB, name, VERSION, behind)
    for name, version in (UNVERSIONED | GRAPHICS).items():
        if rng.random() < 0.4:
            add_library(files, rng, libraries, LIB, name, version, version.split(".", maxsplit=1)[0])
    if rng.random() < 0.3:
        files[f"{LIB}/libnvidia-nvvm70.so.4"] = libraries.of("libnvidia-nvvm70.so.4")
    if rng.random() < 0.3:
        extensions = rng.choice([f"{LIB}/nvidia/xorg", "usr/lib/xorg/modules/extensions"])
        files[f"{extensions}/libglxserver_nvidia.so.{VERSION}"] = libraries.of("libglxserver_nvidia.so")
    for path in CONFIGURATIONS + FILES:
        if rng.random() < 0.4:
            files[path] = {"text": "x"}
    return files


def tegra(rng, libraries):
    """(files, nodes) of a Tegra system, with its lists."""
    files, nodes = {}, {}
    folder = "usr/lib/aarch64-linux-gnu/tegra"
    for name in ("libnvos", "libnvrm", "libnvbufsurface", "libcuda"):
        if rng.random() < 0.7:
            add_library(files, rng, libraries, folder, name, rng.choice(["1.0.0", "1.1", "1"]), rng.choice(["1", "", None]))
    files["usr/lib/plugins/libv4l2_nv.so"] = {"link": "../aarch64-linux-gnu/tegra/libnvos.so"}
    files["usr/lib/plugins/dangling.so"] = {"link": "nowhere"}
    files["lib/firmware/tegra23x/nvhost.fw"] = {"text": "x"}
    for index, name in enumerate(("nvmap", "nvhost-gpu", "nvhost-ctrl", "dri/renderD140")):
        if rng.random() < 0.8:
            nodes[f"dev/{name}"] = (240, index, rng.choice([0o666, 0o660, 0o440]), rng.choice([0, 44]))
    for name in ("nvidia-fs0", "nvidia-fs1", "nvidia-nvswitchctl", "nvidia-nvswitch0", "nvidia-caps-imex-channels/channel0",
                 "nvidia-caps-imex-channels/channel7", "gdrdrv", "infiniband/uverbs0", "infiniband/uverbs1",
                 "infiniband/rdma_cm"):
        if rng.random() < 0.4:
            nodes[f"dev/{name}"] = (241, len(nodes), 0o666, 0)
    devices = ["dev, /dev/nvidia0", "dev, /dev/nvmap", "dev,/dev/nvhost-*", "dev, /dev/none", "# dev, /dev/x", "dev, nvmap",
               "dev, /dev/nvidiactl", "dev, /dev/dri/*", "dev, /dev/nvidia1"]
    others = ["dir, /lib/firmware/tegra23x", "dir, /none", f"lib, /{folder}/libcuda.so*", f"lib, /{folder}/libnv*.so.1*",
              f"lib, /{folder}/libnvos.so", "sym, /usr/lib/plugins/libv4l2_nv.so", "sym, /usr/lib/plugins/*.so",
              f"sym, /{folder}/lib*.so", f"sym, /{folder}/libnvrm.so.1", "lib,", "file, /etc/passwd"]
    for name, lines in (("devices", devices), ("drivers", others), ("l4t", others)):
        chosen = rng.sample(lines, rng.randint(1, len(lines)))
        if rng.random() < 0.9:
            files[f"{LISTS}/{name}.csv"] = {"text": "\n".join(chosen) + "\n"}
    return files, nodes


def gpus(rng):
    """GPUs of a description; the first may be the integrated one of a Thor."""
    found = []
    for _ in range(rng.randint(1, 3)):
        model = rng.choice(MODELS)
        gpu = {"profile": model}
        if model == "A100-40" and rng.random() < 0.6:
            gpu["mig"] = {"enabled": True, "devices": {"1g.5gb": rng.randint(1, 3)}}
        found.append(gpu)
    if rng.random() < 0.25:
        found = [{"profile": "L4", "name": "NVIDIA Thor", "pci": "0000:01:00.0"}, *found[:rng.randint(0, 1)]]
    return found


def flags(rng, count):
    mode = rng.choice(["auto", "auto", "nvml", "management", "csv", "csv", "gds", "nvswitch",
                       "imex", "gdrcopy", "mofed"])
    words = ["--driver-root={root}", f"--mode={mode}"]
    if mode == "csv" or rng.random() < 0.3:
        words.append("--csv.file=" + ",".join(f"{{root}}/{LISTS}/{name}.csv" for name in ("devices", "drivers", "l4t")))
    choices = (["--no-all-device"], ["--format=json"], ["--device-name-strategy=uuid"],
               ["--device-name-strategy=type-index,index"], ["--ldconfig-path=/sbin/ldconfig"],
               ["--vendor=example.com", "--class=other"], ["--nvidia-cdi-hook-path=/opt/nvidia-ctk"],
               ["--disable-hook=all"], ["--disable-hook=all", "--enable-hook=update-ldcache"],
               ["--disable-hook=enable-cuda-compat,create-symlinks"], [f"--device-id={rng.randint(0, count)}"],
               ["--device-id=all,0"], ["--feature-flag=enable-coherent-annotations"],
               ["--feature-flag=enable-explicit-driver-libraries,no-additional-gids-for-device-nodes"],
               ["--feature-flag=disable-multiple-csv-devices,disable-ipc-discoverer"],
               ["--csv.ignore-pattern=**/*_nv.so"], ["--csv.compat-container-root=/compat"],
               ["--config-search-path={root}/opt/conf"])
    for choice in rng.sample(choices, rng.randint(0, 4)):
        words += choice
    return words


def specifications(text):
    """Of what was written, one after the other."""
    if not text.startswith("{"):
        return list(yaml.safe_load_all(text))
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text.rstrip()):
        one, at = decoder.raw_decode(text, at)
        found.append(one)
    return found


def without_accepted(spec, words, released):
    """What docs/differences.md says is taken away from one specification."""
    if "--mode=imex" in words:
        spec["devices"] = [device for device in spec["devices"] if device["name"] != "all"]
    for edits in [spec.get("containerEdits", {}), *(device["containerEdits"] for device in spec["devices"])]:
        # Two of theirs are one when their links have no root in front.
        hooks = edits.get("hooks", [])
        edits["hooks"] = [hook for at, hook in enumerate(hooks) if hook not in hooks[:at]]
        if released:
            edits["mounts"] = [mount for mount in edits.get("mounts", [])
                               if not OTHERWISE_IN_RELEASE.search(mount["containerPath"])]
        for node in edits.get("deviceNodes", []) if CLASSES & set(words) else ():
            for key in ("major", "minor", "fileMode", "permissions", "gid"):
                node.pop(key, None)
    return spec


def differences(found, words, released=False):
    """Of one set of flags, as lines; none where both sides agree."""
    ours, theirs = found["ours"], found["theirs"]
    if (ours["status"] == 0) != (theirs["status"] == 0):
        return [f"exit status {ours['status']} beside {theirs['status']}", ours["stderr"], theirs["stderr"]]
    expected = theirs["stdout"].replace("::/driver-root/", "::/")
    if ours["status"] != 0 or ours["stdout"] == expected:
        return []
    texts = [yaml.safe_dump_all([without_accepted(spec, words, released) for spec in specifications(text)]).splitlines()
             for text in (expected, ours["stdout"])]
    return list(difflib.unified_diff(*texts, "theirs", "ours", lineterm="", n=2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default=str(ROOT / "build/release/bin"), help="the folder of Pitcrew's programs")
    parser.add_argument("--ours", help="another program than pitcrew as our nvidia-ctk")
    parser.add_argument("--cases", type=int, default=30, help="how many nodes")
    parser.add_argument("--flags", type=int, default=6, help="how many sets of flags on each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--released", action="store_true", help="the other side is v1.20.0")
    arguments = parser.parse_args()
    peer = os.environ.get("PITCREW_PEER_CTK")
    if not peer or os.geteuid() != 0 or not shutil.which("cc"):
        print("skipped: " + ("mount namespaces need root, and libraries a C compiler" if peer else
                             "PITCREW_PEER_CTK names no program to compare with"))
        return SKIPPED
    rng, wrong, written = random.Random(arguments.seed), 0, 0
    with tempfile.TemporaryDirectory(prefix="cdi-differential-") as folder:
        libraries = Libraries(pathlib.Path(folder))
        for case in range(arguments.cases):
            devices = gpus(rng)
            files, nodes = tegra(rng, libraries)
            request = {"description": {"node": "node", "gpus": devices}, "programs": arguments.programs,
                       "ctk": {"ours": arguments.ours or f"{arguments.programs}/pitcrew", "theirs": peer},
                       "files": driver_files(rng, libraries) | files, "nodes": nodes,
                       "steps": [flags(rng, len(devices)) for _ in range(arguments.flags)]}
            done = subprocess.run([sys.executable, HERE / "cdi_side.py"], input=json.dumps(request), capture_output=True,
                                  text=True, check=False)
            if done.returncode != 0:
                print(f"case {case}: {done.stderr}")
                return 1
            for words, found in zip(request["steps"], json.loads(done.stdout)):
                written += found["theirs"]["status"] == 0
                lines = differences(found, words, arguments.released)
                if lines:
                    wrong += 1
                    print(f"case {case}: {' '.join(words)}\n    " + "\n    ".join(lines), flush=True)
    print(f"{arguments.cases} nodes, {arguments.cases * arguments.flags} runs, {written} specifications, "
          f"{wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
