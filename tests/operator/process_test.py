#!/usr/bin/env python3
"""The operator as a process against a real kube-apiserver: flags, endpoints, metrics, leadership.

    process_test.py PITCREW [test ...]

Numbers in names of tests are those of the checklist of operator-behaviour.md.
"""

import collections
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

import apiserver  # noqa: E402
import unittest_main  # noqa: E402
from processes import eventually, free_port  # noqa: E402

PITCREW = ""
NAMESPACE = "gpu-operator"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/53822513.nvidia.com"
NODES = "/api/v1/nodes"
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
DAEMONSETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
REQUIRED = ("daemonsets", "dcgm", "dcgmExporter", "devicePlugin", "driver", "gfd", "nodeStatusExporter", "operator",
            "toolkit")
SERIES = """gpu_nodes_total reconciliation_last_success_ts_seconds reconciliation_status reconciliation_total
reconciliation_failed_total reconciliation_has_nfd_labels openshift_driver_toolkit_enabled
openshift_driver_toolkit_nfd_too_old openshift_driver_toolkit_imagestream_missing
openshift_driver_toolkit_rhcos_tags_missing openshift_driver_toolkit_imagestream_broken driver_auto_upgrade_enabled
nodes_upgrades_in_progress nodes_upgrades_done nodes_upgrades_failed nodes_upgrades_available
nodes_upgrades_pending""".split()

NAMES_OF_UPSTREAM = ("gpu_operator_gpu_nodes_total",)  # a gauge, whose suffix Prometheus keeps for counters


def kubeconfig(folder, port):
    path = pathlib.Path(folder, f"kubeconfig-{port}")
    path.write_text(yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": f"https://127.0.0.1:{port}",
                                               "insecure-skip-tls-verify": True}}],
        "users": [{"name": "x", "user": {"token": apiserver.USER}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}), encoding="utf-8")
    return path


class Operator:
    """One process of the operator; killed with the `with` block."""

    def __init__(self, folder, port, *flags, prefix=(), addresses=True, environment=None):
        self.metrics_port, self.health_port = free_port(), free_port()
        listeners = [f"--metrics-bind-address=127.0.0.1:{self.metrics_port}",
                     f"--health-probe-bind-address=127.0.0.1:{self.health_port}"] if addresses else []
        variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "OPERATOR_NAMESPACE": NAMESPACE}
        for name in ("DRIVER", "CONTAINER_TOOLKIT", "DEVICE_PLUGIN", "DCGM_EXPORTER", "DCGM", "VALIDATOR", "GFD",
                     "MIG_MANAGER", "DRIVER_MANAGER"):
            variables[f"{name}_IMAGE"] = f"registry.test/{name.lower()}:v1"
        variables["KUBECONFIG"] = str(kubeconfig(folder, port))
        variables.update(environment or {})
        self.log = pathlib.Path(folder, f"operator-{self.metrics_port}.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*prefix, PITCREW, "operator", *listeners, *flags], env=variables, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, preexec_fn=apiserver._die_with_parent)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def wait(self):
        return self.process.wait(240)

    def _get(self, port, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=240) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as problem:
            return problem.code, problem.read().decode()
        except OSError:
            return 0, ""

    def health(self, path):
        return self._get(self.health_port, path)[0]

    def metrics(self):
        """Sample (with its labels) to value."""
        text = self._get(self.metrics_port, "/metrics")[1]
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                for line in text.splitlines() if line and not line.startswith("#")}

    def exposition(self):
        return self._get(self.metrics_port, "/metrics")[1]


def gpu_node(name):
    return {"metadata": {"name": name, "labels": {
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "feature.node.kubernetes.io/kernel-version.full": "6.1.0-37-amd64",
        "feature.node.kubernetes.io/system-os_release.ID": "debian",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID": "12"}}}


def crds():
    for file in sorted((ROOT / "deploy/chart/gpu-operator/crds").glob("*.yaml")):
        yield from filter(None, yaml.safe_load_all(file.read_text()))


class WithoutServer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pitcrew-process-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_1_without_a_namespace_nothing_is_asked(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(0)
            with Operator(self.folder, listener.getsockname()[1], environment={"OPERATOR_NAMESPACE": ""}) as operator:
                self.assertEqual(operator.wait(), 1)
            self.assertIn("OPERATOR_NAMESPACE", operator.log.read_text())
            with self.assertRaises(BlockingIOError):
                listener.accept()

    def test_2_default_listeners(self):
        prefix = ["unshare", "--net", "sh", "-c", 'ip link set lo up 2>/dev/null; exec "$0" "$@"']
        if subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode != 0 or \
                not shutil.which("ip"):
            self.skipTest("no network namespace can be made here")
        with Operator(self.folder, 1, prefix=prefix, addresses=False) as operator:
            def ports():
                listening = set()
                for table in ("tcp", "tcp6"):
                    text = pathlib.Path(f"/proc/{operator.process.pid}/net/{table}").read_text()
                    for line in text.splitlines()[1:]:
                        fields = line.split()
                        if fields[3] == "0A":
                            listening.add(int(fields[1].rsplit(":", 1)[1], 16))
                return listening
            eventually(lambda: ports() == {8080, 8081}, "listeners 8080 and 8081, nothing else", 30)

    def test_4_time_encodings(self):
        with Operator(self.folder, 1, "--zap-time-encoding=nano") as operator:
            self.assertEqual(operator.wait(), 2)
        with Operator(self.folder, 1, "--zap-time-encoding=nanos",
                      environment={"OPERATOR_NAMESPACE": ""}) as operator:
            self.assertEqual(operator.wait(), 1)


class WithServer(unittest.TestCase):
    def setUp(self):
        self.server = apiserver.ApiServer(audit=True).__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)
        self.server.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.server.allow_everything()

    def operator(self, *flags):
        operator = Operator(self.server.folder, self.server.port, *flags)
        self.addCleanup(operator.kill)
        return operator

    def prepare(self):
        for crd in crds():
            self.server.create_crd(crd)
        self.server.create(POLICIES, {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy",
                                      "metadata": {"name": "cluster-policy"},
                                      "spec": {name: {} for name in REQUIRED}})

    def lease(self):
        try:
            return self.server.get(LEASE)["spec"]
        except apiserver.ApiError as error:
            if error.code != 404:
                raise
            return {}

    def labelled(self, node):
        labels = self.server.get(f"{NODES}/{node}")["metadata"]["labels"]
        return labels.get("nvidia.com/gpu.deploy.driver") == "true"

    def finish_roll_outs(self):
        for item in self.server.get(DAEMONSETS)["items"]:
            status = {"observedGeneration": item["metadata"]["generation"], "desiredNumberScheduled": 0,
                      "currentNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}
            if item.get("status") != status:
                self.server.request("PATCH", f"{DAEMONSETS}/{item['metadata']['name']}/status", {"status": status},
                                    "application/merge-patch+json")

    def test_readiness_and_5_metrics(self):
        operator = self.operator("--manage-crds=false")
        # Alive, and not ready: the kind that it watches is not served.
        eventually(lambda: operator.health("/healthz") == 200, "/healthz", 30)
        self.assertEqual(operator.health("/readyz"), 503)
        self.prepare()
        self.server.create(NODES, gpu_node("gpu-1"))
        eventually(lambda: operator.health("/readyz") == 200, "/readyz")

        def ready():
            self.finish_roll_outs()
            return operator.metrics().get("gpu_operator_reconciliation_status") == 1
        eventually(ready, "reconciliation_status 1")
        samples = operator.metrics()
        for name in SERIES:
            self.assertIn(f"gpu_operator_{name}", samples)
        self.assertEqual(samples["gpu_operator_gpu_nodes_total"], 1)
        self.assertEqual(samples["gpu_operator_store_objects{resource=\"nodes\"}"], 1)
        self.assertGreater(samples['controller_runtime_reconcile_total{controller="nodes",result="success"}'], 0)
        self.assertGreater(samples["process_resident_memory_bytes"], 1e6)
        self.check_exposition(operator.exposition())

    def check_exposition(self, text):
        """The grammar of every line, and Prometheus' own checker."""
        sample = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"'
                            r'(,[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*")*\})? [-+0-9.eEinfNa]+')
        seen = collections.Counter()
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                seen[line.split()[2]] += 1
            elif not line.startswith("# HELP "):
                self.assertRegex(line, f"^{sample.pattern}$")
        self.assertEqual([name for name, count in seen.items() if count > 1], [])
        checked = subprocess.run([apiserver.find_program("promtool"), "check", "metrics"], input=text, text=True,
                                 capture_output=True, check=False)
        # 3: something is said about names.
        self.assertIn(checked.returncode, (0, 3), checked.stderr)
        self.assertEqual([line for line in checked.stderr.splitlines() if line.split()[0] not in NAMES_OF_UPSTREAM], [])

    def test_3_lease(self):
        self.prepare()
        self.operator("--leader-elect", f"--leader-elect-namespace={NAMESPACE}",
                      "--leader-lease-renew-deadline=60s")
        lease = eventually(self.lease, "the lease 53822513.nvidia.com")
        self.assertEqual(lease["leaseDurationSeconds"], 65)
        self.assertRegex(lease["holderIdentity"], "^.+_[0-9a-f-]{36}$")

    def test_the_other_takes_over_when_the_leader_is_killed(self):
        self.prepare()
        self.server.create(NODES, gpu_node("gpu-1"))
        flags = ("--leader-elect", f"--leader-elect-namespace={NAMESPACE}", "--leader-lease-renew-deadline=20s")
        operators = [self.operator(*flags), self.operator(*flags)]
        eventually(lambda: self.labelled("gpu-1"), "the leader's labels")
        eventually(lambda: len(self.server.get(DAEMONSETS)["items"]) >= 5, "the leader's DaemonSets")

        def leads(operator):
            return operator.metrics().get('leader_election_master_status{name="53822513.nvidia.com"}')
        eventually(lambda: {leads(one) for one in operators} == {0, 1}, "one leads")
        leader = max(operators, key=leads)
        other = min(operators, key=leads)
        # One that waits is ready, so that a Deployment can be rolled.
        self.assertEqual(other.health("/readyz"), 200)
        eventually(lambda: leader.health("/readyz") == 200, "the leader is ready")

        def quiet():
            count = len(self.changes())
            time.sleep(1.5)
            return count == len(self.changes())
        eventually(quiet, "the leader has nothing left to do")
        before = len(self.changes())
        holder = self.lease()["holderIdentity"]
        leader.kill()
        self.server.create(NODES, gpu_node("gpu-2"))
        eventually(lambda: self.labelled("gpu-2"), "the successor's labels")
        self.assertNotEqual(self.lease()["holderIdentity"], holder)
        self.assertEqual(self.lease()["leaseTransitions"], 1)
        eventually(lambda: leads(other) == 1 and other.health("/readyz") == 200, "the successor says so")
        eventually(quiet, "the successor has nothing left to do")
        # What the first had made, the second leaves alone; each node is labelled once.
        changes = self.changes()
        self.assertEqual([change for change in changes[before:] if change[1] == "daemonsets"], [])
        patches = collections.Counter(name for verb, resource, name in changes
                                      if (verb, resource) == ("patch", "nodes"))
        self.assertEqual(patches, {"gpu-1": 1, "gpu-2": 1})

    def changes(self):
        """What the operators have changed so far: (verb, resource, name), but for leases, which are renewed."""
        return [(verb, resource, name) for verb, resource, name, code in self.server.requests()
                if verb in ("create", "update", "patch", "delete") and resource != "leases" and code < 300]


if __name__ == "__main__":
    PITCREW = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest_main.main(verbosity=2)
