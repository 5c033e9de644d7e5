"""Every item of the conformance checklists has a test that names it, or a reason why not yet."""

import pathlib
import sys
import unittest

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import named  # noqa: E402


class Names(unittest.TestCase):
    def items(self, text):
        return list(named.items(text))

    def test_one_and_several(self):
        self.assertEqual(self.items("// a.md #3 [TestX]"), [("a.md", 3)])
        self.assertEqual(self.items("a.md #1, #2 and b.md #7"), [("a.md", 1), ("a.md", 2), ("b.md", 7)])

    def test_ranges_and_broken_lines(self):
        self.assertEqual(self.items("a.md #3 to #5, #9"), [("a.md", n) for n in (3, 4, 5, 9)])
        self.assertEqual(self.items("// a.md #3,\n// #4"), [("a.md", 3), ("a.md", 4)])

    def test_other_numbers(self):
        self.assertEqual(self.items("a.md section 3; #4"), [])


class Checklists(unittest.TestCase):
    def setUp(self):
        self.documents = yaml.safe_load((HERE / "items.yaml").read_text())
        self.deferred = {}
        for document, reasons in self.documents.pop("deferred").items():
            for numbers, reason in reasons.items():
                for number in str(numbers).split(","):
                    self.deferred[document, int(number)] = reason
        self.named = named.in_tests()

    def test_every_item_is_tested_or_deferred(self):
        missing = [f"{document} #{number}: {title}" for document, titles in self.documents.items()
                   for number, title in titles.items()
                   if (document, number) not in self.named and (document, number) not in self.deferred]
        self.assertEqual(missing, [])

    def test_only_items_that_exist_are_named(self):
        known = {(document, number) for document, titles in self.documents.items() for number in titles}
        wrong = [f"{file}: {item[0]} #{item[1]}" for item, file in self.named.items()
                 if item[0] in self.documents and item not in known]
        self.assertEqual(wrong, [])
        self.assertEqual(set(self.deferred) - known, set())

    def test_every_deferral_has_a_reason(self):
        self.assertTrue(all(self.deferred.values()))


if __name__ == "__main__":
    unittest.main()
