"""A deliberately careless double of nvidia-container-runtime: what a container asks for is taken at its word.

    naive_runtime.py SPECIFICATIONS LOG DRIVER_ROOT create --bundle BUNDLE ID
"""

import json
import os
import pathlib
import subprocess
import sys

FOLDER = "/var/run/nvidia-container-devices/"


def give_device(config, dev, path):
    """By name: whatever lies there on the host."""
    about = os.stat(os.path.normpath(dev / path.removeprefix("/dev/")))
    numbers = {"major": os.major(about.st_rdev), "minor": os.minor(about.st_rdev)}
    linux = config.setdefault("linux", {})
    linux.setdefault("devices", []).append({"path": path, "type": "c", **numbers})
    rules = linux.setdefault("resources", {}).setdefault("devices", [])
    rules.append({"allow": True, "access": "rwm", "type": "c", **numbers})


def requested(config):
    environment = dict(entry.split("=", 1) for entry in config["process"]["env"])
    found = [name.rpartition("=")[2] for value in config.get("annotations", {}).values() for name in value.split(",")]
    found += [mount["destination"][len(FOLDER):] for mount in config.get("mounts", ())
              if mount["destination"].startswith(FOLDER) and not mount["destination"].startswith(f"{FOLDER}imex/")]
    found += environment.get("NVIDIA_VISIBLE_DEVICES", "").split(",")
    names = []
    for name in found:
        if name and name not in names:
            names.append(name)
    return environment, names


def main():
    specifications, log, root, *_, bundle, _ = sys.argv[1:]
    path = pathlib.Path(bundle, "config.json")
    config = json.loads(path.read_text())
    environment, names = requested(config)
    channels = "/dev/nvidia-caps-imex-channels/channel"
    for channel in filter(None, environment.get("NVIDIA_IMEX_CHANNELS", "").split(",")):
        give_device(config, pathlib.Path(root, "dev"), channels + channel)
    for mount in config.get("mounts", ()):
        if mount["destination"].startswith(f"{FOLDER}imex/"):
            give_device(config, pathlib.Path(root, "dev"), channels + mount["destination"][len(f"{FOLDER}imex/"):])
    for name in names:
        file = pathlib.Path(specifications, name + ".json")
        try:
            edits = json.loads(file.read_text())["containerEdits"]
        except (OSError, ValueError):
            for out in (sys.stderr, open(log, "a")):
                out.write(f"unresolvable CDI devices {name}\n")
            continue
        for mount in edits.get("mounts", ()):
            config.setdefault("mounts", []).append({"source": mount["hostPath"], "destination": mount["containerPath"]})
        config["process"]["env"] += edits.get("env", [])
    for variable, value in environment.items():
        if variable.startswith("NVIDIA_REQUIRE_"):
            subprocess.run(["/bin/sh", "-c", f"test {value}"], stderr=subprocess.DEVNULL)
    path.write_text(json.dumps(config))
    os.environ["PATH"] = environment.get("PATH", "")
    os.execlp("low-level", "low-level")


if __name__ == "__main__":
    main()
