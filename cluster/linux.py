"""What Python 3.11 does not offer of Linux: a few system calls, and where something is mounted. Every failure is an OSError
with what was tried."""

from __future__ import annotations

import ctypes
import os
import pathlib

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SHARED = 0x100000

_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}


def _check(result: int, what: str):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount_points(mountinfo: pathlib.Path = pathlib.Path("/proc/self/mountinfo")) -> list[str]:
    """As this process sees them (proc(5)); a space in one is written \\040."""
    return [line.split(" ")[4] for line in mountinfo.read_text(encoding="utf-8", errors="replace").splitlines()]


def unshare(flags: int):
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = ""):
    _check(_libc.mount(source.encode(), os.fsencode(target), kind.encode() or None,
                       ctypes.c_ulong(flags), options.encode() or None),
           f"mount {kind or source} on {target}")


def bind(source: str, target: str, recursive: bool = False, read_only: bool = False):
    mount(source, target, flags=MS_BIND | (MS_REC if recursive else 0))
    if read_only:
        mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def detach(target: str):
    _check(_libc.umount2(os.fsencode(target), _MNT_DETACH), f"unmount {target}")


def _go_to_namespace_root():
    """To the root of this process's mount namespace: in a chroot, another directory than its own root."""
    namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    try:
        _check(_libc.setns(ctypes.c_int(namespace), ctypes.c_int(CLONE_NEWNS)), "enter the own mount namespace")
    finally:
        os.close(namespace)
    mount("none", "/", flags=MS_PRIVATE)


def pivot_root(new_root: str):
    """Makes `new_root` the root of this mount namespace and lets go of the old one, with all its mounts. Also where
    this was started in a chroot: whoever enters the namespace (kubectl exec, a probe) comes to its root, not to ours."""
    directory = os.open(new_root, os.O_RDONLY | os.O_DIRECTORY)
    _go_to_namespace_root()
    os.fchdir(directory)
    os.close(directory)
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    _check(_libc.syscall(ctypes.c_long(number), b".", b"."), f"pivot_root to {new_root}")
    detach(".")
    os.chdir("/")


def die_with_parent(signal_number: int):
    """This process gets the signal when the thread that started it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal_number), 0, 0, 0), "prctl")
