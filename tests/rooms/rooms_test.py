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
| kube | src/kube | cluster | base, load (tests) |
| load | src/load | load | |
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

    def test_an_arrow_of_tests_only_is_for_tests_only(self):
        self.assertEqual(run(self.tree({"src/kube/tests/a.cc": '#include "load/b.h"\n'})).returncode, 0)
        result = run(self.tree({"src/kube/a.cc": '#include "load/b.h"\n'}))
        self.assertIn("room kube may not include room load", result.stdout)

    def test_a_room_without_io_takes_only_values(self):
        table = TABLE.replace("<!-- rooms:end", "| desired | src/desired | what | kube |\n<!-- rooms:end")
        tree = self.tree({"src/desired/a.cc": '#include "kube/client.h"\n#include "kube/resource.h"\n'})
        (tree / "ARCHITECTURE.md").write_text(table)
        result = run(tree)
        self.assertIn("src/desired/a.cc:1: room desired does no I/O", result.stdout)
        self.assertNotIn("a.cc:2", result.stdout)

    def test_a_folder_without_a_row_is_found(self):
        result = run(self.tree({"src/attic/a.h": ""}))
        self.assertIn("src/attic/a.h:1: this folder is not in the room table", result.stdout)

    def test_an_accelerator_word_in_kube_is_found(self):
        result = run(self.tree({"src/kube/b.h": "int gpu_count;\n"}))
        self.assertIn("src/kube/b.h:1: the kube room knows no accelerator word", result.stdout)

    def linking(self, commands):
        """What is wrong in a tree whose helpers of tests are `steps`, which links room kube, and `sockets`."""
        return run(self.tree({
            "src/base/CMakeLists.txt": "pitcrew_room(base)\n",
            "src/kube/CMakeLists.txt": "pitcrew_room(kube DEPENDS base)\n",
            "tests/CMakeLists.txt": "target_link_libraries(pitcrew_test_sockets PUBLIC pitcrew_base)\n"
                                    "target_link_libraries(pitcrew_test_steps PUBLIC pitcrew_test_sockets\n"
                                    "                      pitcrew_kube GTest::gtest)\n",
            **commands}))

    def test_libraries_downwards_are_allowed(self):
        result = self.linking({"src/kube/CMakeLists.txt":
                               "pitcrew_room(kube DEPENDS base TEST_DEPENDS pitcrew_test_steps)\n"})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_a_library_upwards_is_found(self):
        result = self.linking({"src/base/CMakeLists.txt": "# kube\npitcrew_room(base EXTERNAL fmt::fmt\n DEPENDS kube)\n"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("src/base/CMakeLists.txt:2: room base may not link room kube", result.stdout)
        result = self.linking({"src/base/CMakeLists.txt": "target_link_libraries(pitcrew_base PUBLIC pitcrew_kube)\n"})
        self.assertIn("src/base/CMakeLists.txt:1: room base may not link room kube", result.stdout)

    def test_a_test_that_links_upwards_is_found_behind_its_helpers(self):
        result = self.linking({"src/base/CMakeLists.txt": "pitcrew_room(base TEST_DEPENDS pitcrew_test_steps)\n"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("src/base/CMakeLists.txt:1: room base may not link room kube (through pitcrew_test_steps)",
                      result.stdout)
        for program in ("target_link_libraries(base_unit_test PRIVATE pitcrew_test_steps)\n",
                        "pitcrew_room_tests(base pitcrew_base unit \"*_test.cc\" pitcrew_test_steps)\n"):
            self.assertIn("may not link room kube", self.linking({"src/base/CMakeLists.txt": program}).stdout)


if __name__ == "__main__":
    unittest.main()
