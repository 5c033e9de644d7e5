#!/usr/bin/env python3
"""The operator at work with the rights that the chart gives it, and no others: nothing is refused. PITCREW_PROGRAM names
the pitcrew program. (That it has no rights beside those is chart_test.py's.)"""

import os
import pathlib
import subprocess
import time
import unittest

import yaml

import support
from apiserver import ApiError, ApiServer

PROGRAM = os.environ.get("PITCREW_PROGRAM", str(support.ROOT / "build/dev/bin/pitcrew"))
NAMESPACE = "gpu-operator"
ACCOUNT = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/gpu-operator"
RBAC = "rbac.authorization.k8s.io/v1"
# A policy that makes the operator look at and write all that it does outside OpenShift.
VALUES = {"psa.enabled": True, "driver.licensingConfig.secretName": "license"}


class Rights(unittest.TestCase):
    def setUp(self):
        self.server = ApiServer().__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)
        for definition in support.crds().values():
            self.server.create_crd(definition)
        self.server.apply(f"/api/v1/namespaces/{NAMESPACE}", {
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}})
        objects = support.render(values=VALUES)
        kinds = {"Role": f"namespaces/{NAMESPACE}/roles", "RoleBinding": f"namespaces/{NAMESPACE}/rolebindings",
                 "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings"}
        for body in objects.values():
            if body["kind"] in kinds and body["apiVersion"] == RBAC:
                self.server.apply(f"/apis/{RBAC}/{kinds[body['kind']]}/{body['metadata']['name']}", body)
        self.server.apply(ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount",
                                    "metadata": {"name": "gpu-operator", "namespace": NAMESPACE}})
        self.server.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": {"name": "license"}})
        self.server.create("/api/v1/nodes", {"metadata": {"name": "gpu-1", "labels": {
            "feature.node.kubernetes.io/pci-10de.present": "true",
            "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
            "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04"}}})
        policy = objects["ClusterPolicy/cluster-policy"]
        self.server.create("/apis/nvidia.com/v1/clusterpolicies", policy)
        self.log = open(self.server.folder / "operator.log", "w+", encoding="utf-8")
        self.addCleanup(self.log.close)

    def environment(self):
        token = self.server.create(f"{ACCOUNT}/token", {"apiVersion": "authentication.k8s.io/v1",
                                                        "kind": "TokenRequest", "spec": {}})["status"]["token"]
        config = yaml.safe_load(pathlib.Path(self.server.kubeconfig()).read_text(encoding="utf-8"))
        for user in config["users"]:
            user["user"] = {"token": token}
        file = self.server.folder / "account.kubeconfig"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        return {"KUBECONFIG": str(file), "OPERATOR_NAMESPACE": NAMESPACE, "PATH": os.environ["PATH"]}

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
        environment = self.environment()
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
