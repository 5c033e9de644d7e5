"""GPUs divided by a node label, on a whole cluster: from the label to pods, and what holds a change up.

One cluster serves all tests here; they run in the order of their names.
"""

import json
import pathlib
import tempfile
import time
import unittest

import support  # first: it sets the state folder
from cluster import api, chart, enter
from cluster.state import State

NAME = support.cluster_name()
NODE = "gpu"
FILE = f"""name: {NAME}
nodes:
  - name: {NODE}
    gpus: [{{profile: H100-80, count: 8}}]
  - name: plain
"""
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
POLICY = "cluster-policy"
CONFIG = "nvidia.com/mig.config"
STATE = "nvidia.com/mig.config.state"
PROGRESS = "nvidia.com/mig.config.progress"
MERGE = "application/merge-patch+json"
SECONDS = 300  # for what takes a few on an idle machine


def pod(name, resource, labels=None, seconds_to_live=None):
    script = "exec sleep infinity" if seconds_to_live is None else f"exec sleep {seconds_to_live}"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                     "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                     "containers": [{"name": "main", "image": "docker.io/pitcrew/pitcrew:v26.7.0",
                                     "imagePullPolicy": "IfNotPresent", "command": ["/bin/sh", "-c"], "args": [script],
                                     "resources": {"limits": {resource: 1}}}]}}


class Mig(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / "cluster.yaml"
        file.write_text(FILE, encoding="utf-8")
        cls.addClassCleanup(support.run, "down", NAME)
        up = support.up(file, timeout=1200)
        print(up.stdout, flush=True)
        if up.returncode != 0:
            raise AssertionError(f"up ended with {up.returncode}")
        cls.state = State(NAME)
        cls.client = api.Api(cls.state.kubeconfig)
        # The sample pods of `up` hold GPUs.
        for name in ("one-gpu", "too-many-gpus"):
            cls.client.delete(f"{PODS}/{name}")
            cls.client.wait_gone(PODS, name, 60)

    def node(self):
        return self.client.get(f"{NODES}/{NODE}")

    def label(self, name, value):
        self.client.request("PATCH", f"{NODES}/{NODE}", {"metadata": {"labels": {name: value}}}, content_type=MERGE)

    def policy(self, spec):
        self.client.request("PATCH", f"{chart.POLICIES}/{POLICY}", {"spec": spec}, content_type=MERGE)

    def manage(self, **variables):
        """The MIG manager runs with these variables."""
        def is_new(one):
            found = {entry["name"]: entry.get("value") for entry in one["spec"]["containers"][0]["env"]}
            ours = {name: value for name, value in found.items() if name.startswith(("MIG_GPU_PODS", "DRAIN_"))}
            return (one["metadata"].get("labels", {}).get("app") == "nvidia-mig-manager" and ours == variables
                    and "deletionTimestamp" not in one["metadata"] and api.has_condition(one, "Ready"))
        self.policy({"migManager": {"env": [{"name": name, "value": value} for name, value in variables.items()]}})
        for kind, one in self.client.watch(f"/api/v1/namespaces/{chart.NAMESPACE}/pods", SECONDS):
            if kind != "DELETED" and is_new(one):
                return
        self.fail(f"the MIG manager does not run with {variables}")

    def wait_node(self, satisfied, what):
        node = self.client.wait(NODES, NODE, SECONDS, satisfied)
        if node is None:
            node = self.node()
            self.fail(f"{what}: {json.dumps(node['metadata'], indent=1)} {node['status']['allocatable']}\n{self.manager_log()}")
        return node

    def manager_log(self):
        pods = self.client.get(f"/api/v1/namespaces/{chart.NAMESPACE}/pods")["items"]
        for one in pods:
            if one["metadata"].get("labels", {}).get("app") == "nvidia-mig-manager":
                return self.client.log(chart.NAMESPACE, one["metadata"]["name"])
        return "there is no MIG manager"

    def offered(self, node, resource):
        return int(node["status"]["allocatable"].get(resource, "0"))

    def divide(self, config, state="success"):
        self.label(CONFIG, config)
        return self.wait_node(lambda one: json.loads(one["metadata"].get("annotations", {}).get(PROGRESS, "{}")).get(
            "config") == config and one["metadata"]["labels"].get(STATE) == state, f"{config} does not become {state}")

    def create(self, *bodies):
        for body in bodies:
            self.client.create(PODS, body)
            self.addCleanup(self.client.wait_gone, PODS, body["metadata"]["name"], 120)
            self.addCleanup(self.client.delete, f"{PODS}/{body['metadata']['name']}")

    def wait_running(self, names):
        missing = set(names)
        deadline = time.monotonic() + SECONDS
        for kind, one in self.client.watch(PODS, SECONDS):
            if kind != "DELETED" and one["status"].get("phase") == "Running":
                missing.discard(one["metadata"]["name"])
            if not missing or time.monotonic() > deadline:
                break
        self.assertEqual(missing, set())

    def test_10_every_gpu_in_seven_by_one_label(self):
        """56 pods run at once on eight GPUs, and the 57th waits (mig-manager.md 9.4; strategy single)."""
        before = {one["metadata"]["name"] for one in self.client.get(
            f"/api/v1/namespaces/{chart.NAMESPACE}/pods")["items"] if "device-plugin" in one["metadata"]["name"]}
        self.divide("all-1g.10gb")
        self.wait_node(lambda one: self.offered(one, "nvidia.com/gpu") == 56, "56 are to be allocatable")
        names = [f"part-{number}" for number in range(57)]
        self.create(*(pod(name, "nvidia.com/gpu") for name in names[:56]))
        self.wait_running(names[:56])
        self.create(pod(names[56], "nvidia.com/gpu"))
        waits = self.client.wait(PODS, names[56], SECONDS, lambda one: (api.condition(one, "PodScheduled") or {}).get(
            "status") == "False")
        self.assertIn("Insufficient nvidia.com/gpu", api.condition(waits, "PodScheduled")["message"])
        self.assertTrue(before)

    def test_20_mixed_by_label(self):
        self.policy({"mig": {"strategy": "mixed"}})
        self.divide("all-balanced")
        self.wait_node(lambda one: (self.offered(one, "nvidia.com/mig-1g.10gb"), self.offered(
            one, "nvidia.com/mig-2g.20gb"), self.offered(one, "nvidia.com/mig-3g.40gb")) == (16, 8, 8),
            "two small, one middle and one large part of each GPU")
        self.create(pod("large", "nvidia.com/mig-3g.40gb"), pod("small", "nvidia.com/mig-1g.10gb"))
        self.wait_running(["large", "small"])

    def test_30_running_pods_hold_a_change_up_until_they_end(self):
        self.manage(MIG_GPU_PODS="wait")
        self.divide("all-3g.40gb")
        self.create(pod("training", "nvidia.com/mig-3g.40gb"))
        self.wait_running(["training"])
        plugin = self.plugin()
        self.label(CONFIG, "all-7g.80gb")
        node = self.wait_node(lambda one: "waitingFor" in one["metadata"]["annotations"].get(PROGRESS, ""),
                              "it is to wait")
        self.assertEqual(node["metadata"]["labels"][STATE], "pending")
        self.assertEqual(json.loads(node["metadata"]["annotations"][PROGRESS])["waitingFor"], ["default/training"])
        self.client.delete(f"{PODS}/training")
        self.wait_node(lambda one: one["metadata"]["labels"][STATE] == "success", "it is to go on")
        self.wait_node(lambda one: self.offered(one, "nvidia.com/mig-7g.80gb") == 8, "one part of each GPU")
        self.assertEqual(self.plugin(), plugin, "the device plugin follows without a restart")

    def test_40_running_pods_are_drained_by_policy(self):
        self.manage(MIG_GPU_PODS="drain", DRAIN_USE_FORCE="true")
        self.divide("all-3g.40gb")
        self.create(pod("guest", "nvidia.com/mig-3g.40gb"))
        self.wait_running(["guest"])
        self.divide("all-1g.10gb")
        self.assertIsNone(self.client.find(f"{PODS}/guest"))

    def test_50_a_deadline_ends_the_change_and_nothing_has_changed(self):
        self.manage(MIG_GPU_PODS="wait", MIG_GPU_PODS_DEADLINE="3s")
        self.divide("all-3g.40gb")
        self.wait_node(lambda one: self.offered(one, "nvidia.com/mig-3g.40gb") == 16, "two parts of each GPU")
        self.create(pod("stubborn", "nvidia.com/mig-3g.40gb"))
        self.wait_running(["stubborn"])
        node = self.divide("all-1g.10gb", state="failed")
        self.assertIn("default/stubborn", json.loads(node["metadata"]["annotations"][PROGRESS])["message"])
        self.wait_node(lambda one: self.offered(one, "nvidia.com/mig-3g.40gb") == 16, "what was offered before")
        self.assertEqual(self.client.get(f"{PODS}/stubborn")["status"]["phase"], "Running")

    def test_60_a_failed_change_is_taken_back(self):
        """A program that holds the last GPU lets the change fail (the policy of upstream: none)."""
        self.manage()
        self.divide("all-3g.40gb")
        self.wait_node(lambda one: self.offered(one, "nvidia.com/mig-3g.40gb") == 16, "two parts of each GPU")
        self.on_node("pitcrew-simulate", "gpu", "process", "7", "4242")
        self.divide("all-1g.10gb", state="failed")
        self.wait_node(lambda one: self.offered(one, "nvidia.com/mig-3g.40gb") == 16, "what was offered before")
        self.on_node("pitcrew-simulate", "gpu", "process", "7", "4242", "--remove")
        self.divide("all-disabled")
        self.wait_node(lambda one: self.offered(one, "nvidia.com/gpu") == 8, "eight whole GPUs")

    def plugin(self):
        return sorted(one["metadata"]["uid"] for one in self.client.get(f"/api/v1/namespaces/{chart.NAMESPACE}/pods")[
            "items"] if one["metadata"].get("labels", {}).get("app") == "nvidia-device-plugin-daemonset")

    def on_node(self, *argv):
        result = enter.run(self.state, NODE, list(argv), capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
