"""Every fuzz target has inputs to begin with, and every folder of inputs a target."""

import pathlib
import subprocess
import sys
import unittest

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
PROGRAM = sys.argv.pop()


class Targets(unittest.TestCase):
    def test_folders_are_targets(self):
        targets = subprocess.run([PROGRAM, "--list"], check=True, capture_output=True, text=True).stdout.split()
        self.assertEqual(sorted(folder.name for folder in CORPUS.iterdir()), sorted(targets))

    def test_an_unknown_target_is_refused(self):
        self.assertEqual(subprocess.run([PROGRAM, "no-such-target", CORPUS], check=False,
                                        capture_output=True).returncode, 2)


if __name__ == "__main__":
    unittest.main()
