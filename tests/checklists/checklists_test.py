"""Every item of the conformance checklists has a test that holds it, or a reason why not yet."""

import pathlib
import sys
import unittest

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import named  # noqa: E402


def numbers(text):
    """"1, 4-6" as a list of numbers."""
    for part in str(text).split(","):
        first, _, last = part.strip().partition("-")
        yield from range(int(first), int(last or first) + 1)


class Names(unittest.TestCase):
    def items(self, text):
        return list(named.items(text))

    def held(self, read, text):
        return [item for said in read(text) for item in named.items(said)]

    def test_one_and_several(self):
        self.assertEqual(self.items("a.md #3 [TestX]"), [("a.md", 3)])
        self.assertEqual(self.items("a.md #1, #2 and b.md #7"), [("a.md", 1), ("a.md", 2), ("b.md", 7)])

    def test_ranges(self):
        self.assertEqual(self.items("a.md #3 to #5, #9"), [("a.md", n) for n in (3, 4, 5, 9)])

    def test_other_numbers(self):
        self.assertEqual(self.items("a.md section 3; #4"), [])

    def test_a_statement_of_a_test_holds(self):
        self.assertEqual(self.held(named.said_in_cpp, 'RecordProperty("holds", "a.md #3, "\n "#4");'),
                         [("a.md", 3), ("a.md", 4)])
        self.assertEqual(self.held(named.said_in_cpp, 'SCOPED_TRACE("a.md #3");'), [("a.md", 3)])

    def test_a_comment_or_another_text_holds_nothing(self):
        for text in ("// a.md #3", 'TEST(A, B) {  // a.md #3', '// RecordProperty("holds", "a.md #3");',
                     '/* RecordProperty("holds", "a.md #3"); */', 'const char* text = "a.md #3";',
                     'RecordProperty("why", "a.md #3");'):
            self.assertEqual(self.held(named.said_in_cpp, text), [], text)
        self.assertEqual(self.held(named.said_in_cpp, 'F("//"); RecordProperty("holds", "a.md #3");'), [("a.md", 3)])

    def test_docstrings_of_tests_and_their_classes_hold(self):
        text = "class A:\n    'a.md #1'\n    def test_b(self):\n        'a.md #2'\n        # a.md #3\n"
        self.assertEqual(self.held(named.said_in_python, text), [("a.md", 1), ("a.md", 2)])
        self.assertEqual(self.held(named.said_in_python, "def helper():\n    'a.md #2'\n"), [])

    def test_golden_cases_hold_what_they_check(self):
        self.assertEqual(self.held(named.said_in_golden, "# a.md #1\nchecks: 'a.md #2'\nother: 'a.md #3'\n"), [("a.md", 2)])


class Checklists(unittest.TestCase):
    def setUp(self):
        documents = yaml.safe_load((HERE / "items.yaml").read_text())
        self.deferred = {(document, number): reason for document, reasons in documents.pop("deferred").items()
                         for text, reason in reasons.items() for number in numbers(text)}
        self.known = {(document, number): (titles[number] if isinstance(titles, dict) else "")
                      for document, titles in documents.items()
                      for number in (titles if isinstance(titles, dict) else numbers(titles))}
        self.documents = set(documents)
        self.named = named.in_tests()

    def test_every_item_is_held_or_deferred(self):
        missing = [f"{document} #{number} {title}" for (document, number), title in self.known.items()
                   if (document, number) not in self.named and (document, number) not in self.deferred]
        self.assertEqual(missing, [])

    def test_only_items_that_exist_are_named(self):
        wrong = [f"{file}: {document} #{number}" for (document, number), file in self.named.items()
                 if (document, number) not in self.known]
        self.assertEqual(wrong, [])
        self.assertEqual(set(self.deferred) - set(self.known), set())

    def test_what_is_held_is_not_deferred(self):
        both = [f"{file}: {document} #{number}" for (document, number), file in self.named.items()
                if (document, number) in self.deferred]
        self.assertEqual(both, [])

    def test_every_deferral_has_a_reason(self):
        self.assertTrue(all(self.deferred.values()))


if __name__ == "__main__":
    unittest.main()
