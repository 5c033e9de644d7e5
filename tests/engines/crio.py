"""CRI-O: where its programs are, its configuration, how it is restarted."""

import json
import os
import pathlib
import signal
import tomllib

import host
from engines import CACHE, DEBIAN, FOR_CRUN, CriEngine, Version
from host import IMAGE, PAUSE
from systemd import Systemd

CRIO_BUILT = [Version("CRI-O 1.34", CACHE / "engine-crio-v1.34.0", heeds_nri_devices=False)]
if os.environ.get("PITCREW_CRIO"):
    # A later one, built elsewhere: the folder of its crio and copyimg.
    CRIO_BUILT.append(Version("CRI-O of PITCREW_CRIO", pathlib.Path(os.environ["PITCREW_CRIO"]).absolute()))
DROP_IN = "/etc/crio/crio.conf.d/99-nvidia.conf"
HOOK = "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json"
_HERE = pathlib.Path(__file__).resolve().parent
_OWN = "/usr/libexec/crio"  # where CRI-O's packages have what it runs; nothing there is in a PATH
_STORAGE = ["--root=/var/lib/containers/storage", "--runroot=/run/containers/storage", "--storage-driver=overlay"]
_POLICY = "/etc/containers/policy.json"
_CONFIG = f"""# An administrator's own words.
[crio]
storage_driver = "overlay"
[crio.runtime]
cgroup_manager = "cgroupfs"   # a comment behind a value
pids_limit = 4096
log_level = "info"
[crio.network]
network_dir = "/etc/cni/own.d"
plugin_dirs = ["/usr/lib/cni"]
[crio.image]
pause_image = "{PAUSE}"
pause_command = ""
[crio.metrics]
enable_metrics = false
"""


def runtimes(low_level):
    """As the packages' own drop-in has them."""
    tables = [f"""[crio.runtime.runtimes.{name}]
runtime_path = "{_OWN}/{name}"
runtime_root = "/run/{name}"
monitor_path = "{_OWN}/conmon"
monitor_cgroup = "pod"
allowed_annotations = ["io.containers.trace-syscall"]
""" for name in ("crun", "runc")]
    return "\n".join([f'[crio.runtime]\ndefault_runtime = "{low_level}"\n', *tables])


class Crio(CriEngine):
    """The toolkit's settings are those of its DaemonSet for CRI-O: no socket, and a root file that CRI-O does not read."""

    socket, program, toolkit_engine, config_path = "/run/crio/crio.sock", "crio", "crio", "/etc/crio/config.toml"

    def __init__(self, version, images, low_level="runc"):
        archives = {f"/opt/images/{pathlib.Path(archive).name}": (name, str(archive)) for name, archive in images.items()}
        binds = {f"/usr/bin/{path.name}": str(path) for path in sorted(version.folder.iterdir())}
        binds |= {f"{_OWN}/conmon": str(DEBIAN / "conmon"), f"{_OWN}/runc": "/usr/sbin/runc",
                  f"{_OWN}/crun": str(_HERE / "crun.sh"), f"{_OWN}/crun-1.8": str(DEBIAN / "crun"),
                  f"{_OWN}/pinns": str(_HERE / "pinns.sh")}
        binds |= {path: archive for path, (_, archive) in archives.items()}
        imports = [["/usr/bin/copyimg", *_STORAGE, f"--signature-policy={_POLICY}", f"--image-name={name}",
                    f"--import-from=docker-archive:{path}"] for path, (name, _) in archives.items()]
        self._systemd = None
        super().__init__(
            ["/usr/bin/crio", f"--pinns-path={_OWN}/pinns"], binds,
            {"/etc/crio/crio.conf": _CONFIG, "/etc/crio/crio.conf.d/10-crio.conf": runtimes(low_level),
             _POLICY: json.dumps({"default": [{"type": "insecureAcceptAnything"}]})}, {},
            [*(FOR_CRUN if low_level == "crun" else []), *imports])
        with self.closed_on_failure():
            self._systemd = Systemd(self.host.path("/run/dbus/system_bus_socket"), "crio.service",
                                    lambda: self.host.kill_engine(self.program, signal.SIGTERM))

    def close(self):
        if self._systemd:
            self._systemd.close()
        super().close()

    @property
    def restarts(self):
        """How often the toolkit has had it restarted."""
        return self._systemd.restarts

    def import_images(self, images):
        """They are there before it starts."""

    def files(self):
        return ["/etc/crio/crio.conf", "/etc/crio/crio.conf.d/10-crio.conf", self.config_path, DROP_IN, HOOK]

    def configure(self, **more):
        super().configure(RUNTIME_SOCKET=None, RUNTIME_DROP_IN_CONFIG=DROP_IN, CRIO_CONFIG=self.config_path,
                          RUNTIME_DROP_IN_CONFIG_HOST_PATH=DROP_IN, RUNTIME_ENABLE_CDI=None, **more)

    def dump(self):
        """What the process that runs has, in its own words."""
        return tomllib.loads(self.host.run("/usr/bin/crio", "status", "config"))

    def low_level(self, container):
        return next((name for name in ("runc", "crun") if
                     os.path.isdir(self.host.path(f"/run/{name}/{container}"))), None)
