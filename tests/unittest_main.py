"""unittest.main for programs of which cases may be skipped: a skipped one is not a passed one.

Each skipped case is told in a line of its own, which tools/run_tests.py reports by name. A program of which no case ran
ends with status 77, CTest's SKIP_RETURN_CODE of such tests.
"""

import sys
import unittest

SKIPPED = 77


def main(**arguments):
    """In place of unittest.main(), with its arguments."""
    result = unittest.main(exit=False, **arguments).result
    for case, reason in result.skipped:
        print(f"skipped case: {case.id().removeprefix('__main__.')}\t{reason}")
    # A part of a case (subTest) may be skipped while the rest of it runs; a class whose preparation is skipped counts
    # as no case at all.
    whole = {case.id() for case, _ in result.skipped
             if isinstance(case, unittest.TestCase) and not hasattr(case, "test_case")}
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped and result.testsRun == len(whole) else 0)
