"""The chart of simulated GPUs on a cluster that has none: from `helm install` to a pod with a GPU, a fault by `kubectl
exec`, and a node that is as before when the chart goes."""

import subprocess
import unittest

import support  # first: it sets the state folder
from cluster import chart, images, progress, showcase, timeline
from cluster.programs import Programs

NAME = support.cluster_name()
FILE = f"""name: {NAME}
nodes: [{{name: plain}}, {{name: other}}]
"""
GPUS = """pools:
  - name: two
    nodeSelector: {kubernetes.io/hostname: plain}
    gpus: [{profile: T4, count: 2}]
"""
CHART = images.ROOT / "deploy/chart/simulated-gpus"
NAMESPACE = "simulated-gpus"
GPU_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class SimulatedGpus(support.BareClusterTest):
    NAME, FILE = NAME, FILE

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.programs = Programs()
        for program in ("helm", "kubectl"):
            cls.programs.find(program)
        cls.helm("install", NAMESPACE, str(CHART), "--namespace", NAMESPACE, "--create-namespace",
                 "--values", str(cls.write("gpus.yaml", GPUS)))
        chart.install(cls.state, cls.programs, [cls.write("operator.yaml", "driver: {enabled: false}\n")])
        with progress.step("GPUs of the node") as step:
            chart.await_allocatable(cls.client, step, ["plain"], support.SECONDS)

    @classmethod
    def helm(cls, *arguments):
        log = cls.state.log("helm-simulated-gpus")
        if chart.helm(cls.state, cls.programs, list(arguments), log) != 0:
            raise AssertionError(log.read_text(encoding="utf-8"))

    def await_gpus(self, count):
        self.assertIsNotNone(self.client.wait(support.NODES, "plain", support.SECONDS,
                                              lambda node: timeline.gpus(node) == count))

    def test_10_a_pod_gets_one_and_other_nodes_have_none(self):
        self.await_gpus(2)
        self.assertEqual(timeline.gpus(self.client.get(f"{support.NODES}/other")), 0)
        pod = showcase.sample("one-gpu")
        self.create(pod)
        self.await_all_ready([pod["metadata"]["name"]])

    def test_20_a_fault_is_told_by_kubectl_exec(self):
        told = subprocess.run(
            [self.programs.path("kubectl"), "--kubeconfig", str(self.state.kubeconfig), "--namespace", NAMESPACE, "exec",
             "daemonset/simulated-gpus-two", "--", "pitcrew-simulate", "gpu", "xid", "0", "79"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(told.returncode, 0, told.stdout)
        self.await_gpus(1)

    def test_30_without_the_chart_the_node_is_as_before(self):
        pods = [pod["metadata"]["name"] for pod in self.client.get(GPU_PODS)["items"]]
        self.assertEqual(len(pods), 1, pods)
        self.helm("uninstall", NAMESPACE, "--namespace", NAMESPACE)
        for name in pods:
            self.client.wait_gone(GPU_PODS, name, support.SECONDS)
        for path in ("/etc/pitcrew/simulated-gpus.yaml", "/run/nvidia/validations/.driver-ctr-ready",
                     "/etc/kubernetes/node-feature-discovery/features.d/simulated-gpus"):
            self.on("plain", "test", "!", "-e", path)


if __name__ == "__main__":
    unittest.main()
