#!/usr/bin/env python3
"""Compares Pitcrew's nvidia-container-runtime with another one in the modes auto and jit-cdi, or another mode, on random
simulated nodes: containers that ask for GPUs, MIG devices, IMEX channels and devices beside GPUs by their environment.
In the mode csv the nodes have the lists of a Tegra system, and what these name, instead of MIG devices. In the mode
legacy the other side leaves most to a hook that it adds, even where no GPU is asked for: what it puts into config.json
itself, but for that hook, has to be in ours.

The other side looks all of it up for each container. Ours takes it from a specification of the kind
runtime.nvidia.com/gpu, which the toolkit keeps; here our nvidia-ctk makes it. Compared are whether the low-level runtime
is called, and the config.json that it finds. What docs/differences.md says is taken away before: the driver's root in
front of links in a container, what two equal hooks do twice, and a rule for a device that stands twice.

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
import cdi  # noqa: E402
from cdi_side import lay_out  # noqa: E402
from simulated_node import LIBRARIES, SimulatedNode  # noqa: E402

SKIPPED = 77
SECONDS = 60
HOOK = "/usr/bin/nvidia-cdi-hook"
CUDA = "13.0"  # of the simulated driver
NODES = ("nvidia-fs0", "nvidia-caps-imex-channels/channel0", "nvidia-caps-imex-channels/channel3", "gdrdrv",
         "infiniband/uverbs0", "infiniband/rdma_cm", "nvidia-nvswitchctl", "nvidia-nvswitch0")


def maybe(rng, chance=0.5):
    return rng.random() < chance


def bundle(rng, names, mode):
    """`names`: by which a device can be asked for."""
    tegra = mode == "csv"
    # Of "none" the other side makes all devices in the mode csv; what is not there its hook refuses in the mode legacy.
    devices = rng.choice(["all", "void", "", "all" if mode == "legacy" else "17", "all" if tegra else "none", *[
        ",".join(rng.sample(names, rng.randint(1, min(2, len(names))))) for _ in range(8)]])
    # By its kind the other side refuses every device in the mode csv.
    if devices not in ("", "void") and maybe(rng, 0.2) and not tegra:
        devices = ",".join(f"runtime.nvidia.com/gpu={device}" for device in devices.split(","))
    environment = ["PATH=/bin", f"NVIDIA_VISIBLE_DEVICES={devices}"]
    for name in ("NVIDIA_GDS", "NVIDIA_MOFED", "NVIDIA_GDRCOPY", "NVIDIA_NVSWITCH"):
        if maybe(rng, 0.2):
            environment.append(f"{name}={rng.choice(['enabled', 'enabled', 'disabled', '1'])}")
    # As of devices: its hook would.
    if maybe(rng, 0.2) and mode != "legacy":
        environment.append(f"NVIDIA_IMEX_CHANNELS={rng.choice(['0', '3', '0,3', 'channel0', '0,0'])}")
    if maybe(rng, 0.4):
        environment.append(f"NVIDIA_DRIVER_CAPABILITIES={rng.choice(['all', 'compute,utility', 'utility', 'graphics'])}")
    if tegra and maybe(rng, 0.3):
        environment.append(rng.choice(["NVIDIA_REQUIRE_CUDA=cuda>=11.0", "NVIDIA_REQUIRE_CUDA=cuda>=99.0", "CUDA_VERSION=9.0",
                                       "NVIDIA_REQUIRE_CUDA=cuda<13.6 cuda>=11.6,arch=5.3", "NVIDIA_REQUIRE_JETPACK=x"]))
        if maybe(rng, 0.2):
            environment.append("NVIDIA_DISABLE_REQUIRE=true")
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
        unique = {json.dumps(rule, sort_keys=True): rule for rule in rules}
        rules[:] = [unique[text] for text in sorted(unique)]
    return spec


def pieces(spec):
    """What can be added to a config.json, one by one."""
    if spec is None:
        return None
    found = {f"variable {name}={value}" for name, value in spec["process"].get("env", {}).items()}
    found |= {f"group {one}" for one in spec["process"].get("user", {}).get("additionalGids", [])}
    found |= {f"device {one['path']} {one.get('major')}:{one.get('minor')}" for one in spec.get("linux", {}).get("devices", [])}
    found |= {f"mount {one['source']} at {one['destination']}" for one in spec.get("mounts", [])}
    for phase, hooks in spec.get("hooks", {}).items():
        for hook in hooks:
            # Links of one hook can stand in several of the other side.
            words = [word for word in hook.get("args", [])[1:] if word != "--link"]
            found |= {f"{phase} {' '.join(words)}"} if words[:1] != ["create-symlinks"] else {f"link {one}" for one in words[1:]}
    return found


def beside_the_hook(before, ours, theirs):
    """Whether the other side edits more than by its hook; of both sides what that is, of ours only where it is theirs too."""
    left, right = pieces(ours), pieces(theirs)
    if left is None or right is None:
        return False, ours, theirs
    if "prestart prestart" not in right or "prestart prestart" in left:
        return False, {"hook": "prestart prestart" in left}, {"hook": "prestart prestart" in right, "wrong": True}
    added = right - pieces(before) - {"prestart prestart"}
    return bool(added), {"pieces": sorted(left & added)}, {"pieces": sorted(added)}


def write_config(node, folder, mode, accepts):
    config = folder / "config.toml"
    config.write_text(f'accept-nvidia-visible-devices-envvar-when-unprivileged = {str(accepts).lower()}\n'
                      f'[nvidia-container-cli]\nroot = "{node.root}"\n[nvidia-ctk]\npath = "{HOOK}"\n'
                      f'[nvidia-container-runtime]\nmode = "{mode}"\nruntimes = ["{folder}/low-level"]\n'
                      f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["/run/cdi"]\n'
                      f'[nvidia-container-runtime.modes.csv]\nmount-spec-path = "{node.root}/{cdi.LISTS}"\n')
    return config


class Side:
    def __init__(self, program, node, folder, environment):
        self.program, self.node, self.folder, self.environment = program, node, folder, environment

    def run(self, mode, accepts, text):
        config = write_config(self.node, self.folder, mode, accepts)
        bundle_folder = self.folder / "bundle"
        (bundle_folder / "config.json").write_text(text)
        (self.folder / "called").unlink(missing_ok=True)
        done = subprocess.run([self.program, "create", "--bundle", str(bundle_folder), "id"], capture_output=True, text=True,
                              timeout=SECONDS, check=False,
                              env={**self.environment, "NVIDIA_CTK_CONFIG_FILE_PATH": str(config)})
        if not (self.folder / "called").exists():
            return None, done.stderr.strip()[-400:]
        return runtime.in_one_form(json.loads((bundle_folder / "config.json").read_text())), ""


def write_specification(ctk, node, folder, environment, tegra):
    """What the toolkit would keep, and the names of its devices."""
    config = write_config(node, folder, "csv", True)
    words = [f"--config={config}", "cdi", "generate", *(["--mode=csv"] if tegra else []), f"--driver-root={node.root}",
             "--vendor=runtime.nvidia.com", "--class=gpu", f"--nvidia-cdi-hook-path={HOOK}", "--format=json",
             "--device-name-strategy=index", "--device-name-strategy=uuid"]
    done = subprocess.run(["nvidia-ctk", *words], executable=ctk, capture_output=True, text=True, check=False,
                          timeout=SECONDS, cwd="/run", env=environment)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    written = json.loads(done.stdout)
    # The toolkit writes down what requirements of images are held against; nvidia-ctk does not.
    written.setdefault("annotations", {})["runtime.nvidia.com/cuda-version"] = CUDA
    written["cdiVersion"] = max(written["cdiVersion"], "0.7.0")
    pathlib.Path("/run/cdi/runtime.json").write_text(json.dumps(written))
    return [device["name"] for device in written["devices"] if device["name"] != "all"]


def descriptions(rng, tegra):
    """The node's GPUs. Of those of a Tegra system the other modes know nothing."""
    found = [gpu for gpu in cdi.gpus(rng) if tegra or "Thor" not in gpu.get("name", "")] or [{"profile": "L4"}]
    for gpu in found:
        if tegra:
            gpu.pop("mig", None)
    return {"node": "node", "gpus": found[:2] if tegra else found}


def try_node(seed, programs, ours, peer, count, mode, libraries):
    """(mode, environment, error of each side, differences, whether the other side edited) of each bundle."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="pitcrew-runtime-node-", dir="/tmp") as name:
        folder = pathlib.Path(name).resolve()
        node = SimulatedNode(folder / "node", programs, descriptions(rng, mode == "csv"))
        # The simulated NVML finds its state by the environment; no driver has a link of another name like this one.
        for one in (node.root / LIBRARIES).glob("libnvidia-simulation.so.*"):
            one.unlink()
        for index, device in enumerate(NODES):
            if maybe(rng):
                path = node.root / "dev" / device
                path.parent.mkdir(parents=True, exist_ok=True)
                os.mknod(path, 0o20666, os.makedev(241, index))
        if mode == "legacy":
            # One of a name: where there are two, the release 1.20.0 mounts both, and later ones the first.
            lay_out(node.root, {path: one for path, one in cdi.driver_files(rng, libraries).items()
                                if not path.startswith("usr/local/")}, {})
        if mode == "csv":
            files, nodes = cdi.tegra(rng, libraries)
            # A device without any node can be none of a specification.
            files[f"{cdi.LISTS}/devices.csv"] = {"text": files.get(f"{cdi.LISTS}/devices.csv", {}).get("text", "") +
                                                 "dev, /dev/nvidiactl\n"}
            lay_out(node.root, files, {path: one for path, one in nodes.items() if not (node.root / path).exists()})
        (folder / "bundle").mkdir()
        (folder / "low-level").write_text(f"#!/bin/sh\n: > {folder}/called\n")
        (folder / "low-level").chmod(0o755)
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/run", "LD_LIBRARY_PATH": str(node.root / LIBRARIES),
                       "PITCREW_SIMULATION_STATE": str(node.state)}

        def work():
            names = write_specification(f"{programs}/pitcrew", node, folder, environment, mode == "csv")
            found = []
            for _ in range(count):
                chosen = mode or rng.choice(["auto", "jit-cdi"])
                accepts, asked = maybe(rng, 0.7), bundle(rng, names, chosen)
                text = json.dumps(asked)
                (left, our_error), (right, their_error) = (Side(program, node, folder, environment).run(chosen, accepts, text)
                                                           for program in (ours, peer))
                left, right = in_one_form(left, node.root), in_one_form(right, node.root)
                before = in_one_form(runtime.in_one_form(asked), node.root)
                edited = right is not None and right != before
                if chosen == "legacy":
                    edited, left, right = beside_the_hook(before, left, right)
                found.append([chosen, asked["process"]["env"], [our_error, their_error],
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
    parser.add_argument("--mode", choices=["csv", "legacy"], help="another mode than auto and jit-cdi; needs a C compiler")
    arguments = parser.parse_args()
    if reason := runtime.missing():
        print(f"skipped: {reason}")
        return SKIPPED
    peer = os.environ["PITCREW_PEER_CONTAINER_RUNTIME"]
    wrong = edited = 0
    with tempfile.TemporaryDirectory(prefix="pitcrew-runtime-libraries-") as name:
        libraries = cdi.Libraries(pathlib.Path(name)) if arguments.mode else None
        for number in range(arguments.nodes):
            seed = f"{arguments.seed} {number}"
            for mode, asked, errors, lines, has_edited in try_node(seed, arguments.programs, arguments.ours, peer,
                                                                   arguments.bundles, arguments.mode, libraries):
                edited += has_edited
                if lines:
                    wrong += 1
                    print(f"node {seed}, mode {mode}: {' '.join(asked[1:])}\n  " +
                          "\n  ".join([*filter(None, errors), *lines[:12]]), flush=True)
    bundles = arguments.nodes * arguments.bundles
    print(f"{arguments.nodes} nodes, {bundles} containers, {edited} edited by the other side: {wrong} differ")
    # Containers that never come so far compare nothing.
    return 1 if wrong or edited * 3 < bundles else 0


if __name__ == "__main__":
    sys.exit(main())
