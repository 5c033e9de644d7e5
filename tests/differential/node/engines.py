#!/usr/bin/env python3
"""Compares what Pitcrew's nvidia-ctk and another one make of configurations of container engines with `runtime
configure`: those that the toolkit's golden cases and the corpora of the fuzz targets have, and random ones, of containerd
(versions 1 to 3 of the file), CRI-O and Docker, each with random flags.

Each side works on files of its own; compared are exit statuses and what the files say afterwards. What
docs/differences.md says is taken away before: `enable_cdi` for containerd 2, a drop-in beside a file of version 1, other
features of Docker, and where CRI-O's runtimes of NVIDIA keep the settings that they have. Every other difference is a
failure.

The other side is the program named by $PITCREW_PEER_CTK. Without it the exit status is 77.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import tomllib

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SKIPPED = 77
SECONDS = 60
CRI = {1: ("cri",), 2: ("io.containerd.grpc.v1.cri",), 3: ("io.containerd.cri.v1.runtime",)}


def maybe(rng, chance=0.5):
    return rng.random() < chance


def corpus():
    """(engine, text) of configurations that the tests have."""
    found = []
    for file in sorted(ROOT.glob("src/node/toolkit/tests/data/*/input.yaml")):
        case = yaml.safe_load(file.read_text())
        engine = case.get("options", {}).get("engine", "containerd")
        for text in case.get("files", {}).values():
            if text:
                found.append((file.parent.name, engine, text))
    for engine in ("containerd", "crio", "docker"):
        for file in sorted(ROOT.glob(f"tests/fuzz/corpus/{engine}_config/*")):
            found.append((file.name, engine, file.read_bytes().decode(errors="replace")))
    return [one for one in found if is_read(one[1], one[2])]


def is_read(engine, text):
    try:
        json.loads(text) if engine == "docker" else tomllib.loads(text)
    except ValueError:
        return False
    return True


# Random ones.

def as_toml(value, path=()):
    plain = "".join(f"{json.dumps(key)} = {json.dumps(one)}\n" for key, one in value.items() if not isinstance(one, dict))
    head = f"[{'.'.join(json.dumps(part) for part in path)}]\n" if path else ""
    return head + plain + "".join(as_toml(one, (*path, key)) for key, one in value.items() if isinstance(one, dict))


def containerd(rng):
    version = rng.choice([1, 2, 2, 3, 3])
    made = {} if version == 1 and maybe(rng) else {"version": version}
    if maybe(rng, 0.3):
        made["root"] = "/data/containerd"
    if version != 1 and maybe(rng, 0.3):
        made["imports"] = rng.choice([["/etc/containerd/conf.d/*.toml"], ["/other/*.toml"]])
    names = rng.sample(["runc", "crun", "kata", "nvidia", "nvidia-cdi"], rng.randrange(4))
    runtimes = {}
    for name in names:
        runtimes[name] = {"runtime_type": "io.containerd.runc.v2"}
        if maybe(rng, 0.7):
            runtimes[name]["options"] = {"SystemdCgroup": maybe(rng)}
            if maybe(rng):
                runtimes[name]["options"]["BinaryName"] = f"/usr/bin/{name}"
        if maybe(rng, 0.2):
            runtimes[name]["container_annotations"] = ["own/*"]
        if maybe(rng, 0.2):
            runtimes[name]["privileged_without_host_devices"] = True
    tables = {}
    if runtimes:
        tables["runtimes"] = runtimes
    if maybe(rng, 0.4):
        tables["default_runtime_name"] = rng.choice([*names, "runc"])
    if maybe(rng, 0.3):
        tables["snapshotter"] = "overlayfs"
    cri = {"containerd": tables} if tables else {}
    if maybe(rng, 0.3):
        cri["enable_cdi"] = maybe(rng)
    if version != 3 and maybe(rng, 0.3):
        cri["sandbox_image"] = "registry.k8s.io/pause:3.9"
        cri["registry"] = {"config_path": "/etc/containerd/certs.d"}
    if cri:
        made["plugins"] = {CRI[version][0]: cri}
    return as_toml(made)


def crio(rng):
    names = rng.sample(["runc", "crun", "nvidia"], rng.randrange(4))
    runtime = {}
    if maybe(rng):
        runtime["default_runtime"] = rng.choice([*names, "crun"])
    if maybe(rng, 0.3):
        runtime["pids_limit"] = 1024
    if names:
        runtime["runtimes"] = {name: {"runtime_path": f"/usr/bin/{name}", "runtime_type": "oci"} |
                               ({"monitor_path": "/usr/bin/conmon"} if maybe(rng) else {}) for name in names}
    return as_toml({"crio": {"runtime": runtime}} if runtime else {})


def docker(rng):
    made = {}
    if maybe(rng, 0.4):
        made["runtimes"] = {name: {"path": f"/usr/bin/{name}", "args": []} for name in rng.sample(["nvidia", "crun"], 1)}
    if maybe(rng, 0.3):
        made["default-runtime"] = rng.choice(["runc", "nvidia", "crun"])
    if maybe(rng, 0.3):
        made["features"] = {"buildkit": True}
    if maybe(rng, 0.3):
        made["log-opts"] = {"max-size": "10m"}
    return json.dumps(made)


MAKERS = {"containerd": containerd, "crio": crio, "docker": docker}


def flags(rng, engine):
    words = [f"--runtime={engine}"]
    if maybe(rng, 0.4):
        words.append("--set-as-default")
    if maybe(rng, 0.4) and engine != "crio":
        words.append("--cdi.enabled")
    if maybe(rng, 0.3):
        words.append("--nvidia-runtime-name=gpu")
    if maybe(rng, 0.3):
        words.append("--nvidia-runtime-path=/opt/bin/nvidia-container-runtime")
    return words


# What both make of it.

def parsed(path, engine):
    if not path.exists():
        return None
    return json.loads(path.read_text()) if engine == "docker" else tomllib.loads(path.read_text())


def one_side(program, folder, engine, text, words, has_drop_in):
    for path in folder.iterdir():
        path.unlink()
    config, drop_in = folder / "config", folder / "99-nvidia.toml"
    if text is not None:
        config.write_text(text)
    words = [*words, f"--config={config}"]
    if engine != "docker":
        words.append(f"--drop-in-config={drop_in if has_drop_in else ''}")
    done = subprocess.run([program, "runtime", "configure", *words], capture_output=True, text=True, timeout=SECONDS,
                          env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}, check=False)
    if done.returncode != 0:
        return {"status": "refused"}, done.stderr.strip()[-300:]
    return {"status": "done", "config": parsed(config, engine), "drop-in": parsed(drop_in, engine)}, ""


def merged(under, over):
    """As if both were one file."""
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    return under | {key: merged(under.get(key), one) for key, one in over.items()}


def tables_of(file):
    """Of a file of containerd, version 1."""
    return file.get("plugins", {}).get(CRI[1][0], {}).get("containerd", {})


def as_one_file(under, over):
    """What the drop-in `over` would be in the file `under` of containerd, version 1: a runtime is written whole, and is no
    longer the default where it does not become it."""
    runtimes = tables_of(over).get("runtimes", {})
    for name in runtimes:
        tables_of(under).get("runtimes", {}).pop(name, None)
    if tables_of(under).get("default_runtime_name") in runtimes:
        del tables_of(under)["default_runtime_name"]
    return merged(under, over)


def keeps_settings(text):
    """Whether the file of CRI-O does not tell what its default runtime is like, other than NVIDIA's."""
    runtime = tomllib.loads(text).get("crio", {}).get("runtime", {})
    default = runtime.get("default_runtime", "")
    return default.startswith("nvidia") or default not in runtime.get("runtimes", {})


def without_accepted(side, engine, text):
    """What docs/differences.md says is taken away from what one side has made."""
    if side["status"] != "done":
        return side
    if engine == "docker":
        (side["config"] or {}).pop("features", None)
    if engine == "crio" and keeps_settings(text):
        for file in (side["config"], side["drop-in"]):
            for name in ("nvidia", "gpu"):
                settings = (file or {}).get("crio", {}).get("runtime", {}).get("runtimes", {}).get(name, {})
                settings.pop("monitor_path", None)
    if engine != "containerd":
        return side
    version = tomllib.loads(text).get("version", 1)
    if version >= 3:
        for file in (side["config"], side["drop-in"]):
            tables = ((file or {}).get("plugins", {}).get(CRI[3][0], {}))
            if tables.get("enable_cdi") is True:
                tables.pop("enable_cdi")
    if version != 1:
        return side
    whole = as_one_file(side["config"] or {}, side["drop-in"] or {})
    whole.pop("imports", None)
    return {"status": "done", "both": {"version": 1} | whole}


def leaves(value, path=""):
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from leaves(one, f"{path}/{key}")
    else:
        yield path, value


def differences(ours, theirs):
    left, right = dict(leaves(ours)), dict(leaves(theirs))
    return [(name, left.get(name), right.get(name)) for name in sorted(left.keys() | right.keys())
            if left.get(name) != right.get(name)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=str(ROOT / "build/release/bin"), help="the folder of Pitcrew's programs")
    parser.add_argument("--cases", type=int, default=100, metavar="N", help="how many random configurations (100)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first (1)")
    arguments = parser.parse_args()
    peer = os.environ.get("PITCREW_PEER_CTK")
    if not peer:
        print("skipped: PITCREW_PEER_CTK names no program to compare with")
        return SKIPPED
    cases = corpus()
    known = len(cases)
    for number in range(arguments.cases):
        engine = random.Random(f"{arguments.seed} {number}").choice(sorted(MAKERS))
        text = MAKERS[engine](random.Random(f"{arguments.seed} {number} text"))
        cases.append((f"random {number}", engine, text))
    wrong = written = accepted = 0
    with tempfile.TemporaryDirectory(prefix="pitcrew-configurations-") as name:
        ours = pathlib.Path(name, "nvidia-ctk")
        ours.symlink_to(pathlib.Path(arguments.programs, "pitcrew").resolve())
        folder = pathlib.Path(name, "etc")
        folder.mkdir()
        for number, (title, engine, text) in enumerate(cases):
            rng = random.Random(f"{arguments.seed} flags {number}")
            # Without one, the other side's containerd gets no runtime at all.
            words, has_drop_in = flags(rng, engine), engine == "containerd" or maybe(rng, 0.7)
            sides = [one_side(program, folder, engine, text, words, has_drop_in) for program in (ours, peer)]
            written += sides[1][0]["status"] == "done"
            given = differences(sides[0][0], sides[1][0])
            left = differences(*(without_accepted(side, engine, text) for side, _ in sides))
            if not left:
                accepted += bool(given)
                continue
            wrong += 1
            print(f"{title}: {' '.join(words)}{'' if has_drop_in else ' (no drop-in)'} {sides[0][1]} {sides[1][1]}")
            for where, one, other in left[:12]:
                print(f"    {where}: ours {one!r}, theirs {other!r}")
            print("    " + text.replace("\n", "\n    "), flush=True)
    print(f"{known} configurations of tests and {arguments.cases} random ones, {written} written by the other side: "
          f"{wrong} differ, {accepted} as documented")
    return 1 if wrong or written * 2 < len(cases) else 0


if __name__ == "__main__":
    sys.exit(main())
