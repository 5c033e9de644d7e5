#!/usr/bin/env python3
"""Compares Pitcrew's operator with another one, object by object, over random valid policies.

Both run as plain processes, each against a kube-apiserver and etcd of its own with the same nodes,
ConfigMaps and Secrets. For each policy the objects that each makes, and the labels that each gives the
nodes, are normalised and compared; a difference that accepted.yaml does not list is a failure.

The other operator is a folder named by $PITCREW_ORACLE with the program `gpu-operator`, its assets below
`opt/gpu-operator`, and the CRDs that only it needs below `crds`. Without it the exit status is 77
("skipped: no oracle").
"""

import argparse
import fnmatch
import os
import pathlib
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
    "ServiceMonitor": f"/apis/monitoring.coreos.com/v1/namespaces/{NAMESPACE}/servicemonitors",
}


def environment(kubeconfig):
    result = {"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig), "OPERATOR_NAMESPACE": NAMESPACE,
              "HOME": str(kubeconfig.parent)}
    for name in IMAGES:
        result[f"{name}_IMAGE"] = f"registry.example.com/default/{name.lower().replace('_', '-')}:v0"
    return result


def free_port():
    import socket
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Side:
    """One operator with the cluster that it works on."""

    def __init__(self, name, command, extra_crds=()):
        self.name, self.command, self.extra_crds = name, command, extra_crds
        self.server = apiserver.ApiServer()
        self.process = None

    def __enter__(self):
        self.server.__enter__()
        for file in sorted([*CRDS.glob("*.yaml"), *self.extra_crds]):
            for document in yaml.safe_load_all(file.read_text()):
                if document:
                    self.server.create_crd(document)
        for kind, plural in (("ServiceMonitor", "servicemonitors"), ("PrometheusRule", "prometheusrules")):
            self.server.create_crd(monitoring_crd(kind, plural))
        self.server.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name in (*policies.CONFIG_MAPS, "plugin-config"):
            self.server.create(KINDS["ConfigMap"], {"metadata": {"name": name},
                                                    "data": {"a": "1", "gridd.conf": "2", "b.list": "3"}})
        for name in policies.SECRETS:
            self.server.create(f"/api/v1/namespaces/{NAMESPACE}/secrets",
                               {"metadata": {"name": name}, "stringData": {"gridd.conf": "1"}})
        return self

    def start(self):
        kubeconfig = self.server.folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": f"https://127.0.0.1:{self.server.port}",
                                                   "insecure-skip-tls-verify": True}}],
            "users": [{"name": "x", "user": {"token": "admin"}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}))
        self.log = self.server.folder / f"{self.name}.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.command, f"--metrics-bind-address=127.0.0.1:{free_port()}",
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

    def set_nodes(self, nodes):
        for item in self.server.get("/api/v1/nodes")["items"]:
            self.server.delete(f"/api/v1/nodes/{item['metadata']['name']}")
        for node in nodes:
            self.server.create("/api/v1/nodes", {
                "metadata": {"name": node["name"], "labels": node.get("labels", {})}})
            self.server.request("PATCH", f"/api/v1/nodes/{node['name']}/status",
                                {"status": {"nodeInfo": node_info(node)}}, "application/merge-patch+json")

    def settle(self, policy, seconds=40):
        """Creates the policy and waits for a state that will not change by itself."""
        self.server.create(POLICIES, policy)
        path = f"{POLICIES}/{policy['metadata']['name']}"
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            status = self.server.get(path).get("status", {})
            conditions = {c["type"]: c for c in status.get("conditions", [])}
            error = conditions.get("Error", {})
            if status.get("state") == "ready":
                return "ready", ""
            if status.get("state") == "notReady" and error.get("status") == "True" and \
                    error.get("reason") == "ReconcileFailed":
                return "failed", error.get("message", "")
            time.sleep(0.1)
        return "unsettled", str(self.server.get(path).get("status"))

    def objects(self, policy_name):
        found = {}
        for kind, path in KINDS.items():
            for item in self.server.get(path)["items"]:
                owners = item["metadata"].get("ownerReferences", [])
                if any(o["kind"] == "ClusterPolicy" and o["name"] == policy_name for o in owners):
                    item["kind"] = kind
                    found[f"{kind}/{item['metadata']['name']}"] = normalise.normalise(item)
        for node in self.server.get("/api/v1/nodes")["items"]:
            found[f"Node/{node['metadata']['name']}"] = {
                "labels": {k: v for k, v in node["metadata"]["labels"].items() if k.startswith("nvidia.com/")},
                "annotations": {k: v for k, v in node["metadata"].get("annotations", {}).items()
                                if k.startswith("nvidia.com/")}}
        return found

    def clear(self, policy_name):
        """What the garbage collector would do: there is no controller manager here."""
        self.server.delete(f"{POLICIES}/{policy_name}")
        for path in KINDS.values():
            for item in self.server.get(path)["items"]:
                owners = item["metadata"].get("ownerReferences", [])
                if any(o["kind"] == "ClusterPolicy" for o in owners):
                    self.server.delete(f"{path}/{item['metadata']['name']}")


def node_info(node):
    return {"containerRuntimeVersion": node["runtime"], "architecture": "amd64", "bootID": "",
            "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "v1.35.4", "machineID": "",
            "operatingSystem": "linux", "osImage": "", "systemUUID": ""}


def monitoring_crd(kind, plural):
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.monitoring.coreos.com"},
            "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced",
                     "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": kind + "List"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                         "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


def oracle_command(folder):
    """The other operator reads its assets from /opt: it gets a mount namespace with a /opt of its own."""
    return ["unshare", "--mount", "sh", "-c",
            'mount -t tmpfs tmpfs /opt && mkdir /opt/gpu-operator && '
            'mount --bind "$0/opt/gpu-operator" /opt/gpu-operator && exec "$0/gpu-operator" "$@"', folder]


def compare(ours, theirs, accepted):
    """Lines that say what differs and is not accepted."""
    for name in sorted(set(ours) | set(theirs)):
        pairs = [("", "present" if name in ours else "missing", "present" if name in theirs else "missing")]
        if name in ours and name in theirs:
            pairs = normalise.differences(ours[name], theirs[name])
        for path, a, b in pairs:
            if path == "" and a == b:
                continue
            where = f"{name} {path}".strip()
            if not any(fnmatch.fnmatchcase(where, rule["where"]) for rule in accepted):
                yield f"{where}\n      ours:   {a!r}\n      theirs: {b!r}"


def check_policy(sides, policy, accepted):
    results = {}
    for side in sides:
        outcome, message = side.settle(policy)
        results[side.name] = (outcome, message, side.objects(policy["metadata"]["name"]))
    lines = list(compare(results["ours"][2], results["theirs"][2], accepted))
    outcomes = {name: result[0] for name, result in results.items()}
    if len(set(outcomes.values())) > 1:
        lines.insert(0, f"outcome: ours {results['ours'][:2]}, theirs {results['theirs'][:2]}")
    for side in sides:
        side.clear(policy["metadata"]["name"])
    return outcomes, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default=str(ROOT / "build/release/bin/pitcrew"), help="the pitcrew program")
    parser.add_argument("--policies", type=int, default=50, help="how many policies for each cluster")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clusters", nargs="*", help="names below clusters/ (default: all)")
    parser.add_argument("--disable", nargs="*", default=[], help="components that stay off in every policy")
    parser.add_argument("--density", type=float, default=0.25, help="how often an optional field is set")
    arguments = parser.parse_args()
    oracle = os.environ.get("PITCREW_ORACLE")
    if not oracle:
        print("skipped: no oracle (PITCREW_ORACLE names none)")
        return 77
    accepted = yaml.safe_load((HERE / "accepted.yaml").read_text()) or []
    schema = yaml.safe_load((CRDS / "nvidia.com_clusterpolicies.yaml").read_text())
    schema = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    crds = sorted(pathlib.Path(oracle, "crds").glob("*.yaml"))
    failures = ran = 0
    with Side("ours", [arguments.ours, "operator"]) as ours, Side("theirs", oracle_command(oracle), crds) as theirs:
        sides = [ours, theirs]
        for file in sorted((HERE / "clusters").glob("*.yaml")):
            if arguments.clusters and file.stem not in arguments.clusters:
                continue
            nodes = yaml.safe_load(file.read_text())["nodes"]
            for side in sides:
                side.stop()
                side.set_nodes(nodes)
                side.start()
            generator = policies.Generator(schema, f"{arguments.seed}/{file.stem}", arguments.disable,
                                           arguments.density)
            for index in range(arguments.policies):
                policy = generator.policy()
                for side in sides:
                    side.set_nodes(nodes)
                outcomes, lines = check_policy(sides, policy, accepted)
                ran += 1
                print(f"{file.stem} #{index}: {outcomes}" + (f", {len(lines)} differences" if lines else ""),
                      flush=True)
                if lines:
                    failures += 1
                    print("    " + "\n    ".join(lines))
                    print("    policy: " + str(policy["spec"]), flush=True)
    print(f"{ran - failures} passed, {failures} failed")
    return 1 if failures or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
