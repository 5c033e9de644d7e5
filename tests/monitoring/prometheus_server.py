"""A real Prometheus with the chart's alerts, for tests: what it scrapes they say; and the queries of the chart's
dashboards."""

import json
import pathlib
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import yaml

import apiserver
from processes import free_port

MONITORING = pathlib.Path(__file__).resolve().parents[2] / "deploy/chart/gpu-operator/files/monitoring"
# Counters that alerts ask for beside the default ones (docs/metrics.md).
MORE_COUNTERS = "DCGM_FI_DEV_ROW_REMAP_PENDING, gauge, x\nDCGM_EXP_CLOCK_EVENTS_COUNT, gauge, x\n"
_VARIABLES = {"$hostname": ".*", "$namespace": ".*", "$pod": ".*", "$__rate_interval": "20s"}
_WINDOW = re.compile(r"\[\d+[mh]\]")


def panels():
    """(dashboard, title of the panel, query with its variables filled in)."""
    for path in sorted((MONITORING / "dashboards").glob("*.json")):
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            for target in panel["targets"]:
                expression = target["expr"]
                for name, value in _VARIABLES.items():
                    expression = expression.replace(name, value)
                assert "$" not in expression, expression
                yield path.stem, panel["title"], expression


def rules():
    """The chart's, as they fire at once: how long each waits, and looks back, is held by alerts_test.py."""
    all_rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))
    for group in all_rules["groups"]:
        group["interval"] = "500ms"
        for rule in group["rules"]:
            del rule["for"]
            rule["expr"] = _WINDOW.sub("[20s]", rule["expr"])
    return all_rules


class PrometheusServer:
    """Files of its own in `folder`, which has to stand until stop()."""

    def __init__(self, folder, scrape_configs, every="1s"):
        (folder / "rules.yaml").write_text(yaml.safe_dump(rules()), encoding="utf-8")
        config = {"global": {"scrape_interval": every, "scrape_timeout": every}, "rule_files": ["rules.yaml"],
                  "scrape_configs": scrape_configs}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        self._port = free_port()
        with open(folder / "prometheus.log", "wb") as log:
            self._process = subprocess.Popen(
                [apiserver.find_program("prometheus"), f"--config.file={folder}/prometheus.yaml",
                 f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{self._port}"],
                stdout=log, stderr=log)

    def stop(self):
        self._process.kill()
        self._process.communicate()

    def _get(self, path, **parameters):
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as problem:
            if problem.code == 503:
                return None  # it is not ready yet
            raise AssertionError(f"{parameters}: {problem.read().decode()}") from problem
        except OSError:
            return None  # it does not listen yet

    def query(self, expression):
        data = self._get("query", query=expression)
        return data["result"] if data else []

    def firing(self):
        """The labels of the alerts that fire."""
        data = self._get("alerts")
        return [alert["labels"] for alert in data["alerts"] if alert["state"] == "firing"] if data else []

    @staticmethod
    def alerts():
        """The names of all that there are."""
        return {rule["alert"] for group in rules()["groups"] for rule in group["rules"]}

    def empty_panels(self):
        return [panel for panel in panels() if not self.query(panel[2])]
