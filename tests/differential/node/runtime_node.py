#!/usr/bin/env python3
"""Compares Pitcrew's nvidia-container-runtime with another one in the modes auto and jit-cdi, on random simulated nodes:
containers that ask for GPUs, MIG devices, IMEX channels and devices beside GPUs by their environment.

The other side looks all of it up for each container. Ours takes it from a specification of the kind
runtime.nvidia.com/gpu, which the toolkit keeps; here our nvidia-ctk makes it. Compared are whether the low-level runtime
is called, and the config.json that it finds. What docs/differences.md says is taken away before: the driver's root in
front of links in a container, what two equal hooks do twice, and a rule for a device that stands twice; "none" is not
asked for.

The other side is the program named by $PITCREW_PEER_CONTAINER_RUNTIME. Without it, or without root, the exit status is
77.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))

import runtime  # noqa: E402
from cdi import gpus  # noqa: E402
from simulated_node import LIBRARIES, SimulatedNode  # noqa: E402

SKIPPED = 77
SECONDS = 60
HOOK = "/usr/bin/nvidia-cdi-hook"
NODES = ("nvidia-fs0", "nvidia-caps-imex-channels/channel0", "nvidia-caps-imex-channels/channel3", "gdrdrv",
         "infiniband/uverbs0", "infiniband/rdma_cm", "nvidia-nvswitchctl", "nvidia-nvswitch0")


def maybe(rng, chance=0.5):
    return rng.random() < chance


def bundle(rng, names):
    """`names`: by which a device can be asked for."""
    devices = rng.choice(["all", "void", "", "17", *[",".join(rng.sample(names, rng.randint(1, min(2, len(names)))))
                                                            for _ in range(8)]])
    if devices not in ("", "void") and maybe(rng, 0.2):
        devices = ",".join(f"runtime.nvidia.com/gpu={device}" for device in devices.split(","))
    environment = ["PATH=/bin", f"NVIDIA_VISIBLE_DEVICES={devices}"]
    for name in ("NVIDIA_GDS", "NVIDIA_MOFED", "NVIDIA_GDRCOPY", "NVIDIA_NVSWITCH"):
        if maybe(rng, 0.2):
            environment.append(f"{name}={rng.choice(['enabled', 'enabled', 'disabled', '1'])}")
    if maybe(rng, 0.2):
        environment.append(f"NVIDIA_IMEX_CHANNELS={rng.choice(['0', '3', '0,3', 'channel0', '0,0'])}")
    if maybe(rng, 0.4):
        environment.append(f"NVIDIA_DRIVER_CAPABILITIES={rng.choice(['all', 'compute,utility', 'utility', 'none'])}")
    held = ["CAP_CHOWN", *(["CAP_SYS_ADMIN"] if maybe(rng, 0.4) else [])]
    return {"ociVersion": "1.0.2", "root": {"path": "rootfs"}, "linux": {},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
                       {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}],
            "process": {"args": ["/bin/true"], "cwd": "/", "env": environment, "capabilities": {"bounding": held},
                        "user": {"uid": rng.choice([0, 1000]), "gid": 0}}}


def in_one_form(spec, root):
    """With what docs/differences.md says taken away; rules that only allow have no order, and twice they allow no more."""
    if spec is None:
        return None
    spec = json.loads(json.dumps(spec).replace(f"::{root}/", "::/").replace(str(root), "/driver-root"))
    for phase, hooks in spec.get("hooks", {}).items():
        spec["hooks"][phase] = [hook for at, hook in enumerate(hooks) if hook not in hooks[:at]]
    if rules := spec.get("linux", {}).get("resources", {}).get("devices"):
        told = {json.dumps(rule, sort_keys=True) for rule in rules}
        spec["linux"]["resources"]["devices"] = [json.loads(rule) for rule in sorted(told)]
    return spec


class Side:
    def __init__(self, program, node, folder, environment):
        self.program, self.node, self.folder, self.environment = program, node, folder, environment

    def run(self, mode, accepts, text):
        config = self.folder / "config.toml"
        config.write_text(f'accept-nvidia-visible-devices-envvar-when-unprivileged = {str(accepts).lower()}\n'
                          f'[nvidia-container-cli]\nroot = "{self.node.root}"\n[nvidia-ctk]\npath = "{HOOK}"\n'
                          f'[nvidia-container-runtime]\nmode = "{mode}"\nruntimes = ["{self.folder}/low-level"]\n'
                          f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["/run/cdi"]\n')
        bundle_folder = self.folder / "bundle"
        (bundle_folder / "config.json").write_text(text)
        (self.folder / "called").unlink(missing_ok=True)
        done = subprocess.run([self.program, "create", "--bundle", str(bundle_folder), "id"], capture_output=True, text=True,
                              timeout=SECONDS, check=False,
                              env={**self.environment, "NVIDIA_CTK_CONFIG_FILE_PATH": str(config)})
        if not (self.folder / "called").exists():
            return None, done.stderr.strip()[-400:]
        return runtime.in_one_form(json.loads((bundle_folder / "config.json").read_text())), ""


def write_specification(ctk, node, environment):
    """What the toolkit would keep, and the names of its devices."""
    done = subprocess.run(["nvidia-ctk", "cdi", "generate", f"--driver-root={node.root}", "--vendor=runtime.nvidia.com",
                           "--class=gpu", f"--nvidia-cdi-hook-path={HOOK}", "--format=json", "--device-name-strategy=index",
                           "--device-name-strategy=uuid"], executable=ctk, capture_output=True, text=True, check=False,
                          timeout=SECONDS, cwd="/run", env=environment)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    pathlib.Path("/run/cdi/runtime.json").write_text(done.stdout)
    return [device["name"] for device in json.loads(done.stdout)["devices"] if device["name"] != "all"]


def try_node(seed, programs, ours, peer, count):
    """(mode, environment, error of each side, differences, whether the other side edited) of each bundle."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="pitcrew-runtime-node-", dir="/tmp") as name:
        folder = pathlib.Path(name).resolve()
        found = [gpu for gpu in gpus(rng) if "Thor" not in gpu.get("name", "")]
        node = SimulatedNode(folder / "node", programs, {"node": "node", "gpus": found or [{"profile": "L4"}]})
        # The simulated NVML finds its state by the environment; no driver has a link of another name like this one.
        for one in (node.root / LIBRARIES).glob("libnvidia-simulation.so.*"):
            one.unlink()
        for index, device in enumerate(NODES):
            if maybe(rng):
                path = node.root / "dev" / device
                path.parent.mkdir(parents=True, exist_ok=True)
                os.mknod(path, 0o20666, os.makedev(241, index))
        (folder / "bundle").mkdir()
        (folder / "low-level").write_text(f"#!/bin/sh\n: > {folder}/called\n")
        (folder / "low-level").chmod(0o755)
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/run", "LD_LIBRARY_PATH": str(node.root / LIBRARIES),
                       "PITCREW_SIMULATION_STATE": str(node.state)}

        def work():
            names = write_specification(f"{programs}/pitcrew", node, environment)
            found = []
            for _ in range(count):
                mode, accepts, asked = rng.choice(["auto", "jit-cdi"]), maybe(rng, 0.7), bundle(rng, names)
                text = json.dumps(asked)
                (left, our_error), (right, their_error) = (Side(program, node, folder, environment).run(mode, accepts, text)
                                                           for program in (ours, peer))
                left, right = in_one_form(left, node.root), in_one_form(right, node.root)
                edited = right is not None and right != in_one_form(runtime.in_one_form(asked), node.root)
                found.append([mode, asked["process"]["env"], [our_error, their_error],
                              [str(one) for one in runtime.differences(left, right)], edited])
            return found
        return node.run_inside(work)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, help="nvidia-container-runtime")
    parser.add_argument("--programs", default=str(ROOT / "build/release/bin"), help="the folder of Pitcrew's programs")
    parser.add_argument("--nodes", type=int, default=10, metavar="N", help="how many nodes (10)")
    parser.add_argument("--bundles", type=int, default=20, metavar="N", help="how many containers on each (20)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first (1)")
    arguments = parser.parse_args()
    if reason := runtime.missing():
        print(f"skipped: {reason}")
        return SKIPPED
    peer = os.environ["PITCREW_PEER_CONTAINER_RUNTIME"]
    wrong = edited = 0
    for number in range(arguments.nodes):
        seed = f"{arguments.seed} {number}"
        for mode, asked, errors, lines, has_edited in try_node(seed, arguments.programs, arguments.ours, peer,
                                                               arguments.bundles):
            edited += has_edited
            if lines:
                wrong += 1
                print(f"node {seed}, mode {mode}: {' '.join(asked[1:])}\n  " + "\n  ".join([*filter(None, errors), *lines[:12]]),
                      flush=True)
    bundles = arguments.nodes * arguments.bundles
    print(f"{arguments.nodes} nodes, {bundles} containers, {edited} edited by the other side: {wrong} differ")
    # Containers that never come so far compare nothing.
    return 1 if wrong or edited * 3 < bundles else 0


if __name__ == "__main__":
    sys.exit(main())
