"""The main job on a whole cluster: from bare nodes to pods that use GPUs, and back.

One cluster serves all tests here; they run in the order of their names, and the last ones take away.
"""

import pathlib
import re
import subprocess
import tempfile
import unittest

import support  # first: it sets the state folder
from cluster import api, chart, enter, progress, showcase
from cluster.programs import Programs
from cluster.state import State

NAME = support.cluster_name()
# A node whose driver the operator brings, one whose driver is there, and one without GPU.
FILE = f"""name: {NAME}
nodes:
  - name: managed
    gpus: [{{profile: H100-80, count: 8}}]
  - name: mixed
    gpus: [{{profile: A100-40, count: 2}}, {{profile: L4, count: 1}}]
    driver: host
  - name: plain
"""
GPUS = {"managed": 8, "mixed": 3, "plain": 0}
RESOURCE = "nvidia.com/gpu"
PODS = support.PODS
OPERATOR_PODS = f"/api/v1/namespaces/{chart.NAMESPACE}/pods"


class MainJob(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.file = pathlib.Path(folder.name) / "cluster.yaml"
        cls.file.write_text(FILE, encoding="utf-8")
        cls.before = support.Machine(NAME)
        cls.addClassCleanup(support.run, "down", NAME)
        cls.up = support.up(cls.file)
        print(cls.up.stdout, flush=True)
        if cls.up.returncode != 0:
            raise AssertionError(f"up ended with {cls.up.returncode}")
        cls.state = State(NAME)
        cls.client = api.Api(cls.state.kubeconfig)

    def nodes(self):
        return {node["metadata"]["name"]: node for node in self.client.get("/api/v1/nodes")["items"]}

    def on(self, node, *argv):
        """What a command on the node prints."""
        result = enter.run(self.state, node, list(argv), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return result.stdout.strip()

    def operator_pods(self):
        return {pod["metadata"]["name"]: pod for pod in self.client.get(OPERATOR_PODS)["items"]}

    def test_10_policy_is_ready_with_its_conditions(self):
        policy = self.client.get(chart.POLICIES)["items"][0]
        self.assertEqual(policy["status"]["state"], "ready")
        self.assertTrue(api.has_condition(policy, "Ready"))
        self.assertFalse(api.has_condition(policy, "Error"))

    def test_11_every_gpu_is_allocatable_and_no_other(self):
        for name, node in self.nodes().items():
            self.assertEqual(int(node["status"]["allocatable"].get(RESOURCE, "0")), GPUS[name], name)
            self.assertEqual(int(node["status"]["capacity"].get(RESOURCE, "0")), GPUS[name], name)

    def test_12_gpu_nodes_carry_their_labels(self):
        # Feature discovery is no part of what `up` waits for.
        node = self.client.wait("/api/v1/nodes", "managed", support.SECONDS,
                                lambda one: "nvidia.com/gpu.count" in one["metadata"]["labels"])
        self.assertIsNotNone(node, "feature discovery has not labelled the node")
        labels = node["metadata"]["labels"]
        expected = {"feature.node.kubernetes.io/pci-10de.present": "true", "nvidia.com/gpu.present": "true",
                    "nvidia.com/gpu.count": "8", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
                    "nvidia.com/gpu.family": "hopper", "nvidia.com/gpu.compute.major": "9",
                    "nvidia.com/gpu.deploy.driver": "true", "nvidia.com/gpu.deploy.container-toolkit": "true",
                    "nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/gpu.deploy.operator-validator": "true",
                    "nvidia.com/cuda.driver-version.full": "580.95.05", "nvidia.com/mig.strategy": "single"}
        for key, value in expected.items():
            self.assertEqual(labels.get(key), value, key)
        self.assertEqual(self.nodes()["mixed"]["metadata"]["labels"]["nvidia.com/gpu.deploy.driver"], "pre-installed")

    def test_13_the_node_without_gpu_is_left_alone(self):
        node = self.nodes()["plain"]
        self.assertEqual([key for key in node["metadata"]["labels"] if key.startswith("nvidia.com/")], [])
        operands = [name for name, pod in self.operator_pods().items() if pod["spec"].get("nodeName") == "plain"
                    and pod["metadata"].get("labels", {}).get("app", "").startswith(("nvidia-", "gpu-feature"))
                    and "node-feature-discovery" not in name]
        self.assertEqual(operands, [])
        for path in ("/etc/containerd/conf.d", "/etc/cdi", "/var/run/cdi", "/run/nvidia", "/usr/local/nvidia"):
            self.assertEqual(self.on("plain", "sh", "-c", f"ls -A {path} 2>/dev/null"), "", path)

    def test_14_the_pod_sees_the_one_gpu_that_it_was_given(self):
        pod = self.client.get(f"{PODS}/one-gpu")
        self.assertTrue(api.has_condition(pod, "Ready"))
        seen = self.client.log("default", "one-gpu")
        self.assertEqual(len(set(re.findall(r"/dev/nvidia\d+$", seen, re.MULTILINE))), 1, seen)
        self.assertIn("/dev/nvidiactl", seen)
        self.assertRegex(seen, r"(?m)^NVIDIA_VISIBLE_DEVICES=")
        self.assertIn("580.95.05", seen)
        self.assertIn(seen.strip().splitlines()[0], self.up.stdout)

    def test_15_the_pod_that_asks_for_too_many_waits_with_the_reason(self):
        pod = self.client.get(f"{PODS}/too-many-gpus")
        self.assertEqual(pod["status"]["phase"], "Pending")
        self.assertIn(f"Insufficient {RESOURCE}", api.condition(pod, "PodScheduled")["message"])

    def test_16_the_pod_on_the_node_without_gpu_ran_untouched(self):
        pod = self.client.get(f"{PODS}/no-gpu")
        self.assertEqual((pod["status"]["phase"], pod["spec"]["nodeName"]), ("Succeeded", "plain"))
        self.assertEqual(self.client.log("default", "no-gpu").splitlines(),
                         ["no GPU device nodes", "no GPU environment"])

    def test_17_every_gpu_of_a_node_can_be_used_and_none_twice(self):
        seen = {}
        for number in range(GPUS["mixed"]):
            pod = showcase.sample("one-gpu")
            pod["metadata"]["name"] = f"share-{number}"
            pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "mixed"}
            self.client.create(PODS, pod)
            self.addCleanup(self.client.wait_gone, PODS, f"share-{number}", support.SECONDS)
            self.addCleanup(self.client.delete, f"{PODS}/share-{number}")
        taken = self.client.get(f"{PODS}/one-gpu")["spec"]["nodeName"] == "mixed"
        for number in range(GPUS["mixed"] - taken):
            self.assertIsNotNone(self.client.wait(PODS, f"share-{number}", support.SECONDS, lambda one: api.has_condition(
                one, "Ready")), f"share-{number}")
            log = self.client.log("default", f"share-{number}")
            seen[f"share-{number}"] = re.findall(r"/dev/nvidia\d+$", log, re.MULTILINE)
        self.assertTrue(all(len(nodes) == 1 for nodes in seen.values()), seen)
        self.assertEqual(len({nodes[0] for nodes in seen.values()}), len(seen), seen)

    def test_20_up_again_changes_nothing(self):
        before = {name: (pod["metadata"]["uid"], [one["restartCount"] for one in pod["status"].get(
            "containerStatuses", [])]) for name, pod in self.operator_pods().items()}
        again = support.up(self.file)
        self.assertEqual(again.returncode, 0, again.stdout)
        self.assertIn("it is up already", again.stdout)
        self.assertIn("installed already", again.stdout)
        after = {name: (pod["metadata"]["uid"], [one["restartCount"] for one in pod["status"].get(
            "containerStatuses", [])]) for name, pod in self.operator_pods().items()}
        self.assertEqual(before, after)

    def test_30_a_kubelet_that_restarts_gets_its_gpus_back(self):
        """device-plugin.md: the plugin notices that the kubelet's socket was made anew and registers again."""
        self.on("mixed", "pkill", "-x", "kubelet")
        node = self.client.wait("/api/v1/nodes", "mixed", 60, lambda one: int(
            one["status"]["allocatable"].get(RESOURCE, "0")) == 0 or not api.has_condition(one, "Ready"))
        del node  # the gap may be too short to be seen
        self.assertIsNotNone(self.client.wait("/api/v1/nodes", "mixed", support.SECONDS, lambda one: api.has_condition(
            one, "Ready") and int(one["status"]["allocatable"].get(RESOURCE, "0")) == GPUS["mixed"]))

    def test_31_a_replaced_toolkit_leaves_containerd_alone(self):
        """Upstream's restarts it when it ends and when it starts (container-toolkit.md 4.15, 4.16)."""
        def is_toolkit(pod):
            return (pod["metadata"].get("labels", {}).get("app") == "nvidia-container-toolkit-daemonset"
                    and pod["spec"].get("nodeName") == "mixed")
        before = self.on("mixed", "pgrep", "-xo", "containerd")
        old = next(pod for pod in self.operator_pods().values() if is_toolkit(pod))
        # In grace, as a DaemonSet's controller does; the pod's token dies with the pod.
        self.client.request("DELETE", f"{OPERATOR_PODS}/{old['metadata']['name']}")
        for _, pod in self.client.watch(OPERATOR_PODS, support.SECONDS):
            if is_toolkit(pod) and pod["metadata"]["uid"] != old["metadata"]["uid"] and api.has_condition(pod, "Ready"):
                break
        else:
            self.fail("no toolkit came after the one that was deleted")
        self.assertEqual(self.on("mixed", "pgrep", "-xo", "containerd"), before)
        self.assertNotEqual(self.on("mixed", "ls", "-A", "/etc/containerd/conf.d"), "")

    def test_90_uninstalling_takes_everything_off_the_nodes(self):
        programs = Programs()
        with progress.step("programs") as step:
            programs.locate(step)
        chart.uninstall(self.state, programs)
        if self.operator_pods():
            for kind, _ in self.client.watch(OPERATOR_PODS, support.SECONDS):
                if kind == "DELETED" and not self.operator_pods():
                    break
        self.assertEqual(list(self.operator_pods()), [])
        self.assertEqual(self.client.find(chart.POLICIES)["items"], [])
        for name in ("managed", "mixed"):
            node = self.client.wait("/api/v1/nodes", name, support.SECONDS, lambda one: int(
                one["status"]["allocatable"].get(RESOURCE, "0")) == 0)
            self.assertIsNotNone(node, f"{name} still offers GPUs")
            self.assertEqual(self.on(name, "sh", "-c", "ls -A /etc/containerd/conf.d"), "", "containerd's drop-in")
        self.assertEqual(self.on("managed", "sh", "-c", "grep /run/nvidia/driver /proc/mounts; ls /dev | grep nvidia"), "")
        self.assertIn("nvidia0", self.on("mixed", "ls", "/dev"), "the host's own driver stays")

    def test_95_down_leaves_nothing(self):
        down = support.run("down", NAME)
        self.assertEqual(down.returncode, 0, down.stdout)
        self.assertEqual(support.Machine(NAME).differences(self.before), {})


if __name__ == "__main__":
    unittest.main()
