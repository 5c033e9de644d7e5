"""The container engines that are tried: where their programs are, their configuration, how a container is started.

`CONTAINERD` and the others are tables; a class is what engines of one kind have in common.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import threading
import time
import tomllib

import host
from cri import RUNNING, Cri, CriError
from host import IMAGE, PAUSE

CACHE = pathlib.Path(os.environ.get("PITCREW_CACHE") or pathlib.Path(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "pitcrew").absolute() / "programs"
DEBIAN = CACHE / "engines-debian"
_BINARIES = "/opt/engine"
_CNI = json.dumps({"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "loopback"}]})
_CRUN = {"/usr/bin/crun": str(DEBIAN / "crun"), "/usr/lib/libyajl.so.2": str(DEBIAN / "libyajl.so.2")}
# crun 1.8 refuses machines that have both versions of control groups; with the first alone it works.
FOR_CRUN = [["/bin/sh", "-c", "! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified"]]
_SLEEP = ["/bin/sleep", "infinity"]


def folder_binds(folder):
    """{path there: path here} of a folder's programs."""
    if not folder.is_dir():
        raise AssertionError(f"there is no {folder}; `make programs` or `make engines` makes it")
    return {f"{_BINARIES}/{path.name}": str(path) for path in sorted(folder.iterdir())}


@dataclasses.dataclass(frozen=True)
class Version:
    name: str  # "containerd 1.7"
    folder: pathlib.Path
    highest: int = 0  # version of the configuration that it understands
    ignores: tuple = ()  # versions of the file whose settings of containers it does not read, toolkit or not
    enters_without_runtime: bool = True  # exec goes on when the runtime of the container is no longer configured
    heeds_nri_devices: bool = True  # CDI devices that an NRI plugin names come into the container

    @property
    def identifier(self):
        return self.name.title().replace(" ", "").replace(".", "").replace("-", "")

    @property
    def is_there(self):
        return self.folder.is_dir()


CONTAINERD_DEBIAN = Version("containerd 1.6 (Debian)", DEBIAN, 2)
CONTAINERD_CLUSTER = Version("containerd 2.2", CACHE / "containerd-v2.2.9", 3, (1,), False)
CONTAINERD_BUILT = [
    Version("containerd 1.7", CACHE / "engine-containerd-v1.7.35", 2),
    Version("containerd 2.0", CACHE / "engine-containerd-v2.0.14", 3, (1,), False),
    Version("containerd 2.1", CACHE / "engine-containerd-v2.1.9", 3, (1,), False),
    Version("containerd 2.3", CACHE / "engine-containerd-v2.3.4", 4, (), False),
    Version("containerd 2.4", CACHE / "engine-containerd-v2.4.2", 4, (), False),
]


def cri_tables(version):
    """Names of the tables of runtimes and of images in containerd's configuration of this version."""
    return {1: ("cri", "cri"), 2: ("io.containerd.grpc.v1.cri",) * 2}.get(
        version, ("io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"))


def containerd_config(version, low_level="runc"):
    """What a node has before the toolkit comes: every kind of setting that it must not lose."""
    runtime, images = (f'plugins."{table}"' for table in cri_tables(version))
    sandbox = (f'[{images}.pinned_images]\n  sandbox = "{PAUSE}"\n' if version >= 3
               else f'[{images}]\n  sandbox_image = "{PAUSE}"\n')
    header = f"version = {version}\n" if version > 1 else ""
    # In versions 1 and 2 the settings of images and runtimes are one table.
    own = "" if version < 3 else f"[{runtime}]\n"
    cni = 'bin_dir = "/usr/lib/cni"' if version < 3 else 'bin_dirs = ["/usr/lib/cni"]'
    mirrors = (f'[{images}.registry.mirrors."mirror.example"]\n  endpoint = ["https://mirror.example:5000"]\n'
               f'[{images}.registry.configs."mirror.example".tls]\n  insecure_skip_verify = true\n')
    programs = {"runc": "/usr/sbin/runc", **({"crun": "/usr/bin/crun"} if low_level == "crun" else {})}
    runtimes = "\n".join(f"""[{runtime}.containerd.runtimes.{name}]
  runtime_type = "io.containerd.runc.v2"
  [{runtime}.containerd.runtimes.{name}.options]
    BinaryName = "{program}"
    SystemdCgroup = false""" for name, program in programs.items())
    return f"""# An administrator's own words.
{header}oom_score = 0
required_plugins = []

[debug]
  level = "info"   # a comment behind a value

{sandbox}
{own}  restrict_oom_score_adj = true
  max_container_log_line_size = 32768
{mirrors}
[{runtime}.cni]
  {cni}
  conf_dir = "/etc/cni/own.d"
[{runtime}.containerd]
  default_runtime_name = "{low_level}"
{runtimes}
[{runtime}.containerd.runtimes.kata]
  runtime_type = "io.containerd.kata.v2"
  privileged_without_host_devices = true
  pod_annotations = ["io.katacontainers.*"]
"""


class Engine:
    """What runs on a host of its own, and the toolkit configures."""

    host = socket = program = toolkit_engine = config_path = None

    @contextlib.contextmanager
    def closed_on_failure(self):
        """The end of its log is shown before it is gone."""
        try:
            yield
        except BaseException:
            print(self.host.log()[-3000:])
            self.close()
            raise

    def close(self):
        self.host.close()

    def files(self):
        """What the toolkit may write."""
        return [self.config_path]

    def configure(self, **more):
        self.host.start_toolkit(self.toolkit_engine, self.socket, self.config_path, **more)
        self.host.await_toolkit()


class CriEngine(Engine):
    """containerd and CRI-O: pods and containers as the kubelet starts them."""

    def __init__(self, argv, binds, files, images, commands=()):
        self.host = host.Host(argv, {**_CRUN, **binds}, {"/etc/cni/own.d/10-none.conflist": _CNI, **files}, commands)
        with self.closed_on_failure():
            self.cri = Cri(self.host.path(self.socket))
            self.wait()
            self.import_images(images)

    def import_images(self, images):
        raise NotImplementedError

    def wait(self):
        """Until it takes pods: containerd says that it is ready before."""
        deadline = time.monotonic() + host.SECONDS
        while True:
            try:
                return self.cri.handlers()
            except CriError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def configure(self, **more):
        super().configure(**more)
        self.wait()

    def run(self, name, runtime="", attempt=0, pod_annotations=None, **container):
        """A container that runs."""
        pod = self.cri.run_pod(name, self.host.cgroup, runtime, attempt, pod_annotations)
        identifier = self.cri.create(pod, IMAGE, _SLEEP, **container)
        self.cri.start(identifier)
        return identifier

    def run_as_kubelet(self, name, **container):
        """The same across restarts of the engine: what fails is tried again under a new number."""
        deadline = time.monotonic() + host.SECONDS
        for attempt in range(1000):
            try:
                return self.run(name, attempt=attempt, **container)
            except CriError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        raise AssertionError("unreachable")

    def execute(self, identifier, *command):
        """(exit status, output)"""
        return self.cri.execute(identifier, command)

    def remove(self, identifier):
        self.cri.remove_pod_of(identifier)

    def running(self):
        return {identifier for identifier, state in self.cri.states().items() if state == RUNNING}


@dataclasses.dataclass(frozen=True)
class Node:
    """What an image of nodes has: containerd's root file, further files and programs, and what is done at boot."""

    config: str
    files: dict = dataclasses.field(default_factory=dict)
    binds: dict = dataclasses.field(default_factory=dict)
    commands: tuple = ()


class Containerd(CriEngine):
    socket, program, toolkit_engine = "/run/containerd/containerd.sock", "containerd", "containerd"
    config_path = "/etc/containerd/config.toml"

    def __init__(self, version, file_version, images, low_level="runc", node=None):
        """`node`: one that is laid out otherwise."""
        self.version = version
        node = node or Node(containerd_config(file_version, low_level))
        super().__init__([f"{_BINARIES}/containerd", "--config", self.config_path],
                         {**folder_binds(version.folder), **node.binds}, {self.config_path: node.config, **node.files},
                         images, [*(FOR_CRUN if low_level == "crun" else []), *node.commands])

    def import_images(self, images):
        for archive in images.values():
            with open(archive, "rb") as stream:
                self.host.run(f"{_BINARIES}/ctr", "--namespace=k8s.io", "images", "import", "-", stdin=stream)

    def files(self):
        return [self.config_path, "/etc/containerd/conf.d/99-nvidia.toml"]

    def dump(self):
        """What it would load now, in its own words."""
        return tomllib.loads(self.host.run(f"{_BINARIES}/containerd", "--config", self.config_path, "config", "dump"))

    def low_level(self, container):
        """Which program keeps this container's state."""
        files = os.listdir(self.host.path(f"/run/containerd/runc/k8s.io/{container}"))
        return "crun" if "status" in files else "runc" if "state.json" in files else files


class Load:
    """Containers that are started one after the other, until told to stop."""

    def __init__(self, engine, threads=2, prefix="load", **container):
        self.engine, self.prefix, self.container = engine, prefix, container
        self.started, self.problems = [], []
        self._stop = threading.Event()
        self._some = threading.Semaphore(0)
        self._threads = [threading.Thread(target=self._start, args=(number,), daemon=True) for number in range(threads)]
        for thread in self._threads:
            thread.start()

    def _start(self, number):
        count = 0
        while not self._stop.is_set():
            try:
                self.started.append(self.engine.run_as_kubelet(f"{self.prefix}-{number}-{count}", **self.container))
            except Exception as problem:  # pylint: disable=broad-except  # told by the test's own thread
                self.problems.append(problem)
                self._some.release()
                return
            count += 1
            self._some.release()

    def await_more(self, count=2):
        for _ in range(count):
            if not self._some.acquire(timeout=host.SECONDS):
                raise AssertionError("no container has been started")
        if self.problems:
            raise self.problems[0]

    def end(self):
        """All that were started."""
        self._stop.set()
        for thread in self._threads:
            thread.join(host.SECONDS)
        if self.problems:
            raise self.problems[0]
        return self.started


class Docker(Engine):
    """Debian's, with its own containerd."""

    program, toolkit_engine, socket, config_path = "dockerd", "docker", "/run/docker.sock", "/etc/docker/daemon.json"

    def __init__(self, config, images):
        binds = {f"/usr/bin/{path.name}": str(path) for path in sorted(DEBIAN.iterdir()) if path.name != "conmon"}
        binds |= _CRUN
        self.host = host.Host(
            ["/usr/bin/dockerd", "--bridge=none", "--iptables=false", "--oom-score-adjust=0", "--cgroup-parent={cgroup}",
             "--host=unix:///run/docker.sock"], binds, {self.config_path: config})
        with self.closed_on_failure(), open(images[IMAGE], "rb") as stream:
            self.docker("load", stdin=stream)

    def docker(self, *words, **options):
        return self.host.run("/usr/bin/docker", *words, **options).strip()

    def run(self, name, runtime="", environment=None):
        return self.docker("run", "--detach", "--name", name, "--network", "none",
                           *([f"--runtime={runtime}"] if runtime else []),
                           *(f"--env={key}={value}" for key, value in (environment or {}).items()), IMAGE, *_SLEEP)

    def run_as_kubelet(self, name, **container):
        """A client that tries again while nobody answers."""
        deadline = time.monotonic() + host.SECONDS
        for attempt in range(1000):
            try:
                return self.run(f"{name}-{attempt}", **container)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        raise AssertionError("unreachable")

    def execute(self, identifier, *command):
        status, output, errors = self.host.try_run("/usr/bin/docker", "exec", identifier, *command)
        return status, output + errors

    def remove(self, identifier):
        self.docker("rm", "--force", identifier)

    def running(self):
        return set(self.docker("ps", "--quiet", "--no-trunc").split())

    def information(self):
        return json.loads(self.docker("info", "--format={{json .}}"))
