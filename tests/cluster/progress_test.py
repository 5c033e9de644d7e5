"""What a long build tells of itself: how far it is, and no more often than somebody reads."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cluster.progress import Progress, Step, clock  # noqa: E402  pylint: disable=wrong-import-position


def at(done, total, seconds, downloading=False):
    progress = Progress(Step("programs"), "kubernetes", total)
    for _ in range(done):
        progress.advance()
    return progress.words(seconds, downloading)


class Words(unittest.TestCase):
    def test_an_estimate_comes_when_there_is_something_to_estimate_from(self):
        self.assertEqual(at(100, 400, 5), "100 of 400 packages, 0:05")
        self.assertEqual(at(100, 400, 60), "100 of 400 packages, 1:00, about 3:00 left")
        self.assertEqual(at(0, 400, 60), "0 of 400 packages, 1:00")

    def test_after_the_last_package_programs_are_linked(self):
        self.assertEqual(at(400, 400, 75), "400 of 400 packages, linking, 1:15")
        self.assertEqual(at(410, 400, 75), "400 of 400 packages, linking, 1:15")

    def test_downloads_and_an_unknown_total(self):
        self.assertEqual(at(0, 400, 61, downloading=True), "downloading, 1:01")
        self.assertEqual(at(7, 0, 61), "7 packages, 1:01")
        self.assertEqual(clock(3600), "60:00")

    def test_lines_in_a_log_are_few(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            progress = Progress(Step("programs"), "etcd", 1000)
            for _ in range(1000):
                progress.advance()
            progress.end()
        self.assertEqual(output.getvalue(), "      etcd: built in 0:00\n")


if __name__ == "__main__":
    unittest.main()
