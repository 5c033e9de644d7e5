"""A node with simulated GPUs in a folder, and a mount namespace in which programs see nothing but that node."""

import ctypes
import json
import os
import pathlib
import stat
import subprocess
import sys
import traceback

import yaml

CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# Devices that every program may expect.
ORDINARY = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
# Minors of /dev/nvidia-caps as the kernel driver numbers them: after configuration and monitor come, for each GPU,
# so many GPU instances, each with one node of its own and one for each of so many compute instances.
GPU_INSTANCES, COMPUTE_INSTANCES = 15, 8

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(status, what):
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, kind=None, flags=0, data=None):
    def text(value):
        return None if value is None else os.fsencode(str(value))
    _checked(_libc.mount(text(source), text(target), text(kind), ctypes.c_ulong(flags), text(data)), f"mount {target}")


def own_mounts():
    """From now on what this process mounts is seen by it and its children only."""
    _checked(_libc.unshare(CLONE_NEWNS), "unshare")


def mig_minors(gpus):
    """Lines of /proc/driver/nvidia-caps/mig-minors for GPUs with those minor numbers."""
    yield "config 1"
    yield "monitor 2"
    for gpu in gpus:
        minor = 3 + gpu * GPU_INSTANCES * (COMPUTE_INSTANCES + 1)
        for instance in range(GPU_INSTANCES):
            yield f"gpu{gpu}/gi{instance}/access {minor}"
            for compute in range(COMPUTE_INSTANCES):
                yield f"gpu{gpu}/gi{instance}/ci{compute}/access {minor + 1 + compute}"
            minor += COMPUTE_INSTANCES + 1


class SimulatedNode:
    """`programs` is the build's folder of programs. `driver`: the driver is installed."""

    def __init__(self, folder, programs, description, driver=True):
        self.folder, self.programs = pathlib.Path(folder), pathlib.Path(programs)
        self.root, self.pci = self.folder / "root", self.folder / "pci"
        self.driver = driver
        self.root.mkdir(parents=True)
        self._description = self.folder / "gpus.yaml"
        self._description.write_text(yaml.safe_dump(description))
        words = ["--description", str(self._description), "--node-name", "node"]
        self._simulate("pci-tree", "--into", str(self.pci), *words)
        if driver:
            self._simulate("driver-install", "--root", str(self.root), *words)

    def _simulate(self, *words):
        done = subprocess.run([self.programs / "pitcrew-simulate", *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"pitcrew-simulate {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    @property
    def state(self):
        return self.root / "run/nvidia/simulation/state"

    def gpu(self, *words):
        """pitcrew-simulate gpu ...: something happens to a GPU."""
        return self._simulate("gpu", *words, "--state", str(self.state))

    def run_inside(self, work):
        """What `work()` returns (JSON) in a child process that sees nothing but this node."""
        result = self.folder / "result"
        child = os.fork()
        if child == 0:
            # The namespace ends with this process, and so do its mounts.
            status = 1
            try:
                self._enter()
                result.write_text(json.dumps(work()))
                status = 0
            except BaseException:  # pylint: disable=broad-exception-caught
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)  # pylint: disable=protected-access
        _, status = os.waitpid(child, 0)
        if status != 0:
            raise RuntimeError(f"the process on the simulated node ended with {status}")
        return json.loads(result.read_text())

    def _enter(self):
        """From now on this process and its children see this node's devices, and empty /run and /var/lib."""
        own_mounts()
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
        for folder in ("/run", "/var/lib"):
            mount("tmpfs", folder, "tmpfs")
        mount(self.pci, "/sys/bus/pci/devices", flags=MS_BIND)
        self._fill_proc()
        self._fill_dev()
        os.makedirs("/run/nvidia/validations")
        os.makedirs("/var/lib/kubelet/device-plugins")
        os.makedirs("/run/cdi", exist_ok=True)

    def _fill_proc(self):
        """modules and driver are this node's. Nothing can be made in a real /proc, and a kernel may lack modules: so it
        is a folder of links into the real one. Other processes' folders are not in it."""
        real = self.folder / "proc"
        real.mkdir()
        mount("/proc", real, flags=MS_BIND | MS_REC)
        mount("tmpfs", "/proc", "tmpfs")
        for name in os.listdir(real):
            if not name.isdigit() and name not in ("modules", "driver"):
                os.symlink(real / name, f"/proc/{name}")
        os.mkdir("/proc/driver")
        modules = "nvidia_uvm 1 0 - Live 0x0\nnvidia 2 1 nvidia_uvm, Live 0x0\n" if self.driver else ""
        pathlib.Path("/proc/modules").write_text(modules)

    def _fill_dev(self):
        """The driver's nodes with those of MIG and the ordinary ones are /dev, and dev of the driver root."""
        dev = self.root / "dev"
        dev.mkdir(exist_ok=True)
        for name, numbers in ORDINARY.items():
            if not (dev / name).exists():
                os.mknod(dev / name, 0o666 | stat.S_IFCHR, os.makedev(*numbers))
        (dev / "shm").mkdir(exist_ok=True)
        gpus = sorted(int(path.name.removeprefix("nvidia")) for path in dev.glob("nvidia[0-9]*"))
        if gpus:
            self._fill_capabilities(dev / "nvidia-caps", gpus)
        mount(dev, "/dev", flags=MS_BIND)

    def _fill_capabilities(self, caps, gpus):
        lines = list(mig_minors(gpus))
        folder = pathlib.Path("/proc/driver/nvidia-caps")
        folder.mkdir()
        (folder / "mig-minors").write_text("\n".join(lines) + "\n")
        caps.mkdir(exist_ok=True)
        for line in lines:
            minor = int(line.split()[1])
            node = caps / f"nvidia-cap{minor}"
            if not node.exists():
                # A major that no driver has: nothing is touched by opening it.
                os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(509, minor))
