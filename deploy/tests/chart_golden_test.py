#!/usr/bin/env python3
"""Golden cases of the chart: one folder of data/ each.

  values.yaml         what the user sets
  expected.yaml       what the release then holds: for the case `default` every object; for every
                      other case the difference to `default`, as a merge patch of objects by
                      "Kind/name" (null means removed)
  expected_error.txt  instead of expected.yaml: lines that Helm's refusal must contain

PITCREW_UPDATE_GOLDEN=1 writes expected.yaml anew.
"""

import functools
import os
import unittest

import yaml

import support


def difference(before, after):
    """The merge patch (RFC 7386) that makes `after` of `before`."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    patch = {}
    for key in {**before, **after}:
        if key not in after:
            patch[key] = None
        elif key not in before or before[key] != after[key]:
            patch[key] = difference(before.get(key), after[key])
    return patch


@functools.cache
def default_release():
    return support.render("-f", support.DATA / "default/values.yaml")


class Golden(unittest.TestCase):
    maxDiff = None

    def check(self, folder):
        values = ("-f", folder / "values.yaml")
        refusal = folder / "expected_error.txt"
        if refusal.exists():
            with self.assertRaises(support.HelmError) as raised:
                support.render(*values)
            for line in refusal.read_text(encoding="utf-8").splitlines():
                self.assertIn(line, str(raised.exception))
            return
        rendered = support.render(*values)
        if folder.name != "default":
            rendered = difference(default_release(), rendered)
        expected = folder / "expected.yaml"
        if os.environ.get("PITCREW_UPDATE_GOLDEN"):
            expected.write_text(yaml.safe_dump(rendered, width=100), encoding="utf-8")
        self.assertEqual(rendered, yaml.safe_load(expected.read_text(encoding="utf-8")))


def _add(folder):
    def test(self):
        self.check(folder)

    setattr(Golden, "test_" + folder.name.replace("-", "_"), test)


for _folder in sorted(support.DATA.iterdir()):
    _add(_folder)

if __name__ == "__main__":
    unittest.main()
