"""Hostile requests: what a pod's or an image's author can put into a bundle's config.json.

Each attack returns the members of config.json. The low-level runtime is a program that does nothing.
"""

import json
import os
import pathlib
import stat
import subprocess
import sys

from world import CONTAINER_ID, PATIENCE, limit

ATTACKS = []
CHANNEL, DISK = (511, 3), (511, 7)  # of no driver
CONTROLS = "\n".join(["x", "unresolvable CDI devices FORGED", "time=now level=info msg=FORGED", "\x1b[2J"])


def attack(function):
    ATTACKS.append(function)
    return function


def asking(devices, *more):
    return {"process": {"env": ["PATH=/bin", f"NVIDIA_VISIBLE_DEVICES={devices}", *more]}}


def specification_elsewhere(w):
    """One that the container's author could write, in a volume: with the host's files in it."""
    (w.outside / "evil.json").write_text(json.dumps({
        "cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "evil", "containerEdits": {"env": ["A=B"]}}],
        "containerEdits": {"mounts": [{"hostPath": str(w.outside / "secret"), "containerPath": "/stolen"}]}}))


@attack
def a_path_in_the_environment(w):
    specification_elsewhere(w)
    return asking("../outside/evil")


@attack
def an_absolute_path_in_the_environment(w):
    specification_elsewhere(w)
    return asking(f"{w.outside}/evil")


@attack
def a_path_in_an_annotation(w):
    specification_elsewhere(w)
    return asking("void") | {"annotations": {"cdi.k8s.io/x": "nvidia.com/gpu=../outside/evil"}}


@attack
def a_path_in_a_volume_mount(w):
    specification_elsewhere(w)
    return asking("void") | {"mounts": [{"source": "/dev/null", "destination":
                                         "/var/run/nvidia-container-devices/../outside/evil"}]}


@attack
def lines_and_escapes_in_the_environment(w):
    return asking(CONTROLS)


@attack
def lines_and_escapes_in_an_annotation(w):
    return asking("void") | {"annotations": {"cdi.k8s.io/x": f"nvidia.com/gpu={CONTROLS}"}}


@attack
def lines_and_escapes_in_a_volume_mount(w):
    return asking("void") | {"mounts": [{"source": "/dev/null", "destination":
                                         f"/var/run/nvidia-container-devices/{CONTROLS}"}]}


@attack
def a_requirement_that_is_a_command(w):
    return asking("gpu", f"NVIDIA_REQUIRE_CUDA=$(touch {w.outside}/mark)")


@attack
def as_many_names_as_a_pod_has_room_for(w):
    return asking(",".join(str(number) for number in range(150000)))


def channel(w):
    """What stands on the host's own /dev: an IMEX channel, and beside it a disk."""
    w.mode = "jit-cdi"
    dev = w.folder / "driver/dev"
    (dev / "nvidia-caps-imex-channels").mkdir(parents=True)
    os.mknod(dev / "nvidia-caps-imex-channels/channel0", stat.S_IFCHR | 0o600, os.makedev(*CHANNEL))
    os.mknod(dev / "disk", stat.S_IFCHR | 0o600, os.makedev(*DISK))


def asking_for_a_channel(w):
    channel(w)
    return asking("gpu", "NVIDIA_IMEX_CHANNELS=0")


@attack
def a_path_in_the_place_of_a_channel(w):
    """CVE-2024-0136"""
    channel(w)
    (w.folder / "driver/dev/nvidia-caps-imex-channels/channel").mkdir()
    return asking("gpu", "NVIDIA_IMEX_CHANNELS=/../../disk")


@attack
def a_path_to_nowhere_and_back_in_the_place_of_a_channel(w):
    """CVE-2024-0136"""
    channel(w)
    return asking("gpu", "NVIDIA_IMEX_CHANNELS=0/../../disk")


@attack
def a_path_in_a_mount_that_names_a_channel(w):
    """CVE-2024-0136"""
    channel(w)
    return asking("gpu") | {"mounts": [{"source": "/dev/null", "destination":
                                        "/var/run/nvidia-container-devices/imex/0/../../disk"}]}


@attack
def the_program_that_follows_is_the_images(w):
    program = w.write("/bin/low-level", f"#!/bin/sh\n: > {w.outside}/mark\n")
    program.chmod(0o755)
    members = asking("gpu")
    members["process"]["env"][0] = f"PATH={program.parent}"
    return members


@attack
def the_configuration_is_a_link(w):
    w.config_is = os.symlink
    return asking("gpu")


@attack
def the_configuration_is_a_file_with_another_name(w):
    w.config_is = os.link
    return asking("gpu")


def run(w, prepare, side):
    folder = w.folder / "cdi"
    folder.mkdir()
    low_level = w.folder / "programs/low-level"
    low_level.parent.mkdir()
    low_level.write_text("#!/bin/sh\n")
    low_level.chmod(0o755)
    members = prepare(w)
    mode = getattr(w, "mode", "cdi")
    (folder / "gpu.json").write_text(json.dumps({
        "cdiVersion": "0.5.0", "kind": "nvidia.com/gpu" if mode == "cdi" else "runtime.nvidia.com/gpu",
        "devices": [{"name": "gpu", "containerEdits": {"env": ["A=B"]}}], "containerEdits": {"env": ["C=D"]}}))
    configuration = w.toolkit / ".config/nvidia-container-runtime/config.toml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(f'accept-nvidia-visible-devices-as-volume-mounts = true\n'
                             f'[nvidia-container-cli]\nroot = "{w.folder}/driver"\n'
                             f'[nvidia-container-runtime]\nmode = "{mode}"\nruntimes = ["low-level"]\n'
                             f'debug = "{w.folder}/log"\n[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["{folder}"]\n')
    (w.folder / "log").touch()
    w.write_config(**members)
    if how := getattr(w, "config_is", None):
        os.rename(w.bundle / "config.json", w.outside / "config.json")
        how(w.outside / "config.json", w.bundle / "config.json")
    w.settle()
    command = [str(w.toolkit / "nvidia-container-runtime")]
    if side == "naive":
        command = [sys.executable, str(pathlib.Path(__file__).with_name("naive_runtime.py")), str(folder),
                   str(w.folder / "log"), str(w.folder / "driver")]
    try:
        done = subprocess.run([*command, "create", "--bundle", str(w.bundle), CONTAINER_ID], capture_output=True,
                              env={"PATH": f"{low_level.parent}:/usr/bin:/bin"}, timeout=PATIENCE[side], preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return ["it did not end"]
    w.log = done.stderr.decode(errors="replace")
    return harm(w)


def harm(w):
    found = w.harm()
    text = (w.bundle / "config.json").read_text()
    linux = json.loads(text).get("linux", {})
    for one in [*linux.get("devices", ()), *linux.get("resources", {}).get("devices", ())]:
        if one.get("allow", True) and (one.get("major"), one.get("minor")) in (DISK, (None, None)):
            found.append(f"the container gets a device of the host's: {one}")
    if "/stolen" in text:
        found.append("the container gets a file of the host's")
    for line in (w.log + (w.folder / "log").read_text()).splitlines():
        if "\x1b" in line or line.startswith(("unresolvable CDI devices FORGED", "time=now")):
            found.append(f"forged: {line!r}")
    return found
