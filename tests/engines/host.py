"""A machine of its own for one container engine: namespaces, a root over this machine's, control groups, simulated GPUs.

It is the local cluster's node without a cluster (cluster/init.py): its first process starts the engine again when it ends,
as systemd does, and it ends with the test, whatever becomes of that one.
"""

import os
import pathlib
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from cluster import cgroups, leash, processes  # noqa: E402  pylint: disable=wrong-import-position

BUILD = pathlib.Path(os.environ.get("PITCREW_BUILD", ROOT / "build/release"))
SECONDS = 240  # for what takes one or two on an idle machine
IMAGE = "docker.io/pitcrew/engine-test:1"
PAUSE = "docker.io/pitcrew/pause:1"
GPUS = 2
_IMAGE_ROOT = "/opt/image"
_SIMULATION = "/opt/pitcrew/simulation"
_SIMULATE = f"{_SIMULATION}/bin/pitcrew-simulate"
_DESCRIPTION = "/etc/pitcrew/simulated-gpus.yaml"
# Of the product's image, below _IMAGE_ROOT.
_LINKS = {"nvidia-ctk-installer": "pitcrew", "nvidia-ctk": "pitcrew"}
_FRESH = ["/etc/docker", "/etc/crio", "/etc/containers", "/usr/share/containers/oci/hooks.d", "/usr/libexec/crio",
          "/var/lib/docker", "/var/lib/containers", "/var/lib/crio"]
_READY = "The node is ready for GPU containers"


def build_images(folder):
    """The archives of the sandbox's image and of the containers': {name: path}."""
    recipes = [ROOT / "deploy/image/recipes/pause.yaml", pathlib.Path(__file__).parent / "image.yaml"]
    subprocess.run([sys.executable, ROOT / "deploy/image/build.py", "--build", BUILD, "--into", folder, *recipes],
                   check=True, stdout=subprocess.DEVNULL)
    return {PAUSE: folder / "pause.tar", IMAGE: folder / "image.tar"}


def _remove_what_the_dead_left():
    """Of runs that were killed: their numbers are in the names. Their engines have ended with them."""
    def is_dead(name):
        return name.startswith("engines-") and not pathlib.Path(f"/proc/{name.split('-')[1]}").exists()
    for name in filter(is_dead, cgroups.clusters()):
        _retry(lambda: cgroups.remove(name))  # pylint: disable=cell-var-from-loop
    for folder in pathlib.Path(tempfile.gettempdir()).glob("pitcrew-engines-*"):
        if is_dead(folder.name.removeprefix("pitcrew-")):
            shutil.rmtree(folder, ignore_errors=True)


class _Started(leash.Started):
    """An engine that ends is no failure here: it is told to."""

    def __init__(self, *arguments):
        self.times_ready = 0
        super().__init__(*arguments)

    def receive(self):
        try:
            super().receive()
        except leash.ClusterError as problem:
            if " ended with status " not in str(problem):
                raise
        if "ready engine" in self.seen:
            self.seen.remove("ready engine")
            self.times_ready += 1

    def await_ready(self, times, seconds):
        """Until the engine has been ready so many times."""
        deadline = time.monotonic() + seconds
        while self.times_ready < times:
            if not select.select([self], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"the engine is not ready after {seconds} s")
            self.receive()

    def drain(self):
        while select.select([self], [], [], 0)[0]:
            self.receive()

    def close(self):
        self._socket.close()


class Host:
    """`argv`: the engine and its arguments, in which {cgroup} is where its containers go. `binds`: {path there: path here}.
    `files`: {path there: text}."""

    def __init__(self, argv, binds, files, commands=()):
        _remove_what_the_dead_left()
        self.name = f"engines-{os.getpid()}-{secrets.token_hex(2)}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"pitcrew-{self.name}-"))
        self._toolkit = None
        try:
            self._start(argv, binds, files, commands)
        except BaseException:
            self.close()
            raise

    def _start(self, argv, binds, files, commands):
        (self.folder / "root").mkdir()
        (self.folder / "image").mkdir()
        cgroups.create(self.name, "host")
        self.cgroup = cgroups.path(self.name, "host")
        simulation = {f"{_SIMULATION}/{folder}": str(BUILD / folder) for folder in ("bin", "lib")}
        image = {f"{_IMAGE_ROOT}/usr/bin/{name}": str(BUILD / "bin" / name)
                 for name in ("pitcrew", "nvidia-container-runtime")}
        spec = {
            "cluster": self.name, "role": "host", "hostname": "engine-host", "path": processes.PATH,
            "logs": str(self.folder),
            "root": {"base": str(self.folder / "root"), "binds": {**simulation, **image, **binds}, "fresh": _FRESH,
                     "links": {f"{_IMAGE_ROOT}/usr/bin/{link}": target for link, target in _LINKS.items()},
                     "files": {_DESCRIPTION: f"gpus: [{{profile: H100-80, count: {GPUS}}}]\n",
                               "/etc/hosts": "127.0.0.1 localhost\n", **files}},
            "commands": [
                ["/usr/bin/ip", "link", "set", "lo", "up"],
                *([["/usr/bin/mount", "-t", "tmpfs", "tmpfs", folder] for folder in
                   ("/var/lib/docker", "/var/lib/containers")]),
                [_SIMULATE, "pci-tree", "--description", _DESCRIPTION, "--into", "/sys/bus/pci/devices"],
                [_SIMULATE, "driver-install", "--root", "/", "--version", "580.95.05", "--description", _DESCRIPTION],
                *commands],
            "services": [{"name": "engine", "argv": [word.replace("{cgroup}", self.cgroup) for word in argv]}],
        }
        self._started = _Started(self.name, spec, self.folder / "specs")
        leash.wait([self._started], "namespaces", SECONDS)
        self._started.network_ready()
        self._started.await_ready(1, SECONDS)

    def close(self):
        """Everything in it ends with its first process."""
        if hasattr(self, "_started"):
            self._started.close()
        left = processes.end_all(self.name)
        if left:
            raise AssertionError(f"{left} did not end")
        _retry(lambda: cgroups.remove(self.name))
        shutil.rmtree(self.folder)

    def log(self, service="engine"):
        return (self.folder / f"host-{service}.log").read_text(encoding="utf-8", errors="replace")

    def path(self, inside):
        """A path in it, as this process reaches it: for sockets and files."""
        return f"/proc/{self._started.pid}/root{inside}"

    def read(self, inside):
        """Bytes, mode and owner of a file there; None where there is none."""
        path = pathlib.Path(self.path(inside))
        try:
            told = path.stat()
            return path.read_bytes(), oct(told.st_mode), told.st_uid, told.st_gid
        except FileNotFoundError:
            return None

    def write(self, inside, text):
        pathlib.Path(self.path(inside)).write_text(text, encoding="utf-8")

    def _enter(self, argv):
        return ["nsenter", f"--target={self._started.pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--", *argv]

    def _environment(self, extra=None):
        return processes.environment(self.name, "host", {"PATH": processes.PATH, **(extra or {})})

    def try_run(self, *argv, **options):
        """Of a command there: exit status, output, output of errors."""
        done = subprocess.run(self._enter(argv), env=self._environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False, **options)
        return done.returncode, done.stdout, done.stderr

    def run(self, *argv, **options):
        """What a command there prints; it succeeds."""
        status, output, errors = self.try_run(*argv, **options)
        if status != 0:
            raise AssertionError(f"{' '.join(argv)} ended with {status}:\n{output}{errors}")
        return output

    def kill_engine(self, program, number=signal.SIGKILL):
        """Ends it, and returns when the next one is ready."""
        self._started.drain()
        before = self._started.times_ready
        self.run("kill", f"-{int(number)}", str(self.engine_pid(program)))
        self._started.await_ready(before + 1, SECONDS)

    def engine_pid(self, program):
        """As the host numbers it."""
        return int(self.run("pgrep", "-xo", program))

    # The toolkit, as its DaemonSet runs it: the same program with the same settings.

    def start_toolkit(self, engine, socket, config, **more):
        """`more`: further settings; None takes one away."""
        environment = {
            "RUNTIME": engine, "RUNTIME_CONFIG": config, "RUNTIME_SOCKET": socket, "HOST_ROOT_MOUNT": "/",
            "ROOT": "/usr/local/nvidia", "TOOLKIT_PID_FILE": "/run/nvidia/toolkit/toolkit.pid",
            "TOOLKIT_SOURCE_ROOT": _IMAGE_ROOT, "NVIDIA_DRIVER_ROOT": "/", "DRIVER_ROOT_CTR_PATH": "/",
            "NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND": "management.nvidia.com/gpu", "CDI_ENABLED": "true",
            "RUNTIME_ENABLE_CDI": "true", "NVIDIA_RUNTIME_SET_AS_DEFAULT": "false",
            "CRIO_CONFIG_MODE": "config", "NVIDIA_VISIBLE_DEVICES": "void", **more}
        log = open(self.folder / "host-toolkit.log", "ab")  # pylint: disable=consider-using-with
        self._toolkit = subprocess.Popen(
            self._enter([f"{_IMAGE_ROOT}/usr/bin/nvidia-ctk-installer"]), stdin=subprocess.DEVNULL, stdout=log,
            stderr=log, env=self._environment({name: value for name, value in environment.items() if value is not None}))
        log.close()

    def await_toolkit(self, words=_READY):
        """Until the engine is configured and runs with it, or until it says other words."""
        deadline = time.monotonic() + SECONDS
        while words not in self.log("toolkit"):
            if self._toolkit.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the toolkit has not configured the engine:\n{self.log('toolkit')}\n"
                                     f"the engine says:\n{self.log()[-3000:]}")
            time.sleep(0.05)

    def _end_toolkit(self, number):
        pid = int(self.run("pgrep", "-f", "-o", f"^{_IMAGE_ROOT}/usr/bin/nvidia-ctk-installer"))
        self.run("kill", f"-{int(number)}", str(pid))
        return self._toolkit.wait(SECONDS)

    def stop_toolkit(self):
        """As the kubelet ends its pod."""
        status = self._end_toolkit(signal.SIGTERM)
        if status != 0:
            raise AssertionError(f"the toolkit ended with {status}:\n{self.log('toolkit')}")
        (self.folder / "host-toolkit.log").unlink()

    def kill_toolkit(self):
        """It restores nothing."""
        self._end_toolkit(signal.SIGKILL)
        (self.folder / "host-toolkit.log").unlink()


def _retry(action, seconds=60):
    """Groups of processes that have just ended can be busy for a moment."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return action()
        except leash.ClusterError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
