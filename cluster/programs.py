"""The Kubernetes programs: taken from a folder or from PATH when they fit, otherwise built once from their modules.

The built ones lie in $PITCREW_CACHE/programs/COMPONENT-VERSION/ (by default `pitcrew` in the user's cache folder).
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from cluster.errors import ClusterError
from cluster.progress import Progress, Step

_MODULES = pathlib.Path(__file__).parent / "modules"
_GO_MINIMUM = (1, 26)  # the `go` lines of the modules
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclasses.dataclass(frozen=True)
class Component:
    """Programs that are built together, from one module, and have one version."""

    name: str
    version: str
    packages: dict[str, str]  # program -> Go package
    fits: str  # what the version that a program found elsewhere tells must match
    version_arguments: tuple[str, ...] = ("--version",)
    link_flags: str = ""
    tags: str = ""
    module: str = ""  # the folder of its go.mod below modules/; by default its own name


_KUBERNETES_VERSION = "v1.35.4"
_CONTAINERD_VERSION = "v2.2.9"
_HELM_VERSION = "v3.20.2"  # of the Kubernetes libraries that Kubernetes itself has: compiled once for both
# Clients parse the version that the server tells; unstamped builds tell none that can be parsed.
_KUBERNETES_STAMP = " ".join([
    f"-X k8s.io/component-base/version.gitVersion={_KUBERNETES_VERSION}",
    "-X k8s.io/component-base/version.gitMajor=1", "-X k8s.io/component-base/version.gitMinor=35",
    "-X k8s.io/component-base/version.gitTreeState=clean",
    f"-X k8s.io/client-go/pkg/version.gitVersion={_KUBERNETES_VERSION}"])

COMPONENTS = [
    Component("kubernetes", _KUBERNETES_VERSION,
              {name: f"k8s.io/kubernetes/cmd/{name}" for name in
               ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")},
              fits=r"v1\.35\.\d+", link_flags=_KUBERNETES_STAMP),
    Component("etcd", "v3.6.5", {"etcd": "go.etcd.io/etcd/server/v3"}, fits=r"3\.6\.\d+", module="kubernetes"),
    Component("containerd", _CONTAINERD_VERSION,
              {name: f"github.com/containerd/containerd/v2/cmd/{name}" for name in
               ("containerd", "containerd-shim-runc-v2", "ctr")}, fits=r"v?2\.[2-9]\.\d+", tags="no_btrfs,no_devmapper,no_zfs",
              link_flags=f"-X github.com/containerd/containerd/v2/version.Version={_CONTAINERD_VERSION}"),
    Component("helm", _HELM_VERSION, {"helm": "helm.sh/helm/v3/cmd/helm"}, fits=r"v3\.\d+\.\d+",
              version_arguments=("version", "--short"), module="kubernetes",
              link_flags=f"-X helm.sh/helm/v3/internal/version.version={_HELM_VERSION}"),
]
_RUNC = ("runc", r"version 1\.[1-9]", "Debian package runc")
_CNI_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")
_CNI_PLUGINS = ("bridge", "host-local", "loopback")
# kubectl has no --version.
_OWN_ARGUMENTS = {"kubectl": ("version", "--client")}


def cache() -> pathlib.Path:
    if os.environ.get("PITCREW_CACHE"):
        return pathlib.Path(os.environ["PITCREW_CACHE"]).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(home).absolute() / "pitcrew"


def _tells_version(program: str, component: Component) -> bool:
    arguments = _OWN_ARGUMENTS.get(os.path.basename(program), component.version_arguments)
    try:
        result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    # Not within a longer number: 13.6.1 is not 3.6.1.
    return re.search(rf"(?<![\d.]){component.fits}", result.stdout) is not None


class Programs:
    """Where each program is. `locate` fills it, building what is missing."""

    def __init__(self):
        self._folders: dict[str, pathlib.Path] = {}
        self.origins: dict[str, str] = {}  # component -> "built", "cache", or the folder it was found in

    def path(self, program: str) -> str:
        return str(self._folders[program] / program)

    def folder(self, program: str) -> pathlib.Path:
        return self._folders[program]

    def folders(self, *programs: str) -> set[pathlib.Path]:
        return {self._folders[program] for program in programs}

    def cni_folder(self) -> str:
        for folder in _CNI_FOLDERS:
            if all(os.access(f"{folder}/{plugin}", os.X_OK) for plugin in _CNI_PLUGINS):
                return folder
        raise ClusterError(f"no CNI plugins ({', '.join(_CNI_PLUGINS)}) in {' or '.join(_CNI_FOLDERS)}; install the "
                           "Debian package containernetworking-plugins (`make setup` does)")

    def _adopt(self, component: Component, folder: pathlib.Path, origin: str):
        for program in component.packages:
            self._folders[program] = folder
        self.origins[component.name] = origin

    def _find(self, component: Component) -> bool:
        named = os.environ.get("PITCREW_PROGRAMS")
        places = ([pathlib.Path(named)] if named else []) + [pathlib.Path(p) for p in
                                                             os.environ.get("PATH", _SYSTEM_PATH).split(":") if p]
        for place in places:
            candidates = [place / program for program in component.packages]
            if all(os.access(path, os.X_OK) for path in candidates) and all(
                    _tells_version(str(path), component) for path in candidates if not path.name.endswith("-v2")):
                place = place.absolute()
                self._adopt(component, place, "cache" if place == built_folder(component) else str(place))
                return True
        folder = built_folder(component)
        if all(os.access(folder / program, os.X_OK) for program in component.packages):
            self._adopt(component, folder, "cache")
            return True
        return False

    def find(self, program: str):
        """Finds one program without building anything."""
        component = next(one for one in COMPONENTS if program in one.packages)
        if not self._find(component):
            raise ClusterError(f"there is no {program}; `make programs` builds it")

    def locate(self, step: Step, names: list[str] | None = None):
        """All components that a cluster needs, or the tests; or the named ones alone."""
        wanted = [component for component in COMPONENTS if not names or component.name in names]
        for component in wanted:
            if not self._find(component):
                build(component, step)
                self._adopt(component, built_folder(component), "built")
        if not names:
            _check_runc()
            self.cni_folder()
        step.detail = ", ".join(f"{component.name} {component.version}" if
                                self.origins[component.name] in ("cache", "built") else
                                f"{component.name} from {self.origins[component.name]}" for component in wanted)


def _check_runc():
    program, pattern, package = _RUNC
    found = shutil.which(program, path=_SYSTEM_PATH)
    if not found:
        raise ClusterError(f"{program} is not installed; install the {package} (`make setup` does)")
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    if not re.search(pattern, told):
        raise ClusterError(f"{found} tells `{told.splitlines()[0] if told else 'nothing'}`; 1.1 or newer is needed "
                           f"({package})")


def built_folder(component: Component) -> pathlib.Path:
    return cache() / "programs" / f"{component.name}-{component.version}"


def find_go() -> str:
    """A Go toolchain that is new enough: from PATH, or the one that `make setup` has put into the cache."""
    told = []
    for candidate in (shutil.which("go"), str(cache() / "go" / "go" / "bin" / "go"), "/usr/local/go/bin/go"):
        if not candidate or not os.access(candidate, os.X_OK):
            continue
        result = subprocess.run([candidate, "env", "GOVERSION"], capture_output=True, text=True, check=False,
                                env={**os.environ, "GOTOOLCHAIN": "local"}, cwd="/")
        match = re.match(r"go(\d+)\.(\d+)", result.stdout)
        if match and (int(match[1]), int(match[2])) >= _GO_MINIMUM:
            return candidate
        told.append(f"{candidate}: {result.stdout.strip() or result.stderr.strip()}")
    minimum = ".".join(map(str, _GO_MINIMUM))
    raise ClusterError(f"no Go toolchain {minimum} or newer ({'; '.join(told) or 'none found'}); `make setup` "
                       "installs one, or put the programs into a folder and name it in PITCREW_PROGRAMS")


def environment() -> dict[str, str]:
    # Compilers live for seconds: collecting less often costs memory that is free again at once.
    return {"GOGC": "400", **os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}


def _stale_packages(go: str, component: Component, module: pathlib.Path) -> int:
    """How many packages are to be compiled: what an earlier build has left in Go's cache is not."""
    argv = [go, "list", "-deps", "-trimpath", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"]
    argv += ["-tags", component.tags] if component.tags else []
    result = subprocess.run([*argv, *component.packages.values()], cwd=module, env=environment(), capture_output=True,
                            text=True, check=False)
    return len(result.stdout.split())  # 0 when the list fails: the build then says why


def _compile(argv: list[str], module: pathlib.Path, log: pathlib.Path, progress: Progress) -> int:
    """Runs `go build -v`, which names each package as it compiles it, and tells how far it is."""
    with open(log, "w", encoding="utf-8") as stream:
        stream.write(f"$ {' '.join(argv)}\n")
        stream.flush()
        with subprocess.Popen(argv, cwd=module, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace") as process:
            for line in process.stdout:
                stream.write(line)
                progress.advance(line.startswith("go: downloading"))
        return process.returncode


def build(component: Component, step: Step):
    """Builds into a temporary folder and renames: a half-built component is never taken for a whole one."""
    target = built_folder(component)
    target.parent.mkdir(parents=True, exist_ok=True)
    log = cache() / "log" / f"build-{component.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    temporary = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    temporary.chmod(0o755)
    module = _MODULES / (component.module or component.name)
    go = find_go()
    try:
        step.note(f"building {component.name} {component.version} from its Go module, once")
        argv = [go, "build", "-v", "-trimpath", "-ldflags", f"-s -w {component.link_flags}".strip()]
        if component.tags:
            argv += ["-tags", component.tags]
        single = len(component.packages) == 1  # the package's last word is not always the program's name
        argv += ["-o", f"{temporary}/{next(iter(component.packages)) if single else ''}",
                 *component.packages.values()]
        progress = Progress(step, component.name, _stale_packages(go, component, module))
        if _compile(argv, module, log, progress) != 0:
            raise ClusterError(f"building {component.name} {component.version} failed", str(log))
        progress.end()
        if target.exists():
            shutil.rmtree(target)
        os.rename(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
