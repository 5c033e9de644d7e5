"""The virtual machine of the kernel tests: its PCI devices, and QEMU's command for it.

Software emulation on purpose: it needs no right to /dev/kvm, and is the same on every machine.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import subprocess

MEMORY_MIB = 768


@dataclasses.dataclass(frozen=True)
class Disguise:
    """What a device says that it is, instead of QEMU's own answer: files bound over those of sysfs. Which driver has
    the device, and every write, stays the kernel's own business."""

    address: str
    vendor: int
    device: int
    class_code: int
    subsystem: int = 0x16C110DE  # device << 16 | vendor

    def line(self) -> str:
        return f"{self.address} {self.vendor:04x} {self.device:04x} {self.class_code:06x} {self.subsystem:08x}"


# Device by device; tests/kernel/README.md describes them to authors of tests.
_DEVICES = [
    "edu,addr=04.0",
    "edu,addr=05.0,multifunction=on", "edu,addr=05.1",
    "edu,addr=06.0,multifunction=on", "edu,addr=06.1",
    "edu,addr=07.0",
    "pcie-root-port,id=slot1,chassis=1,slot=0,addr=08.0",
    "nvme-subsys,id=nvm",
    "nvme,serial=1,subsys=nvm,bus=slot1,sriov_max_vfs=4,sriov_vq_flexible=8,sriov_vi_flexible=4,max_ioqpairs=26,"
    "msix_qsize=27",
]
DISGUISES = [
    Disguise("0000:00:04.0", 0x10DE, 0x2330, 0x030200),
    Disguise("0000:00:05.0", 0x10DE, 0x1EB8, 0x030000),
    Disguise("0000:00:05.1", 0x10DE, 0x10F8, 0x040300),
    Disguise("0000:00:06.0", 0x10DE, 0x27B8, 0x030200),
    Disguise("0000:00:07.0", 0x10DE, 0x22A3, 0x068000),
    Disguise("0000:01:00.0", 0x10DE, 0x20B0, 0x030200),
]


class MissingPart(Exception):
    """Something that the virtual machine needs is not installed."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    image: pathlib.Path
    modules: pathlib.Path  # .../lib/modules/<release>

    @property
    def release(self) -> str:
        return self.modules.name


def _kernel_in(folder: pathlib.Path) -> Kernel:
    images = sorted(folder.glob("boot/vmlinuz-*"))
    if not images:
        raise MissingPart(f"no kernel in {folder}; `tools/setup.sh test` unpacks Debian's there")
    return Kernel(images[-1], folder / "lib/modules" / images[-1].name.removeprefix("vmlinuz-"))


def _cache() -> pathlib.Path:
    return pathlib.Path(os.environ.get("PITCREW_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pitcrew"))


def find_kernel() -> Kernel:
    """Debian's kernel as tools/setup.sh has unpacked it."""
    return _kernel_in(_cache() / "kernel")


def find_second_kernel() -> Kernel:
    """Another flavour of it. Its headers need those of the first."""
    return _kernel_in(_cache() / "kernel/second")


def _command(kernel: Kernel, initrd: pathlib.Path, result: pathlib.Path, iommu: bool, memory: int,
             options: list[str]) -> list[str]:
    qemu = shutil.which("qemu-system-x86_64")
    if not qemu:
        raise MissingPart("qemu-system-x86_64 is not installed; `tools/setup.sh test` installs it")
    # An emulated timer on a busy computer fails the kernel's test of it, which would be its end.
    words = ["console=ttyS0", "loglevel=4", "panic=-1", "no_timer_check", *options]
    words += ["intel_iommu=on"] if iommu else []
    command = [qemu, "-nodefaults", "-no-reboot", "-display", "none", "-m", str(memory), "-smp", "1",
               "-machine", "q35,accel=tcg,kernel-irqchip=split", "-kernel", str(kernel.image), "-initrd", str(initrd),
               "-append", " ".join(words), "-serial", "stdio", "-serial", f"file:{result}"]
    if iommu:
        command += ["-device", "intel-iommu,intremap=on"]
    for device in _DEVICES:
        command += ["-device", device]
    return command


def boot(kernel: Kernel, initrd: pathlib.Path, result: pathlib.Path, deadline: float, iommu: bool = True,
         memory: int = MEMORY_MIB, options: list[str] | None = None):
    """Runs the machine to its end; what it says on its console comes out as it says it. `result` gets what the
    scenario's end was; `options` are added to the kernel's command line.

    Raises subprocess.TimeoutExpired when the machine still runs at the deadline."""
    subprocess.run(_command(kernel, initrd, result, iommu, memory, options or []), stdin=subprocess.DEVNULL,
                   stderr=subprocess.STDOUT, timeout=deadline, check=False)
