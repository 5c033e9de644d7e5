"""Random bundles, CDI specifications and configurations for runtime.py."""

import json
import os
import stat

import yaml

KINDS = ["nvidia.com/gpu", "management.nvidia.com/gpu", "example.com/net"]
NAMES = ["0", "0", "1", "all", "all", "GPU-5c3a9e32-7f0e-5d6d-8b57-5a4f0e3c2f11", "0:1"]
PREFIXES = [["cdi.k8s.io/"], ["cdi.k8s.io/", "nvidia.cdi.k8s.io/"], []]
PHASES = ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"]
DEVICES_FOLDER = "/var/run/nvidia-container-devices"


def some(rng, values, most=3):
    return [rng.choice(values) for _ in range(rng.randrange(most + 1))]


def maybe(rng, chance=0.5):
    return rng.random() < chance


# CDI specifications.

def node(rng, nodes):
    made = {"path": f"/dev/{rng.choice(['nvidia0', 'nvidia1', 'nvidiactl', 'dri/card0', 'null'])}"}
    how = rng.choice([*["host", "given"] * 4, "host and mode", "pipe", "missing"])
    if how.startswith("host"):
        made["hostPath"] = rng.choice(nodes)
    if how == "given":
        made |= {"type": "c", "major": rng.randrange(1, 300), "minor": rng.randrange(4)}
    if how == "host and mode" or maybe(rng, 0.2):
        made["fileMode"] = rng.choice([0o666, 0o660, 0o600])
    if how == "pipe":
        made["type"] = "p"
        made["hostPath"] = nodes[-1]
    if how == "missing" and maybe(rng, 0.8):
        made["path"] = "/dev/null"  # of the host, as every other path would be that has no hostPath
    for member, values in (("permissions", ["r", "rw", "rwm", "m"]), ("uid", [0, 7]), ("gid", [0, 44])):
        if maybe(rng, 0.2):
            made[member] = rng.choice(values)
    return made


def mount_of_spec(rng):
    made = {"hostPath": rng.choice(["/usr/lib/x.so", "/run/socket"]),
            "containerPath": rng.choice(["/usr/lib/x.so", "/etc/vulkan/icd.d/a.json", "/run/socket", "/dev/shm", "/a"])}
    if maybe(rng):
        made["options"] = some(rng, ["ro", "nosuid", "nodev", "rbind", "rprivate"], 4) or ["ro"]
    if maybe(rng, 0.2):
        made["type"] = "bind"
    return made


def hook_of_spec(rng):
    made = {"hookName": rng.choice(PHASES), "path": rng.choice(["/usr/bin/nvidia-cdi-hook", "/bin/h"])}
    if maybe(rng, 0.8):
        made["args"] = ["nvidia-cdi-hook", *some(rng, ["create-symlinks", "--link", "a::/b", "<&>"])]
    if maybe(rng):
        made["env"] = ["NVIDIA_CTK_DEBUG=false"]
    if maybe(rng, 0.2):
        made["timeout"] = rng.choice([1, 5])
    return made


def edits(rng, nodes):
    made = {}
    for member, chance, one in (("env", 0.6, lambda: rng.choice(["A=1", "A=2", "NVIDIA_VISIBLE_DEVICES=void", "B=", "C=x=y"])),
                                ("deviceNodes", 0.5, lambda: node(rng, nodes)),
                                ("mounts", 0.5, lambda: mount_of_spec(rng)), ("hooks", 0.4, lambda: hook_of_spec(rng)),
                                ("additionalGids", 0.2, lambda: rng.choice([0, 44, 109]))):
        if maybe(rng, chance):
            made[member] = [one() for _ in range(rng.randrange(1, 4))]
    return made


def specification(rng, nodes, kind, most):
    """`most`: all names that are asked for."""
    names = list(dict.fromkeys(NAMES if most else some(rng, NAMES, 6) or ["1"]))
    made = {"cdiVersion": "0.7.0", "kind": kind,
            "devices": [{"name": name, "containerEdits": edits(rng, nodes) or {"env": ["X=1"]}} for name in names]}
    if maybe(rng, 0.7):
        made["containerEdits"] = edits(rng, nodes)
    if maybe(rng, 0.1):
        made["devices"][0]["containerEdits"]["netDevices"] = [
            {"hostInterfaceName": rng.choice(["ib0", "ib1"]), "name": rng.choice(["eth1", "eth2"])}]
        made["cdiVersion"] = rng.choice(["1.1.0", "1.0.0"])
    if maybe(rng, 0.1):
        made["devices"][-1]["containerEdits"]["intelRdt"] = {"closID": "guaranteed", "l3CacheSchema": "L3:0=f"}
    if maybe(rng, 0.03):
        made[rng.choice(["kind", "cdiVersion"])] = rng.choice(["", "none", "9.9.9"])
    return made


def write_specifications(rng, folders, nodes):
    for number, kind in enumerate([*KINDS, *some(rng, KINDS, 2)]):
        folder = rng.choice(folders)
        text = specification(rng, nodes, kind, most=maybe(rng, 0.7) and number < len(KINDS))
        if maybe(rng):
            (folder / f"{number}.json").write_text(json.dumps(text))
        else:
            (folder / f"{number}.yaml").write_text(yaml.safe_dump(text))
    if maybe(rng, 0.05):
        (folders[0] / "broken.yaml").write_text("kind: [")


# config.toml.

def configuration(rng, folders, low_level):
    mode = rng.choice(["cdi", "cdi", "cdi", "auto", "auto", "bogus"] if maybe(rng, 0.1) else ["cdi", "auto"])
    return {"accept-nvidia-visible-devices-envvar-when-unprivileged": maybe(rng, 0.7),
            "accept-nvidia-visible-devices-as-volume-mounts": maybe(rng, 0.4),
            "swarm-resource": rng.choice(["", "", "", "DOCKER_RESOURCE_GPU", "R1,R2"]),
            "nvidia-container-runtime": {
                "mode": mode, "runtimes": [str(low_level)],
                "modes": {"cdi": {"annotation-prefixes": rng.choice(PREFIXES), "default-kind": rng.choice(KINDS[:2]),
                                  "spec-dirs": [str(folder) for folder in folders]}}}}


def as_toml(value, path=()):
    plain = "".join(f"{key} = {json.dumps(one)}\n" for key, one in value.items() if not isinstance(one, dict))
    head = f"[{'.'.join(path)}]\n" if path else ""
    return head + plain + "".join(as_toml(one, (*path, key)) for key, one in value.items() if isinstance(one, dict))


# config.json.

def device(rng, qualified):
    name = "none" if maybe(rng, 0.03) else rng.choice(NAMES)
    if qualified or maybe(rng, 0.3):
        return f"{rng.choice(KINDS)}={name}"
    return name


def request(rng, qualified):
    if maybe(rng, 0.15):
        return rng.choice(["", "void", "none", "all", " ", ",", "void,0", "a b", "x/y=z", "nvidia.com/gpu=", "=0"])
    # A name twice is a difference that is known: container-toolkit.md 13 row 1.
    names = list(dict.fromkeys(device(rng, qualified) for _ in range(rng.randrange(1, 4))))
    return rng.choice([",", ",", ", "]).join(names)


def environment(rng, qualified):
    made = ["PATH=/bin", *some(rng, ["A=0", "TERM=xterm", "EMPTY=", "A=again"])]
    for name, chance in (("NVIDIA_VISIBLE_DEVICES", 0.7), ("DOCKER_RESOURCE_GPU", 0.1), ("R1", 0.1), ("R2", 0.1)):
        if maybe(rng, chance):
            made.append(f"{name}={request(rng, qualified)}")
    if maybe(rng, 0.15):
        made.append("CUDA_VERSION=9.0.1")
    if maybe(rng, 0.1):
        made.append("NVIDIA_REQUIRE_CUDA=cuda>=9.0")
    rng.shuffle(made)
    return made


def device_mount(rng):
    rest = rng.choice(["0", "all", "a/b", "imex/0", "cdi/nvidia.com/gpu/0", "cdi/nvidia.com/gpu=1", "cdi/bad",
                       "cdi/example.com/net/all", ""])
    return {"source": rng.choice(["/dev/null", "/dev/null", "/dev/zero"]), "type": "bind",
            "destination": f"{DEVICES_FOLDER}/{rest}".rstrip("/")}


def mounts(rng):
    # None at /: upstream counts it as deep as /dev, so that it may come after it and hide it.
    made = [{"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]}]
    made += some(rng, [{"destination": "/dev/shm", "type": "tmpfs", "source": "shm"},
                       {"destination": "/a/b/c", "type": "bind", "source": "/x", "options": ["rbind"]},
                       {"destination": "/usr/lib/x.so", "type": "bind", "source": "/y"}])
    if maybe(rng, 0.3):
        made += [device_mount(rng) for _ in range(rng.randrange(1, 3))]
    rng.shuffle(made)
    return made


def hooks(rng):
    names = ["/usr/bin/nvidia-container-runtime-hook", "/usr/bin/nvidia-container-toolkit", "/bin/other"]
    return {phase: [{"path": rng.choice(names), "args": ["a", "prestart"]} for _ in range(rng.randrange(1, 3))]
            for phase in PHASES if maybe(rng, 0.2)}


def bundle(rng, configuration):
    # In mode auto other names are generated for by upstream, with a driver that is not there.
    qualified = configuration["nvidia-container-runtime"]["mode"] == "auto" or maybe(rng, 0.5)
    process = {"args": ["/bin/true"], "cwd": "/", "env": environment(rng, qualified),
               "user": {"uid": rng.choice([0, 0, 1000]), "gid": rng.choice([0, 0, 100])}}
    if maybe(rng, 0.2):
        process["user"]["additionalGids"] = [44]
    if maybe(rng, 0.7):
        held = ["CAP_CHOWN", *(["CAP_SYS_ADMIN"] if maybe(rng, 0.4) else [])]
        process["capabilities"] = {"bounding": held, "effective": held}
    made = {"ociVersion": "1.0.2", "process": process, "root": {"path": "rootfs"}, "mounts": mounts(rng), "linux": {}}
    if maybe(rng, 0.5):
        made["annotations"] = {rng.choice(["cdi.k8s.io/a", "cdi.k8s.io/b", "nvidia.cdi.k8s.io/c", "other"]):
                               rng.choice([request(rng, True), request(rng, qualified)])
                               for _ in range(rng.randrange(1, 3))}
    if maybe(rng, 0.4):
        made["hooks"] = hooks(rng)
    if maybe(rng, 0.4):
        made["linux"] = {"devices": [{"path": "/dev/nvidia0", "type": "c", "major": 5, "minor": 6}],
                         "resources": {"devices": [{"allow": False, "access": "rwm"}]}}
    return made


def make_nodes(folder):
    """Device nodes of the host, the last one a pipe."""
    nodes = []
    for number, mode in enumerate((0o666, 0o660)):
        nodes.append(str(folder / f"nvidia{number}"))
        os.mknod(nodes[-1], stat.S_IFCHR | mode, os.makedev(195, number))
        os.chmod(nodes[-1], mode)
    nodes.append(str(folder / "pipe"))
    os.mkfifo(nodes[-1], 0o600)
    os.chmod(nodes[-1], 0o600)
    return nodes
