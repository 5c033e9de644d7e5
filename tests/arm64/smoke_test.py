#!/usr/bin/env python3
"""What the release holds for arm64, run by qemu-user: programs of the image with the image's own libraries.

    smoke_test.py                     build/release-arm64, held against build/release

PITCREW_BUILD and PITCREW_NATIVE_BUILD name other folders. `make release` runs it; it is no part of `make test`, because
the cross build takes as long as the whole release build again.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PITCREW_BUILD", str(ROOT / "build/release-arm64"))).resolve()
NATIVE = pathlib.Path(os.environ.get("PITCREW_NATIVE_BUILD", str(ROOT / "build/release"))).resolve()
QEMU = "qemu-aarch64-static"
VERSION = yaml.safe_load((ROOT / "deploy/chart/gpu-operator/Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
PLANS = ROOT / "src/plan/tests/data"
sys.path[:0] = [str(ROOT / "deploy/image"), str(ROOT / "tests")]
import archives  # noqa: E402  pylint: disable=wrong-import-position
import unittest_main  # noqa: E402  pylint: disable=wrong-import-position


def unpack(image, root):
    """The image's file system, without owners."""
    with tarfile.open(image.path) as outer:
        for name in image.layers:
            with tarfile.open(fileobj=outer.extractfile(name)) as layer:
                layer.extractall(root, filter="tar")


class Arm64(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        if not shutil.which(QEMU):
            raise AssertionError(f"{QEMU} is not installed; `tools/setup.sh release` installs it")
        folder = tempfile.TemporaryDirectory(prefix="pitcrew-arm64-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        for name in ("pitcrew", "simulated-driver"):
            image = archives.read(BUILD / f"images/{name}.tar")
            assert image.architecture == "arm64", f"{image.path} is for {image.architecture}"
            unpack(image, cls.folder / name)

    def run_in(self, image, program, *arguments, **options):
        """A program of the image; the loader and all libraries are the image's."""
        root = self.folder / image
        return subprocess.run([QEMU, "-L", root, root / f"usr/bin/{program}", *map(str, arguments)],
                              capture_output=True, text=True, check=False, timeout=300, **options)

    def test_every_library_of_every_program_is_in_the_image(self):
        for image, programs in (("pitcrew", ("pitcrew", "vectorAdd")), ("simulated-driver", ("pitcrew-simulate",
                                                                                           "nvidia-smi"))):
            root = self.folder / image
            for program in programs:
                result = subprocess.run([QEMU, "-L", root, root / "lib/ld-linux-aarch64.so.1", "--inhibit-cache",
                                         "--library-path", root / "usr/lib/aarch64-linux-gnu", "--list",
                                         root / "usr/bin" / program], capture_output=True, text=True, check=False)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertNotIn("not found", result.stdout + result.stderr, program)

    def test_version_and_busybox(self):
        result = self.run_in("pitcrew", "pitcrew", "--version")
        self.assertEqual((result.returncode, result.stdout), (0, f"pitcrew {VERSION}\n"), result.stderr)
        result = self.run_in("pitcrew", "busybox", "sh", "-c", "echo from arm64")
        self.assertEqual(result.stdout, "from arm64\n", result.stderr)

    def test_plan_is_what_the_native_program_plans(self):
        compared = 0
        for case in ("fresh", "standing"):
            for line in (PLANS / case / "args").read_text(encoding="utf-8").splitlines():
                native = subprocess.run([NATIVE / "bin/pitcrew", "plan", *line.split()], capture_output=True, text=True,
                                        check=False, cwd=PLANS / case)
                result = self.run_in("pitcrew", "pitcrew", "plan", *line.split(), cwd=PLANS / case)
                self.assertEqual((result.returncode, result.stdout), (native.returncode, native.stdout), line)
                compared += 1
        self.assertGreater(compared, 1)

    def test_the_static_shim_starts_with_nothing(self):
        result = subprocess.run([QEMU, self.folder / "pitcrew/usr/bin/nvidia-container-runtime", "--version"],
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(VERSION.removeprefix("v"), result.stdout)

    @unittest.skipUnless(os.geteuid() == 0, "the simulated driver makes device nodes, which needs root")
    def test_a_cdi_specification_of_simulated_gpus(self):
        """NVML is loaded, and its state file read, by programs of arm64."""
        (self.folder / "gpus.yaml").write_text("gpus:\n  - {profile: GB200, count: 2}\n", encoding="utf-8")
        node = self.folder / "node"
        node.mkdir()
        result = self.run_in("simulated-driver", "pitcrew-simulate", "driver-install", "--description",
                             self.folder / "gpus.yaml", "--node-name", "n", "--root", node)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        result = self.run_in("pitcrew", "pitcrew", "ctk", "cdi", "generate", "--driver-root", node, "--dev-root", node)
        self.assertEqual(result.returncode, 0, result.stderr)
        document = yaml.safe_load(result.stdout)
        self.assertEqual(document["kind"], "nvidia.com/gpu")
        names = [device["name"] for device in document["devices"]]
        self.assertEqual(len(names), 5)  # two by index, two by UUID, all
        self.assertLessEqual({"0", "1", "all"}, set(names))


if __name__ == "__main__":
    unittest_main.main()
