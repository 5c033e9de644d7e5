#!/usr/bin/env python3
"""One case on one side: reads {"case", "programs", "plugin", "database", "expected"} from standard input and writes what the kubelet
was told to standard output, as JSON. Needs root: the plugin runs in a root folder of its own."""

import json
import os
import pathlib
import random
import stat
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from kubelet_side import Kubelet  # noqa: E402
from simulated_node import MS_BIND, MS_PRIVATE, MS_REC, ORDINARY, SimulatedNode, mount, own_mounts  # noqa: E402

SOCKETS = "/var/lib/kubelet/device-plugins"
PROGRAM = "nvidia-kubevirt-gpu-device-plugin"
# How long a plugin may take until it has registered what the other one has (`expected`), and how long none must follow
# for that to be all: known only by waiting.
START_SECONDS, QUIET_SECONDS = 8, 1
OTHERS = ("dev", "proc", "run", "sys", "usr", "var")


class MachineNode(SimulatedNode):
    """A node whose /sys and /dev are what the case says, with the PCI ID database where upstream's image has it."""

    def __init__(self, folder, tree, database):  # pylint: disable=super-init-not-called
        self.folder, self.root, self.database = pathlib.Path(folder), pathlib.Path(folder, "root"), database
        (self.root / "sys/bus/pci/devices").mkdir(parents=True)
        for device in tree["pci"]:
            self._add_pci(device)
        for mdev in tree["mdev"]:
            self._add_mdev(mdev)
        for name, gpus in tree["egm"].items():
            self._write(f"sys/class/egm/{name}/gpu_devices", gpus)
        for node in tree["dev"]:
            self._write(f"dev/{node}", "")

    def _write(self, inside, text):
        path = self.root / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def _link(self, inside, target):
        path = self.root / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def _add_pci(self, device):
        real = f"sys/devices/pci0000:00/{device['at']}"
        vendor, ids = device["is"].split(":")
        for name, text in {"vendor": f"0x{vendor}", "device": f"0x{ids}", "class": f"0x{device['class']}00"}.items():
            self._write(f"{real}/{name}", text)
        if "numa" in device:
            self._write(f"{real}/numa_node", str(device["numa"]))
        if "driver" in device:
            self._link(f"{real}/driver", f"../../../bus/pci/drivers/{device['driver']}")
        if "group" in device:
            self._link(f"{real}/iommu_group", f"../../../kernel/iommu_groups/{device['group']}")
        if "vfio" in device:
            (self.root / real / "vfio-dev" / device["vfio"]).mkdir(parents=True)
        self._link(f"sys/bus/pci/devices/{device['at']}", f"../../../devices/pci0000:00/{device['at']}")

    def _add_mdev(self, mdev):
        real = f"sys/devices/pci0000:00/{mdev['parent']}/{mdev['uuid']}"
        (self.root / real).mkdir(parents=True)
        if "type" in mdev:
            self._write(f"{real}/mdev_type/name", mdev["type"])
        self._link(f"sys/bus/mdev/devices/{mdev['uuid']}",
                   f"../../../devices/pci0000:00/{mdev['parent']}/{mdev['uuid']}")

    def _enter(self):
        own_mounts()
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
        names = [entry.name for entry in os.scandir("/") if entry.name not in OTHERS]
        for name in names:
            self._show(pathlib.Path("/", name), self.root / name)
        for entry in os.scandir("/usr"):
            self._show(pathlib.Path("/usr", entry.name), self.root / "usr" / entry.name)
        (self.root / "usr/pci.ids").write_text(self.database)
        (self.root / "proc").mkdir()
        mount("/proc", self.root / "proc", flags=MS_BIND | MS_REC)
        for folder in ("run", SOCKETS[1:], "dev/shm"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        for name, numbers in ORDINARY.items():
            os.mknod(self.root / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(*numbers))
        os.chroot(self.root)
        os.chdir("/")

    @staticmethod
    def _show(source, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(os.readlink(source))
        elif source.is_dir():
            target.mkdir()
            mount(source, target, flags=MS_BIND)
        else:
            target.touch()
            mount(source, target, flags=MS_BIND)


def questions(rng, ids, case, is_vgpu):
    """What a kubelet might ask of a resource with these devices, and a little that it never would."""
    for index in range(case["questions"]):
        count = rng.choice([2, 3]) if case["several_containers"] and index % 2 else 1
        containers = [rng.sample(ids, rng.choice([1, 1, min(2, len(ids)), len(ids)])) for _ in range(count)]
        if case["unknown_ids"] and index == 0:
            containers[-1] = containers[-1] + [rng.choice(["0000:ff:1f.7", "", "7"])]
        yield {"allocate": containers}
    # Upstream's plugin for vGPUs has no preference, and says so.
    for _ in range(0 if is_vgpu else case["questions"]):
        available = rng.sample(ids, rng.randint(1, len(ids)))
        must = rng.sample(available, rng.choice([0, 0, min(1, len(available)), min(2, len(available))]))
        size = rng.choice([1, 2, len(must), len(available), rng.randint(0, len(available) + 1)])
        yield {"prefer": {"available": available, "must_include": must, "size": size}}


def ask_all(kubelet, case, result):
    for resource in sorted(kubelet.registered):
        ids = sorted(device["id"] for device in kubelet.listed(resource))
        if not ids:
            continue
        is_vgpu = any(mdev["uuid"] in ids for mdev in case["tree"]["mdev"])
        rng = random.Random(f"{case['seed']}/{resource}")
        result["answers"][resource] = [
            {"question": question} | kubelet.ask(resource, **question)
            for question in questions(rng, ids, case, is_vgpu)]


def remove_node(kubelet, case, result):
    """A group's device node goes: the health of all devices afterwards, as soon as one is unhealthy."""
    if case["remove"] is None:
        return
    before = {resource: len(lists) for resource, lists in kubelet.lists.items()}
    os.remove(f"/dev/{case['remove']}")
    kubelet.wait(lambda: any(len(kubelet.lists[one]) > before[one] for one in before), 2)
    kubelet.wait(lambda: False, QUIET_SECONDS)
    result["after"] = {resource: {device["id"]: device["healthy"] for device in kubelet.listed(resource)}
                       for resource in sorted(kubelet.lists)}


def inside(request, node):
    case = request["case"]
    kubelet = Kubelet(str(pathlib.Path(request["programs"], "test_kubelet")), SOCKETS)
    result = {"registered": {}, "lists": {}, "answers": {}, "after": {}}
    with open("/run/log", "w+b") as log:
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/run"}
        plugin = subprocess.Popen([PROGRAM], executable=request["plugin"], env=environment, stdin=subprocess.DEVNULL,
                                  stdout=log, stderr=log)
        try:
            def ended():
                return plugin.poll() is not None
            kubelet.wait(lambda: len(kubelet.registered) >= max(request["expected"], 1),
                         START_SECONDS if request["expected"] else 2 * QUIET_SECONDS, ended)
            count = -1
            while len(kubelet.registered) > count:
                count = len(kubelet.registered)
                kubelet.wait(lambda: len(kubelet.registered) > count, QUIET_SECONDS, ended)  # pylint: disable=W0640
            kubelet.wait(lambda: set(kubelet.lists) >= set(kubelet.registered), START_SECONDS, ended)
            result["registered"] = dict(kubelet.registered)
            result["lists"] = {resource: kubelet.listed(resource) for resource in sorted(kubelet.lists)}
            ask_all(kubelet, case, result)
            remove_node(kubelet, case, result)
            result["ended"] = plugin.poll()
        finally:
            if plugin.poll() is None:
                plugin.kill()
            plugin.wait()
            kubelet.end()
        log.seek(0)
        result["log"] = log.read().decode(errors="replace")[-4000:]
    return result


def run(request):
    with tempfile.TemporaryDirectory(prefix="sandbox-differential-", dir="/tmp") as folder:
        node = MachineNode(folder, request["case"]["tree"], pathlib.Path(request["database"]).read_text(encoding="utf-8"))
        return node.run_inside(lambda: inside(request, node))


if __name__ == "__main__":
    print(json.dumps(run(json.load(sys.stdin))))
