"""What counts as failed, and what gets a second try (tools/run_tests.py), with a real ctest."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parents[2] / "tools" / "run_tests.py"


class TestRuns(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.build = self.root / "build" / "release"
        self.build.mkdir(parents=True)
        self.tests = []

    def add(self, name, script):
        """A test of the kind that its name begins with. In the script, $TRIED is a file that the first try lacks."""
        tried = self.build / name.replace("/", "-")
        self.tests.append(f"add_test([=[{name}]=] /bin/sh -c [=[TRIED={tried}\n{script}]=])\n"
                          f"set_tests_properties([=[{name}]=] PROPERTIES LABELS {name.partition('/')[0]})\n")

    def run_all(self, *kinds):
        (self.build / "CTestTestfile.cmake").write_text("".join(self.tests))
        return subprocess.run([sys.executable, RUN, "--root", self.root, "--suite", f"release:{','.join(kinds)}"],
                              capture_output=True, text=True)

    def closes_with(self, result, line, status):
        self.assertEqual((result.stdout.splitlines()[-1], result.returncode), (line, status),
                         result.stdout + result.stderr)

    SECOND_TIME = "test -e $TRIED && exit 0; touch $TRIED; echo 'Failure: too late'; exit 1"

    def test_a_test_that_passes_the_second_time_is_told_of(self):
        self.add("integration/slow", self.SECOND_TIME)
        self.add("integration/steady", "exit 0")
        result = self.run_all("integration")
        self.closes_with(result, "2 passed, 0 failed, 0 skipped", 0)
        self.assertIn("unsteady, to be mended: release: integration/slow", result.stdout)
        self.assertIn("    Failure: too late", result.stdout)

    def test_a_test_that_fails_twice_has_failed(self):
        self.add("e2e/broken", "echo 'Failure: broken'; exit 1")
        self.add("e2e/steady", "exit 0")
        result = self.run_all("e2e")
        self.closes_with(result, "1 passed, 1 failed, 0 skipped", 1)
        self.assertNotIn("unsteady", result.stdout)

    def test_what_waits_for_nothing_gets_no_second_try(self):
        self.add("unit/once", self.SECOND_TIME)
        self.closes_with(self.run_all("unit"), "0 passed, 1 failed, 0 skipped", 1)

    def test_what_a_sanitizer_says_is_no_chance(self):
        self.add("integration/race",
                 f"test -e $TRIED || echo 'WARNING: ThreadSanitizer: data race'; {self.SECOND_TIME}")
        self.closes_with(self.run_all("integration"), "0 passed, 1 failed, 0 skipped", 1)

    def test_a_program_that_broke_off_is_no_chance(self):
        self.add("integration/abort", "test -e $TRIED && exit 0; touch $TRIED; kill -ABRT $$")
        self.closes_with(self.run_all("integration"), "0 passed, 1 failed, 0 skipped", 1)

    def test_many_failures_are_no_chance(self):
        for number in range(4):
            self.add(f"integration/slow_{number}", self.SECOND_TIME)
        self.closes_with(self.run_all("integration"), "0 passed, 4 failed, 0 skipped", 1)

    def test_skipped_is_not_passed(self):
        self.add("integration/absent", "exit 77")
        self.tests.append("set_tests_properties([=[integration/absent]=] PROPERTIES SKIP_RETURN_CODE 77)\n")
        result = self.run_all("integration")
        self.closes_with(result, "0 passed, 0 failed, 1 skipped", 1)
        self.assertIn("    release: integration/absent\n", result.stdout)

    def test_a_skipped_case_of_a_c_program_is_told_by_name(self):
        report = self.build / "Testing" / "cases" / "room" / "part_1_integration_test.xml"
        cases = ('<testcase name="Runs" status="run" result="completed" classname="Room"/>'
                 '<testcase name="Needs" status="run" result="skipped" classname="Room">'
                 '<skipped message="room_test.cc:1&#x0A;needs root"/></testcase>'
                 '<testcase name="OfAnotherPart" status="notrun" result="suppressed" classname="Room"/>')
        self.add("integration/room/part_1",
                 f"mkdir -p {report.parent}; echo '<testsuites>{cases}</testsuites>' > {report}")
        result = self.run_all("integration")
        self.closes_with(result, "1 passed, 0 failed, 1 skipped", 0)
        self.assertIn("    release: integration/room/part_1/Room.Needs: needs root\n", result.stdout)

    def test_a_case_of_a_program_that_passes_the_second_time_counts_once(self):
        report = self.build / "Testing" / "cases" / "room_integration_test.xml"

        def written(inner):
            cases = (f'<testcase name="Slow" status="run" result="completed" classname="Room">{inner}</testcase>'
                     '<testcase name="Steady" status="run" result="completed" classname="Room"/>')
            return f"mkdir -p {report.parent}; echo '<testsuites>{cases}</testsuites>' > {report}"

        self.add("integration/room", f"""if test -e $TRIED; then {written('')}; exit 0; fi
            touch $TRIED; {written('<failure message="too late">too late</failure>')}; exit 1""")
        result = self.run_all("integration")
        self.closes_with(result, "2 passed, 0 failed, 0 skipped", 0)
        self.assertIn("unsteady, to be mended: release: integration/room/Room.Slow", result.stdout)

    def python_program(self, *cases):
        """A program with these cases, as one of ours is written."""
        program = self.root / "program_test.py"
        program.write_text(f"import sys, unittest\nsys.path.insert(0, {str(RUN.parent.parent / 'tests')!r})\n"
                           "import unittest_main\n"
                           f"class Cases(unittest.TestCase):\n    {chr(10).join(cases)}\nunittest_main.main()\n")
        self.add("integration/python", f"exec {sys.executable} {program}")
        self.tests.append("set_tests_properties([=[integration/python]=] PROPERTIES SKIP_RETURN_CODE 77)\n")

    NEEDS = "@unittest.skip('needs root')\n    def test_needs(self): pass\n"
    RUNS = "    def test_runs(self): pass\n"

    def test_a_skipped_case_of_a_python_program_is_told_by_name(self):
        self.python_program(self.NEEDS, self.RUNS)
        result = self.run_all("integration")
        self.closes_with(result, "1 passed, 0 failed, 1 skipped", 0)
        self.assertIn("    release: integration/python/Cases.test_needs: needs root\n", result.stdout)

    def test_a_python_program_of_which_nothing_ran_has_not_passed(self):
        self.python_program(self.NEEDS)
        self.closes_with(self.run_all("integration"), "0 passed, 0 failed, 1 skipped", 1)

    def test_a_part_of_a_case_that_is_skipped_leaves_a_case_that_ran(self):
        self.python_program("def test_parts(self):\n        with self.subTest('a'): self.skipTest('no a')\n")
        self.closes_with(self.run_all("integration"), "1 passed, 0 failed, 1 skipped", 0)

    def test_a_python_program_that_fails_has_failed(self):
        self.python_program(self.NEEDS, "    def test_fails(self): self.fail('on purpose')\n")
        self.closes_with(self.run_all("integration"), "0 passed, 1 failed, 0 skipped", 1)


if __name__ == "__main__":
    unittest.main()
