"""Plays what an upgrade of the driver needs beside an operator, on a kube-apiserver without controllers and kubelets: the
DaemonSet controller, the disruption controller, and pods of drivers, validators and users. Keeps the states of nodes."""

import hashlib
import http.client
import json
import threading
import time

import yaml

from sides import KINDS, NAMESPACE, ROOT
from apiserver import _ADMIN_TOKEN, ApiError  # noqa: E402

STATE = "nvidia.com/gpu-driver-upgrade-state"
SKIP = "nvidia.com/gpu-driver-upgrade.skip"
NODES = "/api/v1/nodes"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
REVISIONS = f"/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions"
DRIVERS = "/apis/nvidia.com/v1alpha1/nvidiadrivers"
MERGE = "application/merge-patch+json"
POLICY = yaml.safe_load((ROOT / "tests/faults/policy.yaml").read_text(encoding="utf-8"))
LABELS = {"feature.node.kubernetes.io/pci-10de.present": "true",
          "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
          "feature.node.kubernetes.io/system-os_release.VERSION_ID": "22.04",
          "feature.node.kubernetes.io/kernel-version.full": "5.15.0-70-generic"}
# Which only Pitcrew writes (docs/differences.md): the version at which a node failed, and the upgrade that it completed
# last.
OWN_ANNOTATIONS = ("nvidia.com/gpu-driver-upgrade-failed-revision", "nvidia.com/gpu-driver-upgrade-last")
REPLICA_SET = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "s", "uid": "s", "controller": True}]
# Pods by which Pitcrew looks at the image of a new driver; other operators have none.
IMAGE_CHECK = "nvidia-driver-image-check"
VALIDATOR = "nvidia-operator-validator"
# The other operator looks at pods when a node's labels change, or after two minutes.
NUDGE = "nudge"
NUDGE_SECONDS = 0.3
# For what comes at once, but on the slowest machine.
PATIENCE_SECONDS = 240


class History(threading.Thread):
    """Every state of every node, in order, from now on. `told` is called with each that is new."""

    def __init__(self, server, told=lambda state: None):
        super().__init__(daemon=True)
        self._told = told
        listed = server.get(NODES)
        self.states = {node["metadata"]["name"]: [node["metadata"].get("labels", {}).get(STATE, "")]
                       for node in listed["items"]}
        self.revisions = {node["metadata"]["name"]: int(node["metadata"]["resourceVersion"]) for node in listed["items"]}
        self._connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=server._context)
        self._connection.request("GET", f"{NODES}?watch=1&resourceVersion={listed['metadata']['resourceVersion']}",
                                 headers={"Authorization": f"Bearer {_ADMIN_TOKEN}"})
        self._answer = self._connection.getresponse()
        self.start()

    def run(self):
        try:
            for line in self._answer:
                event = json.loads(line)
                node = event["object"]["metadata"]
                state = node.get("labels", {}).get(STATE, "")
                seen = self.states.setdefault(node["name"], [""])
                if event["type"] != "DELETED" and seen[-1] != state:
                    seen.append(state)
                    self._told(state)
                self.revisions[node["name"]] = int(node["resourceVersion"])
        except (OSError, ValueError, KeyError, http.client.HTTPException):
            pass  # the server has ended

    def catch_up(self, nodes):
        """Waits until it has heard of all that the nodes, as listed, have gone through."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(self.revisions.get(node["metadata"]["name"], 0) < int(node["metadata"]["resourceVersion"]) for node in nodes):
            if time.monotonic() > deadline:
                raise TimeoutError("the watch of nodes has ended")
            time.sleep(0.01)


class Played:
    """One operator's cluster, with the pods of its nodes. `case`: see draw() in driver_upgrade.py."""

    def __init__(self, side, case):
        self.side, self.server, self.case = side, side.server, case
        self.driver = None  # the path of the driver's DaemonSet
        self.of_driver = None  # metadata and container of its pods, as of the last look
        self.digest = None  # of its newest version
        self.names = [node["name"] for node in case["nodes"]]
        self.nodes = {node["name"]: node for node in case["nodes"]}
        self.changed = False  # the driver is another than at first
        self.opened = False  # what holds nodes up for a while does so no longer
        self.kill_at = None  # when the operator is killed
        self._nudged, self._nudges = 0, 0

    def merge(self, path, patch):
        return self.server.request("PATCH", path, patch, MERGE)

    def set_pod(self, name, ready, restarts=0):
        self.merge(f"{PODS}/{name}/status", {"status": {"phase": "Running", "containerStatuses": [
            {"name": "c", "image": "i", "imageID": "", "ready": ready, "restartCount": restarts}],
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}})

    def create_pod(self, name, node, metadata, container, ready=True, restarts=0, **spec):
        self.server.create(PODS, {
            "metadata": {"name": name} | metadata,
            "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0,
                     "containers": [{"name": "c", "image": "i"} | container]} | spec})
        self.set_pod(name, ready, restarts)

    def fill(self):
        if not self.server.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts?fieldSelector=metadata.name%3Ddefault")["items"]:
            self.server.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
        self.side.set_nodes([{"name": NUDGE, "runtime": "containerd://2.2.0"}] + [
            {"name": node["name"], "runtime": "containerd://2.2.0", "labels": LABELS | (
                {SKIP: "true"} if node["skip"] else {})} for node in self.case["nodes"]])
        for node in self.case["nodes"]:
            self.merge(f"{NODES}/{node['name']}/status",
                       {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
            if node["cordoned"]:
                self.merge(f"{NODES}/{node['name']}", {"spec": {"unschedulable": True}})
            self._fill_node(node)

    def _fill_node(self, node):
        name = node["name"]
        gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
        if node["pod"] != "none":
            volumes = [{"name": "v", "emptyDir": {}}] if node["pod"] == "empty-dir" else []
            self.create_pod(f"user-{name}", name, {"labels": {"app": f"user-{name}"}} | (
                {} if node["pod"] == "bare" else {"ownerReferences": REPLICA_SET}), gpu, volumes=volumes)
        if node.get("budget"):
            self.server.create(BUDGETS, {"metadata": {"name": name}, "spec": {
                "maxUnavailable": 1, "selector": {"matchLabels": {"app": f"user-{name}"}}}})
            self._allow(name, 0)
        if node.get("job"):
            self.create_pod(f"job-{name}", name, {"labels": {"kind": "job"}, "ownerReferences": REPLICA_SET}, {})
        if node["other"]:
            self.create_pod(f"other-{name}", name, {"ownerReferences": REPLICA_SET}, {})

    def _allow(self, name, disruptions):
        self.merge(f"{BUDGETS}/{name}/status", {"status": {
            "observedGeneration": 1, "disruptionsAllowed": disruptions, "currentHealthy": 1, "disruptedPods": None,
            "desiredHealthy": 1 - disruptions, "expectedPods": 1}})

    def end_image_check(self, pod):
        """All images are there, and the driver's entrypoint does not know the question, like NVIDIA's."""
        ended = {"terminated": {"exitCode": 1, "finishedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}}
        statuses = [{"name": container["name"], "image": container["image"], "imageID": "i", "ready": False,
                     "restartCount": 0, "state": ended} for container in pod["spec"]["containers"]]
        self._unless_gone(lambda: self.merge(f"{PODS}/{pod['metadata']['name']}/status", {"status": {
            "phase": "Failed", "containerStatuses": statuses}}))

    def end_deleted(self, pods):
        """As the kubelet does. Also a pod without a grace period: the server marks it, and then removes it, and a caller
        that is killed in between ends the request there."""
        for pod in pods:
            if "deletionTimestamp" in pod["metadata"]:
                path = f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0"
                self._unless_gone(lambda path=path: self.server.delete(path))

    def create_driver_pod(self, node):
        how = self.nodes[node].get("driver") if self.changed else None
        held = how == "late" and not self.opened
        fails = how == "fails" or (how == "recovers" and not self.opened)
        self.create_pod(f"driver-{node}", node, *self.of_driver, ready=not (held or fails),
                        restarts=11 if fails else 0)

    def open(self):
        """What holds nodes up for a while does so no longer."""
        self.opened = True
        pods = {pod["metadata"]["name"] for pod in self.server.get(PODS)["items"]}
        for name, node in self.nodes.items():
            if node.get("driver") in ("late", "recovers") and f"driver-{name}" in pods:
                self._unless_gone(lambda: self.set_pod(f"driver-{name}", True))
            if node.get("validator") == "late" and f"validator-{name}" in pods:
                self._unless_gone(lambda: self.set_pod(f"validator-{name}", True))
            if node.get("job") == "ends" and f"job-{name}" in pods:
                self.merge(f"{PODS}/job-{name}/status", {"status": {"phase": "Succeeded"}})

    @staticmethod
    def _unless_gone(do):
        try:
            do()
        except ApiError as error:
            if error.code != 404:
                raise

    def daemonset(self):
        """The driver's; none before it has been made."""
        found = self.server.get(f"{KINDS['DaemonSet']}?labelSelector=app.kubernetes.io/component%3Dnvidia-driver")["items"]
        if found:
            self.driver = f"{KINDS['DaemonSet']}/{found[0]['metadata']['name']}"
        return found[0] if found else None

    def play(self):
        """What the DaemonSet controller, the disruption controller and the kubelets would do now."""
        daemonset = self.daemonset()
        if daemonset is None:
            return None
        template = daemonset["spec"]["template"]
        self.digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
        owner = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemonset["metadata"]["name"],
                  "uid": daemonset["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}]
        labels = template["metadata"]["labels"] | {"controller-revision-hash": self.digest}
        revision = f"{daemonset['metadata']['name']}-{self.digest}"
        numbers = {one["metadata"]["name"]: one["revision"] for one in self.server.get(REVISIONS)["items"]}
        if revision in numbers and numbers[revision] < max(numbers.values()):  # the template was set back
            self.merge(f"{REVISIONS}/{revision}", {"revision": max(numbers.values()) + 1})
        elif revision not in numbers:
            # The order of a patched object, whose data may not change.
            template = json.loads(json.dumps(template, sort_keys=True))
            self.server.create(REVISIONS, {
                "metadata": {"name": revision, "labels": labels, "ownerReferences": owner},
                "data": {"spec": {"template": template}}, "revision": max(numbers.values(), default=0) + 1})
        variables = [variable for container in template["spec"]["initContainers"] for variable in
                     container.get("env", []) if variable["name"] == "DRIVER_CONFIG_DIGEST"]
        self.of_driver = {"labels": labels, "ownerReferences": owner}, {"env": variables}
        found = self.server.get(PODS)["items"]
        pods = {pod["metadata"]["name"] for pod in found}
        self.end_deleted(found)
        for pod in found:
            if pod["metadata"]["name"].startswith(IMAGE_CHECK) and pod["status"].get("phase") == "Pending":
                self.end_image_check(pod)
        for name in self.names:
            self._play_node(name, pods, owner)
        if daemonset["status"].get("observedGeneration") != daemonset["metadata"]["generation"]:
            count = len(self.names)
            self.merge(f"{self.driver}/status", {"status": {
                "observedGeneration": daemonset["metadata"]["generation"], "desiredNumberScheduled": count,
                "currentNumberScheduled": count, "numberReady": count, "numberAvailable": count,
                "updatedNumberScheduled": count}})
        return self.digest

    def _play_node(self, name, pods, owner):
        if f"driver-{name}" not in pods:
            if self.nodes[name].get("validator") == "late" and self.changed and not self.opened:
                # Before there is a new driver that it could be in time for.
                self.set_pod(f"validator-{name}", False)
            self.create_driver_pod(name)
        if f"validator-{name}" not in pods:
            # kubectl's drain, which the other operator has, fails where there is no DaemonSet of that name.
            self.create_pod(f"validator-{name}", name, {
                "labels": {"app": VALIDATOR}, "ownerReferences": [{**owner[0], "name": VALIDATOR, "uid": "v"}]}, {})
        if self.nodes[name].get("budget") == "frees" and self.opened and f"user-{name}" in pods:
            self._allow(name, 1)

    def states(self):
        return {node["metadata"]["name"]: node["metadata"].get("labels", {}).get(STATE, "")
                for node in self.server.get(NODES)["items"] if node["metadata"]["name"] in self.names}

    def outdated(self):
        """Nodes whose driver's pod is of a former version."""
        pods = self.server.get(f"{PODS}?labelSelector=app.kubernetes.io/component%3Dnvidia-driver")["items"]
        newest = {pod["spec"]["nodeName"] for pod in pods
                  if pod["metadata"]["labels"]["controller-revision-hash"] == self.digest}
        return set(self.names) - newest

    def _nudge(self):
        if time.monotonic() - self._nudged < NUDGE_SECONDS:
            return
        self._nudges += 1
        self.merge(f"{NODES}/{NUDGE}", {"metadata": {"labels": {SKIP: str(self._nudges)}}})
        self._nudged = time.monotonic()

    def wait(self, reached, seconds=60, quiet_seconds=1.0):
        """Plays until the states are as wanted, and stay the same for a while."""
        deadline, since, last = time.monotonic() + seconds, None, None
        while time.monotonic() < deadline:
            if self.kill_at is not None and time.monotonic() > self.kill_at:
                self.kill_at = None
                self.kill()
            self.play()
            self._nudge()
            states = self.states()
            if not reached(states) or states != last:
                since = time.monotonic()
            elif time.monotonic() - since > quiet_seconds and self.kill_at is None:
                return
            last = states
            time.sleep(0.05)
        raise TimeoutError(f"{self.side.name}: {self.states()}\n{self.side.log_tail()}")

    def kill(self):
        self.side.stop()
        self.side.start()

    def change(self, what=None, version="590.3.4"):
        """Returns when it has reached the driver's DaemonSet."""
        what = what or self.case["change"]
        self.changed = True
        if what == "request":
            for name in self.names:
                self.merge(f"{NODES}/{name}",
                           {"metadata": {"annotations": {"nvidia.com/gpu-driver-upgrade-requested": "true"}}})
            return
        of_object = self.case["objects"]
        if what == "version":
            patch = {"version": version} if of_object else {"driver": {"version": version}}
        else:
            patch = {"annotations": {"example.com/team": "a"}}
            patch = patch if of_object else {"daemonsets": patch}
        before = self.daemonset()["metadata"]["generation"]
        self.merge(f"{DRIVERS}/all" if of_object else "/apis/nvidia.com/v1/clusterpolicies/cluster-policy", {"spec": patch})
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.daemonset()["metadata"]["generation"] == before:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.side.name}: the change does not reach the DaemonSet\n{self.side.log_tail()}")
            time.sleep(0.05)

    def result(self, history):
        nodes = {}
        listed = self.server.get(NODES)["items"]
        history.catch_up(listed)
        for node in listed:
            meta = node["metadata"]
            if meta["name"] in self.names:
                nodes[meta["name"]] = {
                    "states": list(history.states.get(meta["name"], [])), "cordoned": node["spec"].get("unschedulable", False),
                    "annotations": sorted(key for key in meta.get("annotations", {})
                                          if "gpu-driver-upgrade" in key and key not in OWN_ANNOTATIONS)}
        pods = sorted(pod["metadata"]["name"] for pod in self.server.get(PODS)["items"])
        return {"nodes": nodes, "pods": pods}

    def clear(self):
        """The server as it was before; the operator has to be stopped."""
        for path in (DRIVERS, PODS, BUDGETS, REVISIONS):
            for item in self.server.get(path)["items"]:
                self.server.delete(f"{path}/{item['metadata']['name']}")
        self.side.set_nodes([])
        for path in self.side.kinds.values():
            for item in self.server.get(path)["items"]:
                owners = item["metadata"].get("ownerReferences", [])
                if owners and owners[0]["kind"] == "NVIDIADriver":
                    self.server.delete(f"{path}/{item['metadata']['name']}")
        self.side.clear("cluster-policy")
