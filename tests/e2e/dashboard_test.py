"""The fleet's page on a whole cluster: as a pod, by HTTPS, for whoever the API server lets see nodes and pods; and for one
person, with the readings of the real exporter."""

import base64
import contextlib
import http.client
import json
import pathlib
import re
import socket
import ssl
import subprocess
import tempfile
import unittest

import support  # first: it sets the state folder
from cluster import api, chart, showcase
from cluster.programs import Programs

NAME = support.cluster_name()
FILE = f"""name: {NAME}
nodes:
  - name: gpu
    gpus: [{{profile: H100-80, count: 2, load: 40}}]
"""
VALUES = """
dashboard: {enabled: true}
dcgmExporter: {env: [{name: DCGM_EXPORTER_INTERVAL, value: "1000"}]}
"""
SERVICE = "gpu-operator-dashboard"
SERVER_NAME = f"{SERVICE}.{chart.NAMESPACE}.svc"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SECRETS = f"/api/v1/namespaces/{chart.NAMESPACE}/secrets"


class Page:
    """What the page's own scripts ask, by HTTP or, with a context, by HTTPS."""

    def __init__(self, port, token=None, context=None):
        self._port, self._token, self._context = port, token, context

    def _open(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=support.SECONDS)
        connection.connect()
        if self._context:
            connection.sock = self._context.wrap_socket(connection.sock, server_hostname=SERVER_NAME)
        connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"} if self._token else {})
        return connection, connection.getresponse()

    def get(self, path):
        """Status, and the answer where it is JSON."""
        connection, answer = self._open(path)
        with contextlib.closing(connection):
            body = answer.read()
            return answer.status, json.loads(body) if answer.getheader("Content-Type", "").startswith(
                "application/json") else body.decode()

    def follow(self, satisfied):
        """Reads the stream until the parts of the fleet are as wanted; what they are then."""
        connection, answer = self._open("/api/events")
        parts = {}
        with contextlib.closing(connection):
            kind = ""
            for line in answer:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data" and kind in ("fleet", "change"):
                    data = json.loads(value)
                    parts = {} if kind == "fleet" else parts
                    parts.update(data.get("set", {}))
                    for gone in data.get("gone", []):
                        parts.pop(gone, None)
                    if satisfied(parts):
                        return parts
        raise AssertionError(f"the stream ended: {parts}")


def unproven():
    """For a certificate that the page made for itself."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Dashboard(support.ClusterTest):
    NAME, FILE, VALUES = NAME, FILE, VALUES

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.programs = Programs()
        for program in ("helm", "kubectl"):
            cls.programs.find(program)

    def account(self, name, *may_list):
        """The token of a service account that may list these of all namespaces."""
        self.client.create(ACCOUNTS, {"metadata": {"name": name}})
        if may_list:
            self.client.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [
                {"apiGroups": [""], "resources": list(may_list), "verbs": ["list"]}]})
            self.client.create(f"{RBAC}/clusterrolebindings", {
                "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                                                        "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]})
        return self.client.create(f"{ACCOUNTS}/{name}/token", {"spec": {}})["status"]["token"]

    def await_page(self, generation=None):
        path = f"/apis/apps/v1/namespaces/{chart.NAMESPACE}/deployments"
        ready = self.client.wait(path, SERVICE, support.SECONDS, lambda one: (
            one["status"].get("observedGeneration", 0) >= (generation or one["metadata"]["generation"])
            and one["status"].get("updatedReplicas") == 1 and one["status"].get("readyReplicas") == 1
            and one["status"].get("replicas") == 1))
        self.assertIsNotNone(ready, "\n".join(chart.behind(self.client)))
        return ready["metadata"]["generation"]

    @contextlib.contextmanager
    def forwarded(self):
        """The port on which docs/dashboard.md has the page."""
        words = [self.programs.path("kubectl"), "--kubeconfig", str(self.state.kubeconfig), "--namespace", chart.NAMESPACE,
                 "port-forward", f"service/{SERVICE}", ":443"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                line = process.stdout.readline()
                found = re.search(r"127\.0\.0\.1:(\d+) ->", line)
                self.assertIsNotNone(found, line)
                yield int(found[1])
            finally:
                process.kill()

    def test_10_only_who_may_see_nodes_and_pods_is_let_in(self):
        self.await_page()
        viewer, half, nobody = self.account("viewer", "nodes", "pods"), self.account("half", "nodes"), self.account("nobody")
        with self.forwarded() as port:
            self.assertEqual(Page(port, None, unproven()).get("/api/fleet")[0], 401)
            self.assertEqual(Page(port, "made-up", unproven()).get("/api/fleet")[0], 401)
            for token in (half, nobody):
                status, said = Page(port, token, unproven()).get("/api/fleet")
                self.assertEqual(status, 403, said)
                self.assertIn("may not list", str(said))
            status, fleet = Page(port, viewer, unproven()).get("/api/fleet")
            self.assertEqual(status, 200)
            self.assertEqual(fleet["set"]["node/gpu"]["gpus"]["count"], 2)
            with self.assertRaises((http.client.HTTPException, OSError)):
                Page(port, viewer).get("/api/fleet")  # nothing is answered without TLS

    def test_20_what_breaks_is_seen_at_once(self):
        token = self.account("watcher", "nodes", "pods")
        with self.forwarded() as port:
            page = Page(port, token, unproven())
            page.follow(lambda parts: parts.get("node/gpu", {}).get("ready"))
            self.on("gpu", "pitcrew-simulate", "gpu", "xid", "1", "79")
            page.follow(lambda parts: parts["node/gpu"].get("finding", {}).get("id") == "gpus-unhealthy")
            # The pod's account reads no logs and no exporter, and says so.
            status, detail = page.get("/api/nodes/gpu")
            self.assertEqual(status, 200)
            self.assertNotIn("gpus", detail)
            self.assertTrue(detail["unknown"])
            self.on("gpu", "pitcrew-simulate", "gpu", "reset", "1")

    def certificate(self):
        """Key and certificate for the Service's name."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", folder / "tls.key", "-out", folder / "tls.crt", "-days", "2", "-subj", "/CN=page",
                        "-addext", f"subjectAltName=DNS:{SERVER_NAME}"], check=True, capture_output=True)
        return folder

    def test_30_a_certificate_of_ones_own(self):
        folder, token, generation = self.certificate(), self.account("reader", "nodes", "pods"), self.await_page()
        self.client.create(SECRETS, {
            "metadata": {"name": "page"}, "type": "kubernetes.io/tls",
            "data": {name: base64.b64encode((folder / name).read_bytes()).decode() for name in ("tls.crt", "tls.key")}})
        chart.install(self.state, self.programs, [
            self.write("values.yaml", VALUES), self.write("tls.yaml", "dashboard: {tlsSecretName: page}\n")])
        self.await_page(generation + 1)
        with self.forwarded() as port:
            self.assertEqual(Page(port, token, ssl.create_default_context(cafile=folder / "tls.crt")).get("/api/fleet")[0],
                             200)
            with self.assertRaises(ssl.SSLCertVerificationError):
                Page(port, token, ssl.create_default_context()).get("/api/fleet")

    @contextlib.contextmanager
    def ones_own(self):
        """`pitcrew dashboard` with a person's kubeconfig."""
        words = [str(support.BUILD / "bin/pitcrew"), "dashboard", "--kubeconfig", str(self.state.kubeconfig)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            try:
                found = re.search(r"http://127\.0\.0\.1:(\d+)/#token=(\S+)", process.stdout.readline())
                yield Page(int(found[1]), found[2])
            finally:
                process.kill()

    def exporter_page(self):
        name = next(one["metadata"]["name"] for one in self.client.get(support.OPERATOR_PODS)["items"]
                    if one["metadata"]["labels"].get("app") == "nvidia-dcgm-exporter" and api.has_condition(one, "Ready"))
        return self.client.request("GET", f"{support.OPERATOR_PODS}/{name}:9400/proxy/metrics").decode()

    def test_40_readings_are_the_exporters(self):
        pod = showcase.sample("one-gpu")
        pod["metadata"]["name"] = "holder"
        self.create(pod)
        self.await_all_ready(["holder"])

        def held(detail):
            return [gpu for gpu in detail.get("gpus", []) if "default/holder" in json.dumps(gpu)]
        with self.ones_own() as page:
            detail = support.eventually(lambda: held(page.get("/api/nodes/gpu")[1]) and page.get("/api/nodes/gpu")[1],
                                        lambda: page.get("/api/nodes/gpu"), support.SECONDS, 0.5)
        self.assertEqual([(one["namespace"], one["name"]) for one in detail["pods"]], [("default", "holder")])
        told = set(re.findall(r'DCGM_FI_DEV_GPU_TEMP\{gpu="\d+",UUID="([^"]+)"', self.exporter_page()))
        self.assertEqual({gpu["uuid"] for gpu in detail["gpus"]}, told)
        self.assertEqual(len(held(detail)), 1)
        for gpu in detail["gpus"]:
            self.assertGreater(gpu["temperature"], 30)
            self.assertGreater(gpu["power"], 100, "of a busy board")


if __name__ == "__main__":
    unittest.main()
