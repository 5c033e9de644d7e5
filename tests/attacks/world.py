"""One container's bundle, what lies outside it, and the ways in which hooks come to run on it.

What an attack has done is read off what lies outside: `World.harm()`. Exit codes say nothing about it.
"""

import ctypes
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import stat
import subprocess
import tempfile

SECRET = "canary 7c1d0e52"  # in no file of a container, unless something outside was read into it
CONTAINER_ID = f"pitcrew-attack-{os.getpid()}"
NOBODY = 65534
SECONDS_OF_PROCESSOR = 3
# Seconds until a program counts as one that does not end. The double hangs where it should; ours may have a busy machine.
PATIENCE = {"naive": 3, "ours": 25}

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE, MS_SHARED, MNT_DETACH = 4096, 16384, 1 << 18, 1 << 20, 2
PARAMS = "ModifyDeviceFiles: 1\n"


def check(result):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def mount(source, target, kind=None, flags=0):
    check(LIBC.mount(str(source).encode(), str(target).encode(), kind and kind.encode(), flags, None))


def unmount(target):
    LIBC.umount2(str(target).encode(), MNT_DETACH)


def own_mount_namespace():
    """From now on nothing that this process mounts is seen by others, and all of it goes with it."""
    check(LIBC.unshare(CLONE_NEWNS))
    mount("none", "/", flags=MS_REC | MS_PRIVATE)


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_OF_PROCESSOR, SECONDS_OF_PROCESSOR))
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def become_rootless():
    """Root of a user namespace of one user, who is nobody outside it."""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    LIBC.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: else the files of /proc/self stay root's
    check(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS))
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {NOBODY} 1"), ("gid_map", f"0 {NOBODY} 1")):
        pathlib.Path("/proc/self", name).write_text(text)


def snapshot(folder):
    """Everything about the files of a folder that an attack could have changed."""
    seen = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        about = path.lstat()
        content = None
        if stat.S_ISLNK(about.st_mode):
            content = os.readlink(path)
        elif stat.S_ISREG(about.st_mode):
            content = path.read_bytes()
        elif stat.S_ISCHR(about.st_mode):
            content = about.st_rdev
        seen[str(path.relative_to(folder))] = (stat.filemode(about.st_mode), about.st_uid, content)
    return seen


class Programs:
    def __init__(self, ours, naive, library, program):
        self.ours, self.naive, self.library, self.program = map(pathlib.Path, (ours, naive, library, program))


class World:
    """`owner` is the user outside who is root in the container."""

    def __init__(self, programs, owner=0):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pitcrew-attack-", dir="/var/tmp")).resolve()
        self.folder.chmod(0o755)
        self.owner = owner
        self.bundle = self.folder / "bundle"
        self.root = self.bundle / "rootfs"
        self.outside = self.folder / "outside"
        self.toolkit = self.folder / "toolkit"
        self.state_root = ""     # what the runtime says of the root; empty: nothing, config.json tells
        self.volumes = []        # (what of the host, where in the container)
        self.has_proc = False    # whether a process file system is mounted in the container
        self.params = None       # what the container's author does to /proc/driver, where the host's driver has parameters
        self.shared = False      # what is mounted on a volume is seen on the host, too
        self.phase = "createContainer"  # in which a low-level runtime runs the hooks
        self.environment = {}    # of the container, and so of a hook whose specification gives none
        self.descriptors = ()    # open files that the hook inherits
        self.working_folder = self.root
        self.log = ""
        self.problems = []       # of the process: it died, it did not end
        for path in (self.root, self.outside, self.toolkit):
            path.mkdir(parents=True)
        shutil.copy(programs.ours, self.toolkit / "nvidia-container-runtime")
        for name in ("nvidia-cdi-hook", "nvidia-ctk", "nvidia-container-runtime-hook"):
            (self.toolkit / name).symlink_to("nvidia-container-runtime")
        shutil.copy(programs.naive, self.toolkit / "naive_hook")
        shutil.copy(programs.naive.parent / "libnaive_dependency.so", self.toolkit)
        self.library, self.program = programs.library, programs.program
        # Reached from this network namespace only, which is the host's.
        self.home_name = f"{CONTAINER_ID}-{self.folder.name}"
        self.home = socket.socket(socket.AF_UNIX)
        self.home.bind(b"\0" + self.home_name.encode())
        self.home.listen()
        self.home.setblocking(False)
        (self.outside / "secret").write_text(SECRET)
        (self.outside / "libcuda.so.999.1").write_text(SECRET)
        (self.outside / "folder").mkdir(mode=0o750)
        (self.outside / "program").write_text("#!/bin/sh\n")
        (self.outside / "program").chmod(0o755)
        self.outside.chmod(0o750)
        self.write("/usr/lib/libold.so", "")
        self.write("/etc/passwd", "")
        self.before = None
        self.patience = None

    # What the container's image holds.

    def at(self, inside):
        path = self.root / inside.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, inside, content):
        path = self.at(inside)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def link(self, inside, target):
        path = self.at(inside)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.symlink_to(target)

    def up(self, inside):
        """A relative path out of the root, to what lies outside, from where `inside` is."""
        return "../" * 40 + str(self.outside).lstrip("/") + inside

    # How a hook runs.

    def command(self, side, flags=()):
        self.patience = PATIENCE[side]
        if side == "naive":
            return [str(self.toolkit / "naive_hook"), *flags]
        return [str(self.toolkit / "nvidia-cdi-hook")]

    def settle(self):
        """Gives all files to their owner, and remembers what lies outside."""
        if self.owner:
            for place in (self.root, self.outside):
                for path in [place, *place.rglob("*")]:
                    os.chown(path, self.owner, self.owner, follow_symlinks=False)
        self.before = snapshot(self.outside)

    def write_config(self, **members):
        config = {"ociVersion": "1.0.2", "root": {"path": "rootfs"}} | members
        (self.bundle / "config.json").write_text(json.dumps(config))

    def run_directly(self, command, before_start=None):
        self.write_config()
        state = {"ociVersion": "1.0.2", "id": CONTAINER_ID, "bundle": str(self.bundle)}
        if self.state_root:
            state["root"] = self.state_root

        def prepare():
            if before_start:
                before_start()
            limit()

        try:
            done = subprocess.run(command, input=json.dumps(state).encode(), env=self.environment,
                                  cwd=self.working_folder, capture_output=True, timeout=self.patience,
                                  pass_fds=self.descriptors, preexec_fn=prepare)
        except subprocess.TimeoutExpired:
            self.problems.append("it did not end")
            return None
        self.log += done.stderr.decode(errors="replace")
        if done.returncode < 0:
            self.problems.append(f"it died of {signal.Signals(-done.returncode).name}")
        return done

    def mount_volumes(self):
        if self.has_proc:
            self.at("/proc").mkdir(exist_ok=True)
            mount("proc", self.root / "proc", "proc")
        if self.params:
            self.play_params()
        for source, inside in self.volumes:
            if self.shared:
                mount(source, source, flags=MS_BIND)
                mount("none", source, flags=MS_SHARED)
            target = self.at(inside)
            if not target.exists():
                target.mkdir() if source.is_dir() else target.touch()
            mount(source, target, flags=MS_BIND)

    def unmount_volumes(self):
        for _, inside in reversed([] if self.shared else self.volumes):  # else it goes from the host, too
            unmount(self.root / inside.lstrip("/"))
        if self.has_proc:
            unmount(self.root / "proc")
        if self.params:
            unmount("/proc/driver")

    def play_params(self):
        """Parameters of the driver's module, as a real driver tells them: of the host, and in the container's /proc."""
        drivers = [pathlib.Path("/proc/driver")]
        if self.has_proc:
            drivers.append(self.root / "proc/driver")
        for driver in drivers:
            mount("tmpfs", driver, "tmpfs")
            (driver / "nvidia").mkdir()
            (driver / "nvidia/params").write_text(PARAMS)
        self.params(drivers[-1])

    def files_of_container(self):
        for folder, folders, names in os.walk(self.root):
            if folder == str(self.root) and (self.has_proc or self.shared):
                folders.remove("proc")  # which is the kernel's, or still a volume
            yield from (pathlib.Path(folder, name) for name in names)

    def was_called(self):
        """Whether code of the image's has run in the host's network namespace."""
        try:
            self.home.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def harm(self):
        """What has happened outside the container, or to the hook's process."""
        found = list(self.problems)
        if self.was_called():
            found.append("a program of the image runs in the host's network namespace")
        after = snapshot(self.outside)
        found += [f"outside/{name}: {self.before.get(name)} became {after.get(name)}"
                  for name in sorted(self.before.keys() | after.keys()) if self.before.get(name) != after.get(name)]
        for path in self.files_of_container():
            if not path.is_symlink() and path.is_file() and SECRET.encode() in path.read_bytes():
                found.append(f"{path.relative_to(self.root)} of the container tells the secret")
        return found

    def close(self):
        self.home.close()
        mounts = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
        if self.params:  # a mount over the host's /proc would keep user namespaces from having one
            unmount("/proc/driver")
        for path in reversed([path for path in mounts if path.startswith(f"{self.folder}/")]):
            unmount(path)
        shutil.rmtree(self.folder)
