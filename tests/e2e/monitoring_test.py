"""What people are told about GPUs, on a whole cluster that a real Prometheus scrapes: every panel of the dashboards has
data, every alert fires on a fault that is let happen and ends with it."""

import json
import unittest

import support  # first: it sets the state folder
from cluster import api, chart
from cluster_prometheus import MIG_STATE, MORE_COUNTERS, PrometheusServer, Surroundings

NAME = support.cluster_name()
WHOLE, DIVIDED = "gpu", "mig"  # nodes
FILE = f"""name: {NAME}
nodes:
  - name: {WHOLE}
    gpus: [{{profile: H100-80, count: 6}}]
  - name: {DIVIDED}
    gpus: [{{profile: H100-80, count: 1}}]
    labels: {{nvidia.com/gpu-driver-upgrade.skip: "true"}}
"""
_COUNTERS = (support.ROOT / "deploy/counters/default-counters.csv").read_text(encoding="utf-8") + MORE_COUNTERS
VALUES = {
    "mig": {"strategy": "mixed"},
    "migManager": {"env": [{"name": "MIG_GPU_PODS", "value": "wait"}]},
    "nodeStatusExporter": {"enabled": True},
    "dcgmExporter": {"config": {"create": True, "name": "counters", "data": _COUNTERS},
                     "env": [{"name": "DCGM_EXPORTER_INTERVAL", "value": "1000"},
                             {"name": "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE", "value": "5000"}]},
    "driver": {"upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 0, "maxUnavailable": "100%",
                                 "gpuPodDeletion": {"timeoutSeconds": 60}}},
}
IMAGE = "docker.io/pitcrew/pitcrew:v26.7.0"
MERGE = "application/merge-patch+json"
POLICY = f"{chart.POLICIES}/cluster-policy"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{chart.NAMESPACE}/deployments"
MIG_CONFIG, UPGRADE_STATE = "nvidia.com/mig.config", "nvidia.com/gpu-driver-upgrade-state"
BEFORE, AFTER = "580.95.05", "590.48.01"
DRIVER_LIBRARY = "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"


def pod(name, node, resource):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                     "nodeSelector": {"kubernetes.io/hostname": node},
                     "containers": [{"name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent",
                                     "command": ["/bin/sleep", "infinity"], "resources": {"limits": {resource: 1}}}]}}


class Monitoring(support.ClusterTest):
    NAME, FILE, VALUES = NAME, FILE, json.dumps(VALUES)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bring_driver(AFTER, [WHOLE, DIVIDED])
        cls.fired = set()
        folder = cls.write("marker", "").parent
        around = Surroundings(cls.client, folder, cls.state.kubeconfig)
        cls.addClassCleanup(around.stop)
        cls.prometheus = PrometheusServer(folder, around.scraped(), "4s")
        cls.addClassCleanup(cls.prometheus.stop)

    def eventually(self, condition, what):
        return support.eventually(condition, what, support.SECONDS, 0.5)

    def merge(self, path, patch):
        self.client.request("PATCH", path, patch, content_type=MERGE)

    def policy(self, spec):
        self.merge(POLICY, {"spec": spec})

    def gpu(self, command, number, *more, node=WHOLE):
        self.on(node, "pitcrew-simulate", "gpu", command, str(number), *more)

    def offered(self, node, resource, count):
        self.assertIsNotNone(self.client.wait(support.NODES, node, support.SECONDS, lambda one: one["status"].get(
            "allocatable", {}).get(resource, "0") == str(count)), f"{count} {resource} on {node}")

    def firing(self):
        """(alert, GPU or node or operand); "" where it is about the whole."""
        return {(labels["alertname"], labels.get("gpu") or labels.get("node") or labels.get("daemonset") or "")
                for labels in self.prometheus.firing()}

    def await_firing(self, *alerts):
        self.eventually(lambda: set(alerts) <= self.firing(), lambda: f"{sorted(alerts)} among {sorted(self.firing())}")
        self.fired |= {name for name, _ in alerts}

    def await_quiet(self, *alerts):
        self.eventually(lambda: not set(alerts) & self.firing(), lambda: f"none of {sorted(alerts)}: {sorted(self.firing())}")

    def await_ready(self):
        self.assertIsNotNone(self.client.wait(chart.POLICIES, "cluster-policy", support.SECONDS, lambda one: (
            one.get("status", {}).get("state") == "ready" and api.has_condition(one, "Ready"))),
            "\n".join(chart.behind(self.client)))

    def test_10_every_panel_has_data(self):
        self.label(DIVIDED, MIG_CONFIG, "all-1g.10gb")
        self.offered(DIVIDED, "nvidia.com/mig-1g.10gb", 7)
        self.create(pod("train", WHOLE, "nvidia.com/gpu"), pod("serve", DIVIDED, "nvidia.com/mig-1g.10gb"))
        self.await_all_ready(["train", "serve"])
        self.gpu("xid", 5, "13")  # a program's own fault: told, and no alert
        self.eventually(lambda: not self.prometheus.empty_panels(),
                        lambda: f"panels without data: {self.prometheus.empty_panels()}")

    def test_20_gpus(self):
        held = pod("idle", WHOLE, "nvidia.com/gpu")
        self.create(held)
        self.await_all_ready(["idle"])
        used = self.eventually(lambda: self.prometheus.query('DCGM_FI_DEV_FB_USED{pod="idle"}'),
                               "the series of pod idle")[0]["metric"]["gpu"]
        lost, reset, hit, slow, rows = [str(number) for number in range(6) if str(number) != used]
        alerts = [("GPULost", lost), ("GPUNeedsReset", reset), ("GPUErrorsOfOneProgram", hit), ("GPUSlowedByHeat", slow),
                  ("GPUSlowedByPowerSupply", slow), ("GPUMemoryRowsPending", slow), ("GPUMemoryRowsUnrepairable", rows),
                  ("GPUIdleWhileAllocated", used)]
        self.await_quiet(*(alert for alert in alerts if alert[0] != "GPUIdleWhileAllocated"))
        self.gpu("lose", lost)
        self.gpu("xid", reset, "95")
        self.gpu("xid", hit, "94")
        self.gpu("throttle", slow, "hw-thermal", "hw-power-brake")
        self.gpu("rows", slow, "--uncorrectable", "1", "--pending")
        self.gpu("rows", rows, "--failure")
        self.await_firing(*alerts)
        self.gpu("restore", lost)
        for number in (lost, reset, hit):
            self.gpu("xid", number, "13")
        self.gpu("throttle", slow, "none")
        self.gpu("reset", slow)
        self.gpu("lose", rows)  # such a board is taken out
        self.gpu("load", used, "80")
        self.await_quiet(*alerts)

    def test_30_mig(self):
        self.create(pod("holds", DIVIDED, "nvidia.com/mig-1g.10gb"))
        self.await_all_ready(["holds"])
        self.label(DIVIDED, MIG_CONFIG, "all-2g.20gb")
        self.await_firing(("GPUMigChangeStuck", DIVIDED))
        self.client.delete(f"{support.PODS}/holds")
        self.await_quiet(("GPUMigChangeStuck", DIVIDED))
        self.label(DIVIDED, MIG_CONFIG, "no-such-layout")
        self.await_firing(("GPUMigChangeFailed", DIVIDED))
        self.label(DIVIDED, MIG_CONFIG, "all-1g.10gb")
        self.await_quiet(("GPUMigChangeFailed", DIVIDED))
        self.assertIsNotNone(self.client.wait(support.NODES, DIVIDED, support.SECONDS, lambda one: (
            one["metadata"]["labels"].get(MIG_STATE) == "success")))

    def test_40_an_operand_that_does_not_come(self):
        self.await_ready()
        alerts = [("GPUPolicyNotReady", ""), ("GPUOperandBehind", "gpu-feature-discovery")]
        self.await_quiet(*alerts)
        self.policy({"gfd": {"version": "no-such-version"}})
        self.await_firing(*alerts)
        self.policy({"gfd": {"version": "v26.7.0"}})
        self.await_quiet(*alerts)
        self.await_ready()

    def test_50_a_driver_that_cannot_be_upgraded(self):
        """Its node's pod may not be evicted, and the policy waits for a minute only."""
        template = pod("trainer", WHOLE, "nvidia.com/gpu")
        del template["spec"]["restartPolicy"]
        labels = template["metadata"]["labels"]
        self.client.create(REPLICA_SETS, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "trainer"},
                                          "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
                                              "metadata": {"labels": labels}, "spec": template["spec"]}}})
        self.addCleanup(self.client.delete, f"{REPLICA_SETS}/trainer")
        self.client.create(BUDGETS, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {
            "name": "trainer"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "trainer"}}}})
        self.addCleanup(self.client.delete, f"{BUDGETS}/trainer")
        self.assertIsNotNone(self.client.wait(BUDGETS, "trainer", support.SECONDS, lambda budget: (
            budget.get("status", {}).get("currentHealthy") == 1)))
        self.policy({"driver": {"version": AFTER}})
        self.await_firing(("GPUDriverUpgradeStuck", ""))
        self.await_firing(("GPUDriverUpgradeFailed", ""))
        self.policy({"driver": {"version": BEFORE}})
        self.client.delete(f"{BUDGETS}/trainer")
        self.await_quiet(("GPUDriverUpgradeStuck", ""), ("GPUDriverUpgradeFailed", ""))
        self.assertIsNotNone(self.client.wait(support.NODES, WHOLE, support.SECONDS, lambda one: (
            one["metadata"]["labels"].get(UPGRADE_STATE) == "upgrade-done" and not one["spec"].get("unschedulable"))))
        self.await_ready()

    def test_55_a_driver_that_is_nowhere(self):
        """No pod leaves for it, and none when the version is set back."""
        self.await_quiet(("GPUDriverUpgradeHeld", ""))
        before = self.restarts()
        self.policy({"driver": {"version": "999.9.9"}})
        self.await_firing(("GPUDriverUpgradeHeld", ""))
        self.policy({"driver": {"version": BEFORE}})
        self.await_quiet(("GPUDriverUpgradeHeld", ""))
        self.await_ready()
        self.assertEqual(before, {name: count for name, count in self.restarts().items() if name in before})

    def test_60_a_driver_that_does_not_answer(self):
        """Its library is gone: the node status exporter asks once a minute."""
        self.on(WHOLE, "mv", DRIVER_LIBRARY, f"{DRIVER_LIBRARY}.away")
        self.await_firing(("GPUDriverNotValid", WHOLE))
        self.on(WHOLE, "mv", f"{DRIVER_LIBRARY}.away", DRIVER_LIBRARY)
        self.await_quiet(("GPUDriverNotValid", WHOLE))

    def restarts(self):
        """How often each container of the operator's namespace was started anew."""
        return {(one["metadata"]["name"], container["name"]): container["restartCount"]
                for one in self.client.get(support.OPERATOR_PODS)["items"]
                for container in one["status"].get("containerStatuses", [])}

    def test_65_a_driver_that_hangs(self):
        """No call of NVML returns. Nobody ends over it, what was read and offered last stays, and all goes on afterwards."""
        self.await_ready()
        self.label(DIVIDED, MIG_CONFIG, "all-1g.10gb")
        self.offered(DIVIDED, "nvidia.com/mig-1g.10gb", 7)
        readings = 'DCGM_FI_DEV_FB_USED{GPU_I_PROFILE="1g.10gb"}'
        self.eventually(lambda: len(self.prometheus.query(readings)) == 7, "the series of seven instances")
        before = self.restarts()
        self.on(DIVIDED, "pitcrew-simulate", "gpu", "driver", "hang")
        self.addCleanup(self.on, DIVIDED, "pitcrew-simulate", "gpu", "driver", "restore")
        self.await_firing(("GPUReadingsOld", ""))
        self.assertEqual(7, len(self.prometheus.query(readings)), "the last round is on the page")
        self.offered(DIVIDED, "nvidia.com/mig-1g.10gb", 7)
        self.on(DIVIDED, "pitcrew-simulate", "gpu", "driver", "restore")
        self.await_quiet(("GPUReadingsOld", ""))
        self.assertEqual(before, {name: count for name, count in self.restarts().items() if name in before})
        self.create(pod("afterwards", DIVIDED, "nvidia.com/mig-1g.10gb"))
        self.await_all_ready(["afterwards"])

    def scale(self, name, replicas):
        self.merge(f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": replicas}})
        app = self.client.get(f"{DEPLOYMENTS}/{name}")["spec"]["selector"]["matchLabels"]
        for one in self.client.get(support.OPERATOR_PODS)["items"] if replicas == 0 else []:
            if app.items() <= one["metadata"]["labels"].items():
                self.client.wait_gone(support.OPERATOR_PODS, one["metadata"]["name"], support.SECONDS)

    def test_70_labels_of_nodes_are_gone(self):
        master = next(one["metadata"]["name"] for one in self.client.get(DEPLOYMENTS)["items"]
                      if one["metadata"]["name"].endswith("node-feature-discovery-master"))
        self.scale(master, 0)
        for node in self.client.get(support.NODES)["items"]:
            gone = {name: None for name in node["metadata"]["labels"] if name.startswith("feature.node.kubernetes.io/")}
            self.merge(f"{support.NODES}/{node['metadata']['name']}", {"metadata": {"labels": gone}})
        self.await_firing(("GPUNodeLabelsMissing", ""))
        self.scale(master, 1)
        self.await_quiet(("GPUNodeLabelsMissing", ""))

    def test_80_nobody_operates(self):
        self.await_quiet(("GPUOperatorDown", ""))
        self.scale("gpu-operator", 0)
        self.await_firing(("GPUOperatorDown", ""))
        self.scale("gpu-operator", 1)
        self.await_quiet(("GPUOperatorDown", ""))

    def test_90_all_alerts_were_heard(self):
        self.assertEqual(self.fired, self.prometheus.alerts())


if __name__ == "__main__":
    unittest.main()
