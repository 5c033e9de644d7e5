#!/usr/bin/env python3
"""Differential: the ClusterPolicy and the CRDs of NVIDIA's chart v26.7.0 and of ours, from the same values.

PITCREW_UPSTREAM_CHART names the folder of NVIDIA's chart; without it the test is skipped.
"""

import os
import pathlib
import sys
import unittest

import yaml

import support

UPSTREAM = os.environ.get("PITCREW_UPSTREAM_CHART")
SKIPPED = 77  # CTest's SKIP_RETURN_CODE
# Values that only our chart has, or in which we deliberately differ.
OWN_CASES = {"alerts", "time-slicing", "openshift-without-toolkit", "qualification"}


def without_descriptions(node):
    if isinstance(node, dict):
        return {key: without_descriptions(value) for key, value in node.items()
                if not (key == "description" and isinstance(value, str))}
    if isinstance(node, list):
        return [without_descriptions(item) for item in node]
    return node


def without_versions(node):
    """Without what names the chart's own release."""
    if isinstance(node, dict):
        return {key: without_versions(value) for key, value in node.items()
                if key not in ("helm.sh/chart", "app.kubernetes.io/version") and value is not None}
    if isinstance(node, list):
        return [without_versions(item) for item in node]
    return node


class Upstream(unittest.TestCase):
    maxDiff = None

    def test_policies(self):
        upstream_version = yaml.safe_load((pathlib.Path(UPSTREAM) / "Chart.yaml").read_text())["appVersion"]
        for folder in sorted(support.DATA.iterdir()):
            if (folder / "expected_error.txt").exists() or folder.name in OWN_CASES:
                continue
            values = yaml.safe_load((folder / "values.yaml").read_text())
            if not values.get("clusterPolicy", {}).get("deployCR", True):
                continue
            with self.subTest(folder.name):
                arguments = ("-f", folder / "values.yaml")
                release = {"operator.version": "v26.7.0", "validator.version": "v26.7.0"}
                if "version" not in values.get("nodeStatusExporter", {}):
                    release["nodeStatusExporter.version"] = "v26.7.0"
                if "version" in values.get("operator", {}):
                    del release["operator.version"]
                theirs = support.policy(*arguments, chart=UPSTREAM, values=release)
                # docs/differences.md: our chart leaves the probe to the operator.
                given = values.get("driver", {}).get("startupProbe", {})
                theirs["driver"]["startupProbe"] = {name: theirs["driver"]["startupProbe"][name] for name in given}
                if not given:
                    theirs["driver"].pop("startupProbe")
                ours = support.policy(*arguments, values={"images.source": "nvidia"})
                self.assertEqual(without_versions(ours), without_versions(theirs), upstream_version)

    def test_crds(self):
        charts = pathlib.Path(UPSTREAM)
        theirs = {}
        for path in [*(charts / "crds").iterdir(),
                     *(charts / "charts/node-feature-discovery/crds").iterdir()]:
            for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                if document:
                    theirs[document["metadata"]["name"]] = document
        for name, definition in support.crds().items():
            with self.subTest(name):
                self.assertEqual(without_descriptions(definition["spec"]), without_descriptions(theirs[name]["spec"]))


if __name__ == "__main__":
    if not UPSTREAM:
        print("skipped: no upstream chart (PITCREW_UPSTREAM_CHART)")
        sys.exit(SKIPPED)
    unittest.main()
