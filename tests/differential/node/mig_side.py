#!/usr/bin/env python3
"""Runs nvidia-mig-parted of two sides in turn on one simulated node: reads {"description", "programs", "parted": {side:
program}, "files": {name: text}, "steps": [{"side", "arguments", "gpu"}]} from standard input and writes what each step
gave, as JSON. In arguments {name} is the path of that file. A step with "gpu" is one of pitcrew-simulate gpu.

Needs root, for the mount namespace.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from simulated_node import LIBRARIES, SimulatedNode  # noqa: E402

SECONDS = 120


def environment(node):
    root = node.root
    return {"PATH": f"{root}/usr/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/run",
            "LD_LIBRARY_PATH": str(root / LIBRARIES), "NODE_NAME": "node"}


def run_step(request, node, step):
    if "gpu" in step:
        return {"status": 0, "stdout": node.gpu(*step["gpu"]), "stderr": ""}
    words = []
    for word in step["arguments"]:
        for name in request["files"]:
            word = word.replace("{" + name + "}", str(node.folder / name))
        words.append(word)
    try:
        done = subprocess.run(["nvidia-mig-parted", *words], executable=request["parted"][step["side"]],
                              env=environment(node), capture_output=True, text=True, check=False, timeout=SECONDS,
                              stdin=subprocess.DEVNULL, cwd="/run")
    except subprocess.TimeoutExpired:
        return {"status": "still running", "stdout": "", "stderr": ""}
    result = {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr[-1500:]}
    if step.get("file"):
        written = node.folder / step["file"]
        result["file"] = written.read_text() if written.exists() else None
    return result


def main():
    request = json.load(sys.stdin)
    with tempfile.TemporaryDirectory(prefix="node-differential-", dir="/tmp") as folder:
        node = SimulatedNode(pathlib.Path(folder, "node"), request["programs"], request["description"])
        for name, text in request["files"].items():
            if text is not None:
                (node.folder / name).write_text(text)
        json.dump(node.run_inside(lambda: [run_step(request, node, step) for step in request["steps"]]), sys.stdout)


if __name__ == "__main__":
    main()
