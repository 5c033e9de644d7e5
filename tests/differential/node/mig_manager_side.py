#!/usr/bin/env python3
"""One nvidia-mig-manager on a simulated node, over a run of label changes: reads {"description", "programs", "program",
"path", "config", "kubeconfig", "port", "token", "node", "changes"} from standard input and writes, for each change, the
values that the node's labels took, in order, as JSON.

Needs root, for the mount namespace.
"""

import http.client
import json
import pathlib
import ssl
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from simulated_node import LIBRARIES, SimulatedNode  # noqa: E402

CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
DEPLOY, PAUSED = "nvidia.com/gpu.deploy.", "paused-for-mig-change"
# A change takes upstream ten seconds and more: it asks about pods, selector by selector.
CHANGE_SECONDS, QUIET_SECONDS = 90, 1.5


class Node:
    """The Node object, and what its labels were since the last change."""

    def __init__(self, request):
        self.request = request
        self.changed, self.seen = threading.Condition(), []
        threading.Thread(target=self._watch, daemon=True).start()

    def _connect(self):
        context = ssl._create_unverified_context()  # pylint: disable=protected-access
        return http.client.HTTPSConnection("127.0.0.1", self.request["port"], context=context)

    def _headers(self, kind="application/json"):
        return {"Authorization": f"Bearer {self.request['token']}", "Content-Type": kind}

    def _watch(self):
        connection = self._connect()
        connection.request("GET", f"/api/v1/nodes?watch=true&fieldSelector=metadata.name%3D{self.request['node']}",
                           headers=self._headers())
        for line in connection.getresponse():
            labels = json.loads(line)["object"]["metadata"].get("labels", {})
            with self.changed:
                self.seen.append((time.monotonic(), labels))
                self.changed.notify_all()

    def set_labels(self, labels):
        connection = self._connect()
        connection.request("PATCH", f"/api/v1/nodes/{self.request['node']}",
                           json.dumps({"metadata": {"labels": labels}}),
                           self._headers("application/merge-patch+json"))
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(answer.read())

    def settle(self, process, start):
        """What the labels were from `start` on until the change has ended and nothing follows."""
        deadline = time.monotonic() + CHANGE_SECONDS
        with self.changed:
            while time.monotonic() < deadline and process.poll() is None:
                labels, quiet = ({}, 0)
                if self.seen:
                    labels, quiet = self.seen[-1][1], time.monotonic() - self.seen[-1][0]
                done = labels.get(STATE) in ("success", "failed") and PAUSED not in labels.values()
                if done and len(self.seen) > start and quiet > QUIET_SECONDS:
                    break
                self.changed.wait(0.2)
            return [labels for _, labels in self.seen[start:]]


def without_repeats(values):
    return [value for index, value in enumerate(values) if index == 0 or values[index - 1] != value]


def told(history):
    """The values of the state, and of each operand's label, in order."""
    deploy = {name for labels in history for name in labels if name.startswith(DEPLOY)}
    return {"states": [value for value in without_repeats([labels.get(STATE) for labels in history]) if value],
            "operands": {name.removeprefix(DEPLOY): without_repeats([labels.get(name) for labels in history])
                         for name in sorted(deploy)}}


def environment(request, node):
    return {"PATH": f"{request['path']}:{node.root}/usr/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/run",
            "LD_LIBRARY_PATH": str(node.root / LIBRARIES), "NODE_NAME": request["node"], "NO_PROXY": "*",
            "KUBECONFIG": request["kubeconfig"], "CONFIG_FILE": str(node.folder / "config/config.yaml"),
            "DEFAULT_GPU_CLIENTS_NAMESPACE": "default", "POD_NAMESPACE": "default", "POD_NAME": "mig-manager",
            "WITH_SHUTDOWN_HOST_GPU_CLIENTS": "false", "CDI_ENABLED": "false", "HOST_ROOT_MOUNT": "/run/host",
            "NVIDIA_DRIVER_ROOT": str(node.root), "DRIVER_ROOT_CTR_PATH": str(node.root)}


def geometry(request, node):
    """What the node then has, as one and the same program says it."""
    done = subprocess.run(["nvidia-mig-parted", "export", "-o", "json"], executable=request["parted"],
                          env=environment(request, node), capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr[-300:]


def start_bus():
    """A system bus at the host root's place: upstream's wants one even where it starts and stops no service."""
    folder = pathlib.Path("/run/host/run/dbus")
    folder.mkdir(parents=True)
    config = folder / "bus.conf"
    config.write_text(f"""<busconfig><type>session</type><listen>unix:path={folder}/system_bus_socket</listen>
        <auth>EXTERNAL</auth><policy context="default"><allow user="*"/><allow own="*"/>
        <allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/></policy></busconfig>""")
    bus = subprocess.Popen(["dbus-daemon", f"--config-file={config}", "--nofork", "--print-address"],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    bus.stdout.readline()
    return bus


def run(request, node):
    log = open(node.folder / "log", "w+b")
    bus = start_bus()
    process = subprocess.Popen(["nvidia-mig-manager"], executable=request["program"], env=environment(request, node),
                               stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/run")
    try:
        watched, results = Node(request), []
        for change in request["changes"]:
            start = len(watched.seen)
            watched.set_labels({CONFIG: change, STATE: None})
            results.append({"change": change, "ended": process.poll()} | told(watched.settle(process, start))
                           | {"geometry": geometry(request, node)})
        return {"results": results, "log": (node.folder / "log").read_text(errors="replace")[-4000:]}
    finally:
        process.kill()
        process.wait()
        bus.kill()
        bus.wait()


def main():
    request = json.load(sys.stdin)
    with tempfile.TemporaryDirectory(prefix="node-differential-", dir="/tmp") as folder:
        node = SimulatedNode(pathlib.Path(folder, "node"), request["programs"], request["description"])
        # In a folder of its own, as a mounted ConfigMap: what else happens in it means something.
        (node.folder / "config").mkdir()
        (node.folder / "config/config.yaml").write_text(request["config"])
        json.dump(node.run_inside(lambda: run(request, node)), sys.stdout)


if __name__ == "__main__":
    main()
