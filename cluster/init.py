"""The first process of a simulated node, and of the control plane: `python3 -m cluster.init SPEC FD`.

Makes the namespaces, waits for its network, builds the file system, starts the services in order and starts
each again when it ends (as systemd does on a real node: a container runtime that is told to terminate comes
back), and reaps orphans.

FD is one end of a SOCK_SEQPACKET pair, the leash. Over it go JSON events to the tool; the tool answers
`network` (the interfaces are there: go on) and `keep` (the start is complete). As long as `keep` has not
come, the end of the tool is the end of the node: an interrupted `up` leaves nothing running.
"""

from __future__ import annotations

import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import time

from cluster import linux, node_root, processes

_FIRST_DELAY = 0.25  # seconds before a service that fails at once is started again; doubles up to _LAST_DELAY
_LAST_DELAY = 10.0
_STABLE = 5.0  # a service that ran this long is started again at once
# Whoever started the tool may ignore signals (nohup ignores SIGHUP), and services would inherit that; the
# container toolkit restarts containerd by SIGHUP.
_RESETTABLE = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


class Service:
    def __init__(self, spec: dict, log: int):
        self.name: str = spec["name"]
        self.argv: list[str] = spec["argv"]
        self.after: str | None = spec.get("after")
        self.log = log
        self.pid: int | None = None
        self.ready = False
        self.began = 0.0
        self.delay = 0.0
        self.start_at: float | None = None
        # The services speak systemd's readiness protocol. The name is abstract: it lives in the network
        # namespace and leaves no file.
        self.address = f"@pitcrew/{self.name}"
        self.notifications: socket.socket | None = None

    def listen(self):
        self.notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.notifications.bind("\0" + self.address[1:])

    def start(self, environment: dict[str, str]):
        self.ready = False
        self.start_at = None
        self.began = time.monotonic()
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.pid = os.posix_spawn(
                self.argv[0], self.argv, {**environment, "NOTIFY_SOCKET": self.address}, setsid=True,
                setsigdef=_RESETTABLE, setsigmask=[],
                file_actions=[(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, self.log, 1),
                              (os.POSIX_SPAWN_DUP2, self.log, 2)])
        finally:
            os.close(null)

    def ended(self):
        self.pid = None
        self.ready = False
        if time.monotonic() - self.began >= _STABLE:
            self.delay = 0.0
        self.start_at = time.monotonic() + self.delay
        self.delay = min(max(self.delay * 2, _FIRST_DELAY), _LAST_DELAY)


class Init:
    def __init__(self, spec: dict, leash: socket.socket):
        self.spec = spec
        self.leash: socket.socket | None = leash
        self.environment = processes.environment(spec["cluster"], spec["role"], {"PATH": spec["path"]})
        # The logs lie outside the node: they are opened before its root changes.
        self.log = self._open_log("init")
        self.services = [Service(service, self._open_log(service["name"])) for service in spec["services"]]

    def _open_log(self, name: str) -> int:
        return os.open(f"{self.spec['logs']}/{self.spec['role']}-{name}.log",
                       os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def say(self, text: str):
        os.write(self.log, f"{time.strftime('%H:%M:%S')} {text}\n".encode())

    def report(self, event: str, **fields):
        self.say(f"{event} {fields}")
        if self.leash is not None:
            try:
                self.leash.send(json.dumps({"event": event, **fields}).encode())
            except OSError:
                raise SystemExit(1) from None  # the tool has ended before the start was complete

    def await_network(self):
        if self.leash.recv(64) != b"network":
            raise SystemExit(1)

    def boot(self):
        os.setsid()
        for service in self.services:
            service.listen()
        self.report("namespaces")
        self.await_network()
        socket.sethostname(self.spec["hostname"])
        root = self.spec.get("root")
        if root:
            node_root.enter(**root)
        else:
            linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
            linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        for folder in self.spec.get("tmpfs", []):
            linux.mount("tmpfs", folder, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=700")
        for path, value in self.spec.get("sysctls", {}).items():
            pathlib.Path(path).write_text(value, encoding="ascii")
        self.report("mounts")
        for argv in self.spec.get("commands", []):
            result = subprocess.run(argv, env=self.environment, stdin=subprocess.DEVNULL, stdout=self.log,
                                    stderr=self.log, check=False)
            if result.returncode != 0:
                raise OSError(0, f"`{' '.join(argv)}` ended with {result.returncode}")
        self.report("booted")

    def start_due(self):
        now = time.monotonic()
        ready = {service.name for service in self.services if service.ready}
        for service in self.services:
            if service.pid is not None:
                continue
            if service.began == 0.0 and service.after and service.after not in ready:
                continue
            if service.start_at is None or service.start_at <= now:
                service.start(self.environment)
                self.report("started", service=service.name)

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for service in self.services:
                if service.pid == pid:
                    service.ended()
                    self.report("ended", service=service.name, status=os.waitstatus_to_exitcode(status))

    def hear(self):
        """What the tool says over the leash."""
        try:
            message = self.leash.recv(64)
        except ConnectionError:
            message = b""
        if message == b"keep":
            self.leash.close()
            self.leash = None
            self.say("start complete; from now on independent of the tool")
        elif not message:
            self.say("the tool has ended before the start was complete: ending too")
            raise SystemExit(1)

    def notified(self, service: Service):
        message = service.notifications.recv(4096)
        if b"READY=1" in message.split(b"\n") and not service.ready:
            service.ready = True
            self.report("ready", service=service.name)

    def serve(self):
        wake_read, wake_write = socket.socketpair()
        for end in (wake_read, wake_write):
            end.setblocking(False)
        signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            self.start_due()
            poller = select.poll()
            poller.register(wake_read, select.POLLIN)
            if self.leash is not None:
                poller.register(self.leash, select.POLLIN)
            by_descriptor = {service.notifications.fileno(): service for service in self.services}
            for descriptor in by_descriptor:
                poller.register(descriptor, select.POLLIN)
            due = [service.start_at for service in self.services if service.start_at is not None]
            timeout = max(0.0, min(due) - time.monotonic()) * 1000 if due else None
            for descriptor, _ in poller.poll(timeout):
                if descriptor == wake_read.fileno():
                    wake_read.recv(4096)
                elif self.leash is not None and descriptor == self.leash.fileno():
                    self.hear()
                elif descriptor in by_descriptor:
                    self.notified(by_descriptor[descriptor])
            self.reap()


def main() -> int:
    spec = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    leash = socket.socket(fileno=int(sys.argv[2]))
    leash.set_inheritable(False)  # a service that held it would hide this process's end from the tool
    init = Init(spec, leash)
    linux.unshare(linux.CLONE_NEWNET | linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWUTS
                  | linux.CLONE_NEWIPC)
    child = os.fork()
    if child != 0:
        init.report("process", pid=child)
        os._exit(0)
    try:
        init.boot()
        init.serve()
    except SystemExit as end:
        os._exit(int(end.code or 0))
    except Exception as error:  # pylint: disable=broad-except  # the border of the process: said, then ended
        init.report("failed", error=str(error))
        os._exit(1)
    return 1


if __name__ == "__main__":
    sys.exit(main())
