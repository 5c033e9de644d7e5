#!/usr/bin/env python3
"""`make release` without its builds: the files of a release, made twice from the build folder that the tests have.

PITCREW_BUILD names that folder. The image's archive is built in a folder of the test's own, as `make image` does.
"""

import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import yaml

import support
import unittest_main

BUILD = pathlib.Path(os.environ.get("PITCREW_BUILD", str(support.ROOT / "build/dev"))).resolve()
RELEASE = support.ROOT / "deploy/release/release.py"
IMAGE = support.ROOT / "deploy/image"
VERSION = yaml.safe_load((support.CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
sys.path[:0] = [str(IMAGE), str(RELEASE.parent)]
import archives  # noqa: E402  pylint: disable=wrong-import-position
import libraries  # noqa: E402  pylint: disable=wrong-import-position
import tarballs  # noqa: E402  pylint: disable=wrong-import-position

ARCHITECTURE = libraries.this_machine().name
EPOCH = "1790000000"  # 2026-09-21T14:13:20Z


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def release(into, *arguments, **environment):
    return subprocess.run([sys.executable, RELEASE, "--into", into, *arguments], capture_output=True, text=True,
                          check=False, env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH, **environment})


class Artifacts(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="pitcrew-release-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([sys.executable, IMAGE / "build.py", "--build", BUILD, "--into", BUILD / "images",
                        IMAGE / "recipes/pitcrew.yaml"], check=True, capture_output=True)
        cls.made = [cls.folder / name for name in ("first", "second")]
        for into in cls.made:
            result = release(into, "--build", BUILD, "--url", "https://releases.example/v26", "--homepage",
                             "https://pitcrew.example")
            assert result.returncode == 0, result.stderr
        cls.spdx = json.loads((cls.made[0] / f"pitcrew-image-{VERSION}-linux-{ARCHITECTURE}.spdx.json").read_text())

    def test_all_files_are_there_and_equal_inputs_give_equal_bytes(self):
        names = sorted(path.name for path in self.made[0].iterdir())
        self.assertEqual(names, sorted([
            "SHA256SUMS", f"gpu-operator-{VERSION}.tgz", f"kubectl-pitcrew-{VERSION}-linux-{ARCHITECTURE}.tar.gz",
            "pitcrew-crds.yaml", f"pitcrew-image-{VERSION}-linux-{ARCHITECTURE}.spdx.json",
            f"pitcrew-image-{VERSION}-linux-{ARCHITECTURE}.tar", "pitcrew.yaml"]))
        for name in names:
            self.assertEqual(sha256(self.made[0] / name), sha256(self.made[1] / name), name)

    def test_the_checksums_hold(self):
        result = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=self.made[0],
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), len(list(self.made[0].iterdir())) - 1)

    def test_the_packaged_chart_renders_what_the_folder_renders(self):
        package = self.made[0] / f"gpu-operator-{VERSION}.tgz"
        self.assertEqual(support.render(chart=package), support.render())
        self.assertIn("0 chart(s) failed", support.helm("lint", "--strict", package))
        with tarfile.open(package) as archive:
            self.assertEqual({(one.mtime, one.uid, one.uname) for one in archive.getmembers()}, {(0, 0, "")})

    def test_every_definition_is_in_the_one_file(self):
        documents = list(yaml.safe_load_all((self.made[0] / "pitcrew-crds.yaml").read_text(encoding="utf-8")))
        self.assertEqual({one["metadata"]["name"]: one for one in documents}, support.crds())

    def test_the_plugin_runs_on_a_machine_that_has_nothing_of_ours(self):
        """A root with a shell and the plugin: no library, no loader, no configuration."""
        if os.geteuid() != 0:
            self.skipTest("chroot needs root")
        root = self.folder / "stranger"
        store = root / "store/pitcrew"
        store.mkdir(parents=True)
        with tarfile.open(self.made[0] / f"kubectl-pitcrew-{VERSION}-linux-{ARCHITECTURE}.tar.gz") as archive:
            self.assertTrue(all(member.isfile() for member in archive.getmembers()), "krew takes regular files only")
            archive.extractall(store)
        (root / "bin").mkdir()
        for applet in ("sh", "dirname", "readlink"):
            shutil.copy("/bin/busybox", root / "bin" / applet)
        (root / "bin/kubectl-pitcrew").symlink_to("../store/pitcrew/kubectl-pitcrew")
        (root / "cluster.yaml").write_text("apiVersion: v1\nkind: List\nitems: []\n", encoding="utf-8")

        def run(*arguments):
            return subprocess.run([shutil.which("chroot"), root, "/bin/kubectl-pitcrew", *arguments], capture_output=True, text=True,
                                  check=False, env={"PATH": "/bin"})
        result = run("--version")
        self.assertEqual((result.returncode, result.stdout), (0, f"pitcrew {VERSION}\n"), result.stderr)
        self.assertIn("usage: kubectl pitcrew COMMAND", run("--help").stdout)
        result = run("status", "--cluster", "/cluster.yaml")
        self.assertEqual(result.returncode, 3, result.stderr)  # something is not ready
        self.assertIn("no ClusterPolicy", result.stdout)

    def test_krews_manifest(self):
        """The rules of krew's validation of manifests (krew.sigs.k8s.io, "Writing Krew plugin manifests")."""
        manifest = yaml.safe_load((self.made[0] / "pitcrew.yaml").read_text(encoding="utf-8"))
        self.assertEqual(manifest.keys(), {"apiVersion", "kind", "metadata", "spec"})
        self.assertEqual((manifest["apiVersion"], manifest["kind"], manifest["metadata"]),
                         ("krew.googlecontainertools.github.com/v1alpha2", "Plugin", {"name": "pitcrew"}))
        spec = manifest["spec"]
        self.assertLessEqual(spec.keys(), {"version", "shortDescription", "description", "caveats", "homepage",
                                           "platforms"})
        self.assertRegex(spec["version"], r"^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$")
        self.assertEqual(spec["homepage"], "https://pitcrew.example")
        self.assertTrue(spec["shortDescription"])
        # The index's own rules: short, one line, no full stop at the end.
        self.assertLessEqual(len(spec["shortDescription"]), 50)
        self.assertNotRegex(spec["shortDescription"], r"[\r\n]|\.$")
        self.assertEqual(len(spec["platforms"]), 1)
        for platform in spec["platforms"]:
            self.assertEqual(platform.keys(), {"selector", "uri", "sha256", "bin"})
            self.assertEqual(platform["selector"], {"matchLabels": {"os": "linux", "arch": ARCHITECTURE}})
            self.assertRegex(platform["sha256"], "^[a-f0-9]{64}$")
            self.assertTrue(platform["uri"].startswith("https://releases.example/v26/kubectl-pitcrew-"))
            archive = self.made[0] / platform["uri"].rsplit("/", 1)[1]
            self.assertEqual(sha256(archive), platform["sha256"])
            with tarfile.open(archive) as members:
                self.assertTrue(members.getmember(platform["bin"]).mode & 0o111)

    def test_the_spdx_list_follows_the_specification(self):
        """SPDX 2.3, clauses 6 (document), 7 (packages) and 11 (relationships)."""
        document = self.spdx
        self.assertEqual((document["spdxVersion"], document["dataLicense"], document["SPDXID"]),
                         ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
        self.assertRegex(document["documentNamespace"], r"^https?://[^#]+$")
        self.assertEqual(document["creationInfo"]["created"], "2026-09-21T14:13:20Z")
        for creator in document["creationInfo"]["creators"]:
            self.assertRegex(creator, "^(Tool|Organization|Person): .+")
        identifiers = [package["SPDXID"] for package in document["packages"]]
        self.assertEqual(len(set(identifiers)), len(identifiers))
        expression = re.compile(r"NOASSERTION|NONE|[A-Za-z0-9.+-]+(?: (?:AND|OR) [A-Za-z0-9.+-]+)*")
        for package in document["packages"]:
            self.assertRegex(package["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            for key in ("name", "versionInfo", "downloadLocation", "copyrightText"):
                self.assertTrue(package[key], f"{package['SPDXID']} {key}")
            self.assertRegex(package["supplier"], "^Organization: .+")
            for key in ("licenseConcluded", "licenseDeclared"):
                self.assertTrue(expression.fullmatch(package[key]), package)
            self.assertIs(package["filesAnalyzed"], False)  # so no verification code is asked for
        known = {"SPDXRef-DOCUMENT", *identifiers}
        for relation in document["relationships"]:
            self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]}, known)
            self.assertIn(relation["relationshipType"], ("DESCRIBES", "CONTAINS", "STATIC_LINK"))
        related = {relation["relatedSpdxElement"] for relation in document["relationships"]}
        self.assertEqual(set(identifiers) - related, set(), "packages that nothing relates to")

    def test_the_spdx_list_has_every_library_of_the_image(self):
        image = archives.read(self.made[0] / f"pitcrew-image-{VERSION}-linux-{ARCHITECTURE}.tar")
        packages = {package["name"]: package for package in self.spdx["packages"]}
        self.assertEqual(packages["pitcrew-image"]["checksums"], [{"algorithm": "SHA256", "checksumValue": sha256(
            image.path)}])
        with tarfile.open(image.path) as outer, tarfile.open(fileobj=outer.extractfile(image.layers[0])) as layer:
            shared = [member.name for member in layer.getmembers() if member.isfile() and ".so" in member.name]
        self.assertGreater(len(shared), 5)
        for name in shared:
            path = f"/{name}"
            told = subprocess.run(["dpkg-query", "--search", path, path.removeprefix("/usr")], capture_output=True,
                                  text=True, check=False).stdout
            package = told.split(":")[0]
            self.assertIn(package, packages, name)
            version = subprocess.run(["dpkg-query", "--show", "--showformat", "${Version}",
                                      f"{package}:{ARCHITECTURE}"], capture_output=True, text=True, check=True).stdout
            self.assertEqual(packages[package]["versionInfo"], version)
        # Linked statically, and headers only: no file of them is in the image.
        for name in ("libgrpc-dev", "libabsl-dev", "nlohmann-json3-dev", "busybox-static"):
            self.assertIn(name, packages)
        self.assertEqual(packages["nlohmann-json3-dev"]["licenseDeclared"], "MIT")
        self.assertEqual(packages["libssl3"]["licenseDeclared"], "Apache-2.0")

    def test_what_does_not_make_a_release_is_refused_and_leaves_the_old_one(self):
        empty = self.folder / "empty"
        empty.mkdir()
        kept = self.folder / "kept"
        kept.mkdir()
        (kept / "old").write_text("old", encoding="utf-8")
        for arguments, words in ((("--build", empty), "`make image` writes it"),
                                 (("--build", BUILD, "--build", BUILD), "one folder for each architecture")):
            result = release(kept, *arguments)
            self.assertEqual(result.returncode, 1)
            self.assertIn(words, result.stderr)
            self.assertEqual([path.name for path in kept.iterdir()], ["old"])
        result = release(kept, "--build", BUILD, SOURCE_DATE_EPOCH="yesterday")
        self.assertIn("SOURCE_DATE_EPOCH=yesterday", result.stderr)

    def test_a_repacked_archive_keeps_members_and_their_order(self):
        path = self.folder / "trial.tgz"
        with tarfile.open(path, "w:gz") as archive:
            for name in ("b/Chart.yaml", "b/a"):
                member = tarfile.TarInfo(name)
                member.size, member.mtime = 3, 12345
                archive.addfile(member, io.BytesIO(b"abc"))
        tarballs.settle(path)
        with tarfile.open(path) as archive:
            self.assertEqual([(one.name, one.mtime, archive.extractfile(one).read()) for one in archive.getmembers()],
                             [("b/Chart.yaml", 0, b"abc"), ("b/a", 0, b"abc")])


if __name__ == "__main__":
    unittest_main.main()
