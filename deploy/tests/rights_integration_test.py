#!/usr/bin/env python3
"""Programs at work with the rights that they are given, and no others: nothing is refused. The operator has those of
the chart, an operand those of its manifests. PITCREW_PROGRAM names the pitcrew program. (That the operator has no
rights beside those is chart_test.py's.)"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import yaml

import support
from apiserver import ApiError, ApiServer

sys.path.insert(0, str(support.ROOT / "tests/differential/node"))
from simulated_node import LIBRARIES, SimulatedNode, mount  # noqa: E402  pylint: disable=wrong-import-position

PROGRAM = os.environ.get("PITCREW_PROGRAM", str(support.ROOT / "build/dev/bin/pitcrew"))
NAMESPACE = "gpu-operator"
RBAC = "rbac.authorization.k8s.io/v1"
# A policy that makes the operator look at and write all that it does outside OpenShift.
VALUES = {"psa.enabled": True, "driver.licensingConfig.secretName": "license"}


class Account(unittest.TestCase):
    """A server, and a service account on it."""

    def setUp(self):
        self.server = ApiServer().__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)

    def create_account(self, name, objects):
        """With the rights among these objects. Returns the kubeconfig."""
        kinds = {"Role": f"namespaces/{NAMESPACE}/roles", "RoleBinding": f"namespaces/{NAMESPACE}/rolebindings",
                 "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings"}
        for body in objects:
            if body["kind"] in kinds and body["apiVersion"] == RBAC:
                self.server.apply(f"/apis/{RBAC}/{kinds[body['kind']]}/{body['metadata']['name']}", body)
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}"
        self.server.apply(account, {"apiVersion": "v1", "kind": "ServiceAccount",
                                    "metadata": {"name": name, "namespace": NAMESPACE}})
        token = self.server.create(f"{account}/token", {"apiVersion": "authentication.k8s.io/v1",
                                                        "kind": "TokenRequest", "spec": {}})["status"]["token"]
        config = yaml.safe_load(pathlib.Path(self.server.kubeconfig()).read_text(encoding="utf-8"))
        for user in config["users"]:
            user["user"] = {"token": token}
        file = self.server.folder / "account.kubeconfig"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        return str(file)


class Operator(Account):
    def setUp(self):
        super().setUp()
        for definition in support.crds().values():
            self.server.create_crd(definition)
        self.server.apply(f"/api/v1/namespaces/{NAMESPACE}", {
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}})
        objects = support.render(values=VALUES)
        self.kubeconfig = self.create_account("gpu-operator", objects.values())
        self.server.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": {"name": "license"}})
        self.server.create("/api/v1/nodes", {"metadata": {"name": "gpu-1", "labels": {
            "feature.node.kubernetes.io/pci-10de.present": "true",
            "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
            "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04"}}})
        policy = objects["ClusterPolicy/cluster-policy"]
        self.server.create("/apis/nvidia.com/v1/clusterpolicies", policy)
        self.log = open(self.server.folder / "operator.log", "w+", encoding="utf-8")
        self.addCleanup(self.log.close)

    def told(self):
        self.log.flush()
        return (self.server.folder / "operator.log").read_text(encoding="utf-8")

    def eventually(self, condition, what):
        deadline = time.monotonic() + 120
        while True:
            try:
                if condition():
                    return
            except ApiError:
                pass
            self.assertLess(time.monotonic(), deadline, f"{what}:\n{self.told()[-3000:]}")
            time.sleep(0.1)

    def test_nothing_is_refused(self):
        environment = {"KUBECONFIG": self.kubeconfig, "OPERATOR_NAMESPACE": NAMESPACE, "PATH": os.environ["PATH"]}
        operator = subprocess.Popen(
            [PROGRAM, "operator", "--leader-elect", f"--leader-elect-namespace={NAMESPACE}",
             "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"],
            env=environment, stdout=self.log, stderr=self.log)
        self.addCleanup(operator.wait)
        self.addCleanup(operator.terminate)
        daemonset = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/nvidia-driver-daemonset"
        self.eventually(lambda: self.server.get(daemonset), "the driver's DaemonSet")
        self.eventually(lambda: self.server.get("/apis/nvidia.com/v1/clusterpolicies/cluster-policy").get("status"),
                        "the policy's status")
        self.eventually(lambda: any(event["involvedObject"]["kind"] == "ClusterPolicy" for event in
                                    self.server.get("/api/v1/events")["items"]), "an event of the policy")
        namespace = self.server.get(f"/api/v1/namespaces/{NAMESPACE}")["metadata"]
        self.assertEqual(namespace["labels"]["pod-security.kubernetes.io/enforce"], "privileged")
        operator.terminate()
        operator.wait(60)
        gone = subprocess.run([PROGRAM, "uninstall", "--all"], env=environment, capture_output=True, text=True,
                              check=False)
        self.assertEqual(gone.returncode, 0, gone.stdout + gone.stderr)
        namespace = self.server.get(f"/api/v1/namespaces/{NAMESPACE}")["metadata"]
        self.assertEqual(namespace["labels"]["pod-security.kubernetes.io/enforce"], "baseline")
        self.assertNotIn("nvidia.com/gpu.present", self.server.get("/api/v1/nodes/gpu-1")["metadata"]["labels"])
        self.assertNotIn("forbidden", self.told() + gone.stdout + gone.stderr)


class MigManager(Account):
    """On a node with simulated GPUs, of which pods hold some: one in need of eviction, one with a claim."""
    NODE = "gpu-1"
    PODS = "/api/v1/namespaces/default/pods"
    OWN_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"

    @unittest.skipIf(os.geteuid() != 0, "mount namespaces need root")
    def setUp(self):
        super().setUp()
        self.server.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.kubeconfig = self.create_account("nvidia-mig-manager", self.manifests())
        self.server.create("/api/v1/nodes", {"metadata": {"name": self.NODE, "labels": {
            "nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/gpu.deploy.gpu-feature-discovery": "true",
            "nvidia.com/gpu.deploy.client": "true"}}})
        self.create_pod(self.OWN_PODS, "manager")
        self.create_pod(self.OWN_PODS, "old-validation", labels={"app": "nvidia-cuda-validator"})
        self.create_pod(self.PODS, "job", limits={"nvidia.com/gpu": "1"})
        self.server.create("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", {
            "metadata": {"name": "disk"}, "spec": {"devices": {"requests": [
                {"name": "one", "exactly": {"deviceClassName": "disk.example.com"}}]}}})
        self.create_pod(self.PODS, "with-claim", resourceClaims=[{"name": "disk", "resourceClaimName": "disk"}])

    @staticmethod
    def manifests():
        folder = support.ROOT / "src/desired/manifests/state-mig-manager"
        for file in sorted(folder.glob("*.yaml")):
            for body in yaml.safe_load_all(file.read_text(encoding="utf-8")):
                for subject in body.get("subjects", []):
                    subject["namespace"] = NAMESPACE  # as the operator does
                yield body

    def create_pod(self, path, name, labels=None, limits=None, **spec):
        container = {"name": "c", "image": "i", "resources": {"limits": limits or {}}}
        self.server.create(path, {"metadata": {"name": name, "labels": labels or {}}, "spec": {
            "nodeName": self.NODE, "terminationGracePeriodSeconds": 0, "containers": [container], **spec}})

    def names(self, path):
        return {item["metadata"]["name"] for item in self.server.get(path)["items"]}

    def change(self, config):
        """The state that the change to this configuration ends with."""
        self.server.request("PATCH", f"/api/v1/nodes/{self.NODE}", {"metadata": {"labels": {
            "nvidia.com/mig.config": config, "nvidia.com/mig.config.state": None}}}, "application/merge-patch+json")
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            labels = self.server.get(f"/api/v1/nodes/{self.NODE}")["metadata"]["labels"]
            if labels.get("nvidia.com/mig.config.state") in ("success", "failed"):
                return labels["nvidia.com/mig.config.state"]
            time.sleep(0.1)
        return "no end"

    def on_node(self, node):
        """In the mount namespace of the node."""
        mount("tmpfs", "/etc", "tmpfs")  # the manager writes its configurations there
        environment = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(node.root / LIBRARIES), "NODE_NAME": self.NODE,
                       "KUBECONFIG": self.kubeconfig, "POD_NAMESPACE": NAMESPACE, "POD_NAME": "manager",
                       "DEFAULT_GPU_CLIENTS_NAMESPACE": NAMESPACE, "HOST_ROOT_MOUNT": "/run/host",
                       "DRIVER_ROOT_CTR_PATH": str(node.root), "MIG_GPU_PODS": "drain", "DRAIN_USE_FORCE": "true"}
        file = node.folder / "log"
        with open(file, "wb") as log, subprocess.Popen(["nvidia-mig-manager"], executable=PROGRAM, env=environment,
                                                       stdout=log, stderr=log, stdin=subprocess.DEVNULL) as manager:
            try:
                states = [self.change(config) for config in ("all-1g.10gb", "all-3g.40gb", "all-9g.90gb")]
            finally:
                manager.terminate()  # it tells its last Events
        return {"states": states, "log": file.read_text(encoding="utf-8", errors="replace")}

    def test_nothing_is_refused(self):
        with tempfile.TemporaryDirectory(prefix="rights-node-", dir="/tmp") as folder:
            node = SimulatedNode(pathlib.Path(folder, "node"), pathlib.Path(PROGRAM).parent,
                                 {"gpus": [{"profile": "H100-80", "count": 2}]})
            result = node.run_inside(lambda: self.on_node(node))
        self.assertEqual(result["states"], ["success", "success", "failed"], result["log"])
        self.assertNotIn("forbidden", result["log"])
        self.assertEqual(self.names(self.PODS), {"with-claim"}, "the pod with a GPU is evicted, the other one stays")
        self.assertEqual(self.names(self.OWN_PODS), {"manager"}, "an old validation is removed")
        self.assertIn(f"{self.NODE}-mig-config", self.names(f"/api/v1/namespaces/{NAMESPACE}/configmaps"))
        reasons = {event["reason"] for event in self.server.get("/api/v1/events")["items"]}
        self.assertLessEqual({"MigChangeStarted", "MigChangeDrains", "MigChanged", "MigChangeFailed"}, reasons)


if __name__ == "__main__":
    unittest.main(verbosity=2)
