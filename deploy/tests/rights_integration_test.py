#!/usr/bin/env python3
"""Programs at work with the rights that they are given, and no others: nothing is refused. The operator has those of
the chart, an operand those of its manifests. PITCREW_PROGRAM names the pitcrew program. (That the operator has no
rights beside those is chart_test.py's.)"""

import json
import os
import pathlib
import re
import ssl
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import yaml

import support
from apiserver import ApiError, ApiServer
from processes import eventually
import unittest_main

sys.path[:0] = [str(support.ROOT), str(support.ROOT / "tests/differential/node")]
from cluster import kubevirt_definitions  # noqa: E402  pylint: disable=wrong-import-position
from simulated_node import LIBRARIES, MS_BIND, MS_REC, SimulatedNode, mount  # noqa: E402  pylint: disable=wrong-import-position

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
        objects = list(objects)
        kinds = {"Role": f"namespaces/{NAMESPACE}/roles", "RoleBinding": f"namespaces/{NAMESPACE}/rolebindings",
                 "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings"}
        for body in objects:
            if body["kind"] in kinds and body["apiVersion"] == RBAC:
                self.server.apply(f"/apis/{RBAC}/{kinds[body['kind']]}/{body['metadata']['name']}", body)
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}"
        self.server.apply(account, {"apiVersion": "v1", "kind": "ServiceAccount",
                                    "metadata": {"name": name, "namespace": NAMESPACE}})
        self.await_rights(name, objects)
        token = self.server.create(f"{account}/token", {"apiVersion": "authentication.k8s.io/v1",
                                                        "kind": "TokenRequest", "spec": {}})["status"]["token"]
        config = yaml.safe_load(pathlib.Path(self.server.kubeconfig()).read_text(encoding="utf-8"))
        for user in config["users"]:
            user["user"] = {"token": token}
        file = self.server.folder / "account.kubeconfig"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        return str(file)

    def await_rights(self, name, objects):
        """The server's authorizer learns of roles a moment after they are stored."""
        roles = {(body["kind"], body["metadata"]["name"]): body for body in objects if body["kind"].endswith("Role")}
        for binding in objects:
            if not binding["kind"].endswith("RoleBinding") or name not in [one["name"] for one in binding["subjects"]]:
                continue
            role = roles.get((binding["roleRef"]["kind"], binding["roleRef"]["name"]), {})
            rule = next((one for one in role.get("rules") or [] if one.get("resources")), None)
            if rule is None:
                continue
            resource, _, subresource = rule["resources"][0].partition("/")
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
                "user": f"system:serviceaccount:{NAMESPACE}:{name}",
                "resourceAttributes": {"verb": rule["verbs"][0], "group": rule["apiGroups"][0], "resource": resource,
                                       "subresource": subresource, "name": (rule.get("resourceNames") or [""])[0],
                                       "namespace": NAMESPACE if binding["kind"] == "RoleBinding" else ""}}}
            eventually(lambda review=review: self.server.create(
                "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"],
                f"{name} has the rights of {binding['kind']} {binding['metadata']['name']}")


class Operator(Account):
    VALUES = VALUES

    def setUp(self):
        super().setUp()
        for definition in support.crds().values():
            self.server.create_crd(definition)
        self.server.apply(f"/api/v1/namespaces/{NAMESPACE}", {
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}})
        objects = support.render(values=self.VALUES)
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

    def environment(self):
        return {"KUBECONFIG": self.kubeconfig, "OPERATOR_NAMESPACE": NAMESPACE, "PATH": os.environ["PATH"]}

    def start(self, *options):
        operator = subprocess.Popen(
            [PROGRAM, "operator", "--leader-elect", f"--leader-elect-namespace={NAMESPACE}",
             "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0", *options],
            env=self.environment(), stdout=self.log, stderr=self.log)
        self.addCleanup(operator.wait)
        self.addCleanup(operator.terminate)
        return operator

    def uninstall(self):
        """What it says."""
        gone = subprocess.run([PROGRAM, "uninstall", "--all"], env=self.environment(), capture_output=True, text=True,
                              check=False)
        self.assertEqual(gone.returncode, 0, gone.stdout + gone.stderr)
        return gone.stdout + gone.stderr


class WholeOperator(Operator):
    def test_nothing_is_refused(self):
        operator = self.start()
        daemonset = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/nvidia-driver-daemonset"
        self.eventually(lambda: self.server.get(daemonset), "the driver's DaemonSet")
        self.eventually(lambda: self.server.get("/apis/nvidia.com/v1/clusterpolicies/cluster-policy").get("status"),
                        "the policy's status")
        self.eventually(lambda: any(event["involvedObject"]["kind"] == "ClusterPolicy" for event in
                                    self.server.get("/api/v1/events")["items"]), "an event of the policy")
        namespace = self.server.get(f"/api/v1/namespaces/{NAMESPACE}")["metadata"]
        self.assertEqual(namespace["labels"]["pod-security.kubernetes.io/enforce"], "privileged")
        operator.terminate()
        operator.wait(240)
        said = self.uninstall()
        namespace = self.server.get(f"/api/v1/namespaces/{NAMESPACE}")["metadata"]
        self.assertEqual(namespace["labels"]["pod-security.kubernetes.io/enforce"], "baseline")
        self.assertNotIn("nvidia.com/gpu.present", self.server.get("/api/v1/nodes/gpu-1")["metadata"]["labels"])
        self.assertNotIn("forbidden", self.told() + said)


class OperatorThatManagesKubeVirt(Operator):
    """The rights that come with sandboxWorkloads.kubevirt.manage."""
    VALUES = {**VALUES, "sandboxWorkloads.enabled": True, "sandboxWorkloads.kubevirt.manage": True}
    A10 = "nvidia.com/GA102GL_A10"
    KUBEVIRT = "/apis/kubevirt.io/v1/namespaces/default/kubevirts/it"

    def setUp(self):
        super().setUp()
        for definition in yaml.safe_load_all(kubevirt_definitions.file().read_text(encoding="utf-8")):
            self.server.create_crd(definition)
        self.server.create("/apis/kubevirt.io/v1/namespaces/default/kubevirts", {
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "it"}, "spec": {"configuration": {
                "permittedHostDevices": {"pciHostDevices": [
                    {"pciVendorSelector": "8086:1572", "resourceName": "intel.com/nic"}]}}}})
        # What the node's kubelet says for the device plugin.
        self.server.request("PATCH", "/api/v1/nodes/gpu-1", {"metadata": {"labels": {
            "nvidia.com/gpu.workload.config": "vm-passthrough"}}}, "application/merge-patch+json")
        self.server.request("PATCH", "/api/v1/nodes/gpu-1/status", {"status": {
            "capacity": {self.A10: "1"}, "allocatable": {self.A10: "1"}}}, "application/merge-patch+json")

    def permitted(self):
        lists = self.server.get(self.KUBEVIRT)["spec"]["configuration"]["permittedHostDevices"]
        return [device["resourceName"] for device in lists["pciHostDevices"]]

    def test_nothing_is_refused(self):
        operator = self.start("--manage-kubevirt", f"--pci-ids={support.ROOT / 'deploy/image/pci.ids'}")
        self.eventually(lambda: self.permitted() == ["intel.com/nic", self.A10], "the permitted devices")
        self.eventually(lambda: any(event["reason"] == "PermittedDevicesChanged" for event in
                                    self.server.get("/api/v1/events")["items"]), "an event of the KubeVirt object")
        operator.terminate()
        operator.wait(240)
        said = self.uninstall()
        self.assertEqual(self.permitted(), ["intel.com/nic"])
        self.assertNotIn("forbidden", self.told() + said)


class NodeComponent(Account):
    """A component with the rights of its manifests, and its node."""
    STATE = None  # its folder of manifests
    NODE = "gpu-1"

    def manifests(self):
        folder = support.ROOT / "src/desired/manifests" / self.STATE
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

    def reasons(self):
        return {event["reason"] for event in self.server.get("/api/v1/events")["items"]}

    def change(self, label, value, states):
        """Which of these states the change that the label asks for ends with."""
        self.server.request("PATCH", f"/api/v1/nodes/{self.NODE}", {"metadata": {"labels": {
            label: value, f"{label}.state": None}}}, "application/merge-patch+json")
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            labels = self.server.get(f"/api/v1/nodes/{self.NODE}")["metadata"]["labels"]
            if labels.get(f"{label}.state") in states:
                return labels[f"{label}.state"]
            time.sleep(0.1)
        return "no end"

    def run_program(self, node, name, environment, work):
        """What `work` returns while the program runs, and what the program logs."""
        file = node.folder / "log"
        with open(file, "wb") as log, subprocess.Popen([name], executable=PROGRAM, env=environment, stdout=log,
                                                       stderr=log, stdin=subprocess.DEVNULL) as program:
            try:
                states = work()
            finally:
                program.terminate()  # it tells its last Events
        return {"states": states, "log": file.read_text(encoding="utf-8", errors="replace")}


class MigManager(NodeComponent):
    """On a node with simulated GPUs, of which pods hold some: one in need of eviction, one with a claim."""
    STATE = "state-mig-manager"
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

    def on_node(self, node):
        """In the mount namespace of the node."""
        mount("tmpfs", "/etc", "tmpfs")  # the manager writes its configurations there
        environment = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(node.root / LIBRARIES), "NODE_NAME": self.NODE,
                       "KUBECONFIG": self.kubeconfig, "POD_NAMESPACE": NAMESPACE, "POD_NAME": "manager",
                       "DEFAULT_GPU_CLIENTS_NAMESPACE": NAMESPACE, "HOST_ROOT_MOUNT": "/run/host",
                       "DRIVER_ROOT_CTR_PATH": str(node.root), "MIG_GPU_PODS": "drain", "DRAIN_USE_FORCE": "true"}
        return self.run_program(node, "nvidia-mig-manager", environment, lambda: [
            self.change("nvidia.com/mig.config", config, ("success", "failed"))
            for config in ("all-1g.10gb", "all-3g.40gb", "all-9g.90gb")])

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
        self.assertLessEqual({"MigChangeStarted", "MigChangeDrains", "MigChanged", "MigChangeFailed"}, self.reasons())


class ConfidentialComputingManager(NodeComponent):
    """On a node whose GPUs have registers. What the image starts is what its container's variable says."""
    STATE = "state-cc-manager"
    PLUGIN = "nvidia.com/gpu.deploy.kata-sandbox-device-plugin"

    @unittest.skipIf(os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK), "a sysfs needs root and /dev/fuse")
    def setUp(self):
        super().setUp()
        self.server.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.kubeconfig = self.create_account("nvidia-cc-manager", self.manifests())
        self.server.create("/api/v1/nodes", {"metadata": {"name": self.NODE, "labels": {self.PLUGIN: "true"}}})

    def on_node(self, node):
        os.mknod("/dev/fuse", stat.S_IFCHR | 0o600, os.makedev(10, 229))
        # Which registers a process means is in its folder of the real one.
        mount(node.folder / "proc", "/proc", flags=MS_BIND | MS_REC)
        served = subprocess.Popen([node.programs / "pitcrew-simulate", "sysfs", "--over", "/sys", "--no-uevents",
                                   "--description", node.folder / "gpus.yaml"], stdout=subprocess.PIPE)
        try:
            if not served.stdout.readline():
                raise RuntimeError("there is no simulated sysfs")
            return self.change_modes(node)
        finally:
            served.terminate()  # the node's last process: its mounts go with it
            served.wait()

    def change_modes(self, node):
        environment = {"PATH": "/usr/bin:/bin", "NODE_NAME": self.NODE, "KUBECONFIG": self.kubeconfig,
                       "OPERATOR_NAMESPACE": NAMESPACE, "HOST_ROOT": "/", "PITCREW_COMMAND": "k8s-cc-manager"}
        return self.run_program(node, "pitcrew", environment, lambda: [
            self.change("nvidia.com/cc.mode", mode, ("on", "off", "failed")) for mode in ("on", "off", "maybe")])

    def test_nothing_is_refused(self):
        with tempfile.TemporaryDirectory(prefix="rights-node-", dir="/tmp") as folder:
            node = SimulatedNode(pathlib.Path(folder, "node"), pathlib.Path(PROGRAM).parent,
                                 {"kernel": {"confidential": "tdx"}, "gpus": [{"profile": "H100-80", "count": 2}]},
                                 driver=False)
            result = node.run_inside(lambda: self.on_node(node))
        self.assertEqual(result["states"], ["on", "off", "failed"], result["log"])
        self.assertNotIn("forbidden", result["log"])
        self.assertEqual(self.server.get(f"/api/v1/nodes/{self.NODE}")["metadata"]["labels"][self.PLUGIN], "true")
        self.assertLessEqual({"CcModeChangeStarted", "CcModeChanged", "CcModeChangeFailed"}, self.reasons())


class Dashboard(Account):
    """The page of the fleet in a cluster, with the rights of its chart."""

    def test_nothing_that_it_shows_is_refused(self):
        for definition in support.crds().values():
            self.server.create_crd(definition)
        self.server.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        objects = support.render(values={"dashboard.enabled": True})
        kubeconfig = self.create_account("gpu-operator-dashboard", [
            body for name, body in objects.items() if name.endswith("/gpu-operator-dashboard")])
        policy = objects["ClusterPolicy/cluster-policy"]
        policy["spec"]["devicePlugin"]["config"] = {"name": "plugin-config"}
        self.server.create("/apis/nvidia.com/v1/clusterpolicies", policy)
        self.server.create("/api/v1/nodes", {"metadata": {"name": "gpu-1", "labels": {
            "feature.node.kubernetes.io/pci-10de.present": "true"}}})
        container = objects["Deployment/gpu-operator-dashboard"]["spec"]["template"]["spec"]["containers"][0]
        words = [word.replace(":8443", "127.0.0.1:0") for word in container["args"]]
        log = self.server.folder / "dashboard.log"
        with open(log, "wb") as out, subprocess.Popen([PROGRAM, *words, f"--kubeconfig={kubeconfig}"], stdout=out,
                                                      stderr=out) as program:
            try:
                port = eventually(lambda: re.search(r"port=\"?(\d+)", log.read_text()), lambda: log.read_text()).group(1)
                fleet = eventually(lambda: self.fleet(port, "admin"), lambda: log.read_text())
                # It asks who comes, and may.
                self.assertEqual(self.status(port, "nobody"), 401)
                self.assertEqual(self.status(port, "operator"), 403)
            finally:
                program.terminate()
        self.assertIn("node/gpu-1", fleet["set"])
        self.assertEqual([part for name, part in fleet["set"].items() if name.startswith("unknown/")], [])
        self.assertEqual(program.returncode, 0)

    @staticmethod
    def ask(port, token):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        request = urllib.request.Request(f"https://127.0.0.1:{port}/api/fleet", headers={"Authorization": f"Bearer {token}"})
        return urllib.request.urlopen(request, timeout=240, context=context)

    def fleet(self, port, token):
        try:
            with self.ask(port, token) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as refusal:
            self.assertEqual(refusal.code, 503, "it has not read the cluster yet")
            return None

    def status(self, port, token):
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.ask(port, token)
        return refused.exception.code


if __name__ == "__main__":
    unittest_main.main(verbosity=2)
