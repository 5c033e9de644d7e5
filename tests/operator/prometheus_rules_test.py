#!/usr/bin/env python3
"""The alerts and recording rules of the operator's manifests, checked by Prometheus' own promtool."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import apiserver  # noqa: E402


def rules():
    for path in sorted((ROOT / "src/desired/manifests").glob("*/*.yaml")):
        manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
        if manifest["kind"] == "PrometheusRule":
            yield path, manifest["spec"]


class PrometheusRules(unittest.TestCase):
    def test_promtool_takes_each(self):
        checked = 0
        for path, spec in rules():
            with self.subTest(path.relative_to(ROOT)):
                with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
                    yaml.safe_dump(spec, file)
                    file.flush()
                    told = subprocess.run([apiserver.find_program("promtool"), "check", "rules", "--lint=all",
                                           "--lint-fatal", file.name], text=True, capture_output=True, check=False)
                self.assertEqual(told.returncode, 0, told.stdout + told.stderr)
                checked += 1
        self.assertGreater(checked, 0)


if __name__ == "__main__":
    unittest.main()
