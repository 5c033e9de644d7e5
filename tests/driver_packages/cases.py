"""What the tests of each distribution have in common: one root, whose copies the cases change, and its repositories."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import recipe
import systems
from signing import Key

PROGRAM = pathlib.Path(os.environ["PITCREW_BUILD"]) / "bin/nvidia-driver"


class PackagesTest(unittest.TestCase):
    """Cases begin with a copy of the root, `system`."""

    folder: pathlib.Path
    repositories: pathlib.Path
    key: Key
    stranger: Key
    first: systems.System
    _made: tempfile.TemporaryDirectory

    @classmethod
    def setUpClass(cls):
        cls._made = tempfile.TemporaryDirectory(prefix="pitcrew-driver-packages-")
        cls.addClassCleanup(cls._made.cleanup)
        cls.folder = pathlib.Path(cls._made.name)
        cls.repositories = cls.folder / "repositories"
        cls.repositories.mkdir()
        # An agent's socket must have a short path, and it is not told elsewhere by a person's settings.
        cls.key = Key.make(cls.folder / "g1", "Distribution")
        cls.stranger = Key.make(cls.folder / "g2", "Stranger")
        for key in (cls.key, cls.stranger):
            cls.addClassCleanup(key.forget)
        cls.make()

    @classmethod
    def make(cls):
        """Sets `first`, and fills the repositories."""
        raise NotImplementedError

    def setUp(self):
        self.system = self.first.copy(self.folder / self._testMethodName)

    def succeeds(self, *words: str, **variables: str) -> str:
        done = self.system.driver(*words, **variables)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def headers_missing(self, *words: str) -> str:
        """What the program says when it ends for that reason."""
        done = self.system.driver(*words)
        self.assertEqual(done.returncode, 1, done.stdout)
        last = done.stdout.rstrip().splitlines()[-1]
        self.assertIn("reason=KernelHeadersMissing", last, done.stdout)
        self.assertIn("driver.repoConfig", last)
        self.assertFalse(self.system.has("/usr/bin/nvidia-smi"), "half of the driver is installed")
        return last

    def preflight(self, kernel: str) -> str:
        """What the operator reads of a container that it lets write to /tmp alone."""
        done = self.system.driver("preflight", "--report", "/tmp/report", "--kernel", kernel, read_only=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        [said] = [line for line in done.stdout.splitlines() if line.startswith("preflight: ")]
        return said

    def assert_headers_missing(self, said: str, kernel: str, package: str):
        self.assertTrue(said.startswith(f"preflight: KernelHeadersMissing: the headers of the kernel {kernel} cannot be had: "), said)
        self.assertIn(package, said)

    def assert_nobody_can_tell(self, said: str, package: str):
        self.assertTrue(said.startswith("preflight: nothing is missing, as far as can be seen from here: "
                                        f"whether {package} can be had is not known: "), said)

    def build_image(self, name: str, kernel: str):
        """As `make driver-image RUNFILE=... SYSTEM=name KERNEL=kernel` describes it, on this case's root as the base; and the
        image starts its program without anything that builds it."""
        (self.system.root / "usr/bin/nvidia-driver").unlink()
        [run_file] = (self.system.root / "drivers").iterdir()
        run_file.rename(self.folder / run_file.name)
        variables = recipe.follow(self.system, self.folder / f"context-{name}", "--build", os.environ["PITCREW_BUILD"],
                                  "--run-file", str(self.folder / run_file.name), "--system", name, "--kernel", kernel)
        self.assert_built_for(kernel)
        self.assertEqual(list((self.system.root / "drivers").iterdir()), [])
        # Where NVIDIA's installer puts it on either system; the stand-in's has one place for all.
        library = f"libnvidia-ml.so.{systems.VERSION}"
        place = self.system.root / "usr/lib/x86_64-linux-gnu" / library
        (self.system.root / "usr/lib" / library).rename(place)
        said = self.system.run("nvidia-driver", "preflight", "--kernel", kernel, **variables)
        self.assertIn("kernel modules   of the image", said.stdout)
        self.assertIn("programs         of the image", said.stdout)

    def assert_built_for(self, kernel: str):
        """Modules that the kernel `kernel` would take, with an index."""
        modules = self.system.root / "usr/lib/modules" / kernel
        module = modules / "kernel/drivers/video/nvidia.ko"
        said = subprocess.run(["/usr/sbin/modinfo", "--field", "vermagic", str(module)], check=True, capture_output=True,
                              text=True).stdout
        self.assertEqual(said.split()[0], kernel)
        self.assertIn("kernel/drivers/video/nvidia-uvm.ko: kernel/drivers/video/nvidia.ko",
                      (modules / "modules.dep").read_text(encoding="utf-8"))

    def assert_own_modules_without_scripts(self, kernel: str):
        """The kernel's modules, from packages whose scripts would make the image boot."""
        self.assertTrue(self.system.has(f"/usr/lib/modules/{kernel}/modules.builtin"))
        self.assertFalse(self.system.has("/boots-the-system"), "the scripts of the kernel's packages have run")


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
