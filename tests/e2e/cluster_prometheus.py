"""A real Prometheus that finds and scrapes what runs in a local cluster, by the cluster's own Services."""

import base64
import http.server
import json
import os
import pathlib
import sys
import threading
import urllib.parse

import support  # first: it sets the state folder
from cluster import chart

sys.path.insert(0, str(support.ROOT / "tests/monitoring"))

from prometheus_server import MORE_COUNTERS, PrometheusServer  # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import

MIG_STATE = "nvidia.com/mig.config.state"
SERVICES = f"/api/v1/namespaces/{chart.NAMESPACE}/services"
ENDPOINTS = f"/api/v1/namespaces/{chart.NAMESPACE}/endpoints"


def _credentials(folder, kubeconfig):
    """Files as Prometheus wants them."""
    configuration = json.loads(pathlib.Path(kubeconfig).read_text(encoding="utf-8"))
    cluster, user = configuration["clusters"][0]["cluster"], configuration["users"][0]["user"]
    for name, data in (("ca.crt", cluster["certificate-authority-data"]), ("admin.crt", user["client-certificate-data"]),
                       ("admin.key", user["client-key-data"])):
        with open(os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as stream:
            stream.write(base64.b64decode(data))
    return urllib.parse.urlsplit(cluster["server"]).netloc


class Surroundings:
    """What a Prometheus in a cluster has beside what it scrapes, by HTTP: which pods stand behind the Services of the
    operator's namespace that ask to be scraped (Debian's Prometheus cannot ask the API server for them), and the one series
    of kube-state-metrics that alerts ask for."""

    def __init__(self, client, folder, kubeconfig):
        self._client, self._folder = client, folder
        self._server_name = _credentials(folder, kubeconfig)
        answers = {"/targets": ("application/json", self._targets), "/metrics": ("text/plain; version=0.0.4", self._labels)}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                kind, answer = answers[self.path]
                body = answer().encode()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def stop(self):
        self._http.shutdown()
        self._http.server_close()

    def _targets(self):
        """Pods of a local cluster are reached by way of the API server only."""
        wanted = {service["metadata"]["name"] for service in self._client.get(SERVICES)["items"]
                  if service["metadata"].get("annotations", {}).get("prometheus.io/scrape") == "true"}
        found = []
        for endpoints in self._client.get(ENDPOINTS)["items"]:
            if endpoints["metadata"]["name"] not in wanted:
                continue
            for subset in endpoints.get("subsets", []):
                for address in subset.get("addresses", []):
                    pod = address["targetRef"]["name"]
                    found += [{"targets": [self._server_name], "labels": {
                        "instance": pod, "__metrics_path__": f"{support.OPERATOR_PODS}/{pod}:{port['port']}/proxy/metrics"}}
                              for port in subset["ports"]]
        return json.dumps(found)

    def _labels(self):
        lines = []
        for node in self._client.get(support.NODES)["items"]:
            state = node["metadata"]["labels"].get(MIG_STATE, "")
            lines.append(f'kube_node_labels{{node="{node["metadata"]["name"]}",'
                         f'label_nvidia_com_mig_config_state="{state}"}} 1\n')
        return "".join(lines)

    def scraped(self):
        """Prometheus' scrape_configs."""
        own = f"127.0.0.1:{self._http.server_port}"
        return [{"job_name": "services", "scheme": "https", "honor_labels": True,
                 "tls_config": {"ca_file": f"{self._folder}/ca.crt", "cert_file": f"{self._folder}/admin.crt",
                                "key_file": f"{self._folder}/admin.key"},
                 "http_sd_configs": [{"url": f"http://{own}/targets", "refresh_interval": "2s"}]},
                {"job_name": "kube-state-metrics", "static_configs": [{"targets": [own]}]}]
