#!/usr/bin/env python3
"""Measures what stands between the container engine and a container's first process, on simulated nodes of eight and
four GPUs with seven MIG devices each, and of eight whole GPUs: `nvidia-container-runtime create`, each hook that a
container there has, and `nvidia-ctk cdi generate`.

Prints milliseconds of the processor (user and system, children included; medians, programs in turns), and for `create`
beside them those of the low-level runtime's stand-in alone, which does nothing. Other programs run beside ours:
PITCREW_PEER_CONTAINER_RUNTIME (nvidia-container-runtime), PITCREW_PEER_CDI_HOOK (nvidia-cdi-hook), PITCREW_PEER_CTK
(nvidia-ctk). Needs root and a C compiler.
"""

import argparse
import json
import os
import pathlib
import shutil
import stat
import statistics
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/differential/node"))

from simulated_node import LIBRARIES, SimulatedNode, mount  # noqa: E402

MIG = {"gpus": [{"profile": "H100-80", "count": 8, "mig": {"enabled": True, "devices": {"1g.10gb": 7}}}]}
HALF = {"gpus": [{**MIG["gpus"][0], "count": 4}]}
WHOLE = {"gpus": [{"profile": "H100-80", "count": 8}]}
STAND_IN = "int main(void) { return 0; }"
# What a driver of today has beside the libraries of the simulated one, so that the specification is as long as a real one.
DRIVER = ("libnvidia-cfg", "libnvidia-compiler", "libnvidia-eglcore", "libnvidia-encode", "libnvidia-fbc", "libnvidia-glcore",
          "libnvidia-glsi", "libnvidia-glvkspirv", "libnvidia-gpucomp", "libnvidia-ngx", "libnvidia-nvvm", "libnvidia-opencl",
          "libnvidia-opticalflow", "libnvidia-pkcs11", "libnvidia-ptxjitcompiler", "libnvidia-rtcore", "libnvidia-tls",
          "libnvcuvid", "libnvoptix", "libGLX_nvidia", "libEGL_nvidia", "libGLESv2_nvidia", "libnvidia-allocator",
          "libcudadebugger")


def processor(program, arguments, environment, text=""):
    """Milliseconds of the processor that it took."""
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    actions = [(os.POSIX_SPAWN_DUP2, reader, 0), (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    child = os.posix_spawn(program, arguments, environment, file_actions=actions)
    _, status, usage = os.wait4(child, 0)
    os.close(reader)
    if status != 0:
        raise RuntimeError(f"{' '.join(arguments)} ended with {status}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def in_turns(rounds, sides, before=lambda: None):
    """Median of each side: {name: function that gives milliseconds}."""
    figures = {name: [] for name in sides}
    for _ in range(rounds):
        for name, measure in sides.items():
            before()
            figures[name].append(measure())
    return {name: statistics.median(values) for name, values in figures.items()}


def show(what, figures):
    print(f"{what:42}" + "".join(f"{name:>12} {value:6.2f} ms" for name, value in figures.items()), flush=True)


class Node:
    """In the node's mount namespace."""

    def __init__(self, node, options):
        self.node, self.options = node, options
        self.folder = pathlib.Path("/run/bench")
        self.folder.mkdir()
        self.environment = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(node.root / LIBRARIES),
                            "PITCREW_SIMULATION_STATE": str(node.state)}

    def add_libraries(self):
        version = next((self.node.root / LIBRARIES).glob("libcuda.so.*.*")).name.removeprefix("libcuda.so.")
        for name in DRIVER:
            target = self.node.root / LIBRARIES / f"{name}.so.{version}"
            if not target.exists():
                subprocess.run(["cc", "-shared", "-nostdlib", "-x", "c", "/dev/null", f"-Wl,-soname,{name}.so.1", "-o", target],
                               check=True)
                (target.parent / f"{name}.so.1").symlink_to(target.name)

    def generate(self, program, output):
        words = ["nvidia-ctk", "cdi", "generate", "--mode=nvml", f"--driver-root={self.node.root}", "--dev-root=/",
                 f"--output={output}", "--nvidia-cdi-hook-path=/usr/bin/nvidia-cdi-hook"]
        return processor(program, words, self.environment)

    def generation(self, programs):
        sides = {name: lambda program=program: self.generate(program, self.folder / "out.yaml")
                 for name, program in programs.items()}
        return in_turns(self.options.rounds, sides)

    def create(self, runtimes):
        """(specification, device, its size, figures): a container with one device, by its CDI name."""
        cdi = self.folder / "cdi"
        cdi.mkdir()
        written = cdi / "nvidia.com-gpu.yaml"
        self.generate(str(self.options.binaries / "pitcrew"), written)
        spec = yaml.safe_load(written.read_text())
        device = next(one for one in spec["devices"] if one["name"].startswith(("MIG-", "GPU-")))
        low_level = self.folder / "low-level"
        subprocess.run(["cc", "-Os", "-static", "-x", "c", "-", "-o", low_level], input=STAND_IN, text=True, check=True)
        config = self.folder / "config.toml"
        config.write_text(f'[nvidia-container-runtime]\nmode = "cdi"\nruntimes = ["{low_level}"]\n'
                          f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["{cdi}"]\n')
        bundle = self.folder / "bundle"
        bundle.mkdir()
        text = json.dumps(bundle_text(f"nvidia.com/gpu={device['name']}"))
        environment = {"PATH": "/usr/bin:/bin", "NVIDIA_CTK_CONFIG_FILE_PATH": str(config)}
        words = ["--log", "/dev/null", "--log-format", "json", "create", "--bundle", str(bundle), "id"]
        sides = {"stand-in": lambda: processor(str(low_level), ["low-level", *words], environment)}
        for name, program in runtimes.items():
            sides[name] = lambda program=program: processor(program, ["nvidia-container-runtime", *words], environment)
        figures = in_turns(self.options.rounds * 4, sides, lambda: (bundle / "config.json").write_text(text))
        return spec, device, written.stat().st_size, figures

    def hooks(self, spec, device, programs):
        """{hook: figures}: each hook of the device in a container of the image, seen through an overlay."""
        layers = self.folder / "layers"
        layers.mkdir()
        mount("tmpfs", layers, "tmpfs")
        root = layers / "root"
        root.mkdir()
        bundle = self.folder / "bundle"
        (bundle / "config.json").write_text(json.dumps({"ociVersion": "1.2.0", "process": {}, "root": {"path": str(root)}}))
        state = json.dumps({"ociVersion": "1.2.0", "id": "bench", "status": "creating", "pid": 1, "bundle": str(bundle)})
        # What a program is, its name says.
        own = self.folder / "nvidia-cdi-hook"
        own.symlink_to(programs["pitcrew"])
        programs = {**programs, "pitcrew": str(own)}
        hooks = [hook for edits in (spec["containerEdits"], device["containerEdits"]) for hook in edits.get("hooks", [])]
        figures = {}
        fresh = Container(self.options.image, layers, root, self.node.root / LIBRARIES).begin_anew
        for hook in hooks:
            sides = {name: lambda program=program, hook=hook: processor(
                program, hook["args"], dict(one.split("=", 1) for one in hook.get("env", [])), state)
                     for name, program in programs.items()}
            figures[f"{hook['args'][1]}, {len(hook['args']) - 2} arguments"] = in_turns(self.options.rounds, sides, fresh)
        return figures


class Container:
    """An image's root below a layer of its own, with the driver's libraries where a specification mounts them."""

    def __init__(self, image, layers, root, libraries):
        self.image, self.layers, self.root, self.libraries = image, layers, root, libraries
        self.number = 0

    def begin_anew(self):
        """As no hook has been in it."""
        if self.number:
            for place in ("proc", "dev", "."):
                subprocess.run(["umount", self.root / place], check=True)
        self.number += 1
        layer = self.layers / str(self.number)
        (layer / "work").mkdir(parents=True)
        folder = layer / "upper" / LIBRARIES
        folder.mkdir(parents=True)
        for library in self.libraries.iterdir():
            shutil.copy(library, folder / library.name, follow_symlinks=False)
        mount("overlay", self.root, "overlay", data=f"lowerdir={self.image},upperdir={layer}/upper,workdir={layer}/work")
        mount("proc", self.root / "proc", "proc")
        mount("tmpfs", self.root / "dev", "tmpfs")
        os.mknod(self.root / "dev/nvidia0", 0o666 | stat.S_IFCHR, os.makedev(195, 0))


def bundle_text(device):
    """config.json in the size in which containerd 2 writes it."""
    capabilities = [f"CAP_{name}" for name in ("CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID",
                                               "SETUID", "SETFCAP", "SETPCAP", "NET_BIND_SERVICE", "SYS_CHROOT", "KILL",
                                               "AUDIT_WRITE")]
    mounts = [{"destination": path, "type": "bind", "source": f"/var/lib/kubelet/pods/x{path}",
               "options": ["rbind", "rprivate", "rw"]} for path in ("/etc/hosts", "/dev/termination-log", "/etc/hostname",
                                                                    "/etc/resolv.conf", "/dev/shm", "/var/run/secrets")]
    return {"ociVersion": "1.2.0",
            "process": {"user": {"uid": 0, "gid": 0}, "args": ["sleep", "1"], "cwd": "/",
                        "env": [f"VARIABLE_{number}=value" for number in range(30)],
                        "capabilities": {kind: capabilities for kind in ("bounding", "effective", "permitted")}},
            "root": {"path": "rootfs"}, "mounts": mounts, "annotations": {"cdi.k8s.io/bench": device},
            "linux": {"resources": {"devices": [{"allow": False, "access": "rwm"}], "cpu": {"shares": 2}},
                      "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")],
                      "maskedPaths": ["/proc/acpi", "/proc/kcore"], "readonlyPaths": ["/proc/bus", "/proc/fs"]}}


def sides(options, ours, variable):
    found = {"pitcrew": str(options.binaries / ours)}
    if peer := os.environ.get(variable):
        found["peer"] = str(pathlib.Path(peer).absolute())
    return found


def measure(node, options):
    inside = Node(node, options)
    inside.add_libraries()
    spec, device, size, created = inside.create(sides(options, "nvidia-container-runtime", "PITCREW_PEER_CONTAINER_RUNTIME"))
    return {"size": size, "create": created,
            "hooks": inside.hooks(spec, device, sides(options, "nvidia-container-runtime", "PITCREW_PEER_CDI_HOOK")),
            "generate": inside.generation(sides(options, "pitcrew", "PITCREW_PEER_CTK"))}


def on_node(description, options):
    with tempfile.TemporaryDirectory(prefix="bench-start-", dir="/tmp") as folder:
        node = SimulatedNode(pathlib.Path(folder, "node"), options.binaries, description)
        return node.run_inside(lambda: measure(node, options))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--image", type=pathlib.Path, default=pathlib.Path("/"), metavar="FOLDER",
                        help="root of the containers in which hooks run (default: this computer's)")
    options = parser.parse_args()
    options.binaries = options.build.resolve() / "bin"
    if os.geteuid() != 0 or shutil.which("cc") is None:
        sys.exit("the simulated node needs root, and the stand-in a C compiler")
    for what, description in (("8 GPUs x 7 MIG devices", MIG), ("4 GPUs x 7 MIG devices", HALF),
                              ("8 whole GPUs", WHOLE)):
        figures = on_node(description, options)
        print(f"{what}; specification of {figures['size'] / 1024:.0f} KB")
        show("create", figures["create"])
        for hook, values in figures["hooks"].items():
            show(f"hook {hook}", values)
        show("cdi generate", figures["generate"])


if __name__ == "__main__":
    main()
