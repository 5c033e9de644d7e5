"""One operator with a kube-apiserver and etcd of its own, as the comparison and the benchmarks use it."""

import os
import pathlib
import socket
import subprocess
import sys
import time

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import apiserver  # noqa: E402
import normalise  # noqa: E402
import policies  # noqa: E402

NAMESPACE = "gpu-operator"
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
CRDS = ROOT / "deploy/chart/gpu-operator/crds"
IMAGES = ["DRIVER", "VGPU_MANAGER", "CONTAINER_TOOLKIT", "DEVICE_PLUGIN", "SANDBOX_DEVICE_PLUGIN",
          "DCGM_EXPORTER", "DCGM", "VALIDATOR", "GFD", "CUDA_BASE", "MIG_MANAGER", "DRIVER_MANAGER", "GDS",
          "GDRCOPY", "VFIO_MANAGER", "VGPU_DEVICE_MANAGER", "KATA_MANAGER", "CC_MANAGER",
          "KATA_SANDBOX_DEVICE_PLUGIN", "DRA_DRIVER"]
# Kind -> the path of its collection. Namespaced ones in the operator's namespace.
KINDS = {
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "ConfigMap": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    "Service": f"/api/v1/namespaces/{NAMESPACE}/services",
    "DaemonSet": f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
}
MONITORING = {
    "ServiceMonitor": f"/apis/monitoring.coreos.com/v1/namespaces/{NAMESPACE}/servicemonitors",
    "PrometheusRule": f"/apis/monitoring.coreos.com/v1/namespaces/{NAMESPACE}/prometheusrules",
}
SECURITY = {"SecurityContextConstraints": "/apis/security.openshift.io/v1/securitycontextconstraints"}
# Definitions that stand in for what other operators and OpenShift serve: group, kind, plural, scope.
MONITORING_CRDS = [("monitoring.coreos.com", "ServiceMonitor", "servicemonitors", "Namespaced"),
                   ("monitoring.coreos.com", "PrometheusRule", "prometheusrules", "Namespaced")]
OPENSHIFT_CRDS = [("security.openshift.io", "SecurityContextConstraints", "securitycontextconstraints", "Cluster"),
                  ("config.openshift.io", "ClusterVersion", "clusterversions", "Cluster"),
                  ("config.openshift.io", "Proxy", "proxies", "Cluster"),
                  ("image.openshift.io", "ImageStream", "imagestreams", "Namespaced")]


def environment(kubeconfig):
    result = {"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig), "OPERATOR_NAMESPACE": NAMESPACE,
              "HOME": str(kubeconfig.parent)}
    for name in IMAGES:
        result[f"{name}_IMAGE"] = f"registry.example.com/default/{name.lower().replace('_', '-')}:v0"
    return result


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def definition(group, kind, plural, scope):
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": scope,
                     "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": kind + "List"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                         "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


def node_info(node):
    return {"containerRuntimeVersion": node["runtime"], "architecture": "amd64", "bootID": "",
            "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "v1.35.4", "machineID": "",
            "operatingSystem": "linux", "osImage": "", "systemUUID": ""}


def oracle_command(folder):
    """The other operator reads its assets from /opt: it gets a mount namespace with a /opt of its own."""
    return ["unshare", "--mount", "sh", "-c",
            'mount -t tmpfs tmpfs /opt && mkdir /opt/gpu-operator && '
            'mount --bind "$0/opt/gpu-operator" /opt/gpu-operator && exec "$0/gpu-operator" "$@"', folder]


class Side:
    """One operator with the cluster that it works on. `openshift`, `monitoring`: the cluster serves those kinds.
    `keeps_policy`: a policy is a change of the one before. `server`: another than an ordinary one."""

    def __init__(self, name, command, extra_crds=(), openshift=False, monitoring=True, keeps_policy=False,
                 server=None):
        self.name, self.command, self.extra_crds, self.openshift = name, command, extra_crds, openshift
        self.keeps_policy = keeps_policy
        self.definitions = (MONITORING_CRDS if monitoring else []) + (OPENSHIFT_CRDS if openshift else [])
        self.kinds = KINDS | (MONITORING if monitoring else {}) | (SECURITY if openshift else {})
        self.server = server or apiserver.ApiServer()
        self.process = None

    def __enter__(self):
        self.server.__enter__()
        try:
            self._fill()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _fill(self):
        definitions = {}  # of one name the other operator's own
        for file in [*sorted(CRDS.glob("*.yaml")), *sorted(self.extra_crds)]:
            for document in yaml.safe_load_all(file.read_text()):
                if document:
                    definitions[document["metadata"]["name"]] = document
        for document in definitions.values():
            self.server.create_crd(document)
        for crd in self.definitions:
            self.server.create_crd(definition(*crd))
        for name in (NAMESPACE, "openshift"):
            self.server.create("/api/v1/namespaces", {"metadata": {"name": name}})
        for name, keys in policies.CONFIG_MAPS.items():
            self.server.create(KINDS["ConfigMap"], {"metadata": {"name": name}, "data": {key: "1" for key in keys}})
        for name, keys in policies.SECRETS.items():
            self.server.create(f"/api/v1/namespaces/{NAMESPACE}/secrets",
                               {"metadata": {"name": name}, "stringData": {key: "1" for key in keys}})

    def start(self, kubeconfig=None, arguments=()):
        kubeconfig = pathlib.Path(kubeconfig or self.server.kubeconfig())
        self.log = self.server.folder / f"{self.name}.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.command, *arguments, f"--metrics-bind-address=127.0.0.1:{free_port()}",
                 f"--health-probe-bind-address=127.0.0.1:{free_port()}"],
                env=environment(kubeconfig), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                preexec_fn=apiserver._die_with_parent)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __exit__(self, *problem):
        self.stop()
        self.server.__exit__(*problem)

    def log_tail(self, lines=15):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def set_cluster(self, cluster):
        """Facts of OpenShift, from a cluster file, in place of those of the cluster before."""
        if not self.openshift:
            return
        openshift = cluster["openshift"]
        history = [{"state": "Completed", "version": openshift["version"] + ".7"}]
        self._put("config.openshift.io", "ClusterVersion", "clusterversions", "version",
                  {"spec": {"clusterID": "x"}, "status": {"history": history}})
        self._put("config.openshift.io", "Proxy", "proxies", "cluster", {"spec": openshift.get("proxy", {})})
        tags = [{"name": name, "from": {"kind": "DockerImage", "name": image}}
                for name, image in openshift.get("imageStream", {}).items()]
        self._put("image.openshift.io", "ImageStream", "namespaces/openshift/imagestreams", "driver-toolkit",
                  {"spec": {"tags": tags}} if "imageStream" in openshift else None)

    def _put(self, group, kind, collection, name, body):
        """The object with that content, or none."""
        path = f"/apis/{group}/v1/{collection}"
        if name in [item["metadata"]["name"] for item in self.server.get(path)["items"]]:
            self.server.delete(f"{path}/{name}")
        if body is not None:
            self.server.create(path, {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name}} | body)

    def set_nodes(self, nodes):
        for item in self.server.get("/api/v1/nodes")["items"]:
            self.server.delete(f"/api/v1/nodes/{item['metadata']['name']}")
        for node in nodes:
            self.server.create("/api/v1/nodes", {
                "metadata": {"name": node["name"], "labels": node.get("labels", {})}})
            self.server.request("PATCH", f"/api/v1/nodes/{node['name']}/status",
                                {"status": {"nodeInfo": node_info(node)}}, "application/merge-patch+json")

    def submit(self, policy):
        path = f"{POLICIES}/{policy['metadata']['name']}"
        if self.keeps_policy and self.server.get(POLICIES)["items"]:
            self.server.request("PATCH", path, [{"op": "replace", "path": "/spec", "value": policy["spec"]}],
                                "application/json-patch+json")
        else:
            self.server.create(POLICIES, policy)

    def wait_for_status(self, name, seconds=240):
        """Until the operator has seen the policy, or has ended."""
        deadline = time.monotonic() + seconds
        while "status" not in self.server.get(f"{POLICIES}/{name}") and self.process.poll() is None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: the operator has not seen {name} after {seconds} s")
            time.sleep(0.02)

    def nudge(self, name):
        """Changes what has no effect."""
        self.server.request("PATCH", f"{POLICIES}/{name}",
                            {"spec": {"operator": {"annotations": {"example.com/time": str(time.monotonic())}}}},
                            "application/merge-patch+json")

    def settle(self, name, quiet_seconds=1, seconds=60):
        """Waits until the policy's status says how it went and nothing has been written for a while."""
        path = f"{POLICIES}/{name}"
        deadline = time.monotonic() + seconds
        revision, outcome, seen, since = None, ("waiting", ""), None, time.monotonic()
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return "ended", self.log_tail()
            now = self.server.revision()
            if now != revision:
                revision = now
                outcome = outcome_of(self.server.get(path))
                self.observe_daemonsets()
                # The server itself renews a lease now and then.
                written = self.revisions()
                if written != seen:
                    seen, since = written, time.monotonic()
            elif outcome[0] != "waiting" and time.monotonic() - since > quiet_seconds:
                return outcome
            time.sleep(0.05)
        return "unsettled", str(self.server.get(path).get("status"))

    def wait_until_quiet(self, seconds, at_most=10):
        """Until nobody has written anything for so long."""
        deadline = time.monotonic() + at_most
        revision, since = None, 0
        while time.monotonic() < deadline:
            now = self.server.revision()
            if now != revision:
                revision, since = now, time.monotonic()
            elif time.monotonic() - since > seconds:
                return
            time.sleep(0.02)

    def observe_daemonsets(self):
        """What the DaemonSet controller would say of DaemonSets that no node wants. One pod on a node that does
        not want it keeps upstream from deleting those of precompiled drivers, and making them again, for ever."""
        for item in self.server.get(KINDS["DaemonSet"])["items"]:
            generation = item["metadata"]["generation"]
            if "deletionTimestamp" in item["metadata"]:
                # The garbage collector would let go of its pods, and then of it.
                self.server.request("PATCH", f"{KINDS['DaemonSet']}/{item['metadata']['name']}",
                                    {"metadata": {"finalizers": None}}, "application/merge-patch+json")
                continue
            if item["status"].get("observedGeneration") == generation:
                continue
            try:
                self.server.request(
                    "PATCH", f"{KINDS['DaemonSet']}/{item['metadata']['name']}/status",
                    {"status": {"observedGeneration": generation, "desiredNumberScheduled": 0,
                                "numberMisscheduled": 1}},
                    "application/merge-patch+json")
            except apiserver.ApiError as error:
                if error.code != 404:  # deleted in the meantime
                    raise

    def revisions(self):
        """Resource versions of all that an operator writes, but for the policy's own status."""
        return [self.server.versions(path) for path in [*self.kinds.values(), "/api/v1/nodes"]]

    def objects(self, policy_name):
        found = {}
        for kind, path in self.kinds.items():
            for item in self.server.get(path)["items"]:
                if is_owned(item, policy_name):
                    item["kind"] = kind
                    found[f"{kind}/{item['metadata']['name']}"] = normalise.normalise(item)
        for node in self.server.get("/api/v1/nodes")["items"]:
            found[f"Node/{node['metadata']['name']}"] = {
                "labels": {k: v for k, v in node["metadata"]["labels"].items() if k.startswith("nvidia.com/")},
                "annotations": {k: v for k, v in node["metadata"].get("annotations", {}).items()
                                if k.startswith("nvidia.com/")}}
        namespace = self.server.get(f"/api/v1/namespaces/{NAMESPACE}")
        found[f"Namespace/{NAMESPACE}"] = {"labels": namespace["metadata"].get("labels", {})}
        return found

    def clear(self, policy_name):
        """What the garbage collector would do: there is no controller manager here."""
        self.server.delete(f"{POLICIES}/{policy_name}")
        while True:
            # An operator that is in the middle of a pass goes on with it for a moment.
            self.wait_until_quiet(0.2)
            doomed = [f"{path}/{item['metadata']['name']}" for path in self.kinds.values()
                      for item in self.server.get(path)["items"]
                      if is_owned(item, policy_name) or item["metadata"]["name"] == "gpu-operator-trusted-ca"]
            if not doomed:
                break
            for path in doomed:
                self.server.delete(path)
        labels = self.server.get(f"/api/v1/namespaces/{NAMESPACE}")["metadata"].get("labels", {})
        self.server.request("PATCH", f"/api/v1/namespaces/{NAMESPACE}",
                            {"metadata": {"labels": {key: None for key in labels
                                                     if key != "kubernetes.io/metadata.name"}}},
                            "application/merge-patch+json")


def is_owned(item, policy_name):
    owners = item["metadata"].get("ownerReferences", [])
    return any(o["kind"] == "ClusterPolicy" and o["name"] == policy_name for o in owners)


def outcome_of(policy):
    """ready, failed with the reason, or waiting."""
    status = policy.get("status", {})
    generation = policy["metadata"]["generation"]
    if any(c.get("observedGeneration", generation) < generation for c in status.get("conditions", [])):
        return "waiting", ""
    if status.get("state") == "ready":
        return "ready", ""
    error = {c["type"]: c for c in status.get("conditions", [])}.get("Error", {})
    if status.get("state") == "notReady" and error.get("status") == "True" and \
            error.get("reason") not in ("OperandNotReady", "NoGPUNodes"):
        return "failed", f"{error.get('reason')}: {error.get('message', '')}"
    return "waiting", ""
