"""Drivers that change under pods, on a whole cluster with its own DaemonSet controller, garbage collector and scheduler:
a roll-out node by node beside a node whose driver is its administrator's; one that a disruption budget holds up on a node
while the operator is killed; precompiled drivers, and back; drivers that change hands between ClusterPolicy and
NVIDIADriver without a restart; two NVIDIADrivers, of which one is changed; one that does not start on a node; a driver
whose image is nowhere."""

import calendar
import json
import subprocess
import time
import unittest

import support  # first: it sets the state folder
from cluster import api, chart
from cluster.node import DESCRIPTION

NAME = support.cluster_name()
FIRST, BEFORE, AFTER, LATER, LAST = "580.95.05", "585.20.02", "590.48.01", "600.10.01", "605.3.2"
NOWHERE = "610.1.1"  # of which no node has an image
GPU_NODES = ("a", "b", "c")  # whose driver the operator brings
PREINSTALLED = "d"
FILE = f"""name: {NAME}
nodes:
  - {{name: a, gpus: [{{profile: T4, count: 1}}], labels: {{pool: training}}}}
  - {{name: b, gpus: [{{profile: T4, count: 1}}], labels: {{pool: inference}}}}
  - {{name: c, gpus: [{{profile: T4, count: 1}}], labels: {{pool: inference}}}}
  - {{name: {PREINSTALLED}, gpus: [{{profile: T4, count: 1}}], driver: host, driverVersion: {FIRST}}}
"""
VALUES = """driver:
  upgradePolicy: {autoUpgrade: true, maxParallelUpgrades: 0, maxUnavailable: 25%, gpuPodDeletion: {timeoutSeconds: 0}}
"""
POLICY = f"{chart.POLICIES}/cluster-policy"
DRIVERS = "/apis/nvidia.com/v1alpha1/nvidiadrivers"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
STATE = "nvidia.com/gpu-driver-upgrade-state"
VERSION = "nvidia.com/cuda.driver-version.full"
SKIP = "nvidia.com/gpu-driver-upgrade.skip"
PAUSED, LATEST = "nvidia.com/gpu-driver-upgrade.paused", "nvidia.com/gpu-driver-upgrade-last"
KERNEL = "feature.node.kubernetes.io/kernel-version.full"
MERGE = "application/merge-patch+json"
IMAGE = "docker.io/pitcrew/pitcrew:v26.7.0"
DRIVER_IMAGE = "docker.io/pitcrew/simulated-driver"
DAEMON_SETS = f"/apis/apps/v1/namespaces/{chart.NAMESPACE}/daemonsets"


def replica_set(name, node, gpus):
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"nodeSelector": {"kubernetes.io/hostname": node}, "terminationGracePeriodSeconds": 0,
                         "containers": [{"name": "c", "image": IMAGE, "imagePullPolicy": "IfNotPresent",
                                         "command": ["/bin/sleep", "infinity"],
                                         "resources": {"limits": {"nvidia.com/gpu": gpus} if gpus else {}}}]}}}}


def seconds_of(timestamp):
    return calendar.timegm(time.strptime(timestamp, "%Y-%m-%dT%H:%M:%SZ"))


class DriverUpgrade(support.ClusterTest):
    NAME, FILE, VALUES = NAME, FILE, VALUES

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for version in (BEFORE, AFTER, LATER, LAST):
            cls.bring_driver(version, GPU_NODES)

    def merge(self, path, patch):
        self.client.request("PATCH", path, patch, content_type=MERGE)

    def await_node(self, name, satisfied):
        node = self.client.wait(support.NODES, name, support.SECONDS, satisfied)
        self.assertIsNotNone(node, self.client.get(f"{support.NODES}/{name}")["metadata"])
        return node

    def await_upgraded(self, names, version):
        """Done, and feature discovery has seen the new driver."""
        for name in names:
            node = self.await_node(name, lambda one: (
                one["metadata"]["labels"].get(STATE) == "upgrade-done"
                and one["metadata"]["labels"].get(VERSION) == version and not one["spec"].get("unschedulable")))
            self.assertNotIn("nvidia.com/gpu-driver-upgrade-failed-revision", node["metadata"]["annotations"])

    def user_pod(self, app):
        pods = [pod for pod in self.client.get(support.PODS)["items"]
                if pod["metadata"]["labels"].get("app") == app and "deletionTimestamp" not in pod["metadata"]]
        return pods[0]["metadata"]["uid"] if pods else None

    def await_running(self, app):
        """Also a pod that has come after an upgrade gets its GPU, and with it the files of the new driver."""
        for _ in self.client.watch(support.PODS, support.SECONDS):
            pods = [pod for pod in self.client.get(support.PODS)["items"]
                    if pod["metadata"]["labels"].get("app") == app and "deletionTimestamp" not in pod["metadata"]]
            if pods and api.has_condition(pods[0], "Ready"):
                return
        self.fail(f"no pod of {app} is ready")

    def driver_pods(self):
        """Node to uid, owner and number of restarts of its driver's pod."""
        found = {}
        for pod in self.client.get(support.OPERATOR_PODS)["items"]:
            labels = pod["metadata"]["labels"]
            if labels.get("app.kubernetes.io/component") == "nvidia-driver" and pod["spec"].get("nodeName"):
                owners = pod["metadata"].get("ownerReferences", [{"name": ""}])
                found[pod["spec"]["nodeName"]] = (pod["metadata"]["uid"], owners[0]["name"].rsplit("-", 1)[0], sum(
                    status["restartCount"] for status in pod["status"].get("containerStatuses", [])))
        return found

    def await_owner(self, owner):
        """Every driver's pod has an owner whose name begins so; what they were all the time."""
        for _ in self.client.watch(support.OPERATOR_PODS, support.SECONDS):
            pods = self.driver_pods()
            if len(pods) == len(GPU_NODES) and all(pod[1].startswith(owner) for pod in pods.values()):
                return pods
        return self.fail(f"{self.driver_pods()}, none of {owner}")

    def end_operator(self):
        """Its Deployment makes another one."""
        for pod in self.client.get(support.OPERATOR_PODS)["items"]:
            if pod["metadata"]["labels"].get("app") == "gpu-operator":
                self.client.delete(f"{support.OPERATOR_PODS}/{pod['metadata']['name']}")

    def test_05_one_after_the_other_and_none_of_an_administrators(self):
        """25 % of these nodes is one of them. The operator ends each time a node is seen in a state for the first time."""
        self.client.create(SETS, replica_set("host", PREINSTALLED, 1))
        self.await_running("host")
        host = self.user_pod("host")
        self.merge(POLICY, {"spec": {"driver": {"version": BEFORE}}})
        cordoned, most, done, states = set(), 0, set(), set()
        for _, node in self.client.watch(support.NODES, support.SECONDS):
            name, labels = node["metadata"]["name"], node["metadata"]["labels"]
            (cordoned.add if node["spec"].get("unschedulable") else cordoned.discard)(name)
            most = max(most, len(cordoned))
            if labels.get(STATE) == "upgrade-done" and labels.get(VERSION) == BEFORE and name not in cordoned:
                done.add(name)
            if done.issuperset(GPU_NODES):
                break
            if labels.get(STATE, "upgrade-done") not in states | {"upgrade-done"}:
                states.add(labels[STATE])
                self.end_operator()
        self.await_upgraded(GPU_NODES, BEFORE)
        self.assertEqual(most, 1)
        self.assertLessEqual({"upgrade-required", "cordon-required", "pod-restart-required", "validation-required"}, states)
        node = self.client.get(f"{support.NODES}/{PREINSTALLED}")
        self.assertEqual(node["metadata"]["labels"].get("nvidia.com/gpu.deploy.driver"), "pre-installed")
        self.assertEqual(node["metadata"]["labels"].get(VERSION), FIRST)
        self.assertNotIn(STATE, node["metadata"]["labels"])
        self.assertEqual(self.user_pod("host"), host)

    def test_10_a_budget_holds_one_node_up_and_the_operator_dies(self):
        for name, node, gpus in (("trainer", "a", 1), ("web", "a", 0), ("other", "b", 0)):
            self.client.create(SETS, replica_set(name, node, gpus))
        for name in ("trainer", "web", "other"):
            self.await_running(name)
        self.client.create(BUDGETS, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {
            "name": "trainer"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "trainer"}}}})
        self.client.wait(BUDGETS, "trainer", support.SECONDS,
                         lambda budget: budget.get("status", {}).get("currentHealthy") == 1)
        trainer, web, other = (self.user_pod(app) for app in ("trainer", "web", "other"))
        self.merge(POLICY, {"spec": {"driver": {
            "version": AFTER, "upgradePolicy": {"maxUnavailable": "50%"}}}})
        self.await_node("a", lambda node: node["metadata"]["labels"].get(STATE) == "pod-deletion-required")
        self.end_operator()
        self.await_upgraded(("b", "c"), AFTER)
        self.assertEqual(self.user_pod("trainer"), trainer, "its budget lets it go no more than before")
        self.client.delete(f"{BUDGETS}/trainer")
        self.await_upgraded(GPU_NODES, AFTER)
        self.assertNotEqual(self.user_pod("trainer"), trainer)
        self.await_running("trainer")
        self.assertEqual((self.user_pod("web"), self.user_pod("other")), (web, other), "they use no GPU")

    def driver_daemon_sets(self):
        return [one["metadata"]["name"] for one in self.client.get(DAEMON_SETS)["items"]
                if one["metadata"]["labels"].get("app.kubernetes.io/component") == "nvidia-driver"]

    def owners(self):
        """Node to the DaemonSet of its driver's pod."""
        return {pod["spec"]["nodeName"]: pod["metadata"]["ownerReferences"][0]["name"]
                for pod in self.client.get(support.OPERATOR_PODS)["items"] if pod["spec"].get("nodeName")
                and pod["metadata"]["labels"].get("app.kubernetes.io/component") == "nvidia-driver"}

    def pause(self, value):
        self.merge(POLICY, {"metadata": {"annotations": {PAUSED: value}}})

    def most_cordoned_until_done(self, names):
        """While these nodes, which all wait now, are upgraded."""
        cordoned, most, done = set(), 0, set()
        for _, node in self.client.watch(support.NODES, support.SECONDS):
            name = node["metadata"]["name"]
            (cordoned.add if node["spec"].get("unschedulable") else cordoned.discard)(name)
            most = max(most, len(cordoned))
            if node["metadata"]["labels"].get(STATE) == "upgrade-done" and name not in cordoned:
                done.add(name)
            if done.issuperset(names):
                return most
        return self.fail(f"of {names} only {done} are done: {chart.behind(self.client)}")

    def assert_made_in_turn(self, names):
        """The driver's pod of each of these nodes is as old as the node's own turn says."""
        for pod in self.client.get(support.OPERATOR_PODS)["items"]:
            node = pod["spec"].get("nodeName")
            if pod["metadata"]["labels"].get("app.kubernetes.io/component") != "nvidia-driver" or node not in names:
                continue
            turn = json.loads(self.client.get(f"{support.NODES}/{node}")["metadata"]["annotations"][LATEST])
            made, finished = map(seconds_of, (pod["metadata"]["creationTimestamp"], turn["finished"]))
            self.assertTrue(finished - turn["seconds"] - 1 <= made <= finished + 1, (node, turn, pod["metadata"]))

    def test_15_precompiled_drivers_come_node_by_node_and_go(self):
        """Their DaemonSet has another name. Pods that run are given to it before the former one goes, and neither the
        DaemonSet controller nor the garbage collector ends one for it, or restarts one before its node's turn."""
        if self.user_pod("trainer") is None:
            self.client.create(SETS, replica_set("trainer", "a", 1))
        self.await_running("trainer")
        version = self.client.get(POLICY)["spec"]["driver"]["version"]
        kernel = self.client.get(f"{support.NODES}/a")["metadata"]["labels"][KERNEL]
        for name in GPU_NODES:
            self.on(name, "ctr", "--namespace=k8s.io", "images", "tag", f"{DRIVER_IMAGE}:{version}-debian12",
                    f"{DRIVER_IMAGE}:{version}-{kernel}-debian12")
        plain = ["nvidia-driver-daemonset"]
        self.assertEqual(self.driver_daemon_sets(), plain)
        self.merge(POLICY, {"spec": {"driver": {"upgradePolicy": {"maxUnavailable": "25%"}}}})
        for precompiled in (True, False):
            with self.subTest(precompiled=precompiled):
                before, trainer = self.driver_pods(), self.user_pod("trainer")
                self.pause("true")
                self.merge(POLICY, {"spec": {"driver": {"usePrecompiled": precompiled}}})
                for name in GPU_NODES:
                    self.await_node(name, lambda node: node["metadata"]["labels"].get(STATE) == "upgrade-required")
                support.eventually(lambda: len(self.driver_daemon_sets()) == 1 and (
                    self.driver_daemon_sets() == plain) != precompiled, self.driver_daemon_sets, support.SECONDS)
                support.eventually(lambda: self.owners() == dict.fromkeys(GPU_NODES, self.driver_daemon_sets()[0]),
                                   self.owners, support.SECONDS)
                self.assert_same_pods(before, GPU_NODES)
                self.assertEqual(self.user_pod("trainer"), trainer)

                self.label("a", SKIP, "true")
                self.pause(None)
                self.assertEqual(self.most_cordoned_until_done(("b", "c")), 1)
                self.assert_same_pods(before, ("a",))
                self.assertEqual(self.user_pod("trainer"), trainer, "its node waits")
                self.label("a", SKIP, None)
                self.await_upgraded(GPU_NODES, version)
                self.assertNotEqual(self.user_pod("trainer"), trainer)
                self.await_running("trainer")
                self.assert_made_in_turn(GPU_NODES)
                now = self.driver_pods()
                for name in GPU_NODES:
                    self.assertNotEqual(now[name][0], before[name][0])
                    self.assertEqual(now[name][2], 0, "restarts")

    def assert_same_pods(self, before, names):
        """The drivers' pods of these nodes are those of before, and none has been restarted."""
        now = self.driver_pods()
        for name in names:
            self.assertEqual((now[name][0], now[name][2]), (before[name][0], before[name][2]), name)

    def test_20_drivers_change_hands_and_back_without_a_restart(self):
        before, trainer = self.driver_pods(), self.user_pod("trainer")
        self.client.create(DRIVERS, {
            "apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver", "metadata": {"name": "inference"},
            "spec": {"default": True, "repository": "docker.io/pitcrew", "image": "simulated-driver", "version": AFTER}})
        self.merge(POLICY, {"spec": {"driver": {"useNvidiaDriverCRD": True}}})
        now = self.await_owner("nvidia-gpu-driver-")
        self.assertIsNotNone(self.client.wait(DRIVERS, "inference", support.SECONDS,
                                              lambda one: one.get("status", {}).get("state") == "ready"))
        self.merge(POLICY, {"spec": {"driver": {"useNvidiaDriverCRD": False}}})
        again = self.await_owner("nvidia-driver")
        self.merge(POLICY, {"spec": {"driver": {"useNvidiaDriverCRD": True}}})
        self.await_owner("nvidia-gpu-driver-")
        for pods in (now, again):
            self.assertEqual({node: (uid, restarts) for node, (uid, _, restarts) in pods.items()},
                             {node: (uid, restarts) for node, (uid, _, restarts) in before.items()})
        self.assertEqual(self.user_pod("trainer"), trainer)
        for name in GPU_NODES:
            node = self.client.get(f"{support.NODES}/{name}")
            self.assertEqual(node["metadata"]["labels"].get(STATE), "upgrade-done")

    def test_30_of_two_drivers_one_is_changed(self):
        former = self.driver_pods()["a"][0]
        self.client.create(DRIVERS, {
            "apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver", "metadata": {"name": "training"},
            "spec": {"nodeSelector": {"pool": "training"}, "repository": "docker.io/pitcrew",
                     "image": "simulated-driver", "version": AFTER}})
        self.await_node("a", lambda node: (
            node["metadata"]["labels"].get("nvidia.com/gpu-operator.driver.owner") == "training"))
        # The DaemonSet controller ends the pod of a driver that no longer selects the node.
        for _ in self.client.watch(support.OPERATOR_PODS, support.SECONDS):
            training = self.driver_pods().get("a", (former,))[0]
            if training != former:
                break
        self.merge(f"{DRIVERS}/inference", {"spec": {"version": LATER}})
        self.await_upgraded(("b", "c"), LATER)
        self.assertEqual(self.driver_pods()["a"][0], training)
        self.assertEqual(self.client.get(f"{support.NODES}/a")["metadata"]["labels"].get(VERSION), AFTER)

    def test_35_a_node_whose_driver_does_not_start_keeps_no_other(self):
        """Its new driver ends at once, again and again (driver-lifecycle.md: more than ten restarts), until what is wrong
        with the node is mended. The other node is done meanwhile, although its turn came later."""
        bad, good = "b", "c"
        # Eleven restarts would take half an hour with the kubelet's own back-off.
        self.on(bad, "sed", "-i", '1s/^{/{"crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},/', "/etc/kubernetes/kubelet.yaml")
        self.on(bad, "pkill", "-x", "kubelet")
        self.on(bad, "sed", "-i", "s/T4/T5/", DESCRIPTION)
        self.merge(f"{DRIVERS}/inference", {"spec": {
            "version": LAST, "upgradePolicy": {"maxParallelUpgrades": 1, "maxUnavailable": "100%"}}})
        self.await_upgraded((good,), LAST)
        node = self.await_node(bad, lambda one: one["metadata"]["labels"].get(STATE) == "upgrade-failed")
        self.assertTrue(node["spec"].get("unschedulable"))
        support.eventually(lambda: "T5" in self.doctor(bad), lambda: self.doctor(bad), support.SECONDS, pause=1)
        self.on(bad, "sed", "-i", "s/T5/T4/", DESCRIPTION)
        self.await_upgraded((bad, good), LAST)

    def test_40_a_driver_whose_image_is_nowhere_costs_no_node_anything(self):
        """It is looked at before any pod is touched, and the right version goes on."""
        before, names = self.driver_pods(), ("b", "c")
        self.client.create(SETS, replica_set("inference", "b", 1))
        self.await_running("inference")
        user = self.user_pod("inference")
        self.merge(f"{DRIVERS}/inference", {"spec": {"version": NOWHERE}})
        told = self.client.wait(DRIVERS, "inference", support.SECONDS, lambda one: any(
            condition["type"] == "DriverUpgradeReady" and f"simulated-driver:{NOWHERE}" in condition["message"]
            for condition in one.get("status", {}).get("conditions", [])))
        self.assertIsNotNone(told, self.client.get(f"{DRIVERS}/inference"))
        for name in names:
            node = self.await_node(name, lambda node: node["metadata"]["labels"].get(STATE) == "upgrade-required")
            self.assertFalse(node["spec"].get("unschedulable"))
            support.eventually(lambda name=name: f"simulated-driver:{NOWHERE}" in self.doctor(name),
                               lambda name=name: self.doctor(name), support.SECONDS, pause=1)
        self.assertEqual(self.driver_pods(), before)
        self.assertEqual(self.user_pod("inference"), user)
        self.assertEqual(len(self.image_checks()), 1, "one looks for both")
        self.merge(f"{DRIVERS}/inference", {"spec": {"version": LAST}})
        self.await_upgraded(names, LAST)
        self.assertEqual(self.driver_pods(), before, "they had the right version all the time")
        support.eventually(lambda: not self.image_checks(), self.image_checks, support.SECONDS)

    def image_checks(self):
        return [pod["metadata"]["name"] for pod in self.client.get(support.OPERATOR_PODS)["items"]
                if pod["metadata"]["labels"].get("app") == "nvidia-driver-image-check"]

    def doctor(self, node):
        return subprocess.run([support.BUILD / "bin/pitcrew", "doctor", node, f"--kubeconfig={self.state.kubeconfig}"],
                              capture_output=True, text=True, check=False).stdout


if __name__ == "__main__":
    unittest.main()
