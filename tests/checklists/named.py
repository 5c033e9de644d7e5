"""Which items of the conformance checklists the tests hold, as in `operand-manifests.md #17`.

A test says which: C++ with RecordProperty("holds", "...") (or SCOPED_TRACE) in its body, a scenario of tests/kernel with a heading that it
prints (echo "== ..."), a golden case with `checks` (or
`reference`) in its input.yaml or expected.yaml, Python with the docstring of the test or of its
class. A comment holds nothing.
"""

import ast
import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Lists and ranges too: "clusterpolicy-api.md #3, #5 to #7".
NAMED = re.compile(r"(?P<document>[a-z-]+\.md)(?P<items>(?:(?:,| and| to)?\s+#\d+)+)")
ITEM = re.compile(r"(?P<to> to)?\s+#(?P<number>\d+)")
TESTS = ("src/**/tests/**/*", "simulation/tests/**/*", "deploy/tests/**/*", "tests/**/*")
# Comments and literals, whichever begins first, so that neither is looked for inside the other.
CPP_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<raw>\w*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
                       re.DOTALL)
CPP_STATEMENT = re.compile(r'(?:RecordProperty\(\s*"holds",|SCOPED_TRACE\()\s*((?:"(?:\\.|[^"\\\n])*"\s*)+)')
GOLDEN_KEYS = ("checks", "reference")
GOLDEN_FILES = ("input.yaml", "expected.yaml")


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


def said_in_cpp(text):
    without_comments = CPP_TOKEN.sub(lambda token: " " if token[0].startswith("/") else token[0], text)
    for statement in CPP_STATEMENT.finditer(without_comments):
        yield re.sub(r'"\s*"', "", statement[1]).strip().strip('"')


def said_in_python(text):
    for node in ast.walk(ast.parse(text)):
        own = isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        group = isinstance(node, ast.ClassDef) and any(getattr(member, "name", "").startswith("test_") for member in node.body)
        if own or group:
            yield ast.get_docstring(node) or ""


def said_in_golden(text):
    document = yaml.safe_load(text)
    for key in GOLDEN_KEYS if isinstance(document, dict) else ():
        yield str(document.get(key, ""))


def said_in_scenario(text):
    return re.findall(r'^echo "== (.*)"$', text, re.MULTILINE)


def said_in(file):
    """What the tests of a file say that they hold."""
    read = {".cc": said_in_cpp, ".h": said_in_cpp, ".py": said_in_python}.get(file.suffix)
    if file.suffix == ".sh" and file.parent.name == "scenarios":
        read = said_in_scenario
    if file.name in GOLDEN_FILES and "data" in file.parts:
        read = said_in_golden
    text = file.read_text(errors="replace") if read else ""
    return read(text) if ".md #" in text else ()


def in_tests():
    """{(document, number): the first file that names it}."""
    found = {}
    for pattern in TESTS:
        for file in sorted(ROOT.glob(pattern)):
            if not file.is_file() or file.parent.name == "checklists":
                continue
            for said in said_in(file):
                for item in items(said):
                    found.setdefault(item, file.relative_to(ROOT))
    return found
