#!/usr/bin/env python3
"""Runs nvidia-ctk of two sides on one simulated node: reads {"description", "programs", "ctk": {side: program}, "files":
{path: content}, "nodes": {path: [major, minor, mode, group]}, "steps": [arguments]} from standard input and writes what
each side gave for each, as JSON. A content is {"text"}, {"link"} or {"copy"}. {root} in arguments is the driver's root.

Needs root, for the mount namespace.
"""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from simulated_node import LIBRARIES, SimulatedNode  # noqa: E402

SECONDS = 60


def lay_out(root, files, nodes):
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink() or target.exists():
            target.unlink()
        if "link" in content:
            target.symlink_to(content["link"])
        elif "copy" in content:
            shutil.copy(content["copy"], target)
        else:
            target.write_text(content["text"])
            target.chmod(0o755)
    for path, (major, minor, mode, group) in nodes.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(target, stat.S_IFCHR, os.makedev(major, minor))
        os.chown(target, 0, group)
        os.chmod(target, mode)


def run(program, arguments, node):
    words = [word.replace("{root}", str(node.root)) for word in arguments]
    done = subprocess.run(["nvidia-ctk", "cdi", "generate", *words], executable=program, capture_output=True, text=True,
                          check=False, timeout=SECONDS, stdin=subprocess.DEVNULL, cwd="/run",
                          env={"PATH": "/usr/bin:/bin", "HOME": "/run", "LD_LIBRARY_PATH": str(node.root / LIBRARIES),
                               "PITCREW_SIMULATION_STATE": str(node.state)})
    return {"status": done.returncode, "stdout": done.stdout.replace(str(node.root), "/driver-root"),
            "stderr": done.stderr[-1500:]}


def main():
    request = json.load(sys.stdin)
    with tempfile.TemporaryDirectory(prefix="node-differential-", dir="/tmp") as folder:
        node = SimulatedNode(pathlib.Path(folder, "node"), request["programs"], request["description"])
        # The simulated NVML finds its state by the environment; no driver has a link of another name like this one.
        for link in (node.root / LIBRARIES).glob("libnvidia-simulation.so.*"):
            link.unlink()
        lay_out(node.root, request["files"], request["nodes"])

        def work():
            return [{side: run(program, arguments, node) for side, program in request["ctk"].items()}
                    for arguments in request["steps"]]
        json.dump(node.run_inside(work), sys.stdout)


if __name__ == "__main__":
    main()
