#!/usr/bin/env python3
"""The CRDs, the policy that the chart renders, and the chart's roles on a real kube-apiserver.

Test names carry the item of clusterpolicy-api.md's conformance checklist (section 10).
"""

import subprocess
import time
import unittest

import yaml

import support
from apiserver import ApiError, ApiServer, find_program

POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
REQUIRED = ("daemonsets", "dcgm", "dcgmExporter", "devicePlugin", "driver", "gfd", "nodeStatusExporter", "operator",
            "toolkit")
NAMESPACE = "gpu-operator"


def setUpModule():  # pylint: disable=invalid-name
    global SERVER  # pylint: disable=global-statement
    SERVER = ApiServer().__enter__()
    unittest.addModuleCleanup(SERVER.__exit__, None, None, None)
    for definition in support.crds().values():
        SERVER.create_crd(definition)


def minimal(**members):
    """A policy with nothing but what is required, and the members given."""
    spec = {name: {} for name in REQUIRED}
    spec.update(members)
    return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"generateName": "test-"},
            "spec": spec}


class ServerTest(unittest.TestCase):
    maxDiff = None

    def accept(self, **members):
        """Creates a policy; returns the spec that the server then has."""
        return self.accept_object(minimal(**members)).get("spec", {})

    def accept_object(self, body):
        # Unknown fields are refused instead of dropped in silence.
        created = SERVER.create(f"{POLICIES}?fieldValidation=Strict", body)
        SERVER.delete(f"{POLICIES}/{created['metadata']['name']}")
        return created

    def refuse(self, field, **members):
        """The server refuses the policy and names the field."""
        with self.assertRaises(ApiError) as raised:
            self.accept(**members)
        self.assertEqual(raised.exception.code, 422, raised.exception)
        causes = [cause["field"] for cause in raised.exception.status["details"]["causes"]]
        self.assertIn(field, causes, raised.exception)


class ClusterPolicySchema(ServerTest):
    def test_1_defaults_of_the_required_members(self):
        """clusterpolicy-api.md #1"""
        self.assertEqual(self.accept(), {
            **{name: {} for name in REQUIRED},
            "operator": {"runtimeClass": "nvidia"},
            "daemonsets": {"updateStrategy": "RollingUpdate"},
            "driver": {"kernelModuleType": "auto"},
            "toolkit": {"installDir": "/usr/local/nvidia"},
        })

    def test_2_each_required_member(self):
        """clusterpolicy-api.md #2"""
        for name in REQUIRED:
            body = minimal()
            del body["spec"][name]
            with self.assertRaises(ApiError) as raised:
                self.accept_object(body)
            self.assertEqual(raised.exception.status["details"]["causes"][0]["field"], f"spec.{name}")

    def test_3_no_spec(self):
        """clusterpolicy-api.md #3"""
        body = minimal()
        del body["spec"]
        self.accept_object(body)

    def test_4_cdi(self):
        """clusterpolicy-api.md #4"""
        self.assertEqual(self.accept(cdi={})["cdi"], {"enabled": True, "default": False, "nriPluginEnabled": False})
        self.assertNotIn("cdi", self.accept())

    def test_5_sandbox_workloads(self):
        """clusterpolicy-api.md #5"""
        self.assertEqual(self.accept(sandboxWorkloads={"enabled": True})["sandboxWorkloads"],
                         {"enabled": True, "defaultWorkload": "container", "mode": "kubevirt"})
        self.refuse("spec.sandboxWorkloads.mode", sandboxWorkloads={"mode": "vmware"})
        self.refuse("spec.sandboxWorkloads.defaultWorkload", sandboxWorkloads={"defaultWorkload": "vm"})

    def test_6_upgrade_policy(self):
        """clusterpolicy-api.md #6"""
        policy = self.accept(driver={"upgradePolicy": {}})["driver"]["upgradePolicy"]
        self.assertEqual(policy, {"autoUpgrade": False, "maxParallelUpgrades": 1, "maxUnavailable": "25%"})
        policy = self.accept(driver={"upgradePolicy": {"drain": {}}})["driver"]["upgradePolicy"]
        self.assertEqual(policy["drain"],
                         {"deleteEmptyDir": False, "enable": False, "force": False, "timeoutSeconds": 300})
        self.refuse("spec.driver.upgradePolicy.maxParallelUpgrades",
                    driver={"upgradePolicy": {"maxParallelUpgrades": -1}})
        for share in (5, "10%"):
            self.accept(driver={"upgradePolicy": {"maxUnavailable": share}})

    def test_7_image(self):
        """clusterpolicy-api.md #7"""
        self.refuse("spec.driver.image", driver={"image": ""})
        self.accept(driver={"image": "nvcr.io/nvidia/driver@sha256:" + 64 * "0"})

    def test_8_default_layout(self):
        """clusterpolicy-api.md #8"""
        self.refuse("spec.migManager.config.default", migManager={"config": {"default": "all-enabled"}})
        for layout in ("", "all-disabled"):
            self.accept(migManager={"config": {"default": layout}})
        self.assertEqual(self.accept(migManager={"config": {}})["migManager"]["config"], {"default": "all-disabled"})

    def test_9_confidential_computing_mode(self):
        """clusterpolicy-api.md #9"""
        for mode in ("on", "off", "devtools"):
            self.accept(ccManager={"defaultMode": mode})
        for mode in ("ON", "", "auto"):
            self.refuse("spec.ccManager.defaultMode", ccManager={"defaultMode": mode})

    def test_10_mig_strategy(self):
        """clusterpolicy-api.md #10"""
        for strategy in ("none", "single", "mixed"):
            self.accept(mig={"strategy": strategy})
        self.refuse("spec.mig.strategy", mig={"strategy": "all"})

    def test_11_probe(self):
        """clusterpolicy-api.md #11"""
        self.refuse("spec.driver.startupProbe.periodSeconds", driver={"startupProbe": {"periodSeconds": 0}})
        self.accept(driver={"startupProbe": {"initialDelaySeconds": 0}})

    def test_12_service_monitor(self):
        """clusterpolicy-api.md #12"""
        for interval in ("15s", "1h30m", "0", ""):
            self.accept(dcgmExporter={"serviceMonitor": {"interval": interval}})
        self.refuse("spec.dcgmExporter.serviceMonitor.interval", dcgmExporter={"serviceMonitor": {"interval": "15 s"}})
        spec = self.accept(dcgmExporter={"serviceMonitor": {"relabelings": [{"targetLabel": "node"}]}})
        self.assertEqual(spec["dcgmExporter"]["serviceMonitor"]["relabelings"],
                         [{"action": "replace", "targetLabel": "node"}])

    def test_13_quantities(self):
        """clusterpolicy-api.md #13"""
        for quantity in (1, "500m", "1e3"):
            self.accept(toolkit={"resources": {"limits": {"cpu": quantity}}})
        self.refuse("spec.toolkit.resources.limits.memory", toolkit={"resources": {"limits": {"memory": "1 Gi"}}})

    def test_14_environment(self):
        """clusterpolicy-api.md #14"""
        self.refuse("spec.gfd.env[0].name", gfd={"env": [{"value": "x"}]})
        self.accept(gfd={"env": [{"name": "X"}]})

    def test_15_printed_columns(self):
        """clusterpolicy-api.md #15"""
        created = SERVER.create(POLICIES, minimal())
        try:
            result = subprocess.run([find_program("kubectl"), "--kubeconfig", SERVER.kubeconfig(), "get",
                                     "clusterpolicy"], capture_output=True, text=True, check=True)
            self.assertEqual(result.stdout.splitlines()[0].split(), ["NAME", "STATUS", "AGE"])
        finally:
            SERVER.delete(f"{POLICIES}/{created['metadata']['name']}")

    def test_16_status(self):
        """clusterpolicy-api.md #16"""
        created = SERVER.create(POLICIES, minimal())
        path = f"{POLICIES}/{created['metadata']['name']}/status"
        try:
            for status, field in (({"state": "disabled"}, "status.state"), ({"namespace": "x"}, "status.state")):
                with self.assertRaises(ApiError) as raised:
                    SERVER.replace(path, {**created, "status": status})
                self.assertEqual(raised.exception.status["details"]["causes"][0]["field"], field)
            condition = {"type": "Ready", "status": "True", "reason": "Reconciled", "message": "",
                         "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}
            status = {"state": "notReady", "namespace": NAMESPACE, "conditions": [condition]}
            self.assertEqual(SERVER.replace(path, {**created, "status": status})["status"], status)
        finally:
            SERVER.delete(f"{POLICIES}/{created['metadata']['name']}")

    def test_unknown_fields_are_named(self):
        with self.assertRaises(ApiError) as raised:
            self.accept(toolkit={"enabeld": False})
        self.assertEqual(raised.exception.code, 400)
        self.assertIn('unknown field "spec.toolkit.enabeld"', str(raised.exception))


class RenderedPolicies(ServerTest):
    def test_golden_cases_are_valid(self):
        for folder in sorted(support.DATA.iterdir()):
            if (folder / "expected_error.txt").exists():
                continue
            objects = support.render("-f", folder / "values.yaml")
            body = objects.get("ClusterPolicy/cluster-policy")
            if body:
                with self.subTest(folder.name):
                    self.accept_object(body)


class NodeFeatures(ServerTest):
    def test_features_of_a_node(self):
        """node-feature-discovery.md section 3.2."""
        path = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/default/nodefeatures"
        body = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeature", "metadata": {"name": "node-a"},
                "spec": {
                    "features": {
                        "flags": {"kernel.loadedmodule": {"elements": {"nvidia": {}}}},
                        "attributes": {"kernel.version": {"elements": {"full": "6.1.0"}}},
                        "instances": {"pci.device": {"elements": [{"attributes": {"vendor": "10de"}}]}}},
                    "labels": {"feature.node.kubernetes.io/pci-10de.present": "true"}}}
        created = SERVER.create(f"{path}?fieldValidation=Strict", body)
        self.assertEqual(created["spec"], body["spec"])
        with self.assertRaises(ApiError):
            SERVER.create(path, {**body, "metadata": {"name": "node-b"},
                                 "spec": {"features": {"flags": {"x.y": {}}}}})

    def test_rules(self):
        """node-feature-discovery.md section 3.3: the empty operator is refused."""
        rule = support.render(values={"nfd.nodefeaturerules": True})["NodeFeatureRule/nvidia-kernel-modules"]
        path = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"
        SERVER.create(f"{path}?fieldValidation=Strict", rule)
        rule["metadata"]["name"] = "refused"
        rule["spec"]["rules"][0]["matchFeatures"][0]["matchExpressions"] = {"x": {"op": ""}}
        with self.assertRaises(ApiError) as raised:
            SERVER.create(path, rule)
        self.assertEqual(raised.exception.code, 422)


# This state is never enabled: its manifests only name what an older release may have left.
REMOVED_ONLY = "state-kata-manager"


class Roles(ServerTest):
    """operator-behaviour.md section 16: Kubernetes lets nobody grant what he does not hold."""

    RBAC = "rbac.authorization.k8s.io"
    PATHS = {
        "Role": f"/apis/{RBAC}/v1/namespaces/{NAMESPACE}/roles",
        "RoleBinding": f"/apis/{RBAC}/v1/namespaces/{NAMESPACE}/rolebindings",
        "ClusterRole": f"/apis/{RBAC}/v1/clusterroles",
        "ClusterRoleBinding": f"/apis/{RBAC}/v1/clusterrolebindings",
    }
    # Kinds of operands: group, resource, and whether they live in the operator's namespace.
    RESOURCES = {
        "ServiceAccount": ("", "serviceaccounts", True),
        "ConfigMap": ("", "configmaps", True),
        "Service": ("", "services", True),
        "DaemonSet": ("apps", "daemonsets", True),
        "ServiceMonitor": ("monitoring.coreos.com", "servicemonitors", True),
        "PrometheusRule": ("monitoring.coreos.com", "prometheusrules", True),
        "RuntimeClass": ("node.k8s.io", "runtimeclasses", False),
        "SecurityContextConstraints": ("security.openshift.io", "securitycontextconstraints", False),
    }

    @classmethod
    def setUpClass(cls):
        SERVER.apply(f"/api/v1/namespaces/{NAMESPACE}",
                     {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for item in support.render().values():
            if item["apiVersion"].startswith(cls.RBAC):
                SERVER.apply(f"{cls.PATHS[item['kind']]}/{item['metadata']['name']}", item)

    def test_operator_may_create_the_roles_of_its_operands(self):
        operator = f"system:serviceaccount:{NAMESPACE}:gpu-operator"
        checked = set()
        for path in sorted((support.ROOT / "src/desired/manifests").glob("*/*.yaml")):
            for body in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                if not body or body["kind"] not in self.PATHS or path.parent.name == REMOVED_ONLY:
                    continue
                for subject in body.get("subjects", []):
                    subject.setdefault("namespace", NAMESPACE)
                name = body["metadata"]["name"]
                with self.subTest(str(path.relative_to(support.ROOT))):
                    SERVER.apply(f"{self.PATHS[body['kind']]}/{name}", body, manager="pitcrew", user=operator)
                    checked.add(body["kind"])
        self.assertEqual(checked, set(self.PATHS))

    def test_operator_may_look_after_every_kind_of_its_operands(self):
        verbs = ("get", "list", "watch", "create", "patch", "delete")
        kinds = dict(self.RESOURCES)
        for kind, path in self.PATHS.items():
            kinds[kind] = (self.RBAC, path.rsplit("/", 1)[1], "/namespaces/" in path)
        for path in sorted((support.ROOT / "src/desired/manifests").glob("*/*.yaml")):
            for body in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                if body:
                    self.assertIn(body["kind"], kinds, path)
        for group, resource, namespaced in kinds.values():
            for verb in verbs:
                self.await_allowed("gpu-operator", verb, group, resource, NAMESPACE if namespaced else "")

    def test_hooks(self):
        """operator-behaviour.md section 17: what each hook's account has to do."""
        crds = ("apiextensions.k8s.io", "customresourcedefinitions")
        for account, verb, group, resource in (
                ("gpu-operator-upgrade-crd-hook-sa", "create", *crds),
                ("gpu-operator-upgrade-crd-hook-sa", "patch", *crds),
                ("gpu-operator", "delete", "nvidia.com", "clusterpolicies"), ("gpu-operator", "patch", *crds),
                ("gpu-operator", "patch", "", "nodes")):
            self.await_allowed(account, verb, group, resource)
        self.await_allowed("gpu-operator", "patch", "", "namespaces", NAMESPACE)
        self.assertFalse(self.allowed("gpu-operator", "patch", "", "namespaces", "default"))
        # Only with operator.cleanupCRD.
        self.assertFalse(self.allowed("gpu-operator", "delete", *crds))

    def await_allowed(self, *what):
        """The server's authorizer learns of new roles a moment after they are stored."""
        deadline = time.monotonic() + 240
        while not self.allowed(*what):
            self.assertLess(time.monotonic(), deadline, f"not allowed: {what}")

    def allowed(self, account, verb, group, resource, namespace=""):
        resource, _, subresource = resource.partition("/")
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
            "user": f"system:serviceaccount:{NAMESPACE}:{account}",
            "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "subresource": subresource,
                                   "namespace": namespace}}}
        return SERVER.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]

    def test_node_feature_discovery(self):
        """node-feature-discovery.md sections 5.6, 8.10 and 9: one account for worker, master and collector."""
        nfd = "nfd.k8s-sigs.io"
        for verb, group, resource, namespace in (
                ("create", nfd, "nodefeatures", NAMESPACE), ("update", nfd, "nodefeatures", NAMESPACE),
                ("list", nfd, "nodefeatures", ""), ("watch", nfd, "nodefeaturerules", ""),
                ("delete", nfd, "nodefeatures", "default"), ("patch", "", "nodes", ""),
                ("patch", "", "nodes/status", ""), ("get", "", "pods", NAMESPACE),
                ("create", "coordination.k8s.io", "leases", NAMESPACE)):
            self.await_allowed("node-feature-discovery", verb, group, resource, namespace)
        self.assertFalse(self.allowed("node-feature-discovery", "delete", "", "nodes"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
