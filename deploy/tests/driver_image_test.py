#!/usr/bin/env python3
"""The context of a driver image: what is in it, and that its program runs where nothing else is.

PITCREW_BUILD names the folder in which nvidia-driver was built.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

BUILD = pathlib.Path(os.environ.get("PITCREW_BUILD", str(support.ROOT / "build/dev"))).resolve()
PROGRAM = support.ROOT / "deploy/driver-image/build.py"
MACHINE = os.uname().machine
RUN_FILE = f"NVIDIA-Linux-{MACHINE}-580.95.05.run"


class DriverImage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pitcrew-driver-image-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, *arguments, run_file=RUN_FILE, environment=None):
        (self.folder / run_file).write_text("#!/bin/sh\n", encoding="ascii")
        return subprocess.run([sys.executable, PROGRAM, "--build", BUILD, "--run-file", self.folder / run_file,
                               "--into", self.folder / "context", "--engine", "none", *arguments],
                              capture_output=True, text=True, check=False, env=environment)

    def containerfile(self, tag):
        return (self.folder / "context" / tag / "Containerfile").read_text(encoding="utf-8")

    def test_the_tag_is_what_the_operator_asks_for(self):
        """driver-lifecycle.md 7.2: version and system, with a kernel between them where modules are compiled."""
        result = self.build("--system", "rhel9", "--repository", "registry.example/team/")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("registry.example/team/driver:580.95.05-rhel9", result.stdout)
        self.assertIn("--build-arg BASE=registry.access.redhat.com/ubi9/ubi", result.stderr)
        self.build("--system", "ubuntu24.04", "--kernel", "6.8.0-44-generic", "--base", "mirror.example/ubuntu")
        self.assertTrue((self.folder / "context/580.95.05-6.8.0-44-generic-ubuntu24.04").is_dir())

    def test_the_image_tells_its_program_what_it_carries(self):
        self.build("--system", "debian12")
        text = self.containerfile("580.95.05-debian12")
        self.assertIn("DRIVER_VERSION=580.95.05 DRIVER_BRANCH=580", text)
        self.assertIn("DRIVER_TYPE=passthrough", text)
        self.assertIn(f"COPY {RUN_FILE} /drivers/{RUN_FILE}", text)
        self.assertIn("apt-get install", text)
        self.assertNotIn("nvidia-driver build", text)
        self.build("--system", "debian12", run_file=f"NVIDIA-Linux-{MACHINE}-570.1-grid.run")
        guest = self.containerfile("570.1-debian12")
        self.assertIn("DRIVER_VERSION=570.1-grid", guest)
        self.assertIn("DRIVER_TYPE=vgpu", guest)

    def test_modules_for_a_kernel_are_compiled_in_the_image_which_then_needs_no_run_file(self):
        self.build("--system", "rocky9", "--kernel", "5.14.0-427.el9_4.x86_64")
        text = self.containerfile("580.95.05-5.14.0-427.el9_4.x86_64-rocky9")
        self.assertIn("RUN nvidia-driver build --kernel '5.14.0-427.el9_4.x86_64'", text)
        self.assertIn("rm -rf /drivers/*.run", text)
        self.assertIn("dnf install", text)

    def packages(self, *arguments):
        return subprocess.run([sys.executable, PROGRAM, "--build", BUILD, "--into", self.folder / "context", "--engine",
                               "none", *arguments], capture_output=True, text=True, check=False)

    def test_packages_take_the_place_of_the_run_file(self):
        kernel = "6.8.0-44-generic"
        wanted = f"linux-modules-nvidia-580-server-{kernel} nvidia-utils-580-server libnvidia-compute-580-server"
        result = self.packages("--packages", wanted, "--driver-version", "580.95.05", "--kernel", kernel)
        self.assertEqual(result.returncode, 3, result.stderr)
        text = self.containerfile(f"580.95.05-{kernel}-ubuntu24.04")
        self.assertIn(f"apt-get install --yes --no-install-recommends {wanted} ", text)
        self.assertIn("DRIVER_VERSION=580.95.05 DRIVER_BRANCH=580", text)
        # It looks whether the packages have brought what the driver consists of.
        self.assertIn(f"RUN nvidia-driver build --kernel '{kernel}'", text)
        self.assertNotIn("COPY NVIDIA", text)
        self.packages("--packages", "kmod-nvidia-open", "--driver-version", "580.95.05", "--kernel", "5.14.0-1.el9",
                      "--system", "rhel9")
        self.assertIn("RUN dnf install -y kmod-nvidia-open ", self.containerfile("580.95.05-5.14.0-1.el9-rhel9"))

    def test_what_is_missing_or_cannot_be_is_named(self):
        for arguments, named in ((["--packages", "a"], "--driver-version"),
                                 (["--packages", "a", "--driver-version", "580"], "--kernel"),
                                 (["--packages", "a; rm -rf /", "--driver-version", "580", "--kernel", "1"], "a;"),
                                 (["--packages", " ", "--driver-version", "580", "--kernel", "1"], "--packages"),
                                 ([], "--packages")):
            with self.subTest(arguments):
                result = self.packages(*arguments)
                self.assertEqual(result.returncode, 2)
                self.assertIn(named, result.stderr)
        self.assertEqual(self.build("--driver-version", "580").returncode, 2)

    def test_the_program_runs_where_there_is_no_c_library(self):
        self.build("--system", "debian12")
        context = self.folder / "context/580.95.05-debian12"
        root = self.folder / "root"
        for place in ("bin", "opt/pitcrew", "usr/local/bin", "proc"):
            (root / place).mkdir(parents=True)
        shutil.copy2(shutil.which("busybox"), root / "bin/sh")
        shutil.copytree(context / "program", root / "opt/pitcrew/driver")
        shutil.copy2(context / "nvidia-driver", root / "usr/local/bin/nvidia-driver")
        enter = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
        result = subprocess.run([*enter, "chroot", root, "/usr/local/bin/nvidia-driver", "--help"], capture_output=True,
                                text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("reload_nvidia_peermem", result.stdout)

    def modules(self, name, *arguments):
        """An image of a module beside the driver's."""
        (self.folder / name / "scripts").mkdir(parents=True)
        for file in ("Makefile", "scripts/test.sh"):
            (self.folder / name / file).write_text("", encoding="ascii")
        return self.packages("--module-sources", self.folder / name, "--system", "rocky9", *arguments)

    def test_sources_of_a_module_make_an_image_of_its_own(self):
        for name, program, image in (("nvidia-fs-2.28.4", "nvidia-gds-driver", "nvidia-fs:2.28.4-rocky9"),
                                     ("gdrdrv-2.5.1", "nvidia-gdrcopy-driver", "gdrdrv:2.5.1-rocky9")):
            with self.subTest(name):
                result = self.modules(name)
                self.assertEqual(result.returncode, 3, result.stderr)
                self.assertIn(image, result.stdout)
                folder = name + "-rocky9"
                text = self.containerfile(folder)
                self.assertIn(f"COPY {name} /usr/src/{name}\n", text)
                self.assertIn(f'ENTRYPOINT ["{program}"]\nCMD ["install"]', text)
                self.assertNotIn("DRIVER_VERSION", text)
                self.assertTrue((self.folder / "context" / folder / name / "scripts/test.sh").is_file())
                self.assertIn(f"--argv0 {program} ",
                              (self.folder / "context" / folder / program).read_text(encoding="ascii"))

    def test_sources_of_another_module_or_for_a_kernel_are_refused(self):
        self.assertIn("nvidia-fs-VERSION", self.modules("nvidia-580.95.05").stderr)
        refused = self.modules("gdrdrv-2.6", "--kernel", "6.8.0-44-generic")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("leave --kernel", refused.stderr)

    def test_bad_input_says_what_would_be_right(self):
        for arguments, run_file, words in (
                (["--system", "plan9"], RUN_FILE, "debian, ubuntu, rocky, rhel"),
                (["--system", "rhel9.4"], RUN_FILE, "as rhel9"),
                ([], "driver.run", "do not rename it")):
            result = self.build(*arguments, run_file=run_file)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(words, result.stderr)
        missing = subprocess.run([sys.executable, PROGRAM, "--run-file", self.folder / "x" / RUN_FILE],
                                 capture_output=True, text=True, check=False)
        self.assertEqual(missing.returncode, 2)
        self.assertIn("is not there", missing.stderr)


if __name__ == "__main__":
    unittest.main()
