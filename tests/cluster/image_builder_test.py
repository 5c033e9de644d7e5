"""The image builder: same inputs, same bytes; libraries come along; what is missing is named."""

import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILDER = ROOT / "deploy/image/build.py"
sys.path.insert(0, str(BUILDER.parent))
import libraries  # noqa: E402  pylint: disable=wrong-import-position


def build(folder, recipe, into="images", *arguments):
    path = pathlib.Path(folder) / "trial.yaml"
    path.write_text(recipe, encoding="utf-8")
    return subprocess.run([sys.executable, str(BUILDER), "--build", folder, "--into", f"{folder}/{into}", *arguments,
                           str(path)], capture_output=True, text=True, check=False)


def members(archive):
    """The layer's members by name."""
    with tarfile.open(archive) as outer:
        manifest = json.load(outer.extractfile("manifest.json"))[0]
        with tarfile.open(fileobj=outer.extractfile(manifest["Layers"][0]), mode="r:gz") as layer:
            return manifest, {member.name: member for member in layer.getmembers()}


RECIPE = """
image: docker.io/pitcrew/trial
tag: v1
config: {Entrypoint: [/usr/bin/env]}
folders: {/tmp: "1777"}
texts: {/etc/passwd: "root:x:0:0:root:/root:/bin/sh\\n"}
files:
  - {from: /usr/bin/env, to: /bin/env, libraries: true, links: [/usr/bin/also]}
busybox: /usr/bin/busybox
"""


class ImageBuilder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_the_same_inputs_give_the_same_bytes(self):
        for into in ("first", "second"):
            result = build(self.folder, RECIPE, into)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("docker.io/pitcrew/trial:v1", result.stdout)
        first, second = (pathlib.Path(self.folder, into, "trial.tar").read_bytes() for into in ("first", "second"))
        self.assertEqual(first, second)

    def test_the_layer_is_a_merged_root_with_libraries_and_loader(self):
        self.assertEqual(build(self.folder, RECIPE).returncode, 0)
        manifest, layer = members(f"{self.folder}/images/trial.tar")
        self.assertEqual(manifest["RepoTags"], ["docker.io/pitcrew/trial:v1"])
        self.assertEqual(layer["bin"].linkname, "usr/bin")
        self.assertTrue(layer["usr/bin/env"].isfile())
        self.assertEqual(layer["usr/bin/also"].linkname, "/bin/env")
        self.assertTrue(any(name.endswith("/libc.so.6") and member.isfile() for name, member in layer.items()))
        self.assertTrue(any("/ld-linux" in name and member.isfile() for name, member in layer.items()))
        self.assertEqual(layer["tmp"].mode, 0o1777)
        self.assertTrue(all(name.rpartition("/")[0] in layer or "/" not in name for name in layer),
                        "a member without its folder")

    def test_a_library_that_no_program_asks_for_can_be_named(self):
        """As parts of the C library that a driver's libraries ask for, which are loaded into programs of the image."""
        self.assertEqual(build(self.folder, RECIPE).returncode, 0)
        _, layer = members(f"{self.folder}/images/trial.tar")
        self.assertFalse(any(name.endswith("/librt.so.1") for name in layer), "the test shows nothing")
        self.assertEqual(build(self.folder, RECIPE + "libraries: [librt.so.1]\n").returncode, 0)
        _, layer = members(f"{self.folder}/images/trial.tar")
        self.assertTrue(any(name.endswith("/librt.so.1") and member.isfile() for name, member in layer.items()))
        result = build(self.folder, RECIPE + "libraries: [libabsent.so.1]\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn("libabsent.so.1, which docker.io/pitcrew/trial:v1 needs, is in none of", result.stderr)

    def test_a_program_of_ours_goes_before_an_applet(self):
        self.assertEqual(build(self.folder, RECIPE).returncode, 0)
        _, layer = members(f"{self.folder}/images/trial.tar")
        self.assertTrue(layer["usr/bin/env"].isfile())
        self.assertEqual(layer["usr/bin/sh"].linkname, "/usr/bin/busybox")

    def test_a_missing_file_is_named(self):
        result = build(self.folder, RECIPE.replace("/usr/bin/env, to", '"${build}/bin/absent", to'))
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{self.folder}/bin/absent is not there", result.stderr)

    def test_libraries_are_those_that_the_loader_would_load(self):
        for program in ("/usr/bin/env", "/usr/bin/cmake", "/usr/bin/git", "/bin/busybox"):
            told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
            loaded = {path: pathlib.Path(path).resolve() for path in re.findall(r"(/\S+) \(0x", told)}
            self.assertEqual(libraries.libraries_of(pathlib.Path(program), libraries.this_machine()), loaded, program)

    def test_a_root_of_its_own_is_never_left(self):
        """A library for another architecture lies below a root; one of this machine must not be taken for it."""
        root = pathlib.Path(self.folder, "root")
        target = root / "usr/lib/x/libreal.so.1"
        target.parent.mkdir(parents=True)
        target.write_bytes(b"")
        (root / "lib").symlink_to("/usr/lib")
        (target.parent / "liblink.so").symlink_to("../../../../../../../../lib/x/libreal.so.1")
        self.assertEqual(libraries.real_path(root, "/lib/x/liblink.so"), target)
        (target.parent / "libc.so.6").symlink_to("/usr/bin/env")
        self.assertIsNone(libraries.real_path(root, "/lib/x/libc.so.6"))
        (target.parent / "loop").symlink_to("loop")
        self.assertIsNone(libraries.real_path(root, "/lib/x/loop"))
        with self.assertRaisesRegex(libraries.BuildError, f"libc.so.6, which env needs, is in none of .* below {root}"):
            (root / "lib64").symlink_to("usr/lib/x")
            (target.parent / self.loader()).write_bytes(b"")
            libraries.libraries_of(pathlib.Path("/usr/bin/env"), libraries.this_machine(), root)

    @staticmethod
    def loader():
        return next(path.name for path in map(pathlib.Path, libraries.libraries_of(
            pathlib.Path("/usr/bin/env"), libraries.this_machine())) if path.name.startswith("ld-"))

    def test_an_image_for_another_architecture_takes_no_program_of_this_one(self):
        other = next(name for name in libraries.ARCHITECTURES if name != libraries.this_machine().name)
        result = build(self.folder, RECIPE, "images", "--architecture", other)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"and the image is for {other}", result.stderr)
        result = build(self.folder, "image: a/b\ntag: v1\ntexts: {/x: '${triplet}'}\n", "images", "--architecture", other)
        self.assertEqual(result.returncode, 0, result.stderr)
        with tarfile.open(f"{self.folder}/images/trial.tar") as archive:
            config = json.load(archive.extractfile(json.load(archive.extractfile("manifest.json"))[0]["Config"]))
        self.assertEqual(config["architecture"], other)

    def test_the_build_folder_says_the_architecture(self):
        other = next(name for name in libraries.ARCHITECTURES if name != libraries.this_machine().name)
        pathlib.Path(self.folder, "CMakeCache.txt").write_text(
            f"PITCREW_ARCHITECTURE:STRING={other}\nPITCREW_SYSROOT:PATH={self.folder}/sysroot\n", encoding="utf-8")
        result = build(self.folder, "image: a/b\ntag: v1\nbusybox: /bin/busybox\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{self.folder}/sysroot/bin/busybox", result.stderr)
        result = build(self.folder, RECIPE, "images", "--architecture", libraries.this_machine().name)
        self.assertIn(f"is built for {other}", result.stderr)

    def test_a_malformed_recipe_ends_with_2(self):
        for recipe, word in (("image: [\n", "trial.yaml:"), ("image: a\n", "`tag`"),
                             (RECIPE + "layers: 2\n", "layers"), (RECIPE.replace("v1", "${nothing}"), "${nothing}")):
            result = build(self.folder, recipe)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(word, result.stderr)


if __name__ == "__main__":
    unittest.main()
