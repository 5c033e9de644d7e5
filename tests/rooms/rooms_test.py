"""The check of the room table sees what it is there to see."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECK = ROOT / "tools" / "check_rooms.py"
TABLE = """<!-- rooms:begin -->
| Room | Folder | Purpose | May include |
|---|---|---|---|
| base | src/base | words | |
| kube | src/kube | cluster | base |
<!-- rooms:end -->
"""


def run(root):
    return subprocess.run([sys.executable, CHECK, "--root", root], capture_output=True, text=True)


class Rooms(unittest.TestCase):
    def tree(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        (root / "ARCHITECTURE.md").write_text(TABLE)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return root

    def test_the_house_keeps_its_own_table(self):
        result = run(ROOT)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_an_arrow_upwards_is_found(self):
        result = run(self.tree({"src/base/a.h": '#include "kube/b.h"\n', "src/kube/b.h": ""}))
        self.assertEqual(result.returncode, 1)
        self.assertIn("src/base/a.h:1: room base may not include room kube", result.stdout)

    def test_an_arrow_downwards_is_allowed(self):
        self.assertEqual(run(self.tree({"src/kube/b.h": '#include "base/a.h"\n'})).returncode, 0)

    def test_a_folder_without_a_row_is_found(self):
        result = run(self.tree({"src/attic/a.h": ""}))
        self.assertIn("src/attic/a.h:1: this folder is not in the room table", result.stdout)

    def test_an_accelerator_word_in_kube_is_found(self):
        result = run(self.tree({"src/kube/b.h": "int gpu_count;\n"}))
        self.assertIn("src/kube/b.h:1: the kube room knows no accelerator word", result.stdout)


if __name__ == "__main__":
    unittest.main()
