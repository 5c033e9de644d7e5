"""GPUs shared by MPS on a whole cluster: by a node's label, with limits that CUDA keeps to, through the death of the
daemon, and back."""

import re
import unittest

import support  # first: it sets the state folder
from cluster import api, chart, enter, showcase

NAME = support.cluster_name()
FILE = f"""name: {NAME}
nodes:
  - name: gpu
    gpus: [{{profile: H100-80, count: 1}}]
"""
VALUES = """
devicePlugin:
  config:
    create: true
    name: gpu-sharing
    default: whole
    data:
      whole: |
        version: v1
      two: |
        version: v1
        sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}
      four: |
        version: v1
        sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
"""
RESOURCE = "nvidia.com/gpu"
CONFIG = "nvidia.com/device-plugin.config"
NODES, PODS = support.NODES, support.PODS
# On the node: the checkout may lie where a node sees a folder of its own, for example below /tmp.
CLIENT = "/tmp/cuda_client"
PIPE = f"/run/nvidia/mps/{RESOURCE}/pipe"
MULTIPROCESSORS = 132  # of the simulated H100


class Mps(support.ClusterTest):
    NAME, FILE, VALUES = NAME, FILE, VALUES

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(support.BUILD / "bin/cuda_client", "rb") as client:
            enter.run(cls.state, "gpu", ["sh", "-c", f"cat > {CLIENT} && chmod 755 {CLIENT}"], stdin=client)

    def await_offered(self, number, seconds=support.SECONDS):
        node = self.client.wait(NODES, "gpu", seconds, lambda one: all(
            one["status"][kind].get(RESOURCE) == str(number) for kind in ("capacity", "allocatable")))
        self.assertIsNotNone(node, f"not {number} {RESOURCE} after {seconds} s:\n"
                             + "\n".join(chart.behind(self.client)))
        return node

    def await_capable(self, value):
        """Feature discovery may tell after the device plugin."""
        node = self.client.wait(NODES, "gpu", support.SECONDS, lambda one: one["metadata"]["labels"].get(
            "nvidia.com/mps.capable") == value)
        self.assertIsNotNone(node, f"nvidia.com/mps.capable is not {value}")

    def start(self, name, *sizes):
        """A pod with one GPU whose process takes memory of these sizes, in MiB."""
        pod = showcase.sample("one-gpu")
        pod["metadata"]["name"] = name
        container = pod["spec"]["containers"][0]
        container["command"] = ["/client", "/tmp/shown", *map(str, sizes)]  # as the sample's readiness probe expects
        del container["args"]
        container["volumeMounts"] = [{"name": "client", "mountPath": "/client", "readOnly": True}]
        pod["spec"]["volumes"] = [{"name": "client", "hostPath": {"path": CLIENT, "type": "File"}}]
        self.create(pod)

    def said(self, name):
        """What the pod's process says, line by line, once it has said all of it."""
        ready = self.client.wait(PODS, name, support.SECONDS, lambda one: api.has_condition(one, "Ready"))
        self.assertIsNotNone(ready, f"{name}: {self.client.get(f'{PODS}/{name}')['status']}")
        return self.client.log("default", name).splitlines()

    def daemon(self):
        return self.on("gpu", "cat", f"{PIPE}/nvidia-cuda-mps-control.pid")

    def assert_shared_by(self, replicas, said, size):
        memory = int(re.match(r"free (\d+) MiB", said[1])[1])
        self.assertEqual(said[0], f"multiprocessors {-(-MULTIPROCESSORS * (100 // replicas) // 100)}", said)
        self.assertLessEqual(memory, 81559 // replicas)
        self.assertEqual(said[2], f"{size} MiB: 0", "within its part")
        self.assertEqual(said[3], f"{81559 // replicas} MiB: 2", "out of memory: above its part")

    def test_10_without_sharing_the_gpu_is_one(self):
        self.await_offered(1)
        self.await_capable("false")
        self.start("alone", 70000)
        self.assertEqual(self.said("alone")[::2], [f"multiprocessors {MULTIPROCESSORS}", "70000 MiB: 0"])

    def test_20_two_pods_share_the_gpu_under_their_limits(self):
        """device-plugin.md #32 and #48, and section 17: a label, and two pods have half of one GPU each."""
        self.label("gpu", CONFIG, "two")
        self.await_offered(2)
        self.await_capable("true")
        for name in ("first", "second", "third"):
            self.start(name, 1024, 81559 // 2)
        running = []
        for _, pod in self.client.watch(PODS, support.SECONDS):
            names = {one["metadata"]["name"] for one in self.client.get(PODS)["items"]
                     if one["status"].get("phase") == "Running"}
            if len(names) == 2:
                running = sorted(names)
                break
        self.assertEqual(len(running), 2)
        for name in running:
            self.assert_shared_by(2, self.said(name), 1024)
        waiting = ({"first", "second", "third"} - set(running)).pop()
        pod = self.client.wait(PODS, waiting, support.SECONDS, lambda one: (api.condition(one, "PodScheduled") or {}).get("message"))
        self.assertIn(f"Insufficient {RESOURCE}", api.condition(pod, "PodScheduled")["message"])

    def test_30_a_daemon_that_is_killed_comes_back_with_its_limits(self):
        self.await_offered(2)
        before = self.daemon()
        self.on("gpu", "kill", "-KILL", before)
        self.assert_shared_by(2, self.said(self.start_until_admitted("after")), 1024)
        self.assertNotEqual(self.daemon(), before)

    def start_until_admitted(self, name):
        """As a controller does: while no device is healthy, the kubelet refuses the pods of a node that had some."""
        for attempt in range(60):
            pod = f"{name}-{attempt}"
            self.start(pod, 1024, 81559 // 2)
            begun = self.client.wait(PODS, pod, support.SECONDS, lambda one: one["status"].get("phase") != "Pending")
            self.assertIsNotNone(begun, f"{pod} is not placed")
            if begun["status"].get("reason") != "UnexpectedAdmissionError":
                return pod
        return self.fail("the kubelet admits no pod")

    def test_40_another_number_of_replicas_is_another_limit(self):
        self.label("gpu", CONFIG, "four")
        self.await_offered(4)
        self.start("quarter", 1024, 81559 // 4)
        self.assert_shared_by(4, self.said("quarter"), 1024)

    def test_50_and_back(self):
        self.label("gpu", CONFIG, "whole")
        self.await_offered(1)
        self.await_capable("false")
        for _ in self.client.watch(support.OPERATOR_PODS, support.SECONDS):
            if not any("mps-control-daemon" in pod["metadata"]["name"]
                       for pod in self.client.get(support.OPERATOR_PODS)["items"]):
                break
        else:
            self.fail("the MPS control daemon is still there")
        self.start("whole", 70000)
        self.assertEqual(self.said("whole")[::2], [f"multiprocessors {MULTIPROCESSORS}", "70000 MiB: 0"])


if __name__ == "__main__":
    unittest.main()
