#!/usr/bin/env python3
"""One nvidia-mig-manager on a simulated node, over a run of label changes: reads {"description", "programs", "program",
"path", "config", "kubeconfig", "port", "token", "node", "changes"} from standard input and writes, for each change, the
values that the node's labels took, in order, as JSON.

Needs root, for the mount namespace.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import label_history  # noqa: E402
from simulated_node import LIBRARIES, SimulatedNode  # noqa: E402

CONFIG, STATE, PAUSED = "nvidia.com/mig.config", "nvidia.com/mig.config.state", "paused-for-mig-change"


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
        watched = label_history.LabelHistory(request["port"], request["token"], request["node"], STATE, PAUSED)
        results = []
        for change in request["changes"]:
            start = len(watched.seen)
            watched.set_labels({CONFIG: change, STATE: None})
            told = label_history.told(watched.settle(process, start), STATE)
            results.append({"change": change, "ended": process.poll()} | told | {"geometry": geometry(request, node)})
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
