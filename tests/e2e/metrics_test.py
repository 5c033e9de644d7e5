"""Metrics of GPUs on a whole cluster: the chart's exporter and the node status exporter, a pod's series
that come and go with the real kubelet, an XID; a node that takes no pod before its GPUs have passed."""

import json
import re
import subprocess
import time
import unittest

import support  # first: it sets the state folder
from cluster import api, chart, showcase

NAME = support.cluster_name()
FILE = f"""name: {NAME}
nodes:
  - name: gpu
    gpus: [{{profile: H100-80, count: 2}}]
"""
VALUES = """
dcgmExporter:
  enabled: true
  enablePodLabels: true
  podLabelAllowlistRegex: ["^team$"]
  env:
    - {name: DCGM_EXPORTER_INTERVAL, value: "1000"}
nodeStatusExporter:
  enabled: true
validator:
  qualification: {required: true}
"""
PODS, OPERATOR_PODS, SECONDS = support.PODS, support.OPERATOR_PODS, support.SECONDS
QUALIFICATION = "nvidia.com/gpu-operator.qualification"
METRIC = "DCGM_FI_DEV_GPU_TEMP"


class Metrics(support.ClusterTest):
    NAME, FILE, VALUES = NAME, FILE, VALUES

    def pod_of(self, app):
        for _, pod in self.client.watch(OPERATOR_PODS, SECONDS):
            if pod["metadata"]["labels"].get("app") == app and api.has_condition(pod, "Ready"):
                return pod
        return self.fail(f"no pod of {app} is ready:\n" + "\n".join(chart.behind(self.client)))

    def page(self, app, port):
        """As the API server reaches it: over the pods' network."""
        name = self.pod_of(app)["metadata"]["name"]
        return self.client.request("GET", f"{OPERATOR_PODS}/{name}:{port}/proxy/metrics").decode()

    def await_page(self, wanted, seconds=SECONDS):
        page = ""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            page = self.page("nvidia-dcgm-exporter", 9400)
            if wanted(page):
                return page
            time.sleep(0.5)
        return self.fail(f"never as wanted:\n{page[:6000]}")

    def test_05_the_node_has_proven_its_gpus(self):
        """The operator's taint came with the node and is gone, by the test that the validator's pod has made; `up` has
        shown that a pod gets a GPU then."""
        node = self.client.get(f"{support.NODES}/gpu")
        told = json.loads(node["metadata"]["annotations"][QUALIFICATION])
        self.assertEqual((node["metadata"]["labels"][QUALIFICATION], told["state"]), ("passed", "passed"), told)
        self.assertEqual([gpu["state"] for gpu in told["gpus"]], ["passed", "passed"])
        self.assertEqual(told["bootID"], node["status"]["nodeInfo"]["bootID"])
        self.assertNotIn("not-qualified", json.dumps(node["spec"]))
        self.await_event("gpu", "QualificationPassed", "2 of 2 GPUs passed")
        log = self.client.log(chart.NAMESPACE, self.pod_of("gpu-operator")["metadata"]["name"])
        self.assertIn("nvidia.com/gpu-operator.not-qualified", log, "the operator has put the taint")
        self.await_node_page('gpu_operator_node_qualification_state{node="gpu",state="passed"} 1\n')

    def test_06_one_that_fails_is_let_in_by_nobody_and_by_a_test_that_passes(self):
        self.on("gpu", "pitcrew-simulate", "gpu", "bad-memory", "1", "16")
        # As when the node joins.
        self.client.request("PATCH", f"{support.NODES}/gpu", {
            "metadata": {"labels": {QUALIFICATION: "pending"}},
            "spec": {"taints": [{"key": "nvidia.com/gpu-operator.not-qualified", "effect": "NoSchedule"}]}},
            content_type="application/merge-patch+json")
        self.qualify(1)
        held = showcase.sample("one-gpu")
        held["metadata"]["name"] = "held"
        self.create(held)
        waits = self.client.wait(PODS, "held", SECONDS, lambda one: "untolerated taint" in (
            api.condition(one, "PodScheduled") or {}).get("message", ""))
        self.assertIsNotNone(waits)
        doctor = subprocess.run([support.BUILD / "bin/pitcrew", "doctor", "--kubeconfig", str(self.state.kubeconfig)],
                                stdout=subprocess.PIPE, text=True, check=False).stdout
        self.assertIn("gpus-not-qualified", doctor)
        self.assertIn("pod-waits-for-qualification", doctor)
        self.on("gpu", "pitcrew-simulate", "gpu", "bad-memory", "1", "0")
        self.qualify(0)
        self.await_all_ready(["held"])

    def qualify(self, status):
        told = subprocess.run([support.BUILD / "bin/pitcrew", "qualify", "gpu", "--wait", "--kubeconfig",
                               str(self.state.kubeconfig)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        self.assertEqual(told.returncode, status, told.stdout)

    def await_node_page(self, line):
        deadline = time.monotonic() + support.SECONDS
        while line not in self.page("nvidia-node-status-exporter", 8000):
            self.assertLess(time.monotonic(), deadline, f"never {line}")
            time.sleep(0.5)

    def test_10_every_gpu_has_its_series(self):
        page = self.await_page(lambda text: text.count(f"\n{METRIC}{{") == 2)
        self.assertIn('hostname="gpu"', page)
        self.assertIn('DCGM_FI_DRIVER_VERSION="580.95.05"', page)
        self.assertIn("\nDCGM_FI_PROF_GR_ENGINE_ACTIVE{", self.await_page(
            lambda text: "\nDCGM_FI_PROF_GR_ENGINE_ACTIVE{" in text))

    def test_20_a_pods_series_come_and_go_with_it(self):
        """A pod's name, namespace, container and the one label that is allowed, by the real kubelet."""
        pod = showcase.sample("one-gpu")
        pod["metadata"]["name"] = "watched"
        pod["metadata"].setdefault("labels", {}).update({"team": "vision", "secret": "no"})
        self.create(pod)
        self.await_all_ready(["watched"])
        page = self.await_page(lambda text: 'pod="watched"' in text and 'team="vision"' in text)
        line = next(line for line in page.splitlines() if line.startswith(METRIC) and 'pod="watched"' in line)
        self.assertRegex(line, r'team="vision",container="[^"]+",namespace="default",pod="watched"\} \d+$')
        self.assertNotIn("secret", page)
        self.assertEqual(len(re.findall(rf'^{METRIC}{{.*pod=', page, re.MULTILINE)), 1)
        self.client.delete(f"{PODS}/watched")
        self.await_page(lambda text: 'pod="watched"' not in text)

    def test_30_an_xid_is_told(self):
        self.on("gpu", "pitcrew-simulate", "gpu", "xid", "1", "31")
        page = self.await_page(lambda text: "\nDCGM_FI_DEV_XID_ERRORS{" in text)
        self.assertRegex(page, r'\nDCGM_FI_DEV_XID_ERRORS\{gpu="1".*err_code="31".*\} 31\n')

    def test_40_the_node_says_how_far_it_is(self):
        """validator.md #30: on a node whose chain is whole."""
        expected = [f'gpu_operator_node_{name}{{node="gpu"}} {value}\n' for name, value in (
            ("driver_ready", 1), ("toolkit_ready", 1), ("plugin_ready", 1), ("cuda_ready", 1),
            ("driver_validation", 1), ("device_plugin_devices_total", 2))]
        deadline = time.monotonic() + support.SECONDS
        page = ""
        while not all(line in page for line in expected) and time.monotonic() < deadline:
            page = self.page("nvidia-node-status-exporter", 8000)
            time.sleep(0.5)
        for line in expected:
            self.assertIn(line, page)
        self.assertIn('gpu_operator_nvidia_pci_devices_total{node="gpu"} 2\n', page)


if __name__ == "__main__":
    unittest.main()
