"""The tool's side of starting a node or the control plane: see init.py for the protocol."""

from __future__ import annotations

import json
import pathlib
import select
import socket
import subprocess
import sys
import time

from cluster import processes
from cluster.errors import ClusterError

_HEARD = 120.0  # seconds
_SOURCE = pathlib.Path(__file__).resolve().parent.parent


class Started:
    """A first process that is being started. Closing without `keep` ends it."""

    def __init__(self, cluster: str, spec: dict, folder: pathlib.Path):
        self.role: str = spec["role"]
        self.spec = spec
        self.pid = 0
        self.seen: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.role}.json"
        file.write_text(json.dumps(spec, indent=1), encoding="utf-8")
        file.chmod(0o600)
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with open(self.log("init"), "ab") as log:
                self._launcher = subprocess.Popen(
                    [sys.executable, "-m", "cluster.init", str(file), str(other.fileno())], pass_fds=[other.fileno()],
                    env=processes.environment(cluster, self.role, {"PYTHONPATH": str(_SOURCE),
                                                                   "PYTHONDONTWRITEBYTECODE": "1"}),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True)
        finally:
            other.close()

    def log(self, service: str) -> str:
        return f"{self.spec['logs']}/{self.role}-{service}.log"

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self):
        """Takes one event in. Raises when it tells of a failure."""
        message = self._socket.recv(65536)
        if not message:
            raise ClusterError(f"{self.role} ended while it was starting", self.log("init"))
        event = json.loads(message)
        kind = event["event"]
        if kind == "process":
            self.pid = event["pid"]
            self._launcher.wait()
        elif kind == "failed":
            raise ClusterError(f"{self.role}: {event['error']}", self.log("init"))
        elif kind == "ended":
            raise ClusterError(f"{event['service']} of {self.role} ended with status {event['status']}",
                               self.log(event["service"]))
        self.seen.add(f"{kind} {event['service']}" if "service" in event else kind)

    def network_ready(self):
        self._socket.send(b"network")

    def keep(self):
        """Lets it go on without the tool. It closes its end when it has heard; what it told until then is read."""
        self._socket.settimeout(_HEARD)
        self._socket.send(b"keep")
        while self._socket.recv(65536):
            pass
        self._socket.close()


def wait(started: list[Started], event: str, seconds: float):
    """Waits until every one of them has reported `event` ("namespaces", "booted", "ready kubelet", ...)."""
    deadline = time.monotonic() + seconds
    poller = select.poll()
    by_descriptor = {one.fileno(): one for one in started}
    for descriptor in by_descriptor:
        poller.register(descriptor, select.POLLIN)
    while True:
        missing = [one for one in started if event not in one.seen or not one.pid]
        if not missing:
            return
        ready = poller.poll(max(0.0, (deadline - time.monotonic()) * 1000))
        if not ready:
            service = event.removeprefix("ready ") if event.startswith("ready ") else "init"
            raise ClusterError(f"{', '.join(one.role for one in missing)}: no `{event}` within {seconds:.0f} s",
                               missing[0].log(service))
        for descriptor, _ in ready:
            by_descriptor[descriptor].receive()
