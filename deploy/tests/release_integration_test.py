#!/usr/bin/env python3
"""The chart's whole life on a real kube-apiserver, hooks included: install, upgrade, rollback, uninstall.

Nothing starts pods there, so the test runs what a hook's Job says, as the Job's service account, and tells
Helm how it ended. PITCREW_PROGRAM names the pitcrew program.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import threading
import unittest

import yaml

import support
from apiserver import ApiError, ApiServer, find_program
import unittest_main

PROGRAM = os.environ.get("PITCREW_PROGRAM", str(support.ROOT / "build/dev/bin/pitcrew"))
UPSTREAM = os.environ.get("PITCREW_UPSTREAM_CHART")
NAMESPACE = "release"
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
DAEMONSETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
MERGE = "application/merge-patch+json"
# The subchart's hook.
PRUNE = "gpu-operator-node-feature-discovery-prune"


def definitions(server):
    return [item["metadata"]["name"] for item in server.get(CRDS)["items"]]


class Hooks(threading.Thread):
    """Kubelet and job controller, for the Jobs of the release's namespace."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.ran, self.done = server, [], threading.Event()

    def run(self):
        while not self.done.wait(0.2):
            try:
                for job in self.server.get(JOBS)["items"]:
                    if not job["status"].get("conditions"):
                        self.run_job(job)
            except ApiError as error:
                if error.code != 404:
                    raise

    def run_job(self, job):
        name = job["metadata"]["name"]
        pod = job["spec"]["template"]["spec"]
        container = pod["containers"][0]
        command = [argument.replace("/opt/gpu-operator", str(self.server.folder / "definitions"))
                   for argument in container["command"] + container.get("args", [])]
        # The image has such links.
        link = self.server.folder / command[0]
        if not link.exists():
            link.symlink_to(PROGRAM)
        command[0] = str(link)
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env={
            "KUBECONFIG": self.kubeconfig(pod["serviceAccountName"]), "OPERATOR_NAMESPACE": NAMESPACE,
            "KUBERNETES_NAMESPACE": NAMESPACE})
        self.ran.append((name, result.returncode, result.stdout + result.stderr))
        now = "2026-01-01T00:00:00Z"
        good = result.returncode == 0
        kinds = ("SuccessCriteriaMet", "Complete") if good else ("FailureTarget", "Failed")
        status = {"startTime": now, "succeeded" if good else "failed": 1,
                  "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds]}
        if good:
            status["completionTime"] = now
        self.server.request("PATCH", f"{JOBS}/{name}/status", {"status": status}, MERGE)

    def kubeconfig(self, account):
        token = self.server.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token",
                                   {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        path = self.server.folder / f"{account}.kubeconfig"
        path.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": f"https://127.0.0.1:{self.server.port}",
                                                   "insecure-skip-tls-verify": True}}],
            "users": [{"name": "x", "user": {"token": token["status"]["token"]}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}), encoding="utf-8")
        return str(path)


class ReleaseTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.server = ApiServer().__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)
        self.definitions = self.server.folder / "definitions"
        self.definitions.mkdir()
        for path in [*(support.CHART / "crds").iterdir(), *(support.NFD_CHART / "crds").iterdir()]:
            (self.definitions / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
        self.server.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.server.create("/api/v1/nodes", {"metadata": {"name": "gpu-1", "labels": {
            "nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.driver": "true",
            "nvidia.com/gpu.deploy.dcgm": "false", "nvidia.com/gpu.product": "A100"}}})
        self.hooks = Hooks(self.server)
        self.hooks.start()
        self.addCleanup(self.hooks.done.set)

    def helm(self, *arguments):
        folder = self.server.folder / "helm"
        env = {**os.environ, "HELM_CACHE_HOME": str(folder), "HELM_CONFIG_HOME": str(folder),
               "HELM_DATA_HOME": str(folder), "KUBECONFIG": self.server.kubeconfig()}
        result = subprocess.run([find_program("helm"), *map(str, arguments), "--namespace", NAMESPACE,
                                 "--timeout", "3m"], capture_output=True, text=True, env=env, check=False)
        self.assertEqual(result.returncode, 0, f"{result.stderr}\n{self.hooks.ran}")
        return result.stdout

    def policy(self):
        return self.server.get(f"{POLICIES}/cluster-policy")

    def hook_names(self):
        return [name for name, code, _ in self.hooks.ran if code == 0]

    def schema(self):
        version = self.server.get(f"{CRDS}/clusterpolicies.nvidia.com")["spec"]["versions"][0]
        return version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]

    def own(self, name):
        """A DaemonSet as the operator would make it."""
        policy = self.policy()["metadata"]
        owner = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": policy["name"],
                 "uid": policy["uid"], "controller": True, "blockOwnerDeletion": True}
        self.server.create(DAEMONSETS, {
            "metadata": {"name": name, "labels": {"nvidia.com/gpu-operator.state": "state-driver"},
                         "ownerReferences": [owner]},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})

    def node_labels(self):
        return self.server.get("/api/v1/nodes/gpu-1")["metadata"]["labels"]


class Release(ReleaseTest):
    def test_install_upgrade_rollback_uninstall(self):
        release = ("gpu-operator", support.CHART)
        notes = self.helm("install", *release, "--set", "psp.enabled=true,cdi.default=true")
        self.assertIn("kubectl get clusterpolicy cluster-policy", notes)
        self.assertIn("have no effect in this version: cdi.default, psp", notes)
        self.assertRegex(notes, rf"Pitcrew v\S+ is installed in namespace {NAMESPACE}\.")
        self.assertIn(f"kubectl exec -n {NAMESPACE} deployment/gpu-operator -- pitcrew doctor", notes)
        for told_only_where_it_is_so in ("No ClusterPolicy was created", "nfd.enabled=false", "upgradeCRD=false"):
            self.assertNotIn(told_only_where_it_is_so, notes)
        self.assertEqual(self.policy()["spec"]["mig"]["strategy"], "single")
        self.assertEqual(self.hooks.ran, [])
        # Helm would leave an old schema as it is, and the server drop what it does not know.
        definition = self.server.get(f"{CRDS}/clusterpolicies.nvidia.com")
        version = definition["spec"]["versions"][0]
        del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["gds"]
        self.server.request("PATCH", f"{CRDS}/clusterpolicies.nvidia.com",
                            {"spec": {"versions": definition["spec"]["versions"]}}, MERGE)
        self.assertNotIn("gds", self.schema())
        self.helm("upgrade", *release, "--set", "mig.strategy=mixed,gds.enabled=true")
        self.assertEqual(self.hook_names(), ["gpu-operator-upgrade-crd"], self.hooks.ran)
        self.assertIn("gds", self.schema())
        self.assertEqual(self.policy()["spec"]["mig"]["strategy"], "mixed")
        self.assertIs(self.policy()["spec"]["gds"]["enabled"], True)
        self.helm("rollback", "gpu-operator", "1")
        self.assertEqual(self.policy()["spec"]["mig"]["strategy"], "single")
        self.own("nvidia-driver-daemonset")
        self.helm("uninstall", "gpu-operator")
        self.assertEqual(self.hook_names()[1:], ["gpu-operator-uninstall", PRUNE], self.hooks.ran)
        self.assertEqual(self.server.get(POLICIES)["items"], [])
        self.assertEqual(self.server.get(DAEMONSETS)["items"], [])
        self.assertEqual(self.node_labels(), {"nvidia.com/gpu.deploy.dcgm": "false",
                                              "nvidia.com/gpu.product": "A100"})
        roles = self.server.get("/apis/rbac.authorization.k8s.io/v1/clusterroles")["items"]
        self.assertFalse([role for role in roles if "gpu-operator" in role["metadata"]["name"]])
        self.assertEqual(self.server.get(JOBS)["items"], [])
        self.assertTrue(self.schema(), "definitions stay")

    def test_uninstall_with_the_definitions(self):
        self.helm("install", "gpu-operator", support.CHART, "--set", "operator.cleanupCRD=true")
        self.own("nvidia-driver-daemonset")
        self.helm("uninstall", "gpu-operator")
        self.assertEqual(self.hook_names(), ["gpu-operator-uninstall", "gpu-operator-cleanup-crd", PRUNE],
                         self.hooks.ran)
        # The hook has waited until the server had emptied them.
        for name in ("clusterpolicies.nvidia.com", "nodefeatures.nfd.k8s-sigs.io"):
            self.assertNotIn(name, definitions(self.server))
        self.assertEqual(self.server.get(DAEMONSETS)["items"], [])
        self.assertNotIn("nvidia.com/gpu.present", self.node_labels())

    def test_definitions_left_to_a_person(self):
        release = ("gpu-operator", support.CHART, "--set", "operator.upgradeCRD=false")
        self.helm("install", *release)
        notes = self.helm("upgrade", *release)
        self.assertIn("helm show crds CHART | kubectl apply --server-side", notes)
        self.assertEqual(self.hooks.ran, [])


@unittest.skipUnless(UPSTREAM, "PITCREW_UPSTREAM_CHART does not name the folder of NVIDIA's chart")
class Migration(ReleaseTest):
    """docs/migrating.md: from NVIDIA's chart to ours and back, as one release."""

    def upstream_chart(self):
        """Without its dependency, which is not in its sources."""
        folder = self.server.folder / "upstream"
        shutil.copytree(UPSTREAM, folder)
        chart = yaml.safe_load((folder / "Chart.yaml").read_text(encoding="utf-8"))
        chart.pop("dependencies", None)
        (folder / "Chart.yaml").write_text(yaml.safe_dump(chart), encoding="utf-8")
        shutil.rmtree(folder / "charts", ignore_errors=True)
        return folder

    def test_there_and_back(self):
        values = ("--set", "nfd.enabled=false,mig.strategy=mixed,daemonsets.labels.team=a,gds.enabled=true")
        upstream = self.upstream_chart()
        self.helm("install", "gpu-operator", upstream, "--no-hooks", *values)
        uid, spec = self.policy()["metadata"]["uid"], self.policy()["spec"]
        self.helm("upgrade", "gpu-operator", support.CHART, *values, "--set", "images.source=nvidia")
        self.assertEqual(self.policy()["metadata"]["uid"], uid)
        ours = self.policy()["spec"]
        self.assertEqual(self.hook_names(), ["gpu-operator-upgrade-crd"], self.hooks.ran)
        # The default version of the images that are built with the operator is its own release.
        for block in ("validator", "nodeStatusExporter"):
            spec[block]["version"] = ours[block]["version"]
        for policy in (spec, ours):
            policy["daemonsets"]["labels"].pop("helm.sh/chart")
        self.assertEqual(ours, spec)
        self.helm("rollback", "gpu-operator", "1", "--no-hooks")
        self.assertEqual(self.policy()["metadata"]["uid"], uid)
        self.helm("upgrade", "gpu-operator", upstream, "--no-hooks", *values)
        self.assertEqual(self.policy()["metadata"]["uid"], uid)


class Programs(unittest.TestCase):
    """operator-behaviour.md #60 and section 17: the programs that the hooks run."""

    @classmethod
    def setUpClass(cls):
        cls.server = ApiServer().__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)
        cls.server.create("/api/v1/namespaces", {"metadata": {"name": "programs"}})

    def run_program(self, *arguments, **env):
        return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False,
                              timeout=120, env={"KUBECONFIG": self.server.kubeconfig(), **env})

    def names(self):
        return definitions(self.server)

    def test_60_cleanup_gpuclusters_without_definition_and_without_object(self):
        result = self.run_program("cleanup-gpuclusters", "--gpucluster-name", "gpu-cluster")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.server.create_crd({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gpuclusters.nvidia.com"},
            "spec": {"group": "nvidia.com", "scope": "Cluster",
                     "names": {"kind": "GPUCluster", "plural": "gpuclusters"},
                     "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": {
                         "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}})
        path = "/apis/nvidia.com/v1alpha1/gpuclusters"
        for _ in range(2):
            result = self.run_program("cleanup-gpuclusters", GPUCLUSTER_NAME="gpu-cluster")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.server.get(path)["items"], [])
            self.server.create(path, {"apiVersion": "nvidia.com/v1alpha1", "kind": "GPUCluster",
                                      "metadata": {"name": "gpu-cluster"}})
        self.assertEqual(self.run_program("cleanup-gpuclusters").returncode, 2)

    def test_manage_crds(self):
        """Files and folders, several documents, others passed over; nothing found is no error."""
        folder = pathlib.Path(self.server.folder, "files", "deep")
        folder.mkdir(parents=True)
        source = support.CHART / "crds/nvidia.com_clusterpolicies.yaml"
        text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\n" + source.read_text(encoding="utf-8")
        (folder / "a.yml").write_text(text, encoding="utf-8")
        (folder / "ignored.txt").write_text("{", encoding="utf-8")
        for arguments in (("apply", "--filepath", folder.parent), ("apply", "-f", folder / "a.yml"), ("apply",)):
            result = self.run_program("manage-crds", *arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("clusterpolicies.nvidia.com", self.names())
        for _ in range(2):
            result = self.run_program("manage-crds", "delete", f"--filepath={folder.parent}")
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("clusterpolicies.nvidia.com", self.names())
        empty = folder / "empty"
        empty.mkdir()
        self.assertEqual(self.run_program("manage-crds", "apply", "-f", empty).returncode, 0)
        self.assertEqual(self.run_program("manage-crds", "apply", "-f", folder / "absent.yaml").returncode, 1)
        for arguments in ((), ("install",), ("apply", "delete")):
            self.assertEqual(self.run_program("manage-crds", *arguments).returncode, 2, arguments)

    def test_uninstall_says_what_it_needs(self):
        for arguments in ((), ("--all",), ("--all", "--policy", "x", "-n", "y"), ("--all", "-n", "y", "--timeout", "0")):
            result = self.run_program("uninstall", *arguments)
            self.assertEqual(result.returncode, 2, (arguments, result.stderr))
        # No definition, so no policy: nothing to do but the nodes.
        result = self.run_program("uninstall", "--all", "-n", "programs")
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    if not pathlib.Path(PROGRAM).exists():
        print(f"skipped: {PROGRAM} is not built")
        sys.exit(77)
    unittest_main.main(verbosity=2)
