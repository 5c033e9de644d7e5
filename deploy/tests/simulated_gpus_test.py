#!/usr/bin/env python3
"""The chart simulated-gpus: golden cases, and what it hands to the simulation.

One folder of simulated_gpus_data/ is a case, made as those of chart_golden_test.py: values.yaml, and
expected.yaml (for the case `default` every object, for the others what differs) or expected_error.txt.
PITCREW_UPDATE_GOLDEN=1 writes expected.yaml anew.
"""

import functools
import os
import pathlib
import subprocess
import tempfile
import unittest

import yaml

import chart_golden_test
import support
import unittest_main

CHART = support.ROOT / "deploy/chart/simulated-gpus"
DATA = pathlib.Path(__file__).resolve().parent / "simulated_gpus_data"


def render(case):
    return support.render("-f", DATA / case / "values.yaml", chart=CHART)


@functools.cache
def default_release():
    return render("default")


class Golden(unittest.TestCase):
    maxDiff = None

    def test_cases(self):
        for folder in sorted(DATA.iterdir()):
            with self.subTest(folder.name):
                self.check(folder)

    def check(self, folder):
        refusal = folder / "expected_error.txt"
        if refusal.exists():
            with self.assertRaises(support.HelmError) as raised:
                render(folder.name)
            for line in refusal.read_text(encoding="utf-8").splitlines():
                self.assertIn(line, str(raised.exception))
            return
        rendered = render(folder.name)
        if folder.name != "default":
            rendered = chart_golden_test.difference(default_release(), rendered)
        expected = folder / "expected.yaml"
        if os.environ.get("PITCREW_UPDATE_GOLDEN"):
            expected.write_text(yaml.safe_dump(rendered, width=100), encoding="utf-8")
        self.assertEqual(rendered, yaml.safe_load(expected.read_text(encoding="utf-8")))


class Contents(unittest.TestCase):
    def test_the_image_is_the_one_that_the_recipe_makes(self):
        recipe = yaml.safe_load((support.ROOT / "deploy/image/recipes/simulated-driver.yaml").read_text())
        version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
        for item in default_release().values():
            for image in _images(item):
                self.assertEqual(image, f"{recipe['image']}:{recipe['tag']}".replace("${driver_version}", version))

    def test_the_chart_is_as_old_as_the_operators(self):
        versions = {yaml.safe_load((chart / "Chart.yaml").read_text())["version"] for chart in (CHART, support.CHART)}
        self.assertEqual(len(versions), 1, versions)

    def test_the_simulation_takes_every_description(self):
        program = os.environ.get("PITCREW_SIMULATE")
        if not program:
            self.skipTest("$PITCREW_SIMULATE does not name pitcrew-simulate")
        for case in ("default", "pools", "without-driver"):
            for name, item in render(case).items():
                if item["kind"] != "ConfigMap":
                    continue
                with self.subTest(f"{case} {name}"), tempfile.TemporaryDirectory() as folder:
                    file = pathlib.Path(folder) / "gpus.yaml"
                    file.write_text(item["data"]["simulated-gpus.yaml"], encoding="utf-8")
                    result = subprocess.run([program, "pci-tree", "--description", file, "--into", folder],
                                            capture_output=True, text=True, check=False)
                    self.assertEqual(result.returncode, 0, result.stderr)


def _images(value):
    if isinstance(value, dict):
        yield from ([value["image"]] if isinstance(value.get("image"), str) else [])
        for member in value.values():
            yield from _images(member)
    elif isinstance(value, list):
        for member in value:
            yield from _images(member)


if __name__ == "__main__":
    unittest_main.main()
