"""GPUs divided by a node's label, on a whole cluster: from the label to pods, and what holds a change up.

One cluster serves all tests here, in the order of their names; each begins with the geometry that it needs.
"""

import json
import re
import subprocess
import unittest

import support  # first: it sets the state folder
from cluster import api, chart

NAME = support.cluster_name()
NODE = "gpu"
GPUS = 8
OWNED = "owned"  # with a driver of its own
FILE = f"""name: {NAME}
nodes:
  - name: {NODE}
    gpus: [{{profile: H100-80, count: {GPUS}}}]
  - name: {OWNED}
    gpus: [{{profile: A100-40, count: 2}}]
    driver: host
"""
VALUES = {"migManager": {"env": [{"name": "MIG_GPU_PODS", "value": "wait"}]}}
NODES, PODS, SECONDS = support.NODES, support.PODS, support.SECONDS
WHOLE = "nvidia.com/gpu"
CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
PROGRESS = "nvidia.com/mig.config.progress"


def pod(name, resource, node=NODE):
    """Prints the GPUs that it sees, and stays."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                     "nodeSelector": {"kubernetes.io/hostname": node},
                     "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                     "containers": [{"name": "main", "image": "docker.io/pitcrew/pitcrew:v26.7.0",
                                     "imagePullPolicy": "IfNotPresent", "command": ["/bin/sh", "-c"],
                                     "args": ["pitcrew smi -L && touch /tmp/shown && exec sleep infinity"],
                                     "startupProbe": {"exec": {"command": ["/bin/test", "-e", "/tmp/shown"]},
                                                      "periodSeconds": 1, "failureThreshold": 300},
                                     "resources": {"limits": {resource: 1}}}]}}


def progress(node):
    return json.loads(node["metadata"].get("annotations", {}).get(PROGRESS, "{}"))


class Mig(support.ClusterTest):
    NAME, FILE, VALUES = NAME, FILE, json.dumps(VALUES)

    def policy(self, spec):
        self.client.request("PATCH", f"{chart.POLICIES}/cluster-policy", {"spec": spec},
                            content_type="application/merge-patch+json")

    def strategy(self, name):
        self.policy({"mig": {"strategy": name}})

    def operand(self, app, node=NODE):
        """The node's pods of an operand, by the label that upstream gives them."""
        return [one for one in self.client.get(support.OPERATOR_PODS)["items"]
                if one["metadata"].get("labels", {}).get("app") == app and one["spec"].get("nodeName") == node]

    def manage(self, **variables):
        """The MIG manager runs with these variables, and no earlier one does any more."""
        def is_new(one):
            found = {entry["name"]: entry.get("value") for entry in one["spec"]["containers"][0]["env"]}
            ours = {name: value for name, value in found.items() if name.startswith(("MIG_GPU_PODS", "DRAIN_"))}
            return ours == variables and "deletionTimestamp" not in one["metadata"] and api.has_condition(one, "Ready")
        self.policy({"migManager": {"env": [{"name": name, "value": value} for name, value in variables.items()]}})
        for _ in self.client.watch(support.OPERATOR_PODS, SECONDS):
            pods = self.operand("nvidia-mig-manager")
            if len(pods) == 1 and is_new(pods[0]):
                return
        self.fail(f"the MIG manager does not run with {variables}")

    def wait_node(self, satisfied, what, name=NODE):
        node = self.client.wait(NODES, name, SECONDS, satisfied)
        if node is None:
            node = self.client.get(f"{NODES}/{name}")
            logs = [self.client.log(chart.NAMESPACE, one["metadata"]["name"])
                    for one in self.operand("nvidia-mig-manager", name)]
            offered = node["status"]["allocatable"]
            self.fail("\n".join([f"{what}: {json.dumps(node['metadata'], indent=1)} {offered}", *logs]))
        return node

    def await_offered(self, on=NODE, **parts):
        """By resource: gpu for nvidia.com/gpu, mig_1g_10gb for nvidia.com/mig-1g.10gb; of all others none."""
        wanted = {name.replace("mig_", "mig-").replace("_", "."): number for name, number in parts.items()}

        def offers(node):
            offered = {name.removeprefix("nvidia.com/"): int(number) for name, number in node["status"][
                "allocatable"].items() if name.startswith("nvidia.com/") and number != "0"}
            return offered == wanted
        return self.wait_node(offers, f"{wanted} is to be allocatable, and nothing else", on)

    def divide(self, config, state="success", node=NODE):
        self.label(node, CONFIG, config)
        return self.wait_node(
            lambda one: progress(one).get("config") == config and progress(one)["phase"] in ("done", "failed")
            and one["metadata"]["labels"].get(STATE) == state, f"{config} does not become {state}", node)

    def await_validated(self):
        """The node has been validated anew, as it is after a change."""
        for _ in self.client.watch(support.OPERATOR_PODS, SECONDS):
            if all(api.has_condition(one, "Ready") for one in self.operand("nvidia-operator-validator")):
                return
        self.fail("\n".join(chart.behind(self.client)))

    def seen_by(self, name):
        """The UUIDs of the MIG devices that the pod sees."""
        return re.findall(r"UUID: (MIG-[^)]+)\)", self.client.log("default", name))

    def parts(self):
        """Name and place of every MIG device of the node, as the driver tells them."""
        said = self.on(NODE, "chroot", "/run/nvidia/driver", "nvidia-smi", "-L")
        return re.findall(r"^GPU (\d+)|MIG (\S+) +Device +(\d+)", said, re.MULTILINE)

    def run_pods(self, names, resource):
        self.create(*(pod(name, resource) for name in names))
        self.await_all_ready(names)

    def test_10_single_every_gpu_in_seven_by_one_label(self):
        """mig-manager.md 9.4: 56 pods run at once on eight GPUs, each with a part of its own, and the 57th waits."""
        self.await_offered(gpu=GPUS)
        self.divide("all-1g.10gb")
        self.await_offered(gpu=56)
        labels = self.wait_node(lambda one: one["metadata"]["labels"].get("nvidia.com/gpu.count") == "56",
                                "feature discovery is to follow")["metadata"]["labels"]
        self.assertEqual(labels["nvidia.com/gpu.product"], "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb")
        self.assertEqual(labels["nvidia.com/mig.strategy"], "single")
        self.await_event(NODE, "MigChanged", "all-1g.10gb")
        names = [f"part-{number}" for number in range(57)]
        self.run_pods(names[:56], WHOLE)
        self.create(pod(names[56], WHOLE))
        waits = self.client.wait(PODS, names[56], SECONDS, lambda one: (api.condition(one, "PodScheduled") or {}).get(
            "status") == "False")
        self.assertIsNotNone(waits)
        self.assertIn(f"Insufficient {WHOLE}", api.condition(waits, "PodScheduled")["message"])
        seen = [self.seen_by(name) for name in names[:56]]
        self.assertEqual([len(one) for one in seen], [1] * 56)
        self.assertEqual(len({one[0] for one in seen}), 56, "a part was given away twice")
        # One ends, and the one that waits gets its part.
        self.client.delete(f"{PODS}/{names[0]}")
        self.await_all_ready([names[56]])
        self.assertEqual(self.seen_by(names[56]), seen[0])

    def test_11_a_node_with_a_driver_of_its_own(self):
        self.await_offered(on=OWNED, gpu=2)
        self.divide("all-1g.5gb", node=OWNED)
        self.await_offered(on=OWNED, gpu=14)
        self.create(pod("guest", WHOLE, OWNED))
        self.await_all_ready(["guest"])
        self.assertEqual(len(self.seen_by("guest")), 1)
        self.client.delete(f"{PODS}/guest")
        self.client.wait_gone(PODS, "guest", SECONDS)
        self.divide("all-disabled", node=OWNED)
        self.await_offered(on=OWNED, gpu=2)

    def test_20_a_kubelet_that_restarts_under_load(self):
        """device-plugin.md #50, on a divided node: pods keep their parts, and new ones get what is left."""
        self.divide("all-3g.40gb")
        self.await_offered(gpu=16)
        before, after = ([f"{when}-{number}" for number in range(8)] for when in ("before", "after"))
        self.run_pods(before, WHOLE)
        later = {name: pod(name, WHOLE) for name in after}
        self.create(*later.values())
        self.on(NODE, "pkill", "-x", "kubelet")
        self.await_all_ready(before + after, again=later)
        seen = [part for name in before + after for part in self.seen_by(name)]
        self.assertEqual((len(seen), len(set(seen))), (16, 16))
        self.await_offered(gpu=16)

    def test_21_the_plugin_is_killed_between_allocation_and_start(self):
        self.divide("all-3g.40gb")
        self.await_offered(gpu=16)
        self.create(pod("orphan", WHOLE))
        if self.kill_device_plugin_before("orphan", NODE, lambda: self.await_offered(gpu=16)):
            self.assertEqual(len(self.seen_by("orphan")), 1)
        self.run_pods(["next"], WHOLE)
        self.assertEqual(len(self.seen_by("next")), 1)

    def test_30_mixed_by_label(self):
        self.strategy("mixed")
        self.divide("all-balanced")
        node = self.await_offered(mig_1g_10gb=16, mig_2g_20gb=8, mig_3g_40gb=8)
        self.assertNotEqual(node["status"]["allocatable"].get(WHOLE), str(GPUS))
        self.run_pods(["large"], "nvidia.com/mig-3g.40gb")
        self.run_pods(["small"], "nvidia.com/mig-1g.10gb")
        for name, profile in (("large", "3g.40gb"), ("small", "1g.10gb")):
            said = self.client.log("default", name)
            self.assertEqual(re.findall(r"MIG (\S+)", said), [profile], said)

    def test_40_running_pods_hold_a_change_up_until_they_end(self):
        self.strategy("mixed")
        self.divide("all-3g.40gb")
        self.await_offered(mig_3g_40gb=16)
        self.run_pods(["training"], "nvidia.com/mig-3g.40gb")
        self.await_validated()
        plugin = self.device_plugin(NODE)
        self.label(NODE, CONFIG, "all-7g.80gb")
        node = self.wait_node(lambda one: progress(one).get("waitingFor"), "it is to wait")
        self.assertEqual(node["metadata"]["labels"][STATE], "pending")
        self.assertEqual(progress(node)["waitingFor"], ["default/training"])
        self.await_event(NODE, "MigChangeWaits", "default/training")
        told = subprocess.run([support.BUILD / "bin/pitcrew", "doctor", NODE, f"--kubeconfig={self.state.kubeconfig}"],
                              capture_output=True, text=True, check=False)
        self.assertIn("default/training", told.stdout, told.stderr)
        # A manager that dies meanwhile goes on waiting.
        self.on(NODE, "pkill", "-9", "-x", "nvidia-mig-mana")
        self.assertEqual(self.client.get(f"{PODS}/training")["status"]["phase"], "Running")
        self.client.delete(f"{PODS}/training")
        self.wait_node(lambda one: one["metadata"]["labels"][STATE] == "success" and progress(one)["phase"] == "done",
                       "it is to go on")
        self.await_offered(mig_7g_80gb=8)
        self.assertEqual(self.device_plugin(NODE), plugin, "the device plugin follows without a restart")

    def test_50_a_failed_change_is_taken_back(self):
        """A program that is no pod holds the last GPU: the change fails there, and the others go back."""
        self.strategy("mixed")
        self.divide("all-3g.40gb")
        self.await_offered(mig_3g_40gb=16)
        before = self.parts()
        self.on(NODE, "pitcrew-simulate", "gpu", "process", "7", "4242")
        node = self.divide("all-1g.10gb", state="failed")
        self.assertTrue(progress(node)["message"])
        self.await_event(NODE, "MigChangeFailed", "all-1g.10gb")
        self.await_offered(mig_3g_40gb=16)
        self.assertEqual(self.parts(), before)
        self.on(NODE, "pitcrew-simulate", "gpu", "process", "7", "4242", "--remove")
        self.divide("all-disabled")
        self.await_offered(gpu=GPUS)

    def test_60_running_pods_are_drained_by_policy(self):
        self.strategy("mixed")
        self.manage(MIG_GPU_PODS="drain", DRAIN_USE_FORCE="true")
        self.divide("all-3g.40gb")
        self.await_offered(mig_3g_40gb=16)
        self.run_pods(["guest"], "nvidia.com/mig-3g.40gb")
        self.divide("all-1g.10gb")
        self.assertIsNone(self.client.find(f"{PODS}/guest"))
        self.await_event(NODE, "MigChangeDrains", "default/guest")
        self.await_offered(mig_1g_10gb=56)

    def test_70_a_deadline_ends_the_change_and_nothing_has_changed(self):
        self.strategy("mixed")
        self.manage(MIG_GPU_PODS="wait", MIG_GPU_PODS_DEADLINE="3s")
        self.divide("all-3g.40gb")
        self.await_offered(mig_3g_40gb=16)
        self.run_pods(["stubborn"], "nvidia.com/mig-3g.40gb")
        node = self.divide("all-1g.10gb", state="failed")
        self.assertIn("default/stubborn", progress(node)["message"])
        self.await_offered(mig_3g_40gb=16)
        self.assertEqual(self.client.get(f"{PODS}/stubborn")["status"]["phase"], "Running")

    def test_80_the_nodes_own_configurations_are_in_a_config_map(self):
        found = self.client.get(f"/api/v1/namespaces/{chart.NAMESPACE}/configmaps/{NODE}-mig-config")
        for config in ("all-disabled:", "all-enabled:", "all-balanced:", "all-1g.10gb:", "all-7g.80gb:"):
            self.assertIn(config, found["data"]["config.yaml"])
        node = self.divide("all-9g.90gb", state="failed")
        self.assertIn("all-9g.90gb", progress(node)["message"])
        self.await_offered(mig_3g_40gb=16)


if __name__ == "__main__":
    unittest.main()
