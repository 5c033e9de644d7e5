#!/usr/bin/env python3
"""Pitcrew takes over from another operator, on one cluster: what stands afterwards is what a new installation
makes, nothing of the other is left behind, no DaemonSet is changed that need not be, and then it is quiet.

The other operator is named by $PITCREW_ORACLE (see run.py). Without it the exit status is 77. Between the two
the policy changes, while no operator runs: what it no longer wants has to go as well.
"""

import argparse
import os
import pathlib
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import normalise  # noqa: E402
from sides import POLICIES, ROOT, Side, is_owned, oracle_command  # noqa: E402

SKIPPED = 77
OTHER_MANAGER = "gpu-operator"
REQUIRED = ("daemonsets", "dcgm", "dcgmExporter", "devicePlugin", "driver", "gfd", "nodeStatusExporter", "operator",
            "toolkit")
# What the chart always writes: then the driver's DaemonSet is the same for both.
PROBE = {"initialDelaySeconds": 60, "periodSeconds": 10, "timeoutSeconds": 60, "failureThreshold": 120}
# Scenario -> the policy before, the policy after, and DaemonSets that must not be touched.
SCENARIOS = {
    "the same policy": (
        {"driver": {"startupProbe": PROBE}, "nodeStatusExporter": {"enabled": True}},
        {"driver": {"startupProbe": PROBE}, "nodeStatusExporter": {"enabled": True}},
        ("nvidia-driver-daemonset", "nvidia-container-toolkit-daemonset", "nvidia-node-status-exporter")),
    "another policy": ({
        "operator": {"runtimeClass": "other"},
        "daemonsets": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "toolkit": {"env": [{"name": "ONLY_BEFORE", "value": "1"}], "hostNetwork": True},
        "devicePlugin": {"resources": {"limits": {"cpu": "1"}}},
        "dcgmExporter": {"enablePodLabels": True, "service": {"internalTrafficPolicy": "Local"}},
        "nodeStatusExporter": {"enabled": True},
        "sandboxWorkloads": {"enabled": True, "mode": "kata"},
        "vfioManager": {"enabled": True},
        "ccManager": {"enabled": True},
        "migManager": {"enabled": True},
    }, {"migManager": {"enabled": False}}, ()),
}


def policy(spec):
    return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"},
            "spec": {**{name: {} for name in REQUIRED}, **spec}}


def fetch(side):
    """Every object of the policy as the server has it, by "Kind/name"."""
    return {f"{kind}/{item['metadata']['name']}": {"kind": kind, **item}
            for kind, path in side.kinds.items() for item in side.server.get(path)["items"]
            if is_owned(item, "cluster-policy")}


def plain(value):
    """Without what only this server says of it. Nothing else is put aside."""
    metadata = {key: item for key, item in value["metadata"].items()
                if key not in normalise.SERVER_FIELDS + ("ownerReferences",)}
    # Counts the writes of the template.
    metadata.get("annotations", {}).pop("deprecated.daemonset.template.generation", None)
    owners = [{key: item for key, item in owner.items() if key != "uid"}
              for owner in value["metadata"]["ownerReferences"]]
    # The hash covers the owner's uid.
    metadata.get("annotations", {}).pop("nvidia.com/last-applied-hash", None)
    metadata.get("annotations", {}).pop("nvidia.com/gpu-operator.driver-content", None)
    body = {key: item for key, item in value.items() if key not in ("metadata", "status")}
    # The server hands it out.
    for field in ("clusterIP", "clusterIPs"):
        body.get("spec", {}).pop(field, None) if value["kind"] == "Service" else None
    return {"metadata": metadata, "owners": owners, **body}


class Report:
    def __init__(self):
        self.scenario, self.checks, self.failures = "", 0, 0

    def check(self, what, good, detail=""):
        self.checks += 1
        self.failures += not good
        if not good:
            print(f"FAIL {self.scenario}: {what}: {detail}", flush=True)


def start(side, cluster, spec):
    side.set_cluster(cluster)
    side.set_nodes(cluster["nodes"])
    if side.server.get(POLICIES)["items"]:
        path = f"{POLICIES}/cluster-policy"
        side.server.request("PATCH", path, [{"op": "replace", "path": "/spec", "value": policy(spec)["spec"]}],
                            "application/json-patch+json")
    else:
        side.server.create(POLICIES, policy(spec))
    side.start()
    return side.settle("cluster-policy", quiet_seconds=3)


def compare(report, taken, fresh):
    report.check("the same objects", set(taken) == set(fresh),
                 f"only after taking over: {sorted(set(taken) - set(fresh))}, "
                 f"only new: {sorted(set(fresh) - set(taken))}")
    for name in sorted(set(taken) & set(fresh)):
        found = list(normalise.differences(plain(taken[name]), plain(fresh[name])))
        report.check(f"{name} is as new", not found, found[:5])
    for name, item in sorted(taken.items()):
        managers = {entry["manager"] for entry in item["metadata"]["managedFields"]}
        report.check(f"{name} has no field of the other", OTHER_MANAGER not in managers, managers)


def systems(cluster):
    return {node["labels"].get("feature.node.kubernetes.io/system-os_release.ID") for node in cluster["nodes"]} - {None}


def take_over(report, taken, fresh, cluster, commands, scenario):
    spec_before, spec_after, untouched = scenario
    taken.command, ours = commands
    outcome = start(taken, cluster, spec_before)
    report.check("the other operator is content", outcome[0] == "ready", outcome)
    taken.stop()
    before = fetch(taken)
    taken.command = ours
    outcome = start(taken, cluster, spec_after)
    report.check("taken over", outcome[0] == "ready", outcome)
    outcome = start(fresh, cluster, spec_after)
    report.check("a new installation", outcome[0] == "ready", outcome)
    after = fetch(taken)
    compare(report, after, fetch(fresh))
    for prefix in untouched:
        # The script in which the driver toolkit's container waits is each operator's own; and of several operating
        # systems each takes another.
        if prefix == "nvidia-driver-daemonset" and ("openshift" in cluster or len(systems(cluster)) > 1):
            continue
        names = [name for name in before if name.startswith(f"DaemonSet/{prefix}")]
        report.check(f"there is a {prefix}", names)
        for name in names:
            generations = [objects[name]["metadata"]["generation"] for objects in (before, after)]
            report.check(f"{name} was not touched", generations[0] == generations[1], generations)
    quiet(report, taken)
    for side in (taken, fresh):
        side.stop()
        side.clear("cluster-policy")


def quiet(report, side):
    """A new process looks at everything and writes nothing."""
    seen = side.revisions()
    side.stop()
    side.start()
    side.settle("cluster-policy", quiet_seconds=3)
    now = side.revisions()
    report.check("then nothing is written", now == seen, [one for one in now if one not in seen])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default=str(ROOT / "build/release/bin/pitcrew"), help="the pitcrew program")
    parser.add_argument("--cluster", default="one-containerd", help="a name below clusters/")
    arguments = parser.parse_args()
    oracle = os.environ.get("PITCREW_ORACLE")
    if not oracle:
        print("skipped: no oracle (PITCREW_ORACLE names none)")
        return SKIPPED
    cluster = yaml.safe_load((HERE / f"clusters/{arguments.cluster}.yaml").read_text())
    crds = sorted(pathlib.Path(oracle, "crds").glob("*.yaml"))
    ours = [arguments.ours, "operator"]
    report = Report()
    openshift = "openshift" in cluster
    with Side("taken", oracle_command(oracle), crds, openshift) as taken, \
            Side("fresh", ours, (), openshift) as fresh:
        for report.scenario, scenario in SCENARIOS.items():
            take_over(report, taken, fresh, cluster, (oracle_command(oracle), ours), scenario)
    print(f"{report.checks - report.failures} of {report.checks} checks hold")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
