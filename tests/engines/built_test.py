"""Engines that are built from their Go modules: containerd 1.7, 2.0, 2.1, 2.3 and 2.4, and CRI-O (`make engines`).

What has not been built is skipped, by name.
"""

import unittest

import crio
import engines
import unittest_main
from cases import EngineTest, VersionPairTest
from crio_cases import CrioDefaultTest, CrioTest

# Debian's crun 1.8 refuses the newer version of specifications that containerd 2 writes.
_WITH_CRUN = ("containerd 1.7",)


def _skip_without(version):
    return unittest.skipUnless(version.is_there, f"{version.name} is not in {version.folder}")


def _containerd(version, low_level):
    def make(_, archives):
        return engines.Containerd(version, min(version.highest, 3), archives, low_level)
    return _skip_without(version)(type(f"{version.identifier}With{low_level.capitalize()}", (EngineTest,), {
        "make": classmethod(make), "LOW_LEVEL": low_level, "__module__": __name__,
        "ENTERS_WITHOUT_RUNTIME": version.enters_without_runtime}))


def _pairs(version):
    return _skip_without(version)(type(f"{version.identifier}Pairs", (VersionPairTest,), {
        "VERSION": version, "__module__": __name__}))


def _crio(version, low_level):
    return _skip_without(version)(type(f"{version.identifier}With{low_level.capitalize()}", (CrioTest,), {
        "VERSION": version, "LOW_LEVEL": low_level, "__module__": __name__}))


def _crio_default(version):
    return _skip_without(version)(type(f"{version.identifier}Default", (CrioDefaultTest,), {
        "VERSION": version, "__module__": __name__}))


def load_tests(loader, _tests, _pattern):
    """The classes of all versions: unittest finds only those that stand in a file."""
    suite = unittest.TestSuite()
    for case in CASES:
        suite.addTests(loader.loadTestsFromTestCase(case))
    return suite


CASES = [_containerd(engines.CONTAINERD_CLUSTER, "runc")]
for one in engines.CONTAINERD_BUILT:
    CASES += [_containerd(one, "runc"), _pairs(one)]
    if one.name in _WITH_CRUN:
        CASES.append(_containerd(one, "crun"))
for one in crio.CRIO_BUILT:
    CASES += [_crio(one, "runc"), _crio(one, "crun"), _crio_default(one)]
globals().update({case.__name__: case for case in CASES})

if __name__ == "__main__":
    unittest_main.main()
