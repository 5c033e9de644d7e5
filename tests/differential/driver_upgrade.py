#!/usr/bin/env python3
"""Rolls a changed driver out with Pitcrew and with another operator, over random nodes and policies, and compares what
each node goes through: the values of its upgrade state in order, its cordon and annotations afterwards, and which
pods are left.

Each operator has a kube-apiserver of its own; the DaemonSet controller and the kubelets are played, the same for both.
The other operator is named by $PITCREW_ORACLE (see run.py). Without it the exit status is 77. What differs on purpose
(docs/differences.md, "Driver upgrades") is not drawn: nodes fail only where there is no limit to hold the others up.
"""

import argparse
import hashlib
import http.client
import json
import os
import pathlib
import random
import sys
import threading
import time

import yaml

from sides import KINDS, NAMESPACE, ROOT, Side, oracle_command
from apiserver import _ADMIN_TOKEN  # noqa: E402

SKIPPED = 77
STATE = "nvidia.com/gpu-driver-upgrade-state"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
REVISIONS = f"/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions"
DRIVERS = "/apis/nvidia.com/v1alpha1/nvidiadrivers"
MERGE = "application/merge-patch+json"
POLICY = yaml.safe_load((ROOT / "tests/faults/policy.yaml").read_text(encoding="utf-8"))
LABELS = {"feature.node.kubernetes.io/pci-10de.present": "true",
          "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
          "feature.node.kubernetes.io/system-os_release.VERSION_ID": "22.04",
          "feature.node.kubernetes.io/kernel-version.full": "5.15.0-70-generic"}
ENDS = ("upgrade-done", "upgrade-failed")
# Which only Pitcrew writes (docs/differences.md): the version at which a node failed, and the upgrade that it completed
# last.
OWN_ANNOTATIONS = ("nvidia.com/gpu-driver-upgrade-failed-revision", "nvidia.com/gpu-driver-upgrade-last")


class History(threading.Thread):
    """Every state of every node, in order."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.states = {}
        self._connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=server._context)
        self._connection.request("GET", "/api/v1/nodes?watch=1&resourceVersion=0",
                                 headers={"Authorization": f"Bearer {_ADMIN_TOKEN}"})
        self._answer = self._connection.getresponse()
        self.start()

    def run(self):
        try:
            for line in self._answer:
                node = json.loads(line)["object"]["metadata"]
                state = node.get("labels", {}).get(STATE, "")
                seen = self.states.setdefault(node["name"], [""])
                if seen[-1] != state:
                    seen.append(state)
        except (OSError, ValueError, http.client.HTTPException):
            pass  # the server has ended


def draw(rng):
    """What there is, and what changes."""
    parallel = rng.choice([0, 0, 1, 2])
    unavailable = "100%" if parallel == 0 else rng.choice(["100%", "50%", 2])
    nodes = []
    for number in range(rng.randint(1, 4)):
        nodes.append({
            "name": f"gpu-{number}",
            # A limit that cordons reach would hold the others up for ever.
            "cordoned": unavailable == "100%" and rng.random() < 0.25,
            "skip": rng.random() < 0.15,
            # Without a controller a pod may make its node fail, which holds up others where there is a limit.
            "pod": rng.choice(["none", "controlled", "bare", "empty-dir"] if parallel == 0 else ["none", "controlled"]),
            "other": rng.random() < 0.5,
        })
    return {"nodes": nodes, "change": rng.choice(["version", "version", "template", "request"]),
            "upgradePolicy": {
                "autoUpgrade": True, "maxParallelUpgrades": parallel,
                "maxUnavailable": unavailable,
                "podDeletion": {"force": rng.random() < 0.5, "deleteEmptyDir": rng.random() < 0.5},
                "drain": {"enable": rng.random() < 0.4, "force": rng.random() < 0.5,
                          "deleteEmptyDir": rng.random() < 0.5}}}


class Played:
    """One operator's cluster, with the pods of its nodes."""

    def __init__(self, side, case):
        self.side, self.server, self.case = side, side.server, case
        self.driver = None  # the path of the driver's DaemonSet
        self.of_driver = None  # metadata and container of its pods, as of the last look
        self.names = [node["name"] for node in case["nodes"]]

    def merge(self, path, patch):
        return self.server.request("PATCH", path, patch, MERGE)

    def create_pod(self, name, node, metadata, container, **spec):
        self.server.create(PODS, {
            "metadata": {"name": name} | metadata,
            "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0,
                     "containers": [{"name": "c", "image": "i"} | container]} | spec})
        self.merge(f"{PODS}/{name}/status", {"status": {"phase": "Running", "containerStatuses": [
            {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0}],
            "conditions": [{"type": "Ready", "status": "True"}]}})

    def fill(self):
        self.server.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
        self.side.set_nodes([{"name": node["name"], "runtime": "containerd://2.2.0", "labels": LABELS | (
            {"nvidia.com/gpu-driver-upgrade.skip": "true"} if node["skip"] else {})} for node in self.case["nodes"]])
        for node in self.case["nodes"]:
            self.merge(f"/api/v1/nodes/{node['name']}/status",
                       {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
            if node["cordoned"]:
                self.merge(f"/api/v1/nodes/{node['name']}", {"spec": {"unschedulable": True}})
            owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "s", "uid": "s", "controller": True}]
            gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
            if node["pod"] != "none":
                volumes = [{"name": "v", "emptyDir": {}}] if node["pod"] == "empty-dir" else []
                self.create_pod(f"user-{node['name']}", node["name"],
                                {} if node["pod"] == "bare" else {"ownerReferences": owner}, gpu, volumes=volumes)
            if node["other"]:
                self.create_pod(f"other-{node['name']}", node["name"], {"ownerReferences": owner}, {})

    def create_driver_pod(self, node):
        self.create_pod(f"driver-{node}", node, *self.of_driver)

    def daemonset(self):
        """The driver's; none before it has been made."""
        found = self.server.get(f"{KINDS['DaemonSet']}?labelSelector=app.kubernetes.io/component%3Dnvidia-driver")["items"]
        if found:
            self.driver = f"{KINDS['DaemonSet']}/{found[0]['metadata']['name']}"
        return found[0] if found else None

    def play(self):
        """What the DaemonSet controller and the kubelets would do now."""
        daemonset = self.daemonset()
        if daemonset is None:
            return None
        template = daemonset["spec"]["template"]
        digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
        owner = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemonset["metadata"]["name"],
                  "uid": daemonset["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}]
        labels = template["metadata"]["labels"] | {"controller-revision-hash": digest}
        revision = f"{daemonset['metadata']['name']}-{digest}"
        if revision not in [one["metadata"]["name"] for one in self.server.get(REVISIONS)["items"]]:
            self.server.create(REVISIONS, {
                "metadata": {"name": revision, "labels": labels, "ownerReferences": owner},
                "data": {"spec": {"template": template}}, "revision": daemonset["metadata"]["generation"]})
        variables = [variable for container in template["spec"]["initContainers"] for variable in
                     container.get("env", []) if variable["name"] == "DRIVER_CONFIG_DIGEST"]
        self.of_driver = {"labels": labels, "ownerReferences": owner}, {"env": variables}
        pods = {pod["metadata"]["name"]: pod for pod in self.server.get(PODS)["items"]}
        for name in self.names:
            if f"driver-{name}" not in pods:
                self.create_driver_pod(name)
            if f"validator-{name}" not in pods:
                self.create_pod(f"validator-{name}", name,
                                {"labels": {"app": "nvidia-operator-validator"}, "ownerReferences": [
                                    {**owner[0], "name": "validator", "uid": "v"}]}, {})
        if daemonset["status"].get("observedGeneration") != daemonset["metadata"]["generation"]:
            count = len(self.names)
            self.merge(f"{self.driver}/status", {"status": {
                "observedGeneration": daemonset["metadata"]["generation"], "desiredNumberScheduled": count,
                "currentNumberScheduled": count, "numberReady": count, "numberAvailable": count,
                "updatedNumberScheduled": count}})
        return digest

    def states(self):
        return {node["metadata"]["name"]: node["metadata"].get("labels", {}).get(STATE, "")
                for node in self.server.get("/api/v1/nodes")["items"] if node["metadata"]["name"] in self.names}

    def wait(self, ended, seconds=60):
        """Plays until the states are as wanted, and stay so."""
        deadline, since = time.monotonic() + seconds, None
        nudged = 0
        while time.monotonic() < deadline:
            self.play()
            if time.monotonic() - nudged > 1:
                # The other operator looks at pods when a node comes or goes, or after two minutes.
                self.server.create("/api/v1/nodes", {"metadata": {"name": "nudge"}})
                self.server.delete("/api/v1/nodes/nudge")
                nudged = time.monotonic()
            states = self.states()
            if not ended(states):
                since = None
            elif since is None:
                since = time.monotonic()
            elif time.monotonic() - since > 3:
                return
            time.sleep(0.05)
        raise TimeoutError(f"{self.side.name}: {self.states()}\n{self.side.log_tail()}")

    def change(self):
        if self.case["change"] == "request":
            for name in self.names:
                self.merge(f"/api/v1/nodes/{name}",
                           {"metadata": {"annotations": {"nvidia.com/gpu-driver-upgrade-requested": "true"}}})
            return
        of_object = self.case["objects"]
        if self.case["change"] == "version":
            patch = {"version": "590.3.4"} if of_object else {"driver": {"version": "590.3.4"}}
        else:
            patch = {"annotations": {"example.com/team": "a"}}
            patch = patch if of_object else {"daemonsets": patch}
        before = self.daemonset()["metadata"]["generation"]
        self.merge(f"{DRIVERS}/all" if of_object else "/apis/nvidia.com/v1/clusterpolicies/cluster-policy", {"spec": patch})
        while self.daemonset()["metadata"]["generation"] == before:
            time.sleep(0.05)

    def result(self, history):
        nodes = {}
        for node in self.server.get("/api/v1/nodes")["items"]:
            meta = node["metadata"]
            if meta["name"] in self.names:
                nodes[meta["name"]] = {
                    "states": history.states.get(meta["name"]), "cordoned": node["spec"].get("unschedulable", False),
                    "annotations": sorted(key for key in meta.get("annotations", {})
                                          if "gpu-driver-upgrade" in key and key not in OWN_ANNOTATIONS)}
        pods = sorted(pod["metadata"]["name"] for pod in self.server.get(PODS)["items"])
        return {"nodes": nodes, "pods": pods}


def run(side, case):
    played = Played(side, case)
    played.fill()
    driver = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "580.1.2",
              "upgradePolicy": case["upgradePolicy"]}
    # With virtual machines no driver of the policy is upgraded.
    spec = {**POLICY, "sandboxWorkloads": {"enabled": False},
            "driver": {**POLICY.get("driver", {}), "enabled": True, "useNvidiaDriverCRD": case["objects"]} | driver}
    history = History(side.server)
    side.start()
    if case["objects"]:
        side.server.create(DRIVERS, {"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver",
                                     "metadata": {"name": "all"}, "spec": {"default": True} | driver})
    side.submit({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy",
                 "metadata": {"name": "cluster-policy"}, "spec": spec})
    played.wait(lambda states: all(state == "upgrade-done" for state in states.values()))
    played.change()
    skipped = {node["name"] for node in case["nodes"] if node["skip"]}

    def ended(states):
        return all(state in ENDS or (name in skipped and state == "upgrade-required")
                   for name, state in states.items()) and len(history.states.get(played.names[0], [])) > 2
    played.wait(ended, 90)
    return played.result(history)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default=str(ROOT / "build/release/bin/pitcrew"), help="the pitcrew program")
    parser.add_argument("--cases", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--objects", action="store_true", help="the driver of a NVIDIADriver, not the ClusterPolicy's")
    arguments = parser.parse_args()
    oracle = os.environ.get("PITCREW_ORACLE")
    if not oracle:
        print("skipped: no oracle (PITCREW_ORACLE names none)")
        return SKIPPED
    crds = sorted(pathlib.Path(oracle, "crds").glob("*.yaml"))
    failures = 0
    for number in range(arguments.cases):
        case = draw(random.Random(f"{arguments.seed}/{number}")) | {"objects": arguments.objects}
        results = []
        for name, command, more in (("other", oracle_command(oracle), crds), ("ours", [arguments.ours, "operator"], ())):
            with Side(name, command, more) as side:
                results.append(run(side, case))
        if results[0] == results[1]:
            print(f"case {number}: {len(case['nodes'])} nodes, the same", flush=True)
            continue
        failures += 1
        print(f"case {number} differs: {json.dumps(case)}\n  other {json.dumps(results[0])}\n"
              f"  ours  {json.dumps(results[1])}", flush=True)
    print(f"{arguments.cases - failures} of {arguments.cases} cases are the same")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
