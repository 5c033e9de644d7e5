"""Clusters that come up at the same moment do not choose the same network."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cluster import network  # noqa: E402  pylint: disable=wrong-import-position


class ChosenSubnet(unittest.TestCase):
    def test_nobody_else_is_given_it_meanwhile(self):
        with network.chosen_subnet(set()) as first, network.chosen_subnet(set()) as second:
            self.assertNotEqual(first, second)

    def test_it_is_free_again_afterwards(self):
        for _ in range(20):  # clusters beside this test come and go
            with network.chosen_subnet(set()) as first:
                pass
            with network.chosen_subnet(set()) as again:
                pass
            if first == again:
                return
        self.fail(f"{first} is not chosen again")

    def test_what_other_clusters_have_is_left_to_them(self):
        with network.chosen_subnet(set()) as first:
            pass
        with network.chosen_subnet({first}) as other:
            self.assertNotEqual(first, other)


if __name__ == "__main__":
    unittest.main()
