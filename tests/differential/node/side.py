#!/usr/bin/env python3
"""One case on one side: reads {"case", "programs", "plugin", "discovery", "until"} from standard input and writes what
the kubelet and node feature discovery were told to standard output, as JSON.

Needs root: the programs run in a mount namespace with a simulated node of their own.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from kubelet_side import Kubelet, KubeletEnded  # noqa: E402
from simulated_node import LIBRARIES, SimulatedNode  # noqa: E402

SOCKETS = "/var/lib/kubelet/device-plugins"
# How long a plugin may take until it has registered what it has, and how long none must follow for that to be all.
START_SECONDS, QUIET_SECONDS = 20, 0.25
# A plugin that registers nothing and stays is idle; that is known only by waiting.
IDLE_SECONDS = 2.5


class Programs:
    """Starts programs for one case, and ends them."""

    def __init__(self, node):
        self.node = node
        self.log = open(node.folder / "log", "w+b")

    def environment(self, variables):
        own = {"PATH": f"{self.node.root}/usr/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/run",
               "NODE_NAME": "node", "NAMESPACE": "default", "NO_PROXY": "*"}
        places = {"{root}": str(self.node.root), "{libraries}": str(self.node.root / LIBRARIES)}
        for place, folder in places.items():
            variables = {name: value.replace(place, folder) for name, value in variables.items()}
        return own | variables

    def start(self, program, name, flags, variables):
        return subprocess.Popen([name, *flags], executable=program, env=self.environment(variables),
                                stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd="/run")

    def text(self):
        self.log.flush()
        return (self.node.folder / "log").read_text(errors="replace")[-3000:]


def end(process):
    if process.poll() is None:
        process.kill()
    process.wait()


def write_config(node, part):
    """The part's configuration file, and its options that name it."""
    if part.get("config") is None:
        return {}
    file = node.folder / "config.yaml"
    file.write_text(part["config"])
    return {"CONFIG_FILE": str(file)}


def questions(rng, ids, count):
    """What a kubelet might ask of a resource with these devices, and a little that it never would."""
    for _ in range(count):
        size = rng.choice([1, 1, 2, 3, 4, min(len(ids), rng.randint(1, 8))])
        containers = [rng.sample(ids, min(size, len(ids))) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        if rng.random() < 0.08:
            containers[-1] = containers[-1] + [rng.choice(["GPU-00000000-0000-0000-0000-000000000000", "", "0"])]
        if rng.random() < 0.05:
            containers[0] = []
        yield {"allocate": containers}
    for _ in range(count):
        # The padding of partitions that do not divide evenly makes many GPUs take upstream minutes.
        available = rng.sample(ids, rng.randint(1, len(ids)))
        must = rng.sample(available, rng.choice([0, 0, 0, min(1, len(available)), min(2, len(available))]))
        size = rng.choice([1, 2, 4, len(must), len(must) + 1, len(available), rng.randint(1, len(available))])
        if rng.random() < 0.06:
            size = rng.choice([0, len(available) + 1])
        if rng.random() < 0.04:
            available = available + ["GPU-00000000-0000-0000-0000-000000000000"]
        if len(ids) > 8 and "::" not in ids[0]:
            available, size = available[:8], min(size, 4)
            must = [one for one in must if one in available]
        yield {"prefer": {"available": available, "must_include": must, "size": size}}


def ask_all(kubelet, plugin, case, result):
    """The case's questions about each resource. The same devices are asked about in the same way."""
    for resource in sorted(kubelet.registered):
        ids = sorted(device["id"] for device in kubelet.listed(resource))
        if not ids:
            continue
        answers = result["answers"].setdefault(resource, [])
        for question in questions(random.Random(f"{case['seed']}/{resource}"), ids, case["questions"]):
            if plugin.poll() is not None:
                answers.append({"question": question, "ended": plugin.returncode})
                return
            try:
                answer = kubelet.ask(resource, **question)
            except KubeletEnded as error:
                answer = {"silent": str(error)}
            if "error" in answer:
                # The process may be on its way out.
                time.sleep(0.02)
            answers.append({"question": question} | answer)


def incidents(kubelet, plugin, node, case, result):
    """After each incident the health of all devices, as soon as it is what the incident leads to."""
    if not case.get("incidents"):
        return
    uuids = [word for word in node.gpu("list").split() if word.startswith("GPU-")]
    expected = set()
    for incident in case["incidents"]:
        expected |= {uuids[index] for index in incident["loud"]}

        def seen():
            return {device["id"] for resource in kubelet.lists for device in kubelet.listed(resource)
                    if not device["healthy"]} >= expected
        # A plugin may register for events only after it has answered the kubelet: an XID before that is lost.
        for _ in range(8):
            for words in incident["gpu"]:
                node.gpu(*words)
            if kubelet.wait(seen, 1, lambda: plugin.poll() is not None):
                break
        result["incidents"].append({
            resource: {device["id"]: device["healthy"] for device in kubelet.listed(resource)}
            for resource in sorted(kubelet.lists)})


def cdi_files():
    """Devices and device nodes of what the plugin wrote for the runtime."""
    found = {}
    for file in sorted(pathlib.Path("/run/cdi").iterdir()):
        spec = json.loads(file.read_text())
        found[file.name] = {"kind": spec["kind"], "devices": {
            device["name"]: sorted(node["path"] for node in device["containerEdits"].get("deviceNodes", []))
            for device in spec["devices"]}}
    return found


def run_plugin(program, programs, node, case, kubelet_program):
    part = case["plugin"]
    result = {"registered": {}, "lists": {}, "answers": {}, "incidents": [], "ended": None}
    kubelet = Kubelet(kubelet_program, SOCKETS)
    plugin = programs.start(program, "nvidia-device-plugin", part["flags"], part["env"] | write_config(node, part))
    try:
        hint = part["resources"]
        ended = (lambda: plugin.poll() is not None)
        kubelet.wait(lambda: len(kubelet.registered) >= max(hint, 1), START_SECONDS if hint else IDLE_SECONDS, ended)
        count = -1
        while count != len(kubelet.registered):
            count = len(kubelet.registered)
            kubelet.wait(lambda: len(kubelet.registered) > count, QUIET_SECONDS, ended)  # pylint: disable=W0640
        kubelet.wait(lambda: set(kubelet.lists) >= set(kubelet.registered), 5, ended)
        result["registered"] = dict(kubelet.registered)
        result["lists"] = {resource: kubelet.listed(resource) for resource in sorted(kubelet.lists)}
        if set(kubelet.lists) >= set(kubelet.registered):
            ask_all(kubelet, plugin, case, result)
            incidents(kubelet, plugin, node, case, result)
        result["cdi"] = cdi_files()
        result["ended"] = plugin.poll()
    finally:
        end(plugin)
        kubelet.end()
    return result


def run_discovery(program, programs, node, case):
    part = case["discovery"]
    output = node.folder / "labels"
    flags = ["--oneshot", "--use-node-feature-api=false", f"--output-file={output}", *part["flags"]]
    process = programs.start(program, "gpu-feature-discovery", flags, part["env"] | write_config(node, part))
    try:
        status = process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        status = "still running"
    end(process)
    lines = output.read_text().splitlines() if output.exists() else []
    labels = dict(line.partition("=")[::2] for line in lines)
    if "nvidia.com/gfd.timestamp" in labels:
        labels["nvidia.com/gfd.timestamp"] = "<time>"
    return {"ended": status, "labels": labels}


def inside(request, folder, node):
    """What both programs tell, in the mount namespace of the node."""
    case = request["case"]
    programs = Programs(node)
    result = {}
    if "plugin" in case:
        result["plugin"] = run_plugin(request["plugin"], programs, node, case, folder / "test_kubelet")
    if "discovery" in case:
        result["labels"] = []
        for _ in range(case.get("attempts", 1)):
            result["labels"].append(run_discovery(request["discovery"], programs, node, case))
            if result["labels"][-1] == request.get("until"):
                break
    result["log"] = programs.text()
    return result


def run(request):
    case = request["case"]
    with tempfile.TemporaryDirectory(prefix="node-differential-", dir="/tmp") as folder:
        programs_folder = pathlib.Path(request["programs"])
        node = SimulatedNode(pathlib.Path(folder, "node"), programs_folder, case["description"],
                             case.get("driver", True))
        for words in case.get("before", []):
            node.gpu(*words)
        return node.run_inside(lambda: inside(request, programs_folder, node))


if __name__ == "__main__":
    print(json.dumps(run(json.load(sys.stdin))))
