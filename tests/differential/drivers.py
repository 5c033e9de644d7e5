#!/usr/bin/env python3
"""Compares Pitcrew's operator with another one over random sets of NVIDIADriver objects and clusters.

As run.py: both on API servers of their own, with the same nodes. Compared are the objects of all drivers, the
label that says whose driver a node has, whether it is upgraded by itself, and each driver's state. In one set of five
another driver comes for the nodes of one that stands, after which nothing is to change. accepted_drivers.yaml
lists the differences that are meant. The hash in a name is of the object's uid, which no two servers share: it is
computed here, and stands in the comparison as what it is the hash of.

The other operator is $PITCREW_ORACLE (run.py); without it the exit status is 77.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import sys
import time

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import compare  # noqa: E402
import normalise  # noqa: E402
from sides import KINDS, ROOT, Side, oracle_command  # noqa: E402
from apiserver import ApiError  # noqa: E402

DRIVERS = "/apis/nvidia.com/v1alpha1/nvidiadrivers"
POLICY = "cluster-policy"
OWNER = "nvidia.com/gpu-operator.driver.owner"
UPGRADED = "nvidia.com/gpu-driver-upgrade-enabled"
NODE_KEYS = (OWNER, "nvidia.com/gpu.present", UPGRADED)
FEATURE = "feature.node.kubernetes.io/"
SYSTEMS = [("ubuntu", "22.04"), ("ubuntu", "24.04"), ("rhel", "9.4"), ("rhel", "9.5"), ("rocky", "8.10"),
           ("sles", "15.6"), ("rhcos", "4.18")]
KERNELS = ["5.15.0-70-generic", "6.8.0-44-generic", "5.14.0-427.37.1.el9_4.x86_64"]
RHCOS = ["418.94.202501010000-0", "418.94.202502020000-0"]
POOLS = ["training", "inference"]
QUIET_SECONDS = (1.5, 4, 9)
# Of two drivers for the same nodes, and of two defaults.
CONFLICT_REASONS = (["ConflictingNodeSelector"], ["ReconcileFailed"])


def safe_hash(text):
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 % 2 ** 32
    return "".join("bcdfghjklmnpqrstvwxz2456789"[ord(digit) % 27] for digit in str(value))


def random_node(rng, index, openshift):
    system, version = ("rhcos", "4.18") if openshift else rng.choice(SYSTEMS[:-1])
    labels = {FEATURE + "pci-10de.present": "true", FEATURE + "system-os_release.ID": system,
              FEATURE + "system-os_release.VERSION_ID": version,
              FEATURE + "system-os_release.VERSION_ID.major": version.split(".")[0],
              FEATURE + "kernel-version.full": rng.choice(KERNELS)}
    if openshift:
        labels[FEATURE + "system-os_release.OSTREE_VERSION"] = rng.choice(RHCOS)
    if rng.random() < 0.7:
        labels["pool"] = rng.choice(POOLS)
    return {"name": f"gpu-{index}", "labels": labels,
            "runtime": "cri-o://1.31.0" if openshift else "containerd://2.1.4"}


def image(rng, name):
    return {"repository": "registry.example.com/nvidia", "image": name,
            "version": rng.choice(["580.65.06", "570.172.08", "v2.26.6"])}


def random_spec(rng, selector):
    """Of a driver that both can deploy, mostly."""
    spec = image(rng, "driver") | selector

    def maybe(name, make, chance=0.25):
        if rng.random() < chance:
            spec[name] = make()
    env = lambda: [{"name": rng.choice("ABC"), "value": rng.choice(["1", "", "x y"])}]  # noqa: E731
    maybe("driverType", lambda: rng.choice(["gpu", "vgpu", "vgpu-host-manager"]))
    maybe("usePrecompiled", lambda: rng.random() < 0.7, 0.35)
    maybe("kernelModuleType", lambda: rng.choice(["auto", "open", "proprietary"]), 0.5)
    maybe("args", lambda: ["--accept-license", "--x"])
    maybe("env", env)
    maybe("manager", lambda: rng.choice([{"env": env()}, image(rng, "manager") | {"imagePullSecrets": ["m"]}]))
    maybe("rdma", lambda: {"enabled": rng.random() < 0.7, "useHostMofed": rng.random() < 0.5})
    maybe("imagePullPolicy", lambda: rng.choice(["Always", "IfNotPresent"]))
    maybe("imagePullSecrets", lambda: ["a", "b"])
    maybe("annotations", lambda: {"team": "platform"})
    maybe("labels", lambda: {"team": "platform", "app": "x", "app.kubernetes.io/name": "y"})
    maybe("tolerations", lambda: [{"key": "dedicated", "operator": "Exists"}])
    maybe("priorityClassName", lambda: "system-cluster-critical")
    maybe("podSecurityContext", lambda: {"fsGroup": 7})
    maybe("hostNetwork", lambda: True)
    maybe("resources", lambda: {"limits": {"cpu": "2"}, "requests": {"cpu": "200m"}})
    maybe("repoConfig", lambda: {"name": "repo-config"})
    maybe("certConfig", lambda: {"name": "cert-config"})
    maybe("kernelModuleConfig", lambda: {"name": "module-config"})
    maybe("virtualTopologyConfig", lambda: {"name": "topology"})
    maybe("licensingConfig", lambda: {rng.choice(["name", "secretName"]): "licensing-secret",
                                      "nlsEnabled": rng.random() < 0.5})
    maybe("secretEnv", lambda: rng.choice(["driver-secret"] * 4 + ["missing"]))
    maybe("upgradePolicy", lambda: {"autoUpgrade": rng.random() < 0.5})
    if not spec.get("usePrecompiled") or rng.random() < 0.1:
        maybe("gds", lambda: image(rng, "nvidia-fs") | {"enabled": True, "env": env()}, 0.15)
        maybe("gdrcopy", lambda: image(rng, "gdrdrv") | {"enabled": rng.random() < 0.8}, 0.15)
    return spec


def random_case(rng, openshift):
    nodes = [random_node(rng, index, openshift) for index in range(rng.randint(1, 4))]
    drivers = []
    for pool in rng.sample(POOLS, rng.randint(0, 2)):
        drivers.append((f"for-{pool}", random_spec(rng, {"nodeSelector": {"pool": pool}})))
    if rng.random() < 0.7 or not drivers:
        drivers.append((rng.choice(["default", "fallback"]), random_spec(rng, {"default": True})))
    case = {"nodes": nodes, "drivers": drivers}
    if rng.random() < 0.2:  # drawn last: the sets of a seed stay what they were
        opponent, spec = rng.choice(drivers)
        selector = {key: spec[key] for key in ("default", "nodeSelector") if key in spec}
        case |= {"rival": ("rival", random_spec(rng, selector)), "opponent": opponent}
    return case


def observe(side):
    """What the DaemonSet controller would say: every pod runs."""
    for item in side.server.get(KINDS["DaemonSet"])["items"]:
        generation = item["metadata"]["generation"]
        if item["status"].get("observedGeneration") == generation or "deletionTimestamp" in item["metadata"]:
            continue
        numbers = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable",
                   "numberReady")
        try:
            side.server.request("PATCH", f"{KINDS['DaemonSet']}/{item['metadata']['name']}/status",
                                {"status": {"observedGeneration": generation, "numberMisscheduled": 0}
                                 | {name: 1 for name in numbers}}, "application/merge-patch+json")
        except Exception:  # pylint: disable=broad-except  # deleted in the meantime
            pass


def settle(side, quiet_seconds, at_most=60):
    """Until nobody has written anything but statuses for so long."""
    deadline, seen, since = time.monotonic() + at_most, None, time.monotonic()
    while time.monotonic() < deadline:
        observe(side)
        now = (side.revisions(), [item.get("status", {}).get("state") for item in side.server.get(DRIVERS)["items"]])
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > quiet_seconds:
            return
        time.sleep(0.1)


def found_on(side):
    found = {}
    drivers = side.server.get(DRIVERS)["items"]
    names = {}  # hash to what it is of
    for item in drivers:
        uid, name = item["metadata"]["uid"], item["metadata"]["name"]
        names[safe_hash(uid)] = f"<{name}>"
        for part in KERNELS + RHCOS:
            names[safe_hash(f"{uid}-{part}")] = f"<{name}-{part}>"
        status = item.get("status", {})
        error = [c["reason"] for c in status.get("conditions", []) if c["type"] == "Error" and c["status"] == "True"]
        found[f"NVIDIADriver/{name}"] = {"state": status.get("state"), "reasons": error}
    uids = {item["metadata"]["uid"] for item in drivers}
    for kind, path in side.kinds.items():
        for item in side.server.get(path)["items"]:
            owners = item["metadata"].get("ownerReferences", [])
            # Not what an operator has made a moment too late for a driver of the set before.
            if not owners or owners[0]["uid"] not in uids:
                continue
            item["kind"] = kind
            text = json.dumps(normalise.normalise(item))
            for digest, meaning in names.items():
                text = text.replace("-" + digest, "-" + meaning)
            value = json.loads(text)
            found[f"{kind}/{value['metadata']['name']}"] = value
    # Nobody upgrades those, so the annotation that says that somebody does is not ours (docs/differences.md).
    hosts = {item["metadata"]["name"] for item in drivers if item["spec"].get("driverType") == "vgpu-host-manager"}
    for node in side.server.get("/api/v1/nodes")["items"]:
        words = node["metadata"]["labels"] | node["metadata"].get("annotations", {})
        if words.get(OWNER) in hosts:
            words.pop(UPGRADED, None)
        found[f"Node/{node['metadata']['name']}"] = {key: words[key] for key in NODE_KEYS if key in words}
    return found


def clear(side):
    side.set_nodes([])
    for path in (DRIVERS, *side.kinds.values()):
        for item in side.server.get(path)["items"]:
            owners = item["metadata"].get("ownerReferences", [])
            if path == DRIVERS or (owners and owners[0]["kind"] == "NVIDIADriver"):
                try:
                    side.server.delete(f"{path}/{item['metadata']['name']}")
                except ApiError as error:
                    if error.code != 404:  # the operator was faster
                        raise


def create(side, name, spec):
    side.server.create(DRIVERS, {"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver",
                                 "metadata": {"name": name}, "spec": spec})


def has_stopped(found):
    return any(value["reasons"] for name, value in found.items() if name.startswith("NVIDIADriver/"))


def add_rival(sides, workers, case):
    """A driver for the nodes of another one, or a second default: from then on every node and all objects stay as
    they are. Only once all have settled, because what a conflict that is there from the start leaves undone is a
    matter of who was first. Returns what was found before."""
    list(workers.map(lambda side: settle(side, QUIET_SECONDS[1]), sides))
    before = list(workers.map(found_on, sides))
    list(workers.map(lambda side: create(side, *case["rival"]), sides))
    return before


def leave_out_conflict(case, before, ours, theirs):
    """The other operator stops every NVIDIADriver that it looks at while two have the same nodes (docs/differences.md);
    which those are is chance. Of the opponent's nothing is compared; with the others it is as it was before."""
    for one in (ours, theirs):
        one.pop(f"NVIDIADriver/{case['opponent']}", None)
    for name, value in theirs.items():
        if name in before and name.startswith("NVIDIADriver/") and value["reasons"] in CONFLICT_REASONS:
            theirs[name] = before[name]


def check(sides, workers, case, accepted):
    def submit(side):
        side.set_nodes(case["nodes"])
        for name, spec in case["drivers"]:
            create(side, name, spec)
    list(workers.map(submit, sides))
    before = add_rival(sides, workers, case) if "rival" in case else None
    found = []
    for quiet_seconds in QUIET_SECONDS:
        list(workers.map(lambda side: settle(side, quiet_seconds), sides))  # pylint: disable=cell-var-from-loop
        ours, theirs = workers.map(found_on, sides)
        stopped = has_stopped(theirs if before is None else before[1])
        if before is not None:
            leave_out_conflict(case, before[1], ours, theirs)
        found = list(compare.differences(ours, theirs, accepted, stopped))
        if not found:
            break
    list(workers.map(clear, sides))
    return len(theirs), found


def run_flavour(openshift, arguments, accepted, oracle):
    cluster = yaml.safe_load((HERE / "clusters/openshift.yaml").read_text()) if openshift else {}
    places, workers = collections.Counter(), concurrent.futures.ThreadPoolExecutor(2)
    crds = sorted(pathlib.Path(oracle, "crds").glob("*.yaml"))
    policy = yaml.safe_load((HERE / "delegating_policy.yaml").read_text())
    with Side("ours", [arguments.ours, "operator"], (), openshift) as ours, \
            Side("theirs", oracle_command(oracle), crds, openshift) as theirs:
        for side in (ours, theirs):
            side.set_cluster(cluster)
            side.submit(policy)
            side.start()
        for index in range(arguments.sets):
            case = random_case(random.Random(f"{arguments.seed}/{openshift}/{index}"), openshift)
            if arguments.only not in (None, index):
                continue
            count, found = check((ours, theirs), workers, case, accepted)
            print(f"{'openshift' if openshift else 'kubernetes'} #{index}: {len(case['drivers'])} drivers, "
                  f"{len(case['nodes'])} nodes, {count} objects" + (f", {len(found)} differences" if found else ""),
                  flush=True)
            if found:
                print("    " + "\n    ".join(compare.lines(found)) + f"\n    {json.dumps(case)}", flush=True)
            places.update(where for where, _, _ in found)
            places[None] += bool(found)
    return places


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default=str(ROOT / "build/release/bin/pitcrew"), help="the pitcrew program")
    parser.add_argument("--sets", type=int, default=100, help="how many sets of drivers for each kind of cluster")
    parser.add_argument("--only", type=int, help="only the set of this number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", choices=["kubernetes", "openshift"], default=["kubernetes", "openshift"])
    arguments = parser.parse_args()
    oracle = os.environ.get("PITCREW_ORACLE")
    if not oracle:
        print("skipped: no oracle (PITCREW_ORACLE names none)")
        return 77
    accepted = yaml.safe_load((HERE / "accepted_drivers.yaml").read_text())
    places = collections.Counter()
    for kind in arguments.kinds:
        places += run_flavour(kind == "openshift", arguments, accepted, oracle)
    failed = places.pop(None, 0)
    for where, count in places.most_common():
        print(f"{count:5} {where}")
    print(f"{failed} sets differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
