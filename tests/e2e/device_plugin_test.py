"""The device plugin on a whole cluster: sharing by a node's label, and what befalls GPUs, kubelet and plugin.

One cluster serves all tests here; each leaves the GPUs as it found them.
"""

import json
import re
import unittest

import support  # first: it sets the state folder
from cluster import showcase

NAME = support.cluster_name()
# One node whose GPUs are shared and go wrong, and one whose kubelet gives a pod GPUs of one NUMA node only.
FILE = f"""name: {NAME}
nodes:
  - name: shared
    gpus: [{{profile: H100-80, count: 8}}]
  - name: aligned
    gpus: [{{profile: H100-80, count: 8}}]
    topologyPolicy: single-numa-node
"""
CONFIGS = {"whole": "version: v1\n",
           "ten": "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}\n",
           "wrong": "version: v2\n"}
VALUES = {"devicePlugin": {"config": {"create": True, "name": "plugin-configs", "default": "whole", "data": CONFIGS}}}
RESOURCE = "nvidia.com/gpu"
LABEL = "nvidia.com/device-plugin.config"
NODES, PODS, SECONDS = support.NODES, support.PODS, support.SECONDS


class DevicePlugin(support.ClusterTest):
    NAME, FILE, VALUES = NAME, FILE, json.dumps(VALUES)

    def simulate(self, *words):
        self.on("shared", "pitcrew-simulate", "gpu", *words)

    def await_gpus(self, node, allocatable, capacity=None):
        wanted = [allocatable, allocatable if capacity is None else capacity]
        seen = self.client.wait(NODES, node, SECONDS, lambda one: [
            int(one["status"][kind].get(RESOURCE, "0")) for kind in ("allocatable", "capacity")] == wanted)
        self.assertIsNotNone(seen, f"{node}: {self.client.get(f'{NODES}/{node}')['status']['allocatable']}")

    def make_pod(self, name, node, gpus=1):
        pod = showcase.sample("one-gpu")
        pod["metadata"]["name"] = name
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
        pod["spec"]["containers"][0]["resources"]["limits"][RESOURCE] = gpus
        self.create(pod)
        return pod

    def device_nodes(self, name):
        return re.findall(r"/dev/nvidia(\d+)$", self.client.log("default", name), re.MULTILINE)

    def test_10_time_slicing_by_the_nodes_label(self):
        """device-plugin.md #52: 8 GPUs, 80 of them, and 8 again."""
        before = self.device_plugin("shared")
        self.await_gpus("shared", 8)
        self.label("shared", LABEL, "ten")
        self.await_gpus("shared", 80)
        # More pods than GPUs, at once.
        for number in range(10):
            self.make_pod(f"slice-{number}", "shared")
        self.await_all_ready(f"slice-{number}" for number in range(10))
        self.label("shared", LABEL, None)
        self.await_gpus("shared", 8)
        self.assertEqual(self.device_plugin("shared"), before, "the plugin was told, not restarted")

    def test_11_a_wrong_configuration_changes_nothing(self):
        before = self.device_plugin("shared")
        self.label("shared", LABEL, "wrong")
        self.await_event("shared", "DevicePluginConfigRefused", "v2")
        self.label("shared", LABEL, "missing")
        self.await_event("shared", "ConfigurationRefused", '"missing"')
        self.await_gpus("shared", 8)
        self.label("shared", LABEL, "ten")
        self.await_gpus("shared", 80)
        self.label("shared", LABEL, None)
        self.await_gpus("shared", 8)
        self.assertEqual(self.device_plugin("shared"), before)

    def test_20_a_kubelet_that_restarts_under_load(self):
        """device-plugin.md #50: pods keep their GPUs, and new ones get what is left."""
        names = [f"load-{number}" for number in range(8)]
        for name in names[:4]:
            self.make_pod(name, "shared")
        self.await_all_ready(names[:4])
        later = {name: self.make_pod(name, "shared") for name in names[4:]}
        self.on("shared", "pkill", "-x", "kubelet")
        self.await_all_ready(names, again=later)
        nodes = [node for name in names for node in self.device_nodes(name)]
        self.assertEqual(sorted(nodes), sorted(set(nodes)), "a GPU was given away twice")
        self.assertEqual(len(nodes), 8)
        self.await_gpus("shared", 8)

    def test_21_the_plugin_is_killed_between_allocation_and_start(self):
        """The kubelet has its answer, and the container still starts with its GPU; later pods get theirs from the next
        plugin."""
        self.make_pod("orphan", "shared")
        if self.kill_device_plugin_before("orphan", "shared", lambda: self.await_gpus("shared", 8)):
            self.assertEqual(len(self.device_nodes("orphan")), 1)
        self.make_pod("next", "shared")
        self.await_all_ready(["next"])
        self.assertEqual(len(self.device_nodes("next")), 1)

    def test_30_an_xid_takes_a_gpu_until_its_reset(self):
        """device-plugin.md #45; a restart of the plugin does not make it forget."""
        self.simulate("xid", "3", "48")
        self.await_gpus("shared", 7, 8)
        self.await_event("shared", "GpuUnhealthy", "double-bit ECC error")
        self.kill_device_plugin("shared")
        self.await_gpus("shared", 7, 8)
        self.simulate("reset", "3")
        self.await_gpus("shared", 8)
        self.await_event("shared", "GpuHealthy", "fit for work again")

    def test_31_a_lost_gpu_comes_back(self):
        self.simulate("lose", "5")
        self.await_gpus("shared", 7, 8)
        self.await_event("shared", "GpuUnhealthy", "fallen off the bus")
        self.simulate("restore", "5")
        self.await_gpus("shared", 8)

    def test_40_a_pod_gets_gpus_of_one_numa_node(self):
        """The kubelet's policy single-numa-node, by the plugin's topology (device-plugin.md section 8.3). Of the
        simulated GPUs four belong to each of two NUMA nodes. Which of them a pod gets is the plugin's preference: on a
        machine with one NUMA node the kubelet does not care once it has found that there is one with enough."""
        self.await_gpus("aligned", 8)
        self.make_pod("five", "aligned", 5)
        pod = self.client.wait(PODS, "five", SECONDS, lambda one: one["status"].get("phase") == "Failed")
        self.assertIsNotNone(pod)
        self.assertEqual(pod["status"]["reason"], "TopologyAffinityError", pod["status"])
        self.make_pod("four", "aligned", 4)
        self.await_all_ready(["four"])
        self.assertIn(sorted(self.device_nodes("four")), (["0", "1", "2", "3"], ["4", "5", "6", "7"]))


if __name__ == "__main__":
    unittest.main()
