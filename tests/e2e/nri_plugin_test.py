"""GPUs without any change of the container engine's configuration, on a whole cluster: the toolkit as an NRI plugin of a
real containerd."""

import json
import unittest

import support  # first: it sets the state folder
from cluster import api, chart, showcase

NAME = support.cluster_name()
FILE = f"""name: {NAME}
nodes:
  - name: gpu
    gpus: [{{profile: H100-80, count: 2}}]
"""
ALL = "management.nvidia.com/gpu=all"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


def asking(name, namespace):
    """A pod that asks for every GPU by annotation."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {
        "name": name, "namespace": namespace, "annotations": {"nvidia.cdi.k8s.io/container.main": ALL}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [{
                "name": "main", "image": "docker.io/pitcrew/pitcrew:v26.7.0", "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", "for path in /dev/nvidia[0-9]; do echo \"$path\"; done > /dev/termination-log"]}]}}


class NriPlugin(support.ClusterTest):
    NAME, FILE, VALUES = NAME, FILE, json.dumps({"cdi": {"nriPluginEnabled": True}})

    def devices(self, name, namespace):
        """What a new pod of this namespace finds in /dev."""
        pods = f"/api/v1/namespaces/{namespace}/pods"
        self.client.create(pods, asking(name, namespace))
        self.addCleanup(self.client.delete, f"{pods}/{name}")
        ended = self.client.wait(pods, name, support.SECONDS, lambda one: one["status"].get("phase") in (
            "Succeeded", "Failed"))
        self.assertIsNotNone(ended, self.client.get(f"{pods}/{name}")["status"])
        said = ended["status"]["containerStatuses"][0]["state"]["terminated"].get("message", "")
        return [line for line in said.split() if "[" not in line]

    def test_10_the_engine_is_left_alone(self):
        self.assertEqual([one["metadata"]["name"] for one in self.client.get(RUNTIME_CLASSES)["items"]
                          if one["metadata"]["name"].startswith("nvidia")], [])
        self.assertEqual(self.on("gpu", "sh", "-c", "ls -A /etc/containerd/conf.d 2> /dev/null || true"), "")

    def test_20_a_pod_has_its_gpu(self):
        pod = showcase.sample("one-gpu")
        pod["metadata"]["name"] = "train"
        pod["spec"].pop("runtimeClassName", None)
        self.create(pod)
        self.await_all_ready(["train"])

    def test_30_management_devices_are_for_the_operators_namespace(self):
        self.assertEqual(self.devices("ours", chart.NAMESPACE), ["/dev/nvidia0", "/dev/nvidia1"])
        self.assertEqual(self.devices("theirs", "default"), [])

    def test_40_after_a_restart_of_the_engine(self):
        toolkit = next(one["metadata"]["name"] for one in self.client.get(support.OPERATOR_PODS)["items"]
                       if one["metadata"]["labels"].get("app") == "nvidia-container-toolkit-daemonset")

        def served():
            return self.client.log(chart.NAMESPACE, toolkit).count("Serving containers by NRI")
        before = served()
        self.assertGreaterEqual(before, 1)
        self.on("gpu", "pkill", "-x", "containerd")
        support.eventually(lambda: served() > before, "the plugin is back", support.SECONDS, 0.5)
        self.assertEqual(self.devices("again", chart.NAMESPACE), ["/dev/nvidia0", "/dev/nvidia1"])
        self.assertIsNotNone(self.client.wait(chart.POLICIES, "cluster-policy", support.SECONDS, lambda one: (
            api.has_condition(one, "Ready"))))


if __name__ == "__main__":
    unittest.main()
