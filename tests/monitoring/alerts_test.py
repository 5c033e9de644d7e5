#!/usr/bin/env python3
"""The alerts of the chart: Prometheus' own promtool takes them, each fires on its fault and ends with it (alerts.yaml),
each names what the doctor calls it, and each asks for metrics that there are."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import apiserver  # noqa: E402  pylint: disable=wrong-import-position

RULES = ROOT / "deploy/chart/gpu-operator/files/monitoring/alerts.yaml"
CASES = pathlib.Path(__file__).with_name("alerts.yaml")
# Readings of which no object of the cluster tells, so that the doctor cannot see it.
NOT_SEEN_BY_DOCTOR = {"GPUSlowedByHeat", "GPUSlowedByPowerSupply", "GPUIdleWhileAllocated", "GPUReadingsOld"}
# Of kube-state-metrics.
FOREIGN = {"kube_node_labels"}
METRIC = re.compile(r"\b((?:gpu_operator|pitcrew|kube)_[a-z_]+|DCGM_(?:FI|EXP)_[A-Z0-9_]+)\b")
XIDS = re.compile(r'err_code=~"([0-9|]+)"')


def rules():
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def promtool(*arguments):
    return subprocess.run([apiserver.find_program("promtool"), *map(str, arguments)], text=True, capture_output=True,
                          check=False)


class Alerts(unittest.TestCase):
    def test_promtool_takes_them(self):
        told = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)

    def test_each_fires_on_its_fault_and_ends_with_it(self):
        cases = yaml.safe_load(CASES.read_text(encoding="utf-8"))
        self.assertEqual({test["name"] for test in cases["tests"]}, set(rules()))
        for test in cases["tests"]:
            checks = test["alert_rule_test"]
            self.assertEqual([bool(check["exp_alerts"]) for check in checks], [False, True, False], test["name"])
            self.assertEqual({check["alertname"] for check in checks}, {test["name"]})
        # Which alert fires, for what, is tested; promtool would compare its sentences, too.
        bare = yaml.safe_load(RULES.read_text(encoding="utf-8"))
        for group in bare["groups"]:
            for rule in group["rules"]:
                del rule["annotations"]
        with tempfile.TemporaryDirectory() as folder:
            cases["rule_files"] = ["rules.yaml"]
            for name, body in (("rules.yaml", bare), ("cases.yaml", cases)):
                pathlib.Path(folder, name).write_text(yaml.safe_dump(body), encoding="utf-8")
            told = promtool("test", "rules", f"{folder}/cases.yaml")
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)

    def test_each_names_its_finding(self):
        documented = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
        for name, rule in rules().items():
            finding = rule["annotations"]["finding"]
            if name in NOT_SEEN_BY_DOCTOR:
                self.assertEqual(finding, "none", name)
            else:
                self.assertIn(f"| `{finding}` |", documented, name)

    def test_each_asks_for_metrics_that_there_are(self):
        """Of the operator and the node status exporter by their sources, of GPUs by the exporter's tables of fields."""
        sources = [*(ROOT / "src/operator").rglob("*.cc"), *(ROOT / "src/node/validator").glob("*.cc"),
                   *(ROOT / "src/node/metrics_exporter").glob("*.*")]
        known = "".join(path.read_text(encoding="utf-8") for path in sources)
        for name, rule in rules().items():
            metrics = set(METRIC.findall(rule["expr"]))
            self.assertTrue(metrics, name)
            for metric in metrics - FOREIGN:
                self.assertTrue(f'"{metric.removeprefix("DCGM_FI_")}"' in known, f"{name} asks for {metric}")

    def test_xids_are_those_of_the_device_plugin(self):
        source = (ROOT / "src/gpu/xid_policy.cc").read_text(encoding="utf-8")
        effects = dict(re.findall(r"\{(\d+), (k\w+),", source))
        reset = {xid for xid, effect in effects.items() if effect in ("kUntilReset", "kUntilAnswers")}
        quiet = {xid for xid, effect in effects.items() if effect == "kUntilQuiet"}
        self.assertEqual(set(XIDS.search(rules()["GPUNeedsReset"]["expr"])[1].split("|")), reset)
        self.assertEqual(set(XIDS.search(rules()["GPUErrorsOfOneProgram"]["expr"])[1].split("|")), quiet)


if __name__ == "__main__":
    unittest.main()
