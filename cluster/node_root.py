"""The file system of a node: an overlay over the machine's own root, on a tmpfs of the node's own.

Runs in the node's new mount namespace, before its programs start. All that a node component writes to "the
host" lands in the overlay and goes away with the namespace: the machine stays as it was. A node with the machine's own
GPUs shares their driver and what the kernel has of them.
"""

from __future__ import annotations

import os
import pathlib
import stat

from cluster import linux

# Folders that must not show what the machine itself has there.
_FRESH = ["/etc/cdi", "/etc/cni", "/etc/containerd", "/etc/kubernetes", "/etc/nvidia", "/etc/nvidia-container-runtime",
          "/etc/pitcrew", "/usr/local/nvidia", "/opt/cni", "/opt/pitcrew", "/var/lib/cni", "/var/lib/containerd",
          "/var/lib/kubelet", "/var/log/containers", "/var/log/pods"]
# An overlay snapshotter cannot sit on an overlay, and volumes need mounts that propagate.
_ON_TMPFS = ["/var/lib/containerd", "/var/lib/kubelet"]
_DEVICES = ["null", "zero", "full", "random", "urandom", "tty", "kmsg", "fuse", "console"]
_PCI = "sys/bus/pci/devices"
_NVIDIA_VENDOR = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")  # VGA and 3D controllers: GPUs
# Where an administrator's driver may be: a node with the machine's GPUs has these as they are.
_OF_THE_DRIVER = ["/etc/nvidia", "/usr/local/nvidia"]
_DRIVER_MOUNTS_BELOW = "/usr/"


def find_machine_gpus(sysfs: pathlib.Path = pathlib.Path("/sys")) -> list[str]:
    """The PCI addresses of the machine's own GPUs."""
    found = []
    for device in sorted((sysfs / "bus/pci/devices").glob("*")):
        try:
            vendor, kind = ((device / name).read_text(encoding="ascii").strip() for name in ("vendor", "class"))
        except FileNotFoundError:
            continue  # unplugged meanwhile
        if vendor == _NVIDIA_VENDOR and kind[:6] in _DISPLAY_CLASSES:
            found.append(device.name)
    return found


def _make_overlay(base: str, fresh: list[str]) -> str:
    linux.mount("tmpfs", base, "tmpfs", options="mode=755")
    for folder in ("upper", "work", "root", "storage"):
        os.mkdir(f"{base}/{folder}")
    for folder in fresh:
        path = f"{base}/upper{folder}"
        if not os.path.isdir(path):
            os.makedirs(path)
        os.setxattr(path, "trusted.overlay.opaque", b"y")
    root = f"{base}/root"
    linux.mount("overlay", root, "overlay", options=f"lowerdir=/,upperdir={base}/upper,workdir={base}/work")
    for folder in _ON_TMPFS:
        storage = f"{base}/storage{folder}"
        os.makedirs(storage)
        linux.bind(storage, root + folder)
    return root


def _make_kernel_trees(root: str):
    linux.mount("proc", f"{root}/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    # A new sysfs shows the node's own network; the control groups are the machine's.
    linux.mount("sysfs", f"{root}/sys", "sysfs", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    linux.bind("/sys/fs/cgroup", f"{root}/sys/fs/cgroup", recursive=True)
    linux.mount("tmpfs", f"{root}/run", "tmpfs", linux.MS_NOSUID, "mode=755")
    linux.mount("tmpfs", f"{root}/tmp", "tmpfs", linux.MS_NOSUID, "mode=1777")


def _make_devices(root: str):
    dev = f"{root}/dev"
    linux.mount("tmpfs", dev, "tmpfs", linux.MS_NOSUID, "mode=755")
    for name in _DEVICES:
        try:
            original = os.stat(f"/dev/{name}")
        except FileNotFoundError:
            continue
        os.mknod(f"{dev}/{name}", original.st_mode, original.st_rdev)
        os.chmod(f"{dev}/{name}", stat.S_IMODE(original.st_mode))
    for folder in ("pts", "shm", "mqueue"):
        os.mkdir(f"{dev}/{folder}")
    linux.mount("devpts", f"{dev}/pts", "devpts", linux.MS_NOSUID | linux.MS_NOEXEC,
                "newinstance,ptmxmode=0666,mode=620,gid=5")
    linux.mount("tmpfs", f"{dev}/shm", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=1777")
    linux.mount("mqueue", f"{dev}/mqueue", "mqueue")
    for link, target in (("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"),
                         ("stdout", "/proc/self/fd/1"), ("stderr", "/proc/self/fd/2")):
        os.symlink(target, f"{dev}/{link}")


def _make_pci_bus(root: str):
    """A writable /sys/bus/pci/devices with the machine's devices, but none of NVIDIA's: those are simulated."""
    target = f"{root}/{_PCI}"
    machine: dict[str, str] = {}
    if os.path.isdir(target):
        for address in os.listdir(target):
            vendor = pathlib.Path(f"{target}/{address}/vendor")
            if vendor.is_file() and vendor.read_text(encoding="ascii").strip() != _NVIDIA_VENDOR:
                machine[address] = os.readlink(f"{target}/{address}")
    else:
        _make_bus_folder(root)
    linux.mount("tmpfs", target, "tmpfs", options="mode=755")
    for address, link in machine.items():
        os.symlink(link, f"{target}/{address}")


def _make_bus_folder(root: str):
    """On a machine without a PCI bus: a tmpfs over /sys/bus, with the other buses bound back in."""
    bus = f"{root}/sys/bus"
    others = os.listdir(bus)
    descriptor = os.open(bus, os.O_PATH | os.O_DIRECTORY)
    try:
        linux.mount("tmpfs", bus, "tmpfs", options="mode=755")
        for name in others:
            os.mkdir(f"{bus}/{name}")
            linux.bind(f"/proc/self/fd/{descriptor}/{name}", f"{bus}/{name}", recursive=True)
    finally:
        os.close(descriptor)
    os.makedirs(f"{root}/{_PCI}")


def _share_machine_gpus(root: str):
    """The device nodes of the machine's driver, and what is mounted where its files are: an overlay over the machine's
    root does not show that."""
    for path in sorted(pathlib.Path("/dev").glob("nvidia*")):
        for device in [path, *sorted(path.glob("*"))] if path.is_dir() else [path]:
            original = device.stat()
            if device.is_dir():
                os.mkdir(root + str(device), stat.S_IMODE(original.st_mode))
            else:
                os.mknod(root + str(device), original.st_mode, original.st_rdev)
            os.chmod(root + str(device), stat.S_IMODE(original.st_mode))
    for target in linux.mount_points():
        if target.startswith(_DRIVER_MOUNTS_BELOW):
            _bind_in(root, {target: target})


def _bind_in(root: str, binds: dict[str, str]):
    for target, source in binds.items():
        path = root + target
        if os.path.isdir(source):
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            pathlib.Path(path).touch()
        linux.bind(source, path, read_only=True)


def _write_files(root: str, files: dict[str, str]):
    for path, text in files.items():
        target = pathlib.Path(root + path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink():  # a link of the machine's, such as /etc/resolv.conf, may lead anywhere
            target.unlink()
        target.write_text(text, encoding="utf-8")
        target.chmod(0o600 if path.endswith(".key") or "kubeconfig" in path else 0o644)


def _make_links(root: str, links: dict[str, str]):
    for path, target in links.items():
        link = pathlib.Path(root + path)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def enter(base: str, binds: dict[str, str], files: dict[str, str], links: dict[str, str], fresh: list[str],
          machine_gpus: bool = False):
    """Builds the node's root on `base` (an empty folder) and makes it this namespace's root. `fresh`: further folders
    that must not show what the machine has there. `machine_gpus`: the node has the machine's own."""
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    root = _make_overlay(base, [folder for folder in [*_FRESH, *fresh]
                                if not (machine_gpus and folder in _OF_THE_DRIVER)])
    _make_kernel_trees(root)
    _make_devices(root)
    if machine_gpus:
        _share_machine_gpus(root)
    else:
        _make_pci_bus(root)
    _bind_in(root, binds)
    _write_files(root, files)
    _make_links(root, links)
    linux.pivot_root(root)
    # Containers with HostToContainer or Bidirectional propagation need a shared root.
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_SHARED)
