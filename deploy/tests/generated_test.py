#!/usr/bin/env python3
"""The files that deploy/schema writes are up to date, and the chart is free of complaints."""

import subprocess
import sys
import unittest

import yaml

import support


class Generated(unittest.TestCase):
    def test_written_files_are_up_to_date(self):
        result = subprocess.run([sys.executable, support.ROOT / "deploy/schema/generate.py", "--check"],
                                capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)

    def test_helm_lint(self):
        self.assertIn("0 chart(s) failed", support.helm("lint", "--strict", support.CHART))

    def test_every_field_of_the_crds_is_described(self):
        def check(schema, path):
            for name, member in schema.get("properties", {}).items():
                where = f"{path}.{name}"
                self.assertTrue(member.get("description") or name == "metadata", where)
                check(member, where)
                check(member.get("items", {}), where + "[]")
                extra = member.get("additionalProperties")
                check(extra if isinstance(extra, dict) else {}, where + "{}")

        for name, definition in support.crds().items():
            for version in definition["spec"]["versions"]:
                check(version["schema"]["openAPIV3Schema"], name)

    def test_one_version(self):
        chart = yaml.safe_load((support.CHART / "Chart.yaml").read_text())
        subchart = yaml.safe_load((support.NFD_CHART / "Chart.yaml").read_text())
        self.assertEqual({chart["version"], chart["appVersion"], subchart["appVersion"]}, {chart["version"]})

        def images(node):
            if isinstance(node, dict):
                if node.get("repository") == "docker.io/pitcrew" and node.get("version"):
                    yield node["version"]
                for member in node.values():
                    yield from images(member)

        values = yaml.safe_load((support.CHART / "values.yaml").read_text())
        self.assertEqual(set(images(values)), {chart["appVersion"]})


if __name__ == "__main__":
    unittest.main()
