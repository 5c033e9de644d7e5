"""Which items of the conformance checklists the tests name, as in `operand-manifests.md #17`."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Lists and ranges too: "clusterpolicy-api.md #3, #5 to #7".
NAMED = re.compile(r"(?P<document>[a-z-]+\.md)(?P<items>(?:(?:,| and| to)?\s+(?://\s*|#\s+)?#\d+)+)")
ITEM = re.compile(r"(?P<to> to)?\s+(?://\s*|#\s+)?#(?P<number>\d+)")
TESTS = ("src/*/tests/**/*", "src/*/*/tests/**/*", "deploy/tests/**/*", "tests/**/*")
SUFFIXES = (".cc", ".h", ".py", ".yaml")


def items(text):
    """Every (document, number) that a text names."""
    for found in NAMED.finditer(text):
        last = None
        for item in ITEM.finditer(found["items"]):
            number = int(item["number"])
            first = last + 1 if item["to"] and last is not None else number
            for between in range(first, number + 1):
                yield found["document"], between
            last = number


def in_tests():
    """{(document, number): the first file that names it}."""
    found = {}
    for pattern in TESTS:
        for file in sorted(ROOT.glob(pattern)):
            if file.suffix not in SUFFIXES or file.parent.name == "checklists" or not file.is_file():
                continue
            for item in items(file.read_text(errors="replace")):
                found.setdefault(item, file.relative_to(ROOT))
    return found
